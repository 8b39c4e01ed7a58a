"""Accept → form: the vectors of Kubernetes' z-pages, which an independent model produced."""

import json

import pytest
import yaml

from pyrbacproxy.http1.head import Response
from pyrbacproxy.pages.negotiation import group_version
from pyrbacproxy.pages.pages import Page
from pyrbacproxy.pages.status import Program
from pyrbacproxy.pages.statusz_flagz import Flagz, Statusz
from tests.fakes import request

PROGRAM = Program("0.1.0", "python3.12.3", "cpython", "linux/x86_64", 1000.0)
PAGES: dict[str, Page] = {
    "Statusz": Statusz(PROGRAM, ("/statusz",), lambda: "="),
    "Flagz": Flagz((("a", "1"),), "="),
}
OTHER = {"Statusz": "Flagz", "Flagz": "Statusz"}

# T: 200 text; J, Y: 200 JSON or YAML; Nj, Ny: 406 in JSON or YAML; R: 406 in indented JSON.
# $K stands for the whole target.
VECTORS = {
    "B1-empty": ("", "T"),
    "B1-blanks": ("  ", "T"),
    "B2": ("text/plain", "T"),
    "B3": ("text/plain;charset=utf-8", "T"),
    "B4": ("text/*", "T"),
    "B5": ("*/*", "T"),
    "B6": ("*", "T"),
    "B7": (
        "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8",
        "T",
    ),
    "B8": ("application/json", "Nj"),
    "B9": ("application/yaml", "Ny"),
    "B10": ("application/*", "Nj"),
    "B11": ("application/xml", "R"),
    "B12": ("text/html", "R"),
    "B13": ("garbage", "R"),
    "B14": ("application/json$K", "J"),
    "B15": ("application/json; as=$KIND; v=v1beta1; g=config.k8s.io", "J"),
    "B16": ("application/yaml$K", "Y"),
    "B17": ("application/json;v=v1beta1;g=config.k8s.io", "R"),
    "B18": ("application/json;v=v1;g=config.k8s.io;as=$KIND", "R"),
    "B19": ("application/json;v=v1beta1;g=config.k8s.io;as=$LOWER", "R"),
    "B20": ("*/*$K", "J"),
    "B21": ("application/*$K", "J"),
    "B22": ("text/plain$K", "R"),
    "B23": ("application/vnd.kubernetes.protobuf$K", "R"),
    "B24": ("application/cbor$K", "R"),
    "B25": ("application/json;v=foo;g=config.k8s.io;as=$KIND,*/*", "T"),
    "B26": ("application/json, text/plain;q=0.1", "T"),
    "B27": ("application/json,text/html;q=0.9", "Nj"),
    "B28": ("text/plain;q=0.5,application/json$K", "J"),
    "B29": ("application/yaml$K;q=0.2,application/json$K", "J"),
    "B30": ("*/*,application/json$K;q=0.5", "J"),
    "B31": ("text/plain;q=0", "T"),
    "B32": ('application/json;as="$KIND";v=v1beta1;g=config.k8s.io', "R"),
    "B33": ("application/json;stream=watch$K", "R"),
    "B34": ("application/json;pretty=1$K", "J"),
    "B35": ("application/json,application/yaml", "Nj"),
    "B36": ("TEXT/PLAIN", "R"),
    "B37": ("application/json;v=v1beta1;g=config.k8s.io;as=$OTHER", "R"),
    # Beyond the table: the parser's own quirks.
    "two-slashes": ("text/plain/x", "R"),
    "slash-at-the-end": ("text/plain/", "T"),
    "nothing-behind-the-slash": ("text/", "R"),
    "star-and-slash": ("*/", "T"),
    "parameter-without-value": ("text/plain;as;as=;as=a=b", "T"),
    "weight-that-is-no-number": ("text/html;q=x,application/json$K;q=0.1", "J"),
    "a-wildcard-type-alone": ("*/plain", "R"),
    "server-version": ("application/json;sv=1$K", "R"),
    "sixty-fifth": ("a/b," * 64 + "text/plain", "R"),
}


def answered(kind: str, *lines: tuple[bytes, bytes], target: bytes = b"/x") -> Response:
    return PAGES[kind](request(target, (b"User-Agent", b"x/1"), *lines))


def accepted(kind: str, accept: str) -> bytes:
    whole = f";v=v1beta1;g=config.k8s.io;as={kind}"
    for name, value in (("$KIND", kind), ("$LOWER", kind.lower()), ("$OTHER", OTHER[kind])):
        accept = accept.replace(name, value)
    return accept.replace("$K", whole).encode()


def outcome(response: Response, kind: str) -> str:
    """The table's letter."""
    media = (response.headers.get(b"content-type") or b"").decode()
    tail = f";g=config.k8s.io;v=v1beta1;as={kind}"
    if response.status == 200:
        known = {"text/plain; charset=utf-8": "T", f"application/json{tail}": "J"}
        return known.get(media) or {f"application/yaml{tail}": "Y"}[media]
    assert response.status == 406
    if media == "application/yaml":
        return "Ny"
    assert media == "application/json"
    return "Nj" if response.body.endswith(b"\n") else "R"


@pytest.mark.parametrize("kind", PAGES)
@pytest.mark.parametrize("name", VECTORS)
def test_z_b1_to_b37_accept(name: str, kind: str) -> None:
    accept, expected = VECTORS[name]
    response = answered(kind, (b"Accept", accepted(kind, accept)))
    assert outcome(response, kind) == expected


