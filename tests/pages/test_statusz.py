"""/statusz: the text, and the objects with the same facts."""

import json
import re

import pytest
import yaml

from pyrbacproxy.http1.head import Response
from pyrbacproxy.pages.status import Program
from pyrbacproxy.pages.statusz_flagz import DELIMITERS, Statusz
from pyrbacproxy.values import replace
from tests.fakes import request

STARTED_AT = 1725603591.5  # Fri Sep  6 06:19:51 UTC 2024
PROGRAM = Program("0.1.0", "python3.12.3", "cpython", "linux/x86_64", STARTED_AT)
PATHS = ("/statusz", "/version", "/version/", "/flagz", "/readyz/ping", "/readyz")
TEXT = re.compile(
    r"\A\nkube-rbac-proxy statusz\nWarning: This endpoint is not meant to be machine parseable, "
    r"has no formatting compatibility guarantees and is for debugging purposes only\.\n\n"
    r"Started(?P<d>:|: |=| ) [A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \S+ \d{4}\n"
    r"Up(?P=d) \d+ hr [0-5]\d min [0-5]\d sec\n(?:Go|Python) version(?P=d) \S+\n"
    r"Binary version(?P=d) \S+\n(?:Emulation version(?P=d) \d+\.\d+)?\n"
    r"(?:Paths(?P=d) /\S+(?: /\S+)*)?\n\Z"
)


def page(
    *,
    program: Program = PROGRAM,
    delimiter: str = "=",
    now: float = STARTED_AT + 30,
    accept: str = "",
    paths: tuple[str, ...] = PATHS,
) -> Response:
    lines = [(b"Accept", accept.encode())] if accept else []
    asked = request(b"/statusz", *lines, received_at=now)
    return Statusz(program, paths, lambda: delimiter)(asked)


def structured(kind: str = "json", version: str = "v1beta1", **more: float | Program) -> Response:
    accept = f"application/{kind};v={version};g=config.k8s.io;as=Statusz"
    program = more.get("program", PROGRAM)
    now = more.get("now", STARTED_AT + 30)
    assert isinstance(program, Program)
    assert isinstance(now, float)
    return page(program=program, now=now, accept=accept)


def text(**more: float) -> str:
    return page(now=more.get("now", STARTED_AT + 30)).body.decode()


@pytest.mark.parametrize("delimiter", DELIMITERS)
@pytest.mark.parametrize("emulation", ["", "1.36"])
def test_z_a1_the_text(delimiter: str, emulation: str) -> None:
    response = page(program=replace(PROGRAM, emulation=emulation), delimiter=delimiter)
    assert response.headers.get(b"content-type") == b"text/plain; charset=utf-8"
    found = TEXT.match(response.body.decode())
    assert found
    assert found["d"] == delimiter


def test_the_text_to_the_letter() -> None:
    assert text() == (
        "\nkube-rbac-proxy statusz\nWarning: This endpoint is not meant to be machine parseable, "
        "has no formatting compatibility guarantees and is for debugging purposes only.\n\n"
        "Started= Fri Sep  6 06:19:51 UTC 2024\nUp= 0 hr 00 min 30 sec\n"
        "Python version= python3.12.3\nBinary version= 0.1.0\n\n"
        "Paths= /flagz /readyz /statusz /version\n"
    )


def test_without_paths_their_line_is_empty() -> None:
    assert page(paths=()).body.endswith(b"0.1.0\n\n\n")


def test_z_a2_the_delimiter_is_drawn_for_each_request() -> None:
    left = list(DELIMITERS)
    statusz = Statusz(PROGRAM, PATHS, left.pop)
    for expected in reversed(DELIMITERS):
        found = TEXT.match(statusz(request(b"/statusz", received_at=STARTED_AT)).body.decode())
        assert found
        assert found["d"] == expected


def test_z_a3_the_start_stays_and_the_uptime_grows() -> None:
    first, second = text(), text(now=STARTED_AT + 32)
    assert first.replace("00 min 30", "00 min 32") == second


def test_z_a5_hours_are_not_capped() -> None:
    assert "Up= 100 hr 00 min 00 sec\n" in text(now=STARTED_AT + 360000)


def test_z_a6_no_uptime_below_zero() -> None:
    assert "Up= 0 hr 00 min 00 sec\n" in text(now=STARTED_AT - 500)
    assert json.loads(structured(now=STARTED_AT - 500).body)["uptimeSeconds"] == 0


def test_z_a7_html_is_escaped_in_the_text_alone() -> None:
    program = replace(PROGRAM, version="1.0+a<b>&'\"")
    assert "1.0+a&lt;b&gt;&amp;&#39;&#34;\n" in page(program=program).body.decode()
    assert json.loads(structured(program=program).body)["binaryVersion"] == "1.0+a<b>&'\""


def test_z_c1_the_object() -> None:
    response = structured()
    assert response.headers.pairs == (
        (b"Content-Type", b"application/json;g=config.k8s.io;v=v1beta1;as=Statusz"),
    )
    assert response.body.endswith(b"}\n")
    assert list(json.loads(response.body).items()) == [
        ("kind", "Statusz"),
        ("apiVersion", "config.k8s.io/v1beta1"),
        ("metadata", {"name": "kube-rbac-proxy"}),
        ("startTime", "2024-09-06T06:19:51Z"),
        ("uptimeSeconds", 30),
        ("goVersion", "python3.12.3"),
        ("binaryVersion", "0.1.0"),
        ("paths", ["/flagz", "/readyz", "/statusz", "/version"]),
    ]


def test_z_c3_the_deprecated_version_warns() -> None:
    response = structured(version="v1alpha1")
    assert response.status == 200
    assert json.loads(response.body)["apiVersion"] == "config.k8s.io/v1alpha1"
    assert response.headers.get(b"warning") == (
        b'299 - "This version of the statusz endpoint is deprecated. Please use a newer version."'
    )


def test_z_c4_yaml_holds_the_same() -> None:
    response = structured("yaml")
    assert (response.headers.get(b"content-type") or b"").startswith(b"application/yaml;g=")
    assert yaml.safe_load(response.body) == json.loads(structured().body)
    assert [
        line.split(":")[0] for line in response.body.decode().splitlines() if line[0] > " "
    ] == [
        *("apiVersion", "binaryVersion", "goVersion", "kind", "metadata", "paths"),
        *("- /flagz", "- /readyz", "- /statusz", "- /version", "startTime", "uptimeSeconds"),
    ]


def test_z_c5_text_and_object_agree() -> None:
    value, shown = json.loads(structured().body), text()
    assert value["startTime"] == "2024-09-06T06:19:51Z"
    assert "Fri Sep  6 06:19:51 UTC 2024" in shown
    assert f"Binary version= {value['binaryVersion']}\n" in shown
    assert f"Paths= {' '.join(value['paths'])}\n" in shown


def test_z_c7_an_emulation_version() -> None:
    program = replace(PROGRAM, emulation="1.36")
    assert (
        b'"binaryVersion":"0.1.0","emulationVersion":"1.36","paths"'
        in structured(program=program).body
    )
    assert "\nEmulation version= 1.36\nPaths" in page(program=program).body.decode()


def test_what_cannot_be_given_is_refused() -> None:
    assert page(accept="text/html").status == 406
