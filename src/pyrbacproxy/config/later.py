"""Flags whose function a later version brings: checked now, refused when set (none is ignored)."""

from pyrbacproxy.config.findings import Findings
from pyrbacproxy.config.flag import Fate
from pyrbacproxy.config.flag_table import FLAGS
from pyrbacproxy.config.options import Options


def check(options: Options, findings: Findings) -> None:
    """Adds a problem for each such flag that is set, and for each bad value."""
    for flag in FLAGS.values():
        if flag.fate is Fate.LATER and options.is_changed(flag.name):
            findings.problem(f"not supported yet: --{flag.name}")
        if flag.choices and options.text(flag.name) not in flag.choices:
            known = ", ".join(flag.choices)
            findings.problem(f"--{flag.name}={options.text(flag.name)}: must be one of {known}")