@pytest.mark.parametrize("kind", PAGES)
def test_z_b1_no_accept_at_all(kind: str) -> None:
    assert outcome(answered(kind), kind) == "T"


def test_z_b34_pretty_as_a_parameter() -> None:
    accept = accepted("Statusz", "application/json;pretty=1$K")
    assert answered("Statusz", (b"Accept", accept)).body.startswith(b'{\n  "kind": "Statusz",')


def test_z_b38_only_the_first_line_counts() -> None:
    lines = ((b"Accept", b"application/json"), (b"Accept", b"text/plain"))
    assert outcome(answered("Statusz", *lines), "Statusz") == "Nj"


def test_z_b40_the_406_for_who_takes_nothing_we_have() -> None:
    response = answered("Statusz", (b"Accept", b"application/xml"))
    assert response.body.decode() == (
        '{\n  "kind": "Status",\n  "apiVersion": "v1",\n  "metadata": {},\n'
        '  "status": "Failure",\n  "message": "only the following media types are accepted: '
        "application/json;g=config.k8s.io;v=v1beta1;as=Statusz, "
        "application/yaml;g=config.k8s.io;v=v1beta1;as=Statusz, "
        "application/json;g=config.k8s.io;v=v1alpha1;as=Statusz, "
        "application/yaml;g=config.k8s.io;v=v1alpha1;as=Statusz, "
        'text/plain",\n  "reason": "NotAcceptable",\n'
        '  "code": 406\n}'
    )
    assert response.headers.get(b"content-type") == b"application/json"


@pytest.mark.parametrize("kind", PAGES)
def test_fr101_what_the_406_names_is_taken(kind: str) -> None:
    message = json.loads(answered(kind, (b"Accept", b"application/json")).body)["message"]
    named = message.removeprefix("only the following media types are accepted: ").split(", ")
    assert len(named) == 5
    for media in named:
        assert answered(kind, (b"Accept", media.encode())).status == 200


def test_z_b41_the_406_in_compact_json() -> None:
    indented = answered("Statusz", (b"Accept", b"application/xml")).body
    compact = answered("Statusz", (b"Accept", b"application/json")).body
    assert json.loads(compact) == json.loads(indented)
    assert compact.count(b"\n") == 1
    assert compact.endswith(b"}\n")


def test_z_b42_the_406_in_yaml() -> None:
    response = answered("Statusz", (b"Accept", b"application/yaml"))
    status = yaml.safe_load(response.body)
    assert (status["code"], status["reason"]) == (406, "NotAcceptable")
    assert response.headers.get(b"content-type") == b"application/yaml"


@pytest.mark.parametrize("name", [name for name, (_, wanted) in VECTORS.items() if wanted != "T"])
def test_z_b43_no_406_names_protobuf(name: str) -> None:
    response = answered("Statusz", (b"Accept", accepted("Statusz", VECTORS[name][0])))
    assert b"protobuf" not in response.body


@pytest.mark.parametrize(
    ("query", "agent", "is_pretty"),
    [
        (b"", b"x/1", False),
        (b"", b"curl/8.0", True),
        (b"", b"Wget/1.21", True),
        (b"", b"Mozilla/5.0 (X11)", True),
        (b"?pretty=true", b"x/1", True),
        (b"?pretty=1&pretty=0", b"x/1", True),
        (b"?pretty=0", b"curl/8.0", False),
        (b"?pretty=maybe", b"curl/8.0", False),
        (b"?pretty=", b"curl/8.0", True),
        (b"?pretty", b"x/1", False),
        (b"?a=b", b"x/1", False),
    ],
)
def test_z_c2_who_gets_indented_json(query: bytes, agent: bytes, *, is_pretty: bool) -> None:
    accept = accepted("Statusz", "application/json$K")
    asked = request(b"/x" + query, (b"User-Agent", agent), (b"Accept", accept))
    body = PAGES["Statusz"](asked).body
    assert (b"\n  " in body) is is_pretty
    assert body.endswith(b"\n") is not is_pretty


@pytest.mark.parametrize("kind", PAGES)
def test_z_c3_d7_the_deprecated_version_warns(kind: str) -> None:
    accept = f"application/json;v=v1alpha1;g=config.k8s.io;as={kind}".encode()
    assert answered(kind, (b"Accept", accept)).headers.pairs == (
        (
            b"Content-Type",
            accept.replace(b"v=v1alpha1;g=config.k8s.io", b"g=config.k8s.io;v=v1alpha1"),
        ),
        (
            b"Warning",
            f'299 - "This version of the {kind.lower()} endpoint is deprecated. '
            'Please use a newer version."'.encode(),
        ),
    )


def test_without_a_user_agent_json_is_compact() -> None:
    accept = accepted("Statusz", "application/json$K")
    assert b"\n  " not in PAGES["Statusz"](request(b"/x", (b"Accept", accept))).body


@pytest.mark.parametrize(
    ("accept", "pair"),
    [
        (b"text/plain", ("", "")),
        (b"application/json", ("", "")),
        (b"application/json;as=Statusz;v=v1beta1;g=config.k8s.io", ("config.k8s.io", "v1beta1")),
    ],
)
def test_z_g8_group_and_version_of_what_was_given(accept: bytes, pair: tuple[str, str]) -> None:
    assert group_version(answered("Statusz", (b"Accept", accept))) == pair
    assert group_version(Response(204)) == ("", "")
