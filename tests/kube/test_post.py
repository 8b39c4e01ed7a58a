import pytest

from pyrbacproxy.egress import ProxyAddress
from pyrbacproxy.http1.head import LocalProtocolError
from pyrbacproxy.http1.parser import END, RequestParser, RequestReceived
from pyrbacproxy.kube.api_client import post_of
from pyrbacproxy.kube.review_codec import encode
from tests.kube.parties import ACCESS, TOKEN

TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
PROXY = ProxyAddress("http", "proxy.test", 3128, "Basic eA==")
OPEN_PROXY = ProxyAddress("http", "proxy.test", 3128)


def posted(
    url: str, authorization: str = "", proxy: ProxyAddress | None = None
) -> tuple[str, dict[str, str], bytes]:
    """Target, headers and body, as a server reads them."""
    request = post_of(TOKEN, url=url, authorization=authorization, proxy=proxy)
    received, body, end = RequestParser(max_head_bytes=10_000).feed(request)
    assert isinstance(received, RequestReceived)
    assert isinstance(body, bytes)
    assert end is END
    assert (received.head.method, received.head.minor) == (b"POST", 1)
    headers = {name.decode(): value.decode() for name, value in received.head.headers}
    assert len(headers) == len(received.head.headers)
    return received.head.target.decode(), headers, body


def test_the_request() -> None:
    target, headers, body = posted("https://api.test:6443", "Bearer own-1")
    assert target == TOKENS
    assert headers == {
        "Host": "api.test:6443",
        "Accept": "application/json",
        "Accept-Encoding": "identity",
        "Content-Type": "application/json",
        "User-Agent": "pyrbacproxy",
        "Content-Length": str(len(body)),
        "Authorization": "Bearer own-1",
    }
    assert body == encode(TOKEN)


@pytest.mark.parametrize(
    ("url", "target", "host"),
    [
        ("https://api.test", TOKENS, "api.test"),
        ("https://api.test/a/b", f"/a/b{TOKENS}", "api.test"),
        ("https://api.test/a b%2Fc?x=1#y", f"/a%20b%2Fc{TOKENS}", "api.test"),
        ("https://[fd00::1]:6443", TOKENS, "[fd00::1]:6443"),
        ("https://bücher.test:6443", TOKENS, "xn--bcher-kva.test:6443"),
    ],
)
def test_where_it_goes(url: str, target: str, host: str) -> None:
    found, headers, _ = posted(url)
    assert (found, headers["Host"]) == (target, host)
    assert "Authorization" not in headers


@pytest.mark.parametrize(
    ("url", "proxy", "prefix", "authorization"),
    [
        ("http://api.test:80", PROXY, "http://api.test:80", "Basic eA=="),
        ("http://api.test", OPEN_PROXY, "http://api.test", None),
        ("https://api.test", PROXY, "", None),
    ],
    ids=["plain", "plain without credentials", "tunnel"],
)
def test_d34_what_a_proxy_must_know(
    url: str, proxy: ProxyAddress, prefix: str, authorization: str | None
) -> None:
    target, headers, _ = posted(url, proxy=proxy)
    assert target == prefix + TOKENS
    assert headers.get("Proxy-Authorization") == authorization


def test_each_kind_of_review_has_its_path() -> None:
    request = post_of(ACCESS, url="https://a", authorization="", proxy=None)
    assert request.startswith(b"POST /apis/authorization.k8s.io/v1/subjectaccessreviews HTTP/1.1")


def test_a_host_that_nobody_can_spell() -> None:
    with pytest.raises(UnicodeError):
        posted("https://a..b")
    with pytest.raises(LocalProtocolError):
        posted("http://a b", proxy=PROXY)


def test_who_is_acted_as_is_said() -> None:
    request = post_of(
        TOKEN,
        url="https://api.test",
        authorization="Bearer own-1",
        proxy=None,
        impersonation=(("Impersonate-User", "jané"), ("Impersonate-Group", "a")),
    )
    assert "\r\nImpersonate-User: jané\r\nImpersonate-Group: a\r\n".encode() in request
