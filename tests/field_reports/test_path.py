"""Field reports of kind PATH: one view of the target for every check, the same bytes upstream."""

import pytest

from tests.field_reports.harness import Lab, bearer, get
from tests.field_reports.servers import user

IGNORE = "--ignore-paths=/public/*"


def spec_path(lab: Lab) -> object:
    """The path of the only access review."""
    (spec,) = lab.api.access_reviews()
    attributes = spec["nonResourceAttributes"]
    assert isinstance(attributes, dict)
    return attributes["path"]


# --- FR01, DEC-D9: dots that hide behind an encoding -----------------------------------


@pytest.mark.parametrize(
    "target",
    [
        "/public/%2e%2e",
        "/public/%2E.",
        "/public/.%2e",
        "/public/%2e",
        "/public/%2e%2e/",
        "/public/..%2f",
        "/public/a%2f..%2f..%2fsecret",
        "/public/%2e%2e%5csecret",
        "/public/..%5Csecret",
        "/public/a%2f%2fb",
        "/public/%2fb",
        "/public/a%00",
        "/public/%2e%2e;x=1",
        "/public/..;x=1",
        "/public/%2e%2e%3bx=1",
        "/public/a%5c%5cb",
    ],
)
@pytest.mark.parametrize("caller", ["anonymous", "alice"])
def test_fr01_encoded_dot_segments_never_reach_the_upstream(
    lab: Lab, target: str, caller: str
) -> None:
    proxy = lab.start(IGNORE)
    lines = [bearer(lab.token(user(caller)))] if caller == "alice" else []
    with proxy.connect() as client:
        client.send(get(target, *lines))
        assert client.answer().status == 400
        client.send(get("/metrics"))  # DEC-D9: the connection stays open
        assert client.answer().status == 401
    assert lab.upstream.raw == b""


def test_fr01_the_ignored_path_itself_is_open(lab: Lab) -> None:
    assert lab.start(IGNORE).ask(get("/public/a.b")).status == 200
    assert lab.upstream.targets == ["/public/a.b"]
    assert lab.api.asked == []


@pytest.mark.parametrize("target", ["/public/a%2Fb", "/public%2fa", "/public/a%5cb"])
def test_dec_d9_an_encoded_slash_opens_no_ignored_path(lab: Lab, target: str) -> None:
    assert lab.start(IGNORE).ask(get(target)).status == 401
    assert lab.upstream.raw == b""


@pytest.mark.parametrize("target", ["/a%2fb", "/a%5Cb"])
def test_dec_d9_an_encoded_slash_meets_no_static_rule(lab: Lab, target: str) -> None:
    rules = [{"path": path, "verb": "get"} for path in ("/a/b", "/a\\b")]
    proxy = lab.start(config={"authorization": {"static": rules}})
    assert proxy.ask(get(target), "alice").status == 200
    assert len(lab.api.access_reviews("alice")) == 1


@pytest.mark.parametrize(
    ("target", "status"),
    [("/a/b", 200), ("/a%2fb", 404), ("/ab", 404)],
)
def test_dec_d9_an_allowed_path_matches_with_and_without_decoding(
    lab: Lab, target: str, status: int
) -> None:
    proxy = lab.start("--allow-paths=/a/b")
    assert proxy.ask(get(target, bearer(lab.token(user("alice"))))).status == status


@pytest.mark.parametrize("target", ["/a%2f", "/a/b%2F"])
def test_dec_d9_a_decoded_slash_at_the_end_is_no_empty_segment(lab: Lab, target: str) -> None:
    proxy = lab.start()
    assert proxy.ask(get(target, bearer(lab.token(user("alice"))))).status == 200
    assert lab.upstream.targets == [target]


# --- FR03: clean-up redirects ----------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "location"),
    [
        ("//metrics", "/metrics"),
        ("/metrics/../secret", "/secret"),
        ("/./metrics", "/metrics"),
        ("//evil.example/x", "/evil.example/x"),
        ("///evil.example//x", "/evil.example/x"),
        ("//evil.example/../..//x", "/x"),
        ("//metrics?a=b%20c", "/metrics?a=b%20c"),
        ("/a/b/..", "/a"),
        ("/a//", "/a/"),
    ],
)
def test_fr03_an_unclean_path_is_redirected_to_the_same_origin(
    lab: Lab, target: str, location: str
) -> None:
    answer = lab.start().ask(get(target))
    assert (answer.status, answer.values("location")) == (307, [location])
    assert lab.upstream.raw == b""
    assert lab.api.asked == []


