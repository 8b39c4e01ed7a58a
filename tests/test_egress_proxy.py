import pytest

from pyrbacproxy.egress import EgressProxies, ProxyAddress, from_environment, proxy_at, proxy_for

PLAIN = ProxyAddress("http", "proxy.test", 3128)
SECURE = ProxyAddress("http", "secure.test", 3128)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        pytest.param({}, EgressProxies(), id="nothing"),
        pytest.param({"HTTP_PROXY": ""}, EgressProxies(), id="empty"),
        pytest.param(
            {"HTTP_PROXY": "http://proxy.test:3128", "https_proxy": "http://secure.test:3128"},
            EgressProxies(http=PLAIN, https=SECURE),
            id="both cases of letters",
        ),
        pytest.param(
            {"HTTPS_PROXY": "http://secure.test:3128", "https_proxy": "http://other.test"},
            EgressProxies(https=SECURE),
            id="upper case goes first",
        ),
        pytest.param(
            {"HTTP_PROXY": "proxy.test:3128"}, EgressProxies(http=PLAIN), id="without a scheme"
        ),
        pytest.param(
            {"HTTP_PROXY": "127.0.0.1"},
            EgressProxies(http=ProxyAddress("http", "127.0.0.1", 80)),
            id="a bare host",
        ),
        pytest.param(
            {"HTTPS_PROXY": "https://[2001:db8::1]"},
            EgressProxies(https=ProxyAddress("https", "2001:db8::1", 443)),
            id="https, IPv6, usual port",
        ),
        pytest.param(
            {"HTTP_PROXY": "http://us%40er:p%3Ass@proxy.test:3128"},
            EgressProxies(http=ProxyAddress("http", "proxy.test", 3128, "Basic dXNAZXI6cDpzcw==")),
            id="credentials are decoded",
        ),
        pytest.param(
            {"HTTP_PROXY": "http://user@proxy.test:3128"},
            EgressProxies(http=ProxyAddress("http", "proxy.test", 3128, "Basic dXNlcjo=")),
            id="no password",
        ),
        pytest.param(
            {"NO_PROXY": " Example.org, ,10.0.0.0/8 "},
            EgressProxies(no_proxy=("example.org", "10.0.0.0/8")),
            id="exemptions are trimmed",
        ),
        pytest.param(
            {"no_proxy": "a.test"}, EgressProxies(no_proxy=("a.test",)), id="exemptions, lower case"
        ),
    ],
)
def test_the_environment_is_read(environ: dict[str, str], expected: EgressProxies) -> None:
    assert from_environment(environ) == expected


@pytest.mark.parametrize(
    ("environ", "named"),
    [
        ({"HTTP_PROXY": "http://user:secret@proxy.test:port"}, "HTTP_PROXY"),
        ({"https_proxy": "http://user:secret@:80"}, "https_proxy"),
        ({"HTTPS_PROXY": "socks5://user:secret@proxy.test:1080"}, "HTTPS_PROXY"),
        ({"HTTPS_PROXY": "http://[secret"}, "HTTPS_PROXY"),
    ],
)
def test_what_is_no_proxy_is_named_without_its_secret(environ: dict[str, str], named: str) -> None:
    with pytest.raises(ValueError, match=named) as caught:
        from_environment(environ)
    assert "secret" not in str(caught.value)


def test_a_url_is_the_address_of_a_proxy() -> None:
    assert proxy_at("http://proxy.test:3128") == PLAIN


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("proxy.test:3128", "not a URL with a scheme"),
        ("me:secret@proxy.test", "not a URL with a scheme"),
        ("gopher://me:secret@proxy.test", "a proxy of scheme gopher"),
        ("http://me:secret@:80", "has no host"),
        ("http://me:secret@proxy.test:port", "not the address of a proxy"),
        ("http://me:secret@proxy\n.test", "not the address of a proxy"),
        ("http://me:secret@proxy .test", "not the address of a proxy"),
    ],
)
def test_what_is_no_address_is_told_without_its_secret(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as caught:
        proxy_at(text)
    assert "secret" not in str(caught.value)


def test_a_password_is_not_shown() -> None:
    proxies = from_environment({"HTTP_PROXY": "http://user:secret@proxy.test"})
    assert proxies.http is not None
    assert proxies.http.authorization not in repr(proxies)


@pytest.mark.parametrize(
    ("scheme", "expected"), [("http", PLAIN), ("https", SECURE)], ids=["http", "https"]
)
def test_each_scheme_has_its_proxy(scheme: str, expected: ProxyAddress) -> None:
    proxies = EgressProxies(http=PLAIN, https=SECURE)
    assert proxy_for(proxies, scheme, "api.test", 443) == expected


def test_without_a_proxy_the_way_is_direct() -> None:
    assert proxy_for(EgressProxies(http=PLAIN), "https", "api.test", 443) is None


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST", "127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"]
)
def test_loopback_is_never_proxied(host: str) -> None:
    assert proxy_for(EgressProxies(https=SECURE), "https", host, 443) is None


# The table of Go's httpproxy, entry by entry.
@pytest.mark.parametrize(
    ("entry", "host", "port", "is_exempt"),
    [
        ("*", "anything.test", 443, True),
        ("example.org", "example.org", 443, True),
        ("example.org", "Example.Org", 443, True),
        ("example.org", "a.b.example.org", 443, True),
        ("example.org", "badexample.org", 443, False),
        (".example.org", "example.org", 443, False),
        (".example.org", "a.example.org", 443, True),
        ("*.example.org", "example.org", 443, False),
        ("*.example.org", "a.example.org", 443, True),
        ("*example.org", "example.org", 443, False),
        ("example.org:443", "example.org", 443, True),
        ("example.org:443", "example.org", 6443, False),
        (":443", "example.org", 443, False),
        ("10.0.0.1", "10.0.0.1", 443, True),
        ("10.0.0.1", "10.0.0.2", 443, False),
        ("10.0.0.1", "name.test", 443, False),
        ("10.0.0.1:443", "10.0.0.1", 443, True),
        ("10.0.0.1:443", "10.0.0.1", 6443, False),
        ("10.0.0.1", "::ffff:10.0.0.1", 443, True),
        ("2001:db8::1", "2001:db8::1", 443, True),
        ("[2001:db8::1]:443", "2001:db8::1", 443, True),
        ("[2001:db8::1]:443", "2001:db8::1", 6443, False),
        ("[2001:db8::1]", "2001:db8::1", 443, False),
        ("10.0.0.0/8", "10.200.0.1", 443, True),
        ("10.1.2.3/8", "10.200.0.1", 443, True),
        ("10.0.0.0/8", "11.0.0.1", 443, False),
        ("10.0.0.0/8", "name.test", 443, False),
        ("10.0.0.0/255.0.0.0", "10.0.0.1", 443, False),
        ("10.0.0.0/99", "10.0.0.1", 443, False),
        ("2001:db8::/32", "2001:db8::7", 443, True),
        ("2001:db8::/32", "10.0.0.1", 443, False),
    ],
)
def test_no_proxy_exempts(entry: str, host: str, port: int, is_exempt: bool) -> None:  # noqa: FBT001
    proxies = EgressProxies(https=SECURE, no_proxy=("elsewhere.test", entry))
    assert (proxy_for(proxies, "https", host, port) is None) == is_exempt
