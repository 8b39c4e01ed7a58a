"""Field reports of kind HDR: who the caller is, is ours to say; credentials stay with us."""

import base64

import pytest

from tests.field_reports.harness import Lab, bearer, get, post
from tests.field_reports.servers import OK, user

FORGED = (
    *("X-Remote-User: admin", "X-Remote-Groups: system:masters", "X-Remote-Group: system:masters"),
    *("X-Remote-Uid: 0", "X-Remote-Extra-a: b", "X-Remote-Extra-: b", "X-REMOTE-USER: admin"),
    *("x_remote_user: admin", "X-Remote_Groups: x", "x_remote_extra_a: b", "X_Remote-Uid: 0"),
)
OFF = ("--ignore-paths=/public/*",)
RENAMED = (
    *OFF,
    "--auth-header-user-field-name=X-Me",
    "--auth-header-groups-field-name=X-My_Groups",
)
ON = "--auth-header-fields-enabled"
OWN_NAMES = ("X-Me: admin", "x_me: admin", "X-My-Groups: a", "X-My_Groups: a", "x-my_groups: a")
SOCKET = "base64url.bearer.authorization.k8s.io."


def upstream_names(lab: Lab) -> set[str]:
    """The header names that the upstream saw, in lower case, without the ordinary ones."""
    (request,) = lab.upstream.requests
    names = {line.partition(":")[0].lower() for line in request.lines}
    return names - {"host", "x-forwarded-for", "content-length"}


# --- FR18, DEC-D5: forged identities ---------------------------------------------------


@pytest.mark.parametrize("flags", [OFF, RENAMED], ids=["usual names", "own names"])
@pytest.mark.parametrize("branch", ["certificate", "token", "ignored"])
def test_fr18_no_forged_identity_reaches_the_upstream(
    lab: Lab, flags: tuple[str, ...], branch: str
) -> None:
    proxy = lab.start(*flags)
    lines = [*FORGED, *(OWN_NAMES if flags is RENAMED else ()), "X-Remote: kept"]
    target = "/public/x" if branch == "ignored" else "/metrics"
    if branch == "token":
        lines.append(bearer(lab.token(user("alice"))))
    answer = proxy.ask(get(target, *lines), "alice" if branch == "certificate" else None)
    assert answer.status == 200
    assert upstream_names(lab) == {"x-remote"}


def test_fr18_with_the_feature_on_only_our_identity_is_there(lab: Lab) -> None:
    proxy = lab.start(ON)
    token = lab.token(user("carol", "g1", "g2"))
    assert proxy.ask(get("/metrics", *FORGED, bearer(token))).status == 200
    (request,) = lab.upstream.requests
    assert request.message.values("x-remote-user") == ["carol"]
    assert request.message.values("x-remote-groups") == ["g1|g2|system:authenticated"]
    assert upstream_names(lab) == {"x-remote-user", "x-remote-groups"}


def test_fr18_an_ignored_path_has_no_identity_with_the_feature_on(lab: Lab) -> None:
    proxy = lab.start(*OFF, ON)
    assert proxy.ask(get("/public/x", *FORGED), "alice").status == 200
    assert upstream_names(lab) == set()


@pytest.mark.parametrize(
    "line",
    [
        *("X-Forwarded-Uri: /public/x", "X-Original-URL: /public/x", "X-Original-URI: /public/x"),
        *("X-Rewrite-URL: /public/x", "X-Forwarded-Prefix: /public", "X-Forwarded-Host: public"),
        *("X-HTTP-Method-Override: OPTIONS", "Forwarded: for=127.0.0.1;host=public"),
        *("X-Forwarded-User: admin", "X-Forwarded-For: 127.0.0.1", "X-Forwarded-Method: OPTIONS"),
    ],
)
def test_fr18_no_decision_reads_routing_headers(lab: Lab, line: str) -> None:
    proxy = lab.start(*OFF)
    assert proxy.ask(get("/metrics", line)).status == 401
    assert proxy.ask(get("/metrics", line, bearer(lab.token(user("alice"))))).status == 200
    (spec,) = lab.api.access_reviews()
    assert spec["nonResourceAttributes"] == {"path": "/metrics", "verb": "get"}
    assert len(lab.upstream.requests) == 1


