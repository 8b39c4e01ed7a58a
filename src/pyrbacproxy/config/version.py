"""What `--version` means: print and exit, print more, or go on under a name (reference 1.2)."""

import re
from dataclasses import dataclass

from pyrbacproxy.config.values import parse_bool, quoted

VERSION = "0.1.0"  # pyproject.toml's, known here without the cost of reading package metadata
_NUMBERS = re.compile(r"v?([0-9]+\.[0-9]+\.[0-9]+)")


@dataclass(frozen=True, slots=True)
class VersionAnswer:
    """`printed` is the line to print before exiting, "" to go on; `reported` is our version."""

    printed: str
    reported: str


def answer(text: str, *, program: str, built: str, details: str) -> VersionAnswer:
    """Reads the flag's value; raises ValueError.

    `built` is the version we were built as (`v0.1.0`); an override must keep its numbers.
    """
    if text == "raw":
        return VersionAnswer(f"{program} {built} {details}", built)
    if text.startswith("v"):
        if _numbers(text) != _numbers(built):
            raise ValueError(f"version {quoted(text)} must keep the numbers of {built}")
        return VersionAnswer("", text)
    return VersionAnswer(f"{program} {built}" if parse_bool(text) else "", built)


def reported(text: str) -> str:
    """The version under which we run, without its v: the flag's own, else the built one."""
    return text.removeprefix("v") if text.startswith("v") else VERSION


def _numbers(text: str) -> str:
    found = _NUMBERS.match(text)
    return found[1] if found else ""
