"""What is checked for a request: verbs, literal resources, rewrites, and when it is nothing."""

import pytest

from pyrbacproxy.authz.attributes import (
    Attributes,
    AttributeSettings,
    AttributeSource,
    ResourceTemplates,
    Rewrites,
    describe,
)
from pyrbacproxy.authz.template_parser import parse
from pyrbacproxy.authz.templates import literal
from pyrbacproxy.http1.head import Headers
from pyrbacproxy.model import NonResourceAttributes, ResourceAttributes, UserInfo
from tests.fakes import request

ALICE = UserInfo("alice")
PODS = ResourceTemplates(
    namespace=parse("{{ .Value }}"),
    group=literal("metrics.example"),
    version=literal("v1"),
    resource=literal("pods"),
    subresource=literal("log"),
    name=literal("{{ .Value }}"),
)
NODES = ResourceTemplates(*(literal(text) for text in ("", "", "v1", "nodes", "metrics", "")))


def pods(namespace: str, verb: str = "get") -> Attributes:
    action = ResourceAttributes(
        verb, namespace, "metrics.example", "v1", "pods", "log", "{{ .Value }}"
    )
    return Attributes(ALICE, action)


def attributes(
    settings: AttributeSettings,
    target: bytes = b"/metrics",
    *lines: tuple[bytes, bytes],
    method: bytes = b"GET",
) -> tuple[Attributes, ...]:
    asked = request(target, *lines, method=method)
    return AttributeSource(settings).attributes(asked.head, asked.target, ALICE)


def rewritten(query_parameter: str = "", header: str = "") -> AttributeSettings:
    return AttributeSettings((PODS,), Rewrites(query_parameter, header))


@pytest.mark.parametrize(
    ("method", "verb"),
    [
        (b"GET", "get"),
        (b"POST", "create"),
        (b"PUT", "update"),
        (b"PATCH", "patch"),
        (b"DELETE", "delete"),
        (b"HEAD", "*"),
        (b"OPTIONS", "*"),
        (b"TRACE", "*"),
        (b"CONNECT", "*"),
        (b"PROPFIND", "*"),
        (b"get", "*"),
    ],
)
def test_fr40_verbs(method: bytes, verb: str) -> None:
    assert attributes(AttributeSettings(), method=method)[0].action.verb == verb


def test_k_u27_without_resources_the_decoded_path_is_checked() -> None:
    found = attributes(AttributeSettings(), b"/%6Detrics?namespace=a")
    assert found == (Attributes(ALICE, NonResourceAttributes("get", "/metrics")),)


def test_rewrites_alone_are_inert() -> None:
    settings = AttributeSettings((), Rewrites("namespace"))
    assert not AttributeSource(settings).has_query_rewrite
    found = attributes(settings, b"/metrics?a;b")
    assert found == (Attributes(ALICE, NonResourceAttributes("get", "/metrics")),)


@pytest.mark.parametrize("target", [b"/a%2fb", b"/a%5Cb", b"/a%2Fb", b"/a\\b"])
def test_dec_d9_a_path_with_an_encoded_separator_is_not_exact(target: bytes) -> None:
    assert not attributes(AttributeSettings(), target)[0].is_path_exact


def test_k_u28_without_rewrites_the_text_is_literal() -> None:
    templates = ResourceTemplates(*(literal("{{ .Value }}") for _ in range(6)))
    (found,) = attributes(AttributeSettings((templates,)))
    assert found.action == ResourceAttributes("get", *(["{{ .Value }}"] * 6))


def test_dec_n6_every_resource_is_checked() -> None:
    found = attributes(AttributeSettings((PODS, NODES), Rewrites("ns")), b"/m?ns=a&ns=b")
    nodes = Attributes(ALICE, ResourceAttributes("get", "", "", "v1", "nodes", "metrics", ""))
    assert found == (pods("a"), nodes, pods("b"), nodes)


@pytest.mark.parametrize(
    ("query", "namespaces"),
    [
        (b"?namespace=a", ["a"]),
        (b"?namespace=a&x=y&namespace=b", ["a", "b"]),
        (b"?namespace=", [""]),
        (b"?x&namespace", [""]),
        (b"?name%73pace=a+b%2Fc", ["a b/c"]),
        (b"?namespace=%7B%7B+.Value+%7D%7D", ["{{ .Value }}"]),
        (b"?namespace=a=b", ["a=b"]),
        (b"?namespace=%ff", ["\udcff"]),
        (b"?Namespace=a", []),
        (b"?", []),
        (b"", []),
    ],
)
def test_fr43_every_value_of_the_query_parameter(query: bytes, namespaces: list[str]) -> None:
    found = attributes(rewritten("namespace"), b"/metrics" + query)
    assert found == tuple(pods(namespace) for namespace in namespaces)