# --- FR19: Connection against our identity ---------------------------------------------


@pytest.mark.parametrize(
    "lines",
    [
        ("Connection: close, X-Remote-User, X-Remote-Groups",),
        ("Connection:", "Connection: X-Remote-User, X-Remote-Groups"),
        ("Connection: x-remote-user", "Connection: x-remote-groups"),
        ("Connection: X_Remote_User,X_Remote_Groups", "X_Remote_User: admin"),
        ("Connection: keep-alive ,, X-Remote-User\t,X-Remote-Groups", "X-Remote-User: admin"),
        ("Proxy-Connection: X-Remote-User", "Connection: x-remote-user, proxy-connection"),
    ],
)
def test_fr19_connection_does_not_remove_our_identity(lab: Lab, lines: tuple[str, ...]) -> None:
    proxy = lab.start(ON)
    token = lab.token(user("carol", "g1"))
    assert proxy.ask(get("/metrics", *lines, bearer(token))).status == 200
    (request,) = lab.upstream.requests
    assert request.message.values("x-remote-user") == ["carol"]
    assert request.message.values("x-remote-groups") == ["g1|system:authenticated"]


def test_fr19_what_connection_names_is_removed(lab: Lab) -> None:
    proxy = lab.start()
    lines = ("Connection:", "Connection: X-One", "X-One: 1", "X-Two: 2", "Keep-Alive: 5")
    hops = ("Proxy-Authorization: Basic eA==", "TE: gzip", "Proxy-Connection: x", "Upgrade: foo")
    assert proxy.ask(get("/metrics", *lines, *hops), "alice").status == 200
    assert upstream_names(lab) == {"x-two"}


# --- FR21, DEC-D5: credentials ---------------------------------------------------------

LEAKS = (
    *(
        "Authorization: Bearer leakme",
        "authorization: bearer leakme",
        "AUTHORIZATION: BEARER  leakme",
    ),
    *("Authorization: Bearer", "Authorization: bearer\tleakme", "Authorization:  Bearer leakme x"),
)


@pytest.mark.parametrize("branch", ["certificate", "token", "ignored"])
def test_fr21_no_bearer_token_reaches_the_upstream(lab: Lab, branch: str) -> None:
    proxy = lab.start(*OFF)
    first = [bearer(lab.token(user("alice")))] if branch == "token" else []
    target = "/public/x" if branch == "ignored" else "/metrics"
    certificate = "alice" if branch == "certificate" else None
    assert proxy.ask(get(target, *first, *LEAKS), certificate).status == 200
    assert upstream_names(lab) == set()
    assert b"leakme" not in lab.upstream.raw


@pytest.mark.parametrize(("branch", "kept"), [("certificate", 1), ("ignored", 1)])
def test_dec_d5_other_schemes_pass(lab: Lab, branch: str, kept: int) -> None:
    proxy = lab.start(*OFF)
    lines = ("Authorization: Basic eA==", *LEAKS)
    target = "/public/x" if branch == "ignored" else "/metrics"
    assert (
        proxy.ask(get(target, *lines), "alice" if branch == "certificate" else None).status == 200
    )
    assert lab.upstream.requests[0].message.values("authorization") == ["Basic eA=="] * kept


def test_dec_d5_a_flag_keeps_the_token_on_ignored_paths_alone(lab: Lab) -> None:
    proxy = lab.start(*OFF, "--ignore-paths-keep-bearer")
    line = bearer(lab.token(user("alice")))
    assert proxy.ask(get("/public/x", line, *FORGED)).status == 200
    assert upstream_names(lab) == {"authorization"}
    assert proxy.ask(get("/metrics", line)).status == 200
    assert proxy.ask(get("/metrics", line), "alice").status == 200
    for request in lab.upstream.requests[1:]:
        assert request.message.values("authorization") == []


