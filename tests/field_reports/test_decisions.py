"""Decisions that no field report brings up: files, upstream certificates, upgrades, versions."""

import ssl

import pytest

from tests.conformance.wire import free_port
from tests.field_reports.harness import Lab, bearer, client_context, get, post, server_context
from tests.field_reports.servers import Upstream, user

# --- DEC-D2, DEC-D3: the authorization file --------------------------------------------


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("authorization: {static: [{path: /x, verbs: get}]}", "verbs"),
        ("authorization: {static: [{path: /x, user: {group: [a]}}]}", "group"),
        ("authorization: {resourceAttributes: {resource: pods, namspace: a}}", "namspace"),
        (
            "authorization: {resourceAttributes: {resource: pods}, rewrites: {byQuery: {name: a}}}",
            "byQuery",
        ),
        ("authorization: {statik: []}", "authorization.statik"),
        ("authorization: {endpoints: [{path: /x}]}", "authorization.endpoints"),
    ],
)
def test_dec_d2_an_unknown_key_that_narrows_ends_the_start(lab: Lab, text: str, key: str) -> None:
    ended = lab.run(config=text)
    assert ended.code == 1
    assert key in ended.err
    assert "authorization.yaml" in ended.err


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("authorization: {}\ncomment: x\n", "comment"),
        (
            "authorization: {resourceAttributes: {resource: pods, verb: get}}",
            "authorization.resourceAttributes.verb",
        ),
        (
            "authorization: {resourceAttributes: [{resource: pods, resourceName: x}]}",
            "authorization.resourceAttributes[0].resourceName",
        ),
    ],
)
def test_dec_d2_an_unknown_key_elsewhere_is_warned_about(lab: Lab, text: str, key: str) -> None:
    lab.start(config=text).wait_for(f"{key}: ")
    ended = lab.run("--strict-config", config=text)
    assert ended.code == 1
    assert f"{key}: " in ended.err


def test_fr75_what_is_asked_instead_of_a_verb_is_the_methods(lab: Lab) -> None:
    text = "authorization: {resourceAttributes: {resource: pods, verb: delete, resourceName: x}}"
    proxy = lab.start(config=text)
    assert proxy.ask(get("/metrics", bearer(lab.token(user("carol"))))).status == 200
    (review,) = lab.api.access_reviews()
    assert review["resourceAttributes"] == {"resource": "pods", "verb": "get"}


BAD_TEMPLATE = """
authorization:
  rewrites: {byQueryParameter: {name: n}}
  resourceAttributes: {resource: pods, namespace: '{{ .Value'}
"""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "authorization"),
        ("other: 1\n", "authorization"),
        ("authorization:\n", "authorization"),
        (BAD_TEMPLATE, "authorization.resourceAttributes.namespace"),
        ("authorization: [", "authorization.yaml"),
    ],
    ids=["empty", "other keys", "blank", "bad template", "bad YAML"],
)
def test_dec_d3_a_bad_file_ends_the_start_and_is_named(lab: Lab, text: str, words: str) -> None:
    ended = lab.run(config=text)
    assert ended.code == 1
    assert words in ended.err
    assert "authorization.yaml" in ended.err


# --- DEC-D4: the pair shown to the upstream --------------------------------------------


@pytest.mark.parametrize("missing", ["cert", "key"])
def test_dec_d4_half_a_pair_ends_the_start(lab: Lab, missing: str) -> None:
    given = {"cert": "crt", "key": "key"}
    del given[missing]
    ((half, suffix),) = given.items()
    ended = lab.run(
        "--upstream=https://127.0.0.1:1",
        f"--upstream-client-{half}-file={lab.certificates}/alice.{suffix}",
    )
    assert ended.code == 1
    assert f"--upstream-client-{missing}-file" in ended.err


@pytest.mark.parametrize("roots", ["own", "system"])
def test_dec_d4_the_pair_is_shown_whatever_roots_are_used(lab: Lab, roots: str) -> None:
    pki = lab.certificates
    upstream = Upstream(tls=server_context(pki / "upstream", pki / "client-ca.crt"))
    own = [f"--upstream-ca-file={pki}/server-ca.crt"] if roots == "own" else []
    try:
        proxy = lab.start(
            f"--upstream=https://127.0.0.1:{upstream.port}",
            f"--upstream-client-cert-file={pki}/alice.crt",
            f"--upstream-client-key-file={pki}/alice.key",
            *own,
            env={"SSL_CERT_FILE": f"{pki}/server-ca.crt"} if roots == "system" else {},
            is_own=True,
        )
        assert proxy.ask(get("/metrics"), "bob").status == 200
        assert upstream.targets == ["/metrics"]
    finally:
        upstream.close()