@pytest.mark.parametrize(
    "query",
    [b"?namespace=a&namespace=%zz", b"?namespace=a;b", b"?namespace=a&" + b"x&" * 1000],
    ids=["bad escape", "semicolon", "too many pairs"],
)
def test_dec_d7_a_doubtful_query_yields_nothing(query: bytes) -> None:
    assert attributes(rewritten("namespace"), b"/m" + query) == ()
    # Nobody checks the query here, so nobody minds.
    assert attributes(rewritten(header="ns"), b"/m" + query, (b"Ns", b"a")) == (pods("a"),)


def test_k_u32_every_line_of_the_header() -> None:
    lines = ((b"X-NAMESPACE", b"a"), (b"Other", b"x"), (b"x-namespace", b"b, c"))
    assert attributes(rewritten(header="X-Namespace"), b"/m", *lines) == (pods("a"), pods("b, c"))
    assert attributes(rewritten(header="x-namespace"), b"/m") == ()


@pytest.mark.parametrize("configured", ["X-Name-Space", "x-name_space"])
@pytest.mark.parametrize(
    "line",
    [
        (b"X_Name_Space", b"b"),
        (b"x_name-space", b"a"),
        (b"Connection", b"close, X-Name-Space"),
        (b"connection", b"x_name_space"),
    ],
)
def test_a_header_that_may_not_go_on_as_checked_yields_nothing(
    configured: str, line: tuple[bytes, bytes]
) -> None:
    settings = rewritten("ns", configured)
    checked = (configured.encode(), b"a")
    assert attributes(settings, b"/m?ns=c", checked) == (pods("c"), pods("a"))
    assert attributes(settings, b"/m?ns=c", checked, line) == ()
    assert attributes(settings, b"/m?ns=c", line, checked) == ()
    # Nobody checks the header here, so nobody minds.
    assert attributes(rewritten("ns"), b"/m?ns=c", checked, line) == (pods("c"),)


def test_trailers_without_the_header() -> None:
    sent = Headers([(b"X-Sum", b"1"), (b"X_Ns", b"a"), (b"x-NS", b"b"), (b"X-Ns2", b"c")])
    kept = AttributeSource(rewritten(header="X-Ns")).without_header(sent)
    assert list(kept) == [(b"X-Sum", b"1"), (b"X-Ns2", b"c")]
    assert AttributeSource(rewritten("X-Ns")).without_header(sent) == sent


def test_k_u34_the_query_comes_before_the_header() -> None:
    found = attributes(rewritten("ns", "ns"), b"/m?ns=a", (b"Ns", b"b"))
    assert found == (pods("a"), pods("b"))


@pytest.mark.parametrize("name", ["Host", "host", ""])
def test_host_and_nothing_are_no_sources(name: str) -> None:
    assert attributes(rewritten(header=name), b"/m", (b"Host", b"a")) == ()


def test_whether_the_query_decides() -> None:
    assert AttributeSource(rewritten("namespace")).has_query_rewrite
    assert not AttributeSource(rewritten(header="x")).has_query_rewrite
    assert not AttributeSource(AttributeSettings((PODS,))).has_query_rewrite


def test_described_without_path_namespace_and_name() -> None:
    assert describe(pods("secret")) == "(user=alice, verb=get, resource=pods, subresource=log)"
    path = Attributes(ALICE, NonResourceAttributes("*", "/secret"))
    assert describe(path) == "(user=alice, verb=*, resource=, subresource=)"


@pytest.mark.parametrize("value", [b"", b"a", b"abc&v=a"])
def test_dec_d3_a_template_that_fails_on_a_value_leaves_nothing_to_check(value: bytes) -> None:
    """An empty namespace means all: the original would check that."""
    templates = ResourceTemplates(parse("{{ slice .Value 0 2 }}"), *[literal("x")] * 5)
    settings = AttributeSettings((templates,), Rewrites("v"))
    assert len(attributes(settings, b"/?v=abc")) == 1
    assert attributes(settings, b"/?v=" + value) == ()