@pytest.mark.parametrize(
    "target",
    [
        "//evil.example/%2e%2e",
        "//%2e%2e//evil.example",
        "/%2f/evil.example/..//",
        "//evil.example\\..",
        "/\\evil.example//x",
        "/%5cevil.example//",
        "//\\evil.example/..",
        "http://h//evil.example/",
        "//evil.example:80@h/",
    ],
)
def test_fr03_no_redirect_leaves_the_origin(lab: Lab, target: str) -> None:
    answer = lab.start().ask(get(target))
    assert answer.status in {307, 400, 404}
    for location in answer.values("location"):
        assert location.startswith("/"), location
        assert location[1:2] not in {"/", "\\"}, location
    assert lab.upstream.raw == b""


# --- FR05: the target reaches the upstream as it was sent ------------------------------


@pytest.mark.parametrize(
    ("target", "checked"),
    [
        ("/metrics%23/x", "/metrics#/x"),
        ("/a%3Fb", "/a?b"),
        ("/%2561", "/%61"),
        ("/%41%3B%27", "/A;'"),
        ("/a%20b?x=%26", "/a b"),
        ("/metrics;x=1", "/metrics;x=1"),
        ("/metrics/", "/metrics/"),
        ("/%6detrics", "/metrics"),
        ("/a+b?c=d+e&&;=%zz", "/a+b"),
        ("/caf%C3%A9", "/café"),
        ("/a?b?c=/../d//e", "/a"),
        ("/a?", "/a"),
    ],
)
def test_fr05_the_check_decodes_once_and_the_upstream_sees_the_bytes(
    lab: Lab, target: str, checked: str
) -> None:
    proxy = lab.start()
    assert proxy.ask(get(target, bearer(lab.token(user("alice"))))).status == 200
    assert lab.upstream.targets == [target]
    assert spec_path(lab) == checked


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("/metrics", 200),
        ("/metrics?x=1", 200),
        ("/metrics;x=1", 404),
        ("/metrics/", 404),
        ("/metrics%23", 404),
        ("/metrics%3Fx=1", 404),
    ],
)
def test_fr05_parameters_and_a_trailing_slash_belong_to_the_path(
    lab: Lab, target: str, status: int
) -> None:
    proxy = lab.start("--allow-paths=/metrics")
    assert proxy.ask(get(target, bearer(lab.token(user("alice"))))).status == status
    assert lab.upstream.targets == [target] * (status == 200)


# --- FR06, DEC-D27, DEC-D32: forms of the target, and Host -----------------------------


def test_fr06_an_absolute_target_is_one_path_and_one_host(lab: Lab) -> None:
    proxy = lab.start()
    token = lab.token(user("alice"))
    assert proxy.ask(get("http://evil/metrics?a=b", bearer(token))).status == 200
    assert lab.upstream.targets == ["/metrics?a=b"]
    assert lab.upstream.requests[0].message.values("host") == ["evil"]
    assert spec_path(lab) == "/metrics"


def test_fr06_path_lists_see_the_path_of_an_absolute_target(lab: Lab) -> None:
    assert lab.start(IGNORE).ask(get("http://evil/public/a")).status == 200
    assert lab.start(IGNORE).ask(get("http://evil/public/../metrics")).status in {307, 400}
    assert lab.start(IGNORE).ask(get("http://public/a/metrics")).status == 401
    assert lab.upstream.targets == ["/public/a"]


