"""Flags whose function a later version brings: checked now, refused when set (none is ignored)."""

from pyrbacproxy.config.findings import Findings
from pyrbacproxy.config.flag import Fate, Kind
from pyrbacproxy.config.flag_table import FLAGS
from pyrbacproxy.config.options import Options

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
    if options.number("stale-review-period") > _LONGEST_STALE_SECONDS:
        words = options.duration_words("stale-review-period")
        findings.problem(f"{words}: must be at most 1h")
