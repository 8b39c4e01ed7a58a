"""What `audit` shows: outcomes → a table for people, JSON for programs."""

import json
import textwrap
from collections.abc import Iterable, Iterator
from typing import assert_never

from pyrbacproxy.commands.terminal import printable
from pyrbacproxy.node.findings import Finding, Outcome, Passed, Unseen

_WIDTH = 100
_OK, _NOT_SEEN = "ok", "not seen"


def findings(outcomes: Iterable[Outcome]) -> list[Finding]:
    """What is wrong."""
    return [one for one in outcomes if isinstance(one, Finding)]


def lacking(outcomes: Iterable[Outcome]) -> list[str]:
    """The checks that could not be made and that no audit is clean without."""
    unseen = [one for one in outcomes if isinstance(one, Unseen) and one.is_needed]
    return list(dict.fromkeys(one.check for one in unseen))


def as_json(outcomes: list[Outcome]) -> str:
    """One JSON object; a check's status is `ok`, `not seen`, `warning` or `error`."""
    told = {
        "isClean": not findings(outcomes) and not lacking(outcomes),
        "findings": len(findings(outcomes)),
        "notSeen": sum(isinstance(one, Unseen) for one in outcomes),
        "checks": [_members(one) for one in outcomes],
    }
    return json.dumps(told, indent=2) + "\n"


def as_text(outcomes: list[Outcome]) -> str:
    """A line for each outcome, under a finding why it matters and what to do, and the sum."""
    rows = [("CHECK", "STATUS", ""), *((one.check, _status(one), _what(one)) for one in outcomes)]
    check, status = (max(len(row[column]) for row in rows) for column in (0, 1))
    indent = " " * (check + status + 4)
    lines: list[str] = []
    for one, row in zip([None, *outcomes], rows, strict=True):
        start = f"{row[0]:{check}}  {row[1]:{status}}  "
        lines += _wrapped(start, row[2], indent)
        if isinstance(one, Finding):
            lines += _wrapped(f"{indent}why: ", one.why, f"{indent}     ")
            lines += _wrapped(f"{indent}do:  ", one.to_do, f"{indent}     ")
    return "\n".join([*lines, "", _sum(outcomes), ""])


def _members(one: Outcome) -> dict[str, str]:
    members = {"check": one.check, "status": _status(one), "what": _what(one)}
    return {**members, "why": one.why, "toDo": one.to_do} if isinstance(one, Finding) else members


def _status(one: Outcome) -> str:
    if isinstance(one, Passed):
        return _OK
    if isinstance(one, Unseen):
        return _NOT_SEEN
    if isinstance(one, Finding):
        return one.severity.value
    assert_never(one)


def _what(one: Outcome) -> str:
    return one.why if isinstance(one, Unseen) else one.what


def _wrapped(start: str, text: str, indent: str) -> Iterator[str]:
    lines = textwrap.wrap(
        # Names of files and subjects come from the node.
        printable(text),
        width=_WIDTH,
        initial_indent=start,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    yield from (line.rstrip() for line in lines or [start])


def _sum(outcomes: list[Outcome]) -> str:
    found, unseen = len(findings(outcomes)), sum(isinstance(one, Unseen) for one in outcomes)
    word = "finding" if found == 1 else "findings"
    rest = f"; {unseen} not seen, which says nothing about them" if unseen else ""
    needed = lacking(outcomes)
    unclear = f". The node is not clean before these are seen: {', '.join(needed)}"
    return f"{found or 'no'} {word}{rest}{unclear if needed else ''}"