@pytest.mark.parametrize(
    "head",
    [
        b"GET metrics HTTP/1.1\r\nHost: h\r\n",
        b"GET * HTTP/1.1\r\nHost: h\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: h\r\n",
        b"GET /metrics HTTP/1.1\r\n",
        b"GET /metrics HTTP/1.1\r\nHost: h\r\nHost: h\r\n",
        b"GET /metrics HTTP/1.1\r\nHost: a/b?c\r\n",
        b"GET /metrics HTTP/1.1\r\nHost: a b\r\n",
        b"GET /metrics HTTP/1.1\r\nHost: user@h\r\n",
        b"GET http://evil:x/metrics HTTP/1.1\r\nHost: h\r\n",
        b"GET http://[::1/metrics HTTP/1.1\r\nHost: h\r\n",
        b"GET http://ev%zzil/metrics HTTP/1.1\r\nHost: h\r\n",
        b"GET http:///metrics HTTP/1.1\r\nHost: h\r\n",
        b"GET http://user@evil/metrics HTTP/1.1\r\nHost: h\r\n",
        b"GET http://evil/metrics HTTP/1.1\r\nHost: a/b\r\n",
        b"GET /m#etrics HTTP/1.1 x\r\nHost: h\r\n",
        b"GET /%zz HTTP/1.1\r\nHost: h\r\n",
    ],
    ids=[
        *("no slash", "star", "options star", "no host", "two hosts", "host with path"),
        *(
            "host with blank",
            "host with user",
            "odd port",
            "open bracket",
            "bad escape in the authority",
        ),
        *("no authority", "user in the authority", "odd host beside an authority"),
        *("two blanks", "bad escape"),
    ],
)
def test_fr06_odd_targets_and_hosts_are_refused(lab: Lab, head: bytes) -> None:
    proxy = lab.start()
    token = lab.token(user("alice"))
    with proxy.connect() as client:
        client.send(head + bearer(token).encode() + b"\r\n\r\n")
        assert client.answer().status == 400
    assert lab.upstream.raw == b""
    assert lab.api.asked == []


def test_fr06_an_empty_host_is_tolerated(lab: Lab) -> None:
    proxy = lab.start()
    assert proxy.ask(get("/metrics", bearer(lab.token(user("alice"))), host="")).status == 200
    assert lab.upstream.requests[0].message.values("host") == [f"127.0.0.1:{lab.upstream.port}"]


@pytest.mark.parametrize("target", ["/metrics/../secret", "/metrics", "h:443"])
def test_fr06_connect_is_never_a_tunnel(lab: Lab, target: str) -> None:
    proxy = lab.start()
    token = lab.token(user("alice"))
    assert proxy.ask(get(target, method="CONNECT")).status == 401
    with proxy.connect() as client:
        client.send(get(target, bearer(token), method="CONNECT") + get("/inside"))
        answer = client.answer()
        assert answer.status == 405
        client.end()
        assert b"HTTP/1.1 2" not in client.received
    assert lab.upstream.raw == b""
    asked = [spec["nonResourceAttributes"] for spec in lab.api.access_reviews()]
    assert asked in ([{"path": target, "verb": "*"}], [])


# --- FR08: patterns are those of path.Match --------------------------------------------


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("/public/a", 200),
        ("/public/", 200),
        ("/public/a/b", 401),
        ("/public/x/y/metrics", 401),
        ("/public", 401),
        ("/metrics", 401),
    ],
)
def test_fr08_a_star_does_not_cross_slashes(lab: Lab, target: str, status: int) -> None:
    assert lab.start(IGNORE).ask(get(target)).status == status
    assert lab.upstream.targets == [target] * (status == 200)


def test_fr08_nothing_climbs_out_of_an_ignored_folder(lab: Lab) -> None:
    assert lab.start(IGNORE).ask(get("/public/x/../../metrics")).value("location") == "/metrics"
    assert lab.upstream.raw == b""


@pytest.mark.parametrize(
    ("target", "status"),
    [
        *(("/mbx", 200), ("/max", 404), ("/m/x", 200), ("/kax", 200), ("/k!x", 200)),
        *(("/kbx", 404), ("/qa", 200), ("/q", 404), ("/q/", 404), ("/r5", 200), ("/ra", 404)),
        *(("/s*", 200), ("/sa", 404)),
    ],
)
def test_fr08_classes_are_spelled_as_in_go(lab: Lab, target: str, status: int) -> None:
    proxy = lab.start(r"--allow-paths=/m[^a]x,/k[!a]x,/q?,/r[0-9],/s\*")
    assert proxy.ask(get(target, bearer(lab.token(user("alice"))))).status == status


@pytest.mark.parametrize(
    ("flag", "pattern"),
    [("--ignore-paths", "/["), ("--allow-paths", "/a[]"), ("--ignore-paths", "/[a-]")],
)
def test_fr08_a_bad_pattern_stops_the_start_and_is_named(lab: Lab, flag: str, pattern: str) -> None:
    ended = lab.run(f"{flag}={pattern}")
    assert ended.code == 1
    assert pattern in ended.err
