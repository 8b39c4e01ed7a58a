"""What an audit looks like, for people and for programs."""

import json

from pyrbacproxy.commands.audit import as_json, as_text, findings, lacking
from pyrbacproxy.node.facts import Finding, Outcome, Passed, Severity, Unseen

WELL = Passed("listener", "pyrbacproxy (pid 42) on ::")
DARK = Unseen("scrape", "no credential")
ILL = Finding("manifests", Severity.ERROR, "x is there", "it runs", "remove it")
LATE = Finding("client-ca", Severity.WARNING, "late", "soon " * 30, "wait")
ALL: list[Outcome] = [WELL, DARK, ILL, LATE]


def test_people_get_a_table_with_reasons_and_remedies() -> None:
    text = as_text([WELL, DARK, ILL])
    assert text == (
        "CHECK      STATUS\n"
        "listener   ok        pyrbacproxy (pid 42) on ::\n"
        "scrape     not seen  no credential\n"
        "manifests  error     x is there\n"
        "                     why: it runs\n"
        "                     do:  remove it\n"
        "\n"
        "1 finding; 1 not seen, which says nothing about them\n"
    )


def test_long_lines_are_wrapped_under_themselves() -> None:
    lines = as_text([LATE]).splitlines()
    assert max(map(len, lines)) <= 100
    start = next(line for line in lines if "why: " in line).index("soon")
    assert lines[lines.index(next(line for line in lines if "why: " in line)) + 1].startswith(
        " " * start + "soon"
    )


def test_the_sum_counts() -> None:
    assert as_text([WELL]).endswith("\n\nno findings\n")
    assert as_text(ALL).endswith("\n\n2 findings; 1 not seen, which says nothing about them\n")
    assert findings(ALL) == [ILL, LATE]


def test_fr84_a_node_is_not_clean_before_what_is_needed_was_seen() -> None:
    needed = Unseen("listener-pod", "no name", is_needed=True)
    assert lacking([WELL, DARK]) == []
    assert lacking([needed, DARK, needed]) == ["listener-pod"]
    assert as_text([WELL, needed]).endswith(
        "\n\nno findings; 1 not seen, which says nothing about them. "
        "The node is not clean before these are seen: listener-pod\n"
    )
    assert json.loads(as_json([WELL, needed]))["isClean"] is False


def test_nothing_from_the_node_moves_the_cursor() -> None:
    assert "\x1b" not in as_text([Passed("a", "b\x1b[2Jc\r\nd")])


def test_a_name_that_is_no_text_is_told_to_programs_too() -> None:
    written = as_json([Passed("a", "\udcff\x9b")])
    assert written.isascii()
    assert json.loads(written)["checks"][0]["what"] == "\udcff\x9b"


def test_programs_get_every_outcome() -> None:
    told = json.loads(as_json(ALL))
    assert (told["isClean"], told["findings"], told["notSeen"]) == (False, 2, 1)
    assert told["checks"][:3] == [
        {"check": "listener", "status": "ok", "what": "pyrbacproxy (pid 42) on ::"},
        {"check": "scrape", "status": "not seen", "what": "no credential"},
        {
            "check": "manifests",
            "status": "error",
            "what": "x is there",
            "why": "it runs",
            "toDo": "remove it",
        },
    ]
    assert json.loads(as_json([WELL, DARK]))["isClean"]
