"""Flags whose function a later version brings: checked now, refused when set (none is ignored)."""

import re
from urllib.parse import urlsplit

from pyrbacproxy.config.findings import Findings
from pyrbacproxy.config.flag import Fate, Kind
from pyrbacproxy.config.flag_table import FLAGS
from pyrbacproxy.config.options import Options

_ALGORITHM = re.compile(r"(RS|ES|PS)(256|384|512)")
_LONGEST_STALE_SECONDS = 3600.0


def check(options: Options, findings: Findings) -> None:
    """Adds a problem for each such flag that is set, and for each bad value."""
    for flag in FLAGS.values():
        if flag.fate is Fate.LATER and options.is_changed(flag.name):
            findings.problem(f"not supported yet: --{flag.name}")
        if flag.choices and options.text(flag.name) not in flag.choices:
            known = ", ".join(flag.choices)
            findings.problem(f"--{flag.name}={options.text(flag.name)}: must be one of {known}")
        is_later_duration = flag.fate is Fate.LATER and flag.kind is Kind.DURATION
        if is_later_duration and options.number(flag.name) < 0:
            findings.problem(f"{options.duration_words(flag.name)}: must not be negative")
    _check_oidc(options, findings)
    if options.number("stale-review-period") > _LONGEST_STALE_SECONDS:
        words = options.duration_words("stale-review-period")
        findings.problem(f"{words}: must be at most 1h")


def _check_oidc(options: Options, findings: Findings) -> None:
    for algorithm in options.texts("oidc-sign-alg"):
        if not _ALGORITHM.fullmatch(algorithm):
            findings.problem(f"--oidc-sign-alg={algorithm}: unknown algorithm")
    issuer = options.text("oidc-issuer")
    if not issuer:
        return
    if not options.text("oidc-clientID"):
        findings.problem("--oidc-clientID: must be set when --oidc-issuer is")
    if not options.text("oidc-username-claim"):
        findings.problem("--oidc-username-claim: must not be empty when --oidc-issuer is set")
    if not _is_issuer(issuer):
        findings.problem(
            "--oidc-issuer: must be an https URL without user, password, query or fragment"
        )


def _is_issuer(text: str) -> bool:
    try:
        url = urlsplit(text)
    except ValueError:
        return False
    has_more = url.query or url.fragment or "@" in url.netloc
    return url.scheme == "https" and bool(url.netloc) and not has_more