# --- DEC-D8: upgrades ------------------------------------------------------------------


@pytest.fixture(name="insecure_port", scope="module")
def _insecure_port() -> int:
    return free_port()


def test_dec_d8_an_upgrade_needs_the_checks(lab: Lab) -> None:
    proxy = lab.start()
    answer = proxy.ask(get("/ws", "Connection: Upgrade", "Upgrade: websocket"))
    assert answer.status == 401
    assert lab.upstream.raw == b""


@pytest.mark.parametrize("offer", ["h2c", "H2C", "websocket, h2c", "h2c,websocket", "h2c/1"])
def test_dec_d8_h2c_is_never_tunnelled(lab: Lab, offer: str) -> None:
    proxy = lab.start()
    upgrade = (
        "Connection: Upgrade, HTTP2-Settings",
        f"Upgrade: {offer}",
        "HTTP2-Settings: AAMAAABkAAQAAP__",
    )
    with proxy.connect("alice") as client:
        client.send(get("/a", *upgrade) + get("/b"))
        assert client.answer().status == 200
        assert client.answer().status == 200
    assert lab.upstream.targets == ["/a", "/b"]
    for name in ("upgrade", "connection", "http2-settings"):
        assert lab.upstream.requests[0].message.values(name) == []


@pytest.mark.parametrize("offer", ["h2", "HTTP/2.0", "TLS/1.2", "websocket, TLS/1.0, HTTP/1.1"])
@pytest.mark.parametrize("is_plain", [False, True], ids=["secure", "insecure"])
def test_dec_d8_no_other_name_of_http_is_tunnelled(
    lab: Lab, insecure_port: int, offer: str, *, is_plain: bool
) -> None:
    proxy = lab.start("--ignore-paths=/*", f"--insecure-listen-address=127.0.0.1:{insecure_port}")
    lines = ("Connection: Upgrade", f"Upgrade: {offer}")
    port = insecure_port if is_plain else proxy.port
    with proxy.connect(port=port, is_plain=is_plain) as client:
        client.send(get("/a", *lines) + get("/b"))
        assert [client.answer().status for _ in range(2)] == [200, 200]
    assert lab.upstream.targets == ["/a", "/b"]
    assert lab.upstream.requests[0].message.values("upgrade") == []
    with proxy.connect(port=port, is_plain=is_plain) as client:
        client.send(post("/c", get("/hidden"), *lines))
        assert client.answer().status == 400
        assert client.end() == b""
    assert lab.upstream.targets == ["/a", "/b"]


def test_dec_d8_two_upgrade_lines_are_one_list(lab: Lab) -> None:
    proxy = lab.start()
    lines = ("Connection: Upgrade", "Upgrade: websocket", "Upgrade: h2c")
    assert proxy.ask(get("/a", *lines), "alice").status == 200
    assert lab.upstream.requests[0].message.values("upgrade") == []


def test_dec_d8_what_follows_an_upgrade_that_is_declined_needs_the_checks(lab: Lab) -> None:
    proxy = lab.start()
    token = lab.token(user("alice"))
    upgrade = get("/ws", "Connection: Upgrade", "Upgrade: echo", bearer(token))
    with proxy.connect() as client:
        client.send(upgrade + get("/hidden"))
        assert client.answer().status == 200
        assert client.answer().status == 401
    assert lab.upstream.targets == ["/ws"]


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_dec_d8_the_body_of_an_upgrade_is_its_body(lab: Lab, framing: str) -> None:
    """The upstream declines; what stands in the body is no request, and what follows it is one."""
    proxy = lab.start()
    inner = get("/hidden")
    upgrade = ("Connection: Upgrade", "Upgrade: echo", bearer(lab.token(user("alice"))))
    data = post("/a", inner, *upgrade)
    if framing == "chunked":
        head = get("/a", *upgrade, "Transfer-Encoding: chunked", method="POST")
        data = head + b"%x\r\n%s\r\n0\r\n\r\n" % (len(inner), inner)
    with proxy.connect() as client:
        client.send(data + get("/b"))
        assert client.answer().status == 200
        assert client.answer().status == 401
    assert lab.upstream.targets == ["/a"]
    assert lab.upstream.requests[0].message.body == inner