@pytest.mark.parametrize("branch", ["certificate", "token", "ignored"])
def test_dec_d5_no_bearer_subprotocol_reaches_the_upstream(lab: Lab, branch: str) -> None:
    """The upstream declines to switch, so that this is about the request alone."""
    proxy = lab.start(*OFF)
    token = lab.token(user("alice"))
    encoded = base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")
    lab.secrets.add(encoded)
    lines = ["Connection: Upgrade", "Upgrade: websocket"]
    lines += [bearer(token)] if branch == "token" else []
    offers = f"Sec-WebSocket-Protocol: {SOCKET}{encoded}, chat, other"
    target = "/public/x" if branch == "ignored" else "/metrics"
    certificate = "alice" if branch == "certificate" else None
    assert proxy.ask(get(target, *lines, offers), certificate).status == 200
    offered = lab.upstream.requests[0].message.values("sec-websocket-protocol")
    assert ",".join(offered).replace(" ", "") == "chat,other"
    assert encoded.encode() not in lab.upstream.raw


# --- DEC-D6: names that would be read as others ----------------------------------------


def test_dec_d6_a_group_with_the_separator_is_left_out(lab: Lab) -> None:
    proxy = lab.start(ON)
    token = lab.token(user("carol", "a|system:masters", "b"))
    assert proxy.ask(get("/metrics", bearer(token))).status == 200
    (request,) = lab.upstream.requests
    assert request.message.values("x-remote-groups") == ["b|system:authenticated"]
    proxy.wait_for("a|system:masters")


def test_dec_d6_the_separator_is_that_of_the_flag(lab: Lab) -> None:
    proxy = lab.start(ON, "--auth-header-groups-field-separator=,")
    token = lab.token(user("carol", "a|b", "c,d"))
    assert proxy.ask(get("/metrics", bearer(token))).status == 200
    (request,) = lab.upstream.requests
    assert request.message.values("x-remote-groups") == ["a|b,system:authenticated"]


@pytest.mark.parametrize(
    ("name", "group"),
    [
        *(("alice ", "g"), (" alice", "g"), ("alice\t", "g"), ("al\nice", "g"), ("al\x00ice", "g")),
        *(
            ("alice", ""),
            ("alice", " g"),
            ("alice", "g "),
            ("alice", "g\r\nX: y"),
            ("alice", "\x7f"),
        ),
    ],
)
def test_dec_d6_odd_names_are_refused_before_any_access_review(
    lab: Lab, name: str, group: str
) -> None:
    proxy = lab.start(ON)
    assert proxy.ask(get("/metrics", bearer(lab.token(user(name, group))))).status == 401
    assert lab.api.access_reviews() == []
    assert lab.upstream.raw == b""


def test_dec_d6_without_identity_headers_names_do_no_harm(lab: Lab) -> None:
    proxy = lab.start()
    assert proxy.ask(get("/metrics", bearer(lab.token(user("alice ", "a|b"))))).status == 200


# --- FR22: sizes -----------------------------------------------------------------------


def test_fr22_a_big_token_works(lab: Lab) -> None:
    proxy = lab.start()
    token = f"{lab.token()}{'x' * 20_480}"
    lab.secrets.add(token)
    lab.api.tokens[token] = user("alice")
    assert proxy.ask(get("/metrics", bearer(token))).status == 200


def test_fr22_many_headers_all_arrive(lab: Lab) -> None:
    proxy = lab.start()
    lines = [f"X-{number}: {number}" for number in range(200)]
    assert proxy.ask(get("/metrics", *lines), "alice").status == 200
    assert set(lines) <= set(lab.upstream.requests[0].lines)


