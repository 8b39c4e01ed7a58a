"""The flag table as people read it: `--help`, the README's list, the values in the log."""

import textwrap
from collections.abc import Iterable, Iterator

from pyrbacproxy.config.flag import Flag, Kind, Value
from pyrbacproxy.config.flag_table import FLAGS, GROUPS
from pyrbacproxy.config.options import Options
from pyrbacproxy.config.values import duration_text, quoted, without_password

_ABOUT = (
    "A TLS reverse proxy that authenticates and authorizes each request as Kubernetes does, and "
    "streams the answer of one upstream."
)
_USAGE = """Usage:
  pyrbacproxy [flags]                   serve
  pyrbacproxy demo [flags]              show it at work on this machine
  pyrbacproxy audit [flags]             is the node's legacy proxy gone, and does the new one serve?
  pyrbacproxy kubelet-config [flags]    which kubelet configuration would a pool's nodes get?
  pyrbacproxy COMMAND --help            the flags of a command; those below are for serving
"""
_COLUMNS = 100
_INDENT = " " * 10
_CLASSIFIED = "CLASSIFIED"


def help_text() -> str:
    """What `--help` prints: every flag that is not hidden, with type, default and meaning."""
    parts = [textwrap.fill(_ABOUT, _COLUMNS), "", _USAGE]
    for group in GROUPS:
        shown = [flag for flag in group.flags if not flag.is_hidden]
        if not shown:
            continue
        parts.append(f"{group.title}:")
        for flag in shown:
            start = f"  -{flag.shorthand}, " if flag.shorthand else "      "
            kind = "" if flag.kind is Kind.BOOL else f" {flag.kind.value}"
            parts.append(f"{start}--{flag.name}{kind}")
            parts.append(
                textwrap.fill(
                    _meaning(flag) + _default(flag),
                    _COLUMNS,
                    initial_indent=_INDENT,
                    subsequent_indent=_INDENT,
                )
            )
        parts.append("")
    return "\n".join(parts)


def readme_list() -> str:
    """The flags as Markdown tables, for the README; CI compares it with what stands there."""
    parts = []
    for group in GROUPS:
        parts += [f"### {group.title}", "", "| flag | type | default | what |", "|---|---|---|---|"]
        parts += [
            f"| `--{flag.name}` | {flag.kind.value} | {_cell(flag)} | {_meaning(flag)} |"
            for flag in group.flags
        ]
        parts.append("")
    return "\n".join(parts)


def value_lines(options: Options) -> Iterator[str]:
    """One line for each flag's value, as the log shows them at level 1; no password is shown."""
    for name, value in shown_values(options, FLAGS.values()):
        yield f"FLAG: --{name}={quoted(value)}"


def shown_values(options: Options, flags: Iterable[Flag]) -> Iterator[tuple[str, str]]:
    """Each flag's name and value as pflag would print it, without passwords of URLs.

    A classified flag shows `CLASSIFIED`, as in Kubernetes.
    """
    for flag in flags:
        value = without_password(_value_text(flag, options.values[flag.name]))
        yield flag.name, _CLASSIFIED if flag.is_classified else value


def _meaning(flag: Flag) -> str:
    choices = f" One of {', '.join(flag.choices)}." if flag.choices else ""
    return flag.what + choices


def _default(flag: Flag) -> str:
    if flag.is_classified or flag.default in ("", "false", "0", "0s"):
        return ""
    is_quoted = flag.kind is Kind.TEXT
    return f" (default {quoted(flag.default) if is_quoted else flag.default})"


def _cell(flag: Flag) -> str:
    if flag.is_classified or not flag.default:
        return ""
    return f"`{flag.default}`".replace("|", "\\|")


def _value_text(flag: Flag, value: Value) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if flag.kind is Kind.DURATION and isinstance(value, float):
        return duration_text(value)
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, tuple):
        items = ",".join(item if isinstance(item, str) else _pair_text(*item) for item in value)
        return f"[{items}]" if flag.is_list else items
    return str(value)


def _pair_text(name: str, value: int) -> str:
    return f"{name}={str(value).lower()}"