def test_dec_d8_a_switch_that_nobody_asked_for_is_no_tunnel(lab: Lab) -> None:
    proxy = lab.start()
    lab.upstream.script = (
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno"
    )
    for lines in ((), ("Connection: Upgrade", "Upgrade: other")):
        with proxy.connect("alice") as client:
            client.send(get("/a", *lines))
            answer = client.answer()
            assert (answer.status, answer.body) == (502, b"")


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_dec_d8_h2c_with_a_body_is_refused(lab: Lab, framing: str) -> None:
    proxy = lab.start()
    inner = get("/hidden")
    upgrade = ("Connection: Upgrade", "Upgrade: h2c")
    data = post("/a", inner, *upgrade)
    if framing == "chunked":
        head = get("/a", *upgrade, "Transfer-Encoding: chunked", method="POST")
        data = head + b"%x\r\n%s\r\n0\r\n\r\n" % (len(inner), inner)
    with proxy.connect("alice") as client:
        client.send(data)
        assert client.answer().status == 400
        assert client.end() == b""
    assert lab.upstream.raw == b""


def test_dec_d8_a_prior_knowledge_preface_is_no_request(lab: Lab) -> None:
    proxy = lab.start("--ignore-paths=/*")
    with proxy.connect() as client:
        client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + get("/hidden"))
        assert client.answer().status in {400, 501, 505}
        assert client.end() == b""
    assert lab.upstream.raw == b""


# --- DEC-D25, DEC-D33: what a handshake agrees on --------------------------------------


@pytest.mark.parametrize("offer", [["h2", "http/1.1"], ["http/1.1", "h2"], ["http/1.1"]])
def test_dec_d25_http_1_1_is_preferred(lab: Lab, offer: list[str]) -> None:
    tls = client_context(lab.certificates / "alice")
    tls.set_alpn_protocols(offer)
    with lab.start().connect(tls=tls) as client:
        connection = client.connection
        assert isinstance(connection, ssl.SSLSocket)
        assert connection.selected_alpn_protocol() == "http/1.1"
        client.send(get("/metrics"))
        assert client.answer().status == 200


MISSING = "TLS_RSA_WITH_RC4_128_SHA,TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA"


def test_dec_d33_missing_suites_alone_leave_tls_1_3(lab: Lab) -> None:
    proxy = lab.start(f"--tls-cipher-suites={MISSING}")
    for name in MISSING.split(","):
        assert proxy.wait_for(name).count(name) == 1
    assert proxy.ask(get("/metrics"), "alice").status == 200
    tls = client_context()
    tls.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError):
        proxy.connect(tls=tls)


# --- DEC-D34: proxies on the way out ---------------------------------------------------


def test_dec_d34_loopback_never_goes_through_a_proxy(lab: Lab) -> None:
    dead = f"http://127.0.0.1:{free_port()}"
    names = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
    proxy = lab.start(env=dict.fromkeys(names, dead))
    assert proxy.ask(get("/metrics"), "alice").status == 200
    assert len(lab.api.access_reviews("alice")) == 1


@pytest.mark.parametrize(
    ("no_proxy", "status"),
    [("other.test", 200), ("upstream.test", 502), (".test", 502)],
)
def test_dec_d34_the_upstream_is_reached_through_the_proxy(
    lab: Lab, no_proxy: str, status: int
) -> None:
    proxy = lab.start(
        "--upstream=http://upstream.test:8080",
        env={"HTTP_PROXY": f"http://127.0.0.1:{lab.upstream.port}", "NO_PROXY": no_proxy},
    )
    assert proxy.ask(get("/metrics?a=b"), "alice").status == status
    targets = lab.upstream.targets
    assert len(targets) == (status == 200)
    assert all(target.startswith("http://") and "/metrics?a=b" in target for target in targets)


@pytest.mark.parametrize(("no_proxy", "status"), [("", 502), ("10.0.0.0/8,0.0.0.0/8", 200)])
def test_dec_d34_no_proxy_knows_networks(lab: Lab, no_proxy: str, status: int) -> None:
    """0.0.0.0 is this machine, and no loopback address."""
    proxy = lab.start(
        f"--upstream=http://0.0.0.0:{lab.upstream.port}",
        env={"HTTP_PROXY": f"http://127.0.0.1:{free_port()}", "NO_PROXY": no_proxy},
    )
    assert proxy.ask(get("/metrics"), "alice").status == status