@pytest.mark.parametrize(
    ("size", "statuses"),
    [(900_000, {200}), (2 << 20, {400, 431})],
    ids=["900 kB", "2 MiB"],
)
@pytest.mark.parametrize("where", ["one header", "many headers", "target"])
def test_fr22_the_head_has_a_bound_that_is_told(
    lab: Lab, size: int, statuses: set[int], where: str
) -> None:
    proxy = lab.start()
    lines = {
        "one header": [f"X-Big: {'x' * size}"],
        "many headers": [f"X-Big-{number}: {'x' * (size // 300)}" for number in range(300)],
        "target": [],
    }[where]
    target = f"/metrics?{'x' * size}" if where == "target" else "/metrics"
    with proxy.connect("alice") as client:
        client.send(get(target, *lines))
        assert client.answer().status in statuses
        if statuses != {200}:
            assert client.end() == b""
    assert bool(lab.upstream.requests) is (statuses == {200})


def test_fr22_a_flag_sets_the_bound(lab: Lab) -> None:
    proxy = lab.start("--max-header-bytes=8192")
    assert proxy.ask(get("/metrics", f"X: {'x' * 4000}"), "alice").status == 200
    assert proxy.ask(get("/metrics", f"X: {'x' * 16000}"), "alice").status in {400, 431}


def test_fr22_a_big_response_header_passes(lab: Lab) -> None:
    proxy = lab.start()
    lab.upstream.script = OK.replace(b"\r\n\r\n", b"\r\nX-Big: " + b"y" * 16_384 + b"\r\n\r\n")
    assert proxy.ask(get("/metrics"), "alice").value("x-big") == "y" * 16_384


# --- DEC-D24, DEC-D35 ------------------------------------------------------------------


def test_dec_d24_no_coding_is_asked_for_and_no_type_is_guessed(lab: Lab) -> None:
    proxy = lab.start()
    packed = b"\x1f\x8b\x08\x00not really gzip"
    lines = b"Content-Encoding: gzip\r\nContent-Length: %d" % len(packed)
    lab.upstream.script = b"HTTP/1.1 200 OK\r\n" + lines + b"\r\n\r\n" + packed
    answer = proxy.ask(get("/metrics"), "alice")
    assert lab.upstream.requests[0].message.values("accept-encoding") == []
    assert (answer.body, answer.value("content-encoding")) == (packed, "gzip")
    assert answer.values("content-type") == []
    assert answer.value("content-length") == str(len(packed))


def test_dec_d24_the_clients_codings_are_passed_on(lab: Lab) -> None:
    proxy = lab.start()
    assert proxy.ask(get("/metrics", "Accept-Encoding: br;q=1, gzip"), "alice").status == 200
    assert lab.upstream.requests[0].message.values("accept-encoding") == ["br;q=1, gzip"]


def test_dec_d35_trailers_are_relayed_without_identity_and_credentials(lab: Lab) -> None:
    proxy = lab.start()
    request = get(
        "/metrics",
        "Transfer-Encoding: chunked",
        "Trailer: X-Sum, X-Remote-User, Authorization",
        "TE: trailers",
        method="POST",
    )
    trailers = [*FORGED, *LEAKS, "X-Sum: 7", "X-Empty:"]
    body = b"3\r\nabc\r\n0\r\n" + "\r\n".join([*trailers, "", ""]).encode()
    assert proxy.ask(request + body, "alice").status == 200
    message = lab.upstream.requests[0].message
    assert message.body == b"abc"
    assert [(name.lower(), value) for name, value in message.trailers] == [
        ("x-sum", "7"),
        ("x-empty", ""),
    ]
    assert message.values("te") == ["trailers"]
    assert b"leakme" not in lab.upstream.raw


def test_dec_d35_trailers_are_no_place_for_framing(lab: Lab) -> None:
    proxy = lab.start()
    request = get("/metrics", "Transfer-Encoding: chunked", method="POST")
    with proxy.connect("alice") as client:
        client.send(request + b"3\r\nabc\r\n0\r\nContent-Length: 9\r\nHost: evil\r\n\r\n")
        client.send(post("/next", b"x", "Connection: close"))
        assert client.answer().status in {200, 400}
        client.end()
    for seen in lab.upstream.requests:
        names = {name.lower() for name, _ in seen.message.trailers}
        assert not names & {"content-length", "transfer-encoding", "host"}
