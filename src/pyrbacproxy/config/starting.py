"""The start-up gate's flags → `GateSettings`."""

from pyrbacproxy.config.findings import Findings
from pyrbacproxy.config.options import Options
from pyrbacproxy.startup.gate import GateSettings

_WAITS = ("wait-for-absent", "wait-for-port", "wait-for-serving-cert")


def gate(options: Options, findings: Findings) -> GateSettings:
    """What the secure listener waits for; nothing by default."""
    settings = GateSettings(
        absent_paths=options.texts("wait-for-absent"),
        waits_for_port=options.is_on("wait-for-port"),
        waits_for_pair=options.is_on("wait-for-serving-cert"),
        timeout_seconds=options.number("startup-timeout"),
        is_ready_meanwhile=options.is_on("ready-while-waiting"),
    )
    if settings.timeout_seconds < 0:
        words = options.duration_words("startup-timeout")
        findings.problem(f"{words}: must not be negative")
    for path in settings.absent_paths:
        if not path.startswith("/"):
            findings.problem(f"--wait-for-absent={path}: must be an absolute path")
    if settings.has_waits:
        _check_listeners(options, findings)
    else:
        _warn_of_idle_flags(options, findings)
    return settings


def _check_listeners(options: Options, findings: Findings) -> None:
    """Only the secure listener waits; one that opens early beside it would be no hand-over."""
    given = ", ".join(f"--{flag}" for flag in _WAITS if options.is_changed(flag))
    # Without any address, the missing one is the mistake.
    if options.text("insecure-listen-address"):
        findings.problem(f"{given}: only --secure-listen-address alone can wait")
    # Half a pair is told as such.
    has_pair = options.may_be_given("tls-cert-file", "tls-private-key-file")
    if options.is_on("wait-for-serving-cert") and not has_pair:
        findings.problem("--wait-for-serving-cert needs --tls-cert-file and --tls-private-key-file")
    has_pages = options.may_be_given("proxy-endpoints-port")
    if options.is_changed("ready-while-waiting") and not has_pages:
        findings.warn("--ready-while-waiting has no effect without --proxy-endpoints-port")


def _warn_of_idle_flags(options: Options, findings: Findings) -> None:
    if not options.doubtful.isdisjoint(_WAITS):
        return
    for flag in ("startup-timeout", "ready-while-waiting"):
        if options.is_changed(flag):
            findings.warn(f"--{flag} has no effect without a --wait-for-... flag")
