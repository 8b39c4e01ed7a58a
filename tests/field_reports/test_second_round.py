"""Field reports FR75 to FR101 and decisions that came with them: files, answers, log, pages, life.

Certificates are in test_certificates.py.
"""

import contextlib
import json
import platform
import re
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import pytest

from tests.conformance.wire import free_port
from tests.field_reports.harness import (
    Answer,
    Client,
    Lab,
    Proxy,
    bearer,
    client_context,
    get,
    server_context,
)
from tests.field_reports.http2 import http2, request
from tests.field_reports.servers import DENIED, OK, Arrived, FakeApi, refused, user
from tests.field_reports.watching import until

OPEN = "--ignore-paths=/*"
ALONE = "!--kubeconfig"
FAST = "--tls-reload-interval=100ms"
RULES = {
    "authorization": {"static": [{"path": "/metrics", "verb": "get", "user": {"name": "alice"}}]}
}


def errors(text: str) -> list[str]:
    return [line for line in text.splitlines() if line[:1] == "E"]


def warnings(text: str) -> list[str]:
    return [line for line in text.splitlines() if line[:1] == "W"]


def page(proxy: Proxy, port: int, target: str, *lines: str, certificate: str = "") -> Answer:
    """A page of the endpoints port."""
    with proxy.connect(certificate or None, port=port) as client:
        client.send(get(target, *lines))
        return client.answer()


# --- FR75, FR76, DEC-D2: keys of the authorization file ----------------------------------


RESOURCE = {"namespace": "monitoring", "apiVersion": "v1", "resource": "services"}
IGNORED = {"verb": "get", "resourceName": "prometheus"}


@pytest.mark.parametrize("key", IGNORED)
@pytest.mark.parametrize("form", ["one", "list"])
def test_fr75_verb_and_resource_name_are_ignored_with_a_warning(
    lab: Lab, key: str, form: str
) -> None:
    attributes = RESOURCE | {key: IGNORED[key]}
    section = attributes if form == "one" else [attributes]
    proxy = lab.start(config={"authorization": {"resourceAttributes": section}}, is_own=True)
    told = until(lambda: [line for line in warnings(proxy.text()) if key in line], "warning")
    assert len(told) == 1
    assert "resourceAttributes" in told[0]
    for method, verb in {"GET": "get", "POST": "create", "HEAD": "*"}.items():
        answer = proxy.ask(get("/x", method=method), "alice", to_head=method == "HEAD")
        assert answer.status == 200
        asked = lab.api.access_reviews()[-1]["resourceAttributes"]
        assert isinstance(asked, dict)
        assert asked["verb"] == verb
        assert asked["resource"] == "services"
        assert asked.get("name", "") == ""


def test_fr75_name_works_as_ever(lab: Lab) -> None:
    attributes = RESOURCE | {"name": "prometheus"}
    proxy = lab.start(config={"authorization": {"resourceAttributes": attributes}})
    assert proxy.ask(get("/x"), "alice").status == 200
    asked = lab.api.access_reviews()[-1]["resourceAttributes"]
    assert isinstance(asked, dict)
    assert asked["name"] == "prometheus"


@pytest.mark.parametrize(
    ("section", "key"),
    [
        pytest.param(
            {"resourceAttributes": RESOURCE | {"resourcename": "x", "verbs": "get"}},
            "verbs",
            id="FR75 any other key of resourceAttributes",
        ),
        pytest.param(
            {"endpoints": [{"path": "/metrics", "resourceAttributes": RESOURCE}]},
            "endpoints",
            id="FR76 endpoints",
        ),
        pytest.param({"statik": []}, "statik", id="FR76 a section that is misspelt"),
        pytest.param({"static": [], "rules": None}, "rules", id="FR76 a section that is empty"),
    ],
)
def test_dec_d2_an_unknown_key_that_may_hold_a_check_fails_at_start_up(
    lab: Lab, section: object, key: str
) -> None:
    """At this step `endpoints` is as unknown as any section."""
    ended = lab.run(config={"authorization": section})
    assert ended.code == 1
    told = [line for line in errors(ended.err) if key in line]
    assert len(told) == 1
    assert "authorization.yaml" in told[0]


def test_dec_d2_an_unknown_key_beside_the_section_is_warned_about(lab: Lab) -> None:
    text = json.dumps({"authorization": {}, "authorisation": {}})
    proxy = lab.start(config=text, is_own=True)
    told = [line for line in warnings(proxy.text()) if "authorisation" in line]
    assert len(told) == 1
    assert "authorization" in told[0].replace("authorization.yaml", "")
    ended = lab.run("--strict-config", config=text)
    assert ended.code == 1
    assert "authorisation" in ended.err


# --- FR96: rules that never match -------------------------------------------------------


def test_fr96_a_rule_that_never_matches_is_warned_about(lab: Lab) -> None:
    rules = [
        {"path": "/metrics", "verb": "GET"},
        {"path": "/metrics/"},
        {"path": "metrics"},
        {"path": "/metrics", "verb": "get"},
    ]
    proxy = lab.start(config={"authorization": {"static": rules}}, is_own=True)
    text = proxy.text()
    told = [[line for line in warnings(text) if f"static[{number}]" in line] for number in range(4)]
    assert [len(lines) for lines in told] == [1, 1, 1, 0]
    for lines, meant in zip(told, ("get", "/metrics", "/metrics"), strict=False):
        assert re.search(f"(?<![a-z/]){meant}(?![a-z/])", lines[0]), lines[0]


# --- FR97, FR98: flags ------------------------------------------------------------------


@pytest.mark.parametrize("address", ["localhost:9100", "node-exporter:9100", "127.0.0.1:9100"])
def test_fr97_an_upstream_without_scheme_fails_at_start_up_with_a_hint(
    lab: Lab, address: str
) -> None:
    ended = lab.run(f"--upstream={address}", OPEN)
    assert ended.code == 1
    assert len(errors(ended.err)) == 1
    assert f"http://{address}/" in ended.err


def messages(text: str) -> list[str]:
    """Errors and warnings."""
    return errors(text) + warnings(text)


NOTHING_ELSE = ("!--upstream", "!--secure-listen-address", ALONE)
ONE_MISTAKE = {
    "a misspelt command": (["audti", *NOTHING_ELSE], "audit"),
    "a misspelt upstream": (["--upstrem=http://127.0.0.1:1", "!--upstream"], "--upstream"),
    "a misspelt listen address": (
        ["--secure-listen-adress=127.0.0.1:0", "!--secure-listen-address"],
        "--secure-listen-address",
    ),
    "a misspelt kubeconfig": (["--kubeconfg=/k", ALONE], "--kubeconfig"),
    "a misspelt file of rules": (["--config-fle=/rules", ALONE], "--config-file"),
    "a file of rules that is not there": (["--config-file=/no/rules", ALONE], "/no/rules"),
    "a directory of rules": (["--config-file=/", ALONE], "--config-file"),
    "a client CA that is not there": (["--client-ca-file=/no/ca"], "/no/ca"),
    "a kubeconfig that is not there": (["--kubeconfig=/no/kubeconfig"], "/no/kubeconfig"),
    "an upstream CA that is not there": (
        ["--upstream=https://127.0.0.1:1", "--upstream-ca-file=/no/ca"],
        "/no/ca",
    ),
}


@pytest.mark.parametrize("kind", ONE_MISTAKE)
def test_fr98_one_mistake_has_one_message(lab: Lab, kind: str) -> None:
    """What is left out (`!`) was meant by the misspelt word, or would follow the command."""
    flags, named = ONE_MISTAKE[kind]
    config = RULES if "client CA" in kind or "misspelt kubeconfig" in kind else None
    ended = lab.run(*flags, config=config)
    assert ended.code == 1
    assert len(messages(ended.err)) == 1, ended.err
    assert named in ended.err


@pytest.mark.parametrize(
    "text", ["authorization: [", "authorization:\n\tstatic: []\n", "authorization: {static: [7]}"]
)
def test_fr98_a_bad_file_of_rules_has_one_message(lab: Lab, text: str) -> None:
    """Whether an API server is needed cannot be known then (D20)."""
    ended = lab.run(ALONE, config=text)
    assert ended.code == 1
    assert len(messages(ended.err)) == 1, ended.err
    assert "authorization.yaml" in ended.err


def test_fr98_a_misspelt_command_is_named_with_the_nearest(lab: Lab) -> None:
    ended = lab.run("audti", *NOTHING_ELSE)
    assert "audti" in ended.err
    assert "audit" in ended.err.replace("audti", "")


# --- FR90: a port that the system gives out ----------------------------------------------


def test_fr90_the_log_names_the_port_that_was_given_out(lab: Lab) -> None:
    any_port = ("--secure-listen-address=127.0.0.1:0", "--insecure-listen-address=127.0.0.1:0")
    proxy = lab.world.launch([OPEN, ALONE, *any_port], RULES, {}, ())
    lab.used.append(proxy)
    try:
        text = proxy.wait_for("Listening securely on")
        until(lambda: len(set(ports_in(proxy))) == 2, f"two ports in {text}")
        secure = int(re.findall(r"Listening securely on 127\.0\.0\.1:(\d+)", text)[0])
        insecure = (set(ports_in(proxy)) - {secure}).pop()
        for port, is_plain in ((secure, False), (insecure, True)):
            with proxy.connect(port=port, is_plain=is_plain) as client:
                client.send(get())
                assert client.answer().status == 200
    finally:
        assert proxy.stop() == 0


def ports_in(proxy: Proxy) -> list[int]:
    """The ports other than 0 in the lines about listening."""
    lines = [line for line in proxy.text().splitlines() if "istening" in line]
    found = re.findall(r"127\.0\.0\.1:(\d+)", "\n".join(lines))
    return [int(port) for port in found if int(port)]


# --- FR91: signals while it starts ------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_fr91_a_signal_at_any_moment_of_the_start_ends_it_with_0(
    lab: Lab, number: signal.Signals
) -> None:
    """Some moments after the first line; which one of the start that is never decides."""
    started = []
    for delay_seconds in (0.0, 0.02, 0.05, 0.1, 0.2):
        proxy = lab.world.launch([OPEN, "--logtostderr=true"], None, {}, ())
        started.append(proxy)
        lab.used.append(proxy)
        until(proxy.text, "first line")
        time.sleep(delay_seconds)
        proxy.process.send_signal(number)
    try:
        assert [proxy.process.wait(30) for proxy in started] == [0] * len(started)
    finally:
        for proxy in started:
            proxy.stop()


# --- FR87: the start-up gate waits for all that it needs ---------------------------------


def waiting(lab: Lab, *flags: str) -> Proxy:
    """A proxy whose gate is closed; it accepts nowhere yet."""
    proxy = lab.world.launch([*flags], None, {}, ())
    lab._own.append(proxy)
    lab.used.append(proxy)
    return proxy


def test_fr87_a_taken_endpoints_port_is_waited_for(lab: Lab, tmp_path: Path) -> None:
    manifest = tmp_path / "old.yaml"
    manifest.touch()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        endpoints = taken.getsockname()[1]
        flags = (f"--wait-for-absent={manifest}", f"--proxy-endpoints-port={endpoints}")
        proxy = waiting(lab, OPEN, *flags)
        until(
            lambda: f":{endpoints}" in proxy.text() or proxy.process.poll() is not None,
            "line about the port",
        )
        assert proxy.process.poll() is None, proxy.text()
    until(lambda: answers(proxy, endpoints), "endpoints port")
    manifest.unlink()
    until(lambda: answers(proxy, proxy.port), "secure port")


def answers(proxy: Proxy, port: int) -> bool:
    """Whether the port serves by now, if only a refusal."""
    assert proxy.process.poll() is None, proxy.text()
    try:
        return page(proxy, port, "/healthz").status in {200, 401}
    except ConnectionRefusedError:
        return False


def test_fr87_a_missing_client_ca_is_waited_for_and_shown(lab: Lab, tmp_path: Path) -> None:
    manifest, ca = tmp_path / "old.yaml", tmp_path / "ca.crt"
    manifest.touch()
    endpoints = free_port()
    proxy = waiting(
        lab,
        *(f"--wait-for-absent={manifest}", f"--client-ca-file={ca}"),
        f"--proxy-endpoints-port={endpoints}",
    )
    until(lambda: answers(proxy, endpoints), "endpoints port")
    token = bearer(lab.token(user("admin")))
    manifest.unlink()
    until(
        lambda: str(ca) in page(proxy, endpoints, "/readyz/startup-gate", token).body.decode(),
        "file on the page",
    )
    assert str(ca) in proxy.text()
    ca.write_bytes((lab.certificates / "client-ca.crt").read_bytes())
    until(lambda: answers(proxy, proxy.port), "secure port")
    assert proxy.ask(get("/metrics"), "alice").status == 200


@pytest.mark.parametrize("content", [b"", b"garbage\n"], ids=repr)
def test_fr87_a_client_ca_that_is_bad_is_not_waited_for(
    lab: Lab, tmp_path: Path, content: bytes
) -> None:
    manifest, ca = tmp_path / "old.yaml", tmp_path / "ca.crt"
    manifest.touch()
    ca.write_bytes(content)
    ended = lab.run(f"--wait-for-absent={manifest}", f"--client-ca-file={ca}")
    assert ended.code == 1
    assert str(ca) in ended.err


# --- FR79: a client that ends its sending ------------------------------------------------


@pytest.mark.parametrize(
    "framing", ["Content-Length: 100", "Transfer-Encoding: chunked"], ids=["length", "chunked"]
)
@pytest.mark.parametrize("is_plain", [True, False], ids=["plain", "TLS"])
def test_fr79_a_body_that_the_client_cuts_short_is_no_reset(
    lab: Lab,
    is_plain: bool,  # noqa: FBT001
    framing: str,
) -> None:
    port = free_port()
    proxy = lab.start(
        OPEN, ALONE, f"--insecure-listen-address=127.0.0.1:{port}", config=RULES, is_own=True
    )
    with proxy.connect(is_plain=is_plain, port=port if is_plain else None) as client:
        begun = b"7\r\n1234567\r\n" if "chunked" in framing else b"1234567"
        client.send(get("/x", framing, method="POST") + begun)
        until(lambda: lab.upstream.requests, "request upstream")
        client.half_close()
        received = b""
        while block := client.connection.recv(65536):  # raises ConnectionResetError at a reset
            received += block
    assert received == b"" or received.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 502 "))


# --- FR80: an upgrade that the upstream's protocol cannot take -----------------------------


def test_fr80_an_upgrade_over_h2c_is_counted(lab: Lab) -> None:
    endpoints = free_port()
    proxy = lab.start(
        *("--allow-paths=/ws", "--upstream-force-h2c", f"--proxy-endpoints-port={endpoints}"),
        is_own=True,
    )

    def failures() -> float:
        text = page(proxy, endpoints, "/metrics", certificate="alice").body.decode()
        name = r"kube_rbac_proxy_upstream_failures_total\{[^}]*\} (\S+)"
        return sum(map(float, re.findall(name, text)))

    before = failures()
    upgrade = ("Connection: Upgrade", "Upgrade: websocket")
    assert proxy.ask(get("/ws", *upgrade), "alice").status == 502
    until(lambda: failures() == before + 1, "count of the failure")
    assert len([line for line in errors(proxy.text()) if "proxy error" in line]) == 1
    cause = page(proxy, endpoints, "/readyz/upstream", certificate="alice").body.decode()
    assert re.search("upgrade|HTTP/2", cause), cause


# --- FR94: an upstream that never answers -------------------------------------------------


THIRTY = re.compile(r"\b30(\.\d+)? ?s")


@pytest.fixture(scope="module")
def silent_upstream() -> Iterator[socket.socket]:
    """Accepts and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


@pytest.mark.e2e  # after 30 s
def test_fr94_a_long_wait_for_the_upstream_is_logged_and_does_not_end(
    lab: Lab, silent_upstream: socket.socket
) -> None:
    """The one test here that takes half a minute: so long is waited before the line."""
    port = silent_upstream.getsockname()[1]
    flags = (OPEN, ALONE, f"--upstream=http://127.0.0.1:{port}", "--v=2")
    proxy = lab.start(*flags, config=RULES, is_own=True)
    mark = len(proxy.text())
    with proxy.connect() as client:
        client.send(get("/slow"))
        line = until(
            lambda: [line for line in proxy.text()[mark:].splitlines() if THIRTY.search(line)],
            "line about the wait",
            seconds=90,
        )[0]
        assert "/slow" in line
        client.connection.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.receive()


# --- FR95, DEC-D20: no API server ---------------------------------------------------------


@pytest.fixture(name="lonely")
def _lonely(lab: Lab) -> Proxy:
    """Client CA and rules, and no API server; alice may get /metrics."""
    return lab.start(ALONE, config=RULES)


def test_dec_d20_the_start_warns(lonely: Proxy) -> None:
    told = [line for line in warnings(lonely.text()) if re.search("kubeconfig|API server", line)]
    assert len(told) == 1
    assert "500" not in told[0].partition("] ")[2], "what no rule allows is a 403"


@pytest.mark.parametrize(
    ("method", "path", "who"),
    [
        ("GET", "/metrics", "bob"),
        ("POST", "/metrics", "alice"),
        ("GET", "/other", "alice"),
    ],
    ids=["user", "verb", "path"],
)
def test_fr95_what_no_rule_allows_is_forbidden(
    lab: Lab, lonely: Proxy, method: str, path: str, who: str
) -> None:
    answer = lonely.ask(get(path, method=method), who)
    assert answer.status == 403
    assert f"user={who}" in answer.body.decode()
    with http2(lonely, certificate=who) as connection:
        assert connection.ask(request(path, method=method)).status == 403
    assert lab.upstream.requests == []


def test_fr95_what_a_rule_allows_is_served_and_a_token_is_not(lab: Lab, lonely: Proxy) -> None:
    assert lonely.ask(get("/metrics"), "alice").status == 200
    assert lonely.ask(get("/metrics", bearer(lab.token()))).status == 401
    assert lonely.ask(get("/metrics")).status == 401


def test_fr95_a_page_that_no_rule_allows_is_forbidden(lab: Lab) -> None:
    endpoints = free_port()
    proxy = lab.start(ALONE, f"--proxy-endpoints-port={endpoints}", config=RULES, is_own=True)
    assert page(proxy, endpoints, "/statusz", certificate="alice").status == 403


def test_fr95_an_api_server_that_is_configured_and_fails_is_a_500(lab: Lab) -> None:
    away = free_port()
    kubeconfig = lab.world.write_kubeconfig("away", f"http://127.0.0.1:{away}")
    proxy = lab.start(f"--kubeconfig={kubeconfig}", config=RULES)
    assert proxy.ask(get("/metrics"), "bob").status == 500


# --- FR99: a refusal is a line ------------------------------------------------------------


@pytest.fixture(name="quiet")
def _quiet(lab: Lab) -> Proxy:
    """At the default level, and with nothing more to say about its start."""
    proxy = lab.start(is_own=True)
    proxy.wait_for("Listening securely on")
    return proxy


def line_of(proxy: Proxy, mark: int, *words: str) -> str:
    """The one line since `mark` with all these words."""

    def found() -> list[str]:
        lines = proxy.text()[mark:].splitlines()
        return [line for line in lines if all(word in line for word in words)]

    lines = until(found, f"line with {words}")
    assert len(lines) == 1, lines
    return lines[0]


def test_fr99_a_denied_request_is_one_line_with_all_that_decided(lab: Lab, quiet: Proxy) -> None:
    lab.api.on_access = lambda _: DENIED
    mark = len(quiet.text())
    query = f"access_token={lab.token()}"  # no secret may be logged
    assert quiet.ask(get(f"/some/path?{query}"), "alice").status == 403
    line = line_of(quiet, mark, "/some/path")
    for word in ("403", "127.0.0.1", "alice", "g1", "g2", "get"):
        assert re.search(rf"\b{re.escape(word)}\b", line), (word, line)
    assert re.search("(?i)api.?server|access.?review", line), line
    assert len(quiet.text()[mark:].splitlines()) == 1
    with http2(quiet, certificate="alice") as connection:
        assert connection.ask(request("/over/http2")).status == 403
    assert "403" in line_of(quiet, mark, "/over/http2")


def test_fr99_the_attributes_that_were_asked_are_in_the_line(lab: Lab) -> None:
    proxy = lab.start(config={"authorization": {"resourceAttributes": RESOURCE}}, is_own=True)
    lab.api.on_access = lambda _: DENIED
    mark = len(proxy.text())
    assert proxy.ask(get("/some/path"), "alice").status == 403
    line = line_of(proxy, mark, "/some/path")
    assert "services" in line
    assert "monitoring" in line


def test_fr99_a_refused_certificate_is_named_by_subject_issuer_and_cause(quiet: Proxy) -> None:
    for who, issuer in {"stranger": "other-ca", "expired": "client-ca"}.items():
        mark = len(quiet.text())
        assert quiet.ask(get(f"/{who}-path"), who).status == 401
        line = line_of(quiet, mark, f"/{who}-path")
        for word in ("401", "127.0.0.1", "alice", issuer, "get"):
            assert re.search(rf"\b{re.escape(word)}\b", line), (word, line)
        if who == "expired":
            assert "expired" in line.replace("expired-path", "")


def test_fr99_a_request_without_credentials_and_one_with_a_bad_token_are_a_line_each(
    lab: Lab, quiet: Proxy
) -> None:
    """That no token is in them is asserted after each test."""
    token = lab.token(refused("no such token"))
    for path, lines in {"/bare": (), "/token": (bearer(token),)}.items():
        mark = len(quiet.text())
        assert quiet.ask(get(path, *lines)).status == 401
        line = line_of(quiet, mark, path)
        assert "401" in line
        assert "127.0.0.1" in line
        assert re.search(r"\bget\b", line)
    assert "no such token" in line


def test_fr99_lines_are_limited_by_kind_and_peer(lab: Lab, quiet: Proxy) -> None:
    """A flood of one kind from one peer hides neither another kind nor another peer."""
    lab.api.on_access = lambda _: DENIED
    began_at = time.monotonic()
    with connected(quiet, "127.0.0.2") as flood:
        for number in range(300):
            flood.send(get(f"/flood/{number}"))
            assert flood.answer().status == 401
            if number == 290:
                assert quiet.ask(get("/other-peer")).status == 401
                with connected(quiet, "127.0.0.2", "alice") as other:
                    other.send(get("/other-kind"))
                    assert other.answer().status == 403
    seconds = int(time.monotonic() - began_at) + 2
    line_of(quiet, 0, "/other-peer", "401")
    line_of(quiet, 0, "/other-kind", "403")
    assert 0 < quiet.text().count("/flood/") <= 10 * seconds


def test_fr99_a_failure_of_the_api_server_names_its_address(lab: Lab) -> None:
    """One that is asked for a token, and one that is asked for an access."""
    away = free_port()
    kubeconfig = lab.world.write_kubeconfig("away-too", f"http://127.0.0.1:{away}")
    proxy = lab.start(f"--kubeconfig={kubeconfig}", is_own=True)
    for path, lines, status, certificate in (
        ("/a", (bearer(lab.token()),), 401, None),
        ("/b", (), 500, "alice"),
    ):
        mark = len(proxy.text())
        assert proxy.ask(get(path, *lines), certificate).status == status
        until(lambda: f"127.0.0.1:{away}" in proxy.text()[mark:], "address")  # noqa: B023


def connected(proxy: Proxy, source: str, certificate: str = "") -> Client:
    """A connection from this address of loopback."""
    raw = socket.create_connection(("127.0.0.1", proxy.port), 30, source_address=(source, 0))
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    context = client_context(proxy.certificates / certificate if certificate else None)
    return Client(context.wrap_socket(raw, server_hostname="proxy.test"))


# --- FR89, FR101: pages -------------------------------------------------------------------


@pytest.fixture(name="endpoints", scope="module")
def _endpoints() -> int:
    return free_port()


MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


def test_fr89_the_platform_is_named_as_go_names_it(lab: Lab, endpoints: int) -> None:
    proxy = lab.start(f"--proxy-endpoints-port={endpoints}")
    version = json.loads(page(proxy, endpoints, "/version", certificate="alice").body)
    machine = platform.machine()
    go = f"linux/{MACHINES.get(machine, machine)}"
    assert version["platform"] == go
    assert not version.get("buildDate", "").startswith("1970")
    assert re.fullmatch("([0-9a-f]{40})?", version.get("gitCommit", ""))
    metrics = page(proxy, endpoints, "/metrics", certificate="alice").body.decode()
    line = next(line for line in metrics.splitlines() if line.startswith("kubernetes_build_info{"))
    assert f'platform="{go}"' in line
    assert '"1970' not in line


@pytest.mark.parametrize("target", ["statusz", "flagz"])
def test_fr101_a_406_names_whole_media_types(lab: Lab, endpoints: int, target: str) -> None:
    proxy = lab.start(f"--proxy-endpoints-port={endpoints}")
    accept = "Accept: application/json"
    answer = page(proxy, endpoints, f"/{target}", accept, certificate="alice")
    assert answer.status == 406
    told = answer.body.decode()
    types = re.findall(r"application/(?:json|yaml)[^\s,]*", told.replace("\\u003d", "="))
    assert types, told
    kind = target.capitalize()
    assert any("v=v1beta1" in media_type for media_type in types)
    for media_type in types:
        for part in (r"v=v1(alpha|beta)1\b", r"g=config\.k8s\.io\b", rf"as={kind}\b"):
            assert re.search(part, media_type), told


# --- DEC-D8: upgrades to HTTP -------------------------------------------------------------


OFFERS = ["h2", "HTTP/2.0", "TLS/1.2, HTTP/1.1", "TLS/1.0", "websocket, HTTP/2.0", "http/1.1"]
EVERY_OFFER = pytest.mark.parametrize("offer", [*OFFERS, "h2c", "websocket, h2c"])


@EVERY_OFFER
def test_dec_d8_an_upgrade_to_http_without_a_body_goes_on_as_plain_http(
    lab: Lab, offer: str
) -> None:
    proxy = lab.start(OPEN)
    with proxy.connect() as client:
        client.send(get("/a", "Connection: Upgrade", f"Upgrade: {offer}") + get("/b"))
        assert [client.answer().status, client.answer().status] == [200, 200]
    assert lab.upstream.targets == ["/a", "/b"]
    assert lab.upstream.requests[0].message.values("upgrade") == []


@EVERY_OFFER
@pytest.mark.parametrize("framing", ["Content-Length: 4", "Transfer-Encoding: chunked"])
def test_dec_d8_an_upgrade_to_http_with_a_body_is_a_400_and_the_end(
    lab: Lab, offer: str, framing: str
) -> None:
    proxy = lab.start(OPEN)
    body = b"body" if "Length" in framing else b"4\r\nbody\r\n0\r\n\r\n"
    head = get("/a", "Connection: Upgrade", f"Upgrade: {offer}", framing, method="POST")
    with proxy.connect() as client:
        client.send(head + body + get("/b"))
        assert client.answer().status == 400
        assert client.end() == b""
    assert lab.upstream.raw == b""


def test_dec_d8_an_upgrade_that_is_tunnelled_may_have_a_body(lab: Lab) -> None:
    proxy = lab.start(OPEN)
    lines = ("Connection: Upgrade", "Upgrade: websocket", "Content-Length: 4")
    with proxy.connect() as client:
        client.send(get("/a", *lines, method="POST") + b"body")
        assert client.answer().status == 200  # the upstream declines
    assert lab.upstream.requests[0].message.body == b"body"


# --- DEC-D36: `Connection:` names the header that is reviewed -----------------------------


REVIEWED = {
    "authorization": {
        "rewrites": {"byHttpHeader": {"name": "x-namespace"}},
        "resourceAttributes": RESOURCE | {"namespace": "{{ .Value }}"},
    }
}


@pytest.mark.parametrize(
    "connection", ["x-namespace", "X-Namespace", "close, x-namespace", "keep-alive,X-NAMESPACE "]
)
def test_dec_d36_a_reviewed_header_that_connection_names_is_none(lab: Lab, connection: str) -> None:
    proxy = lab.start(config=REVIEWED)
    answer = proxy.ask(get("/x", "X-Namespace: never-asked", f"Connection: {connection}"), "alice")
    assert answer.status == 400
    assert answer.body == proxy.ask(get("/x"), "alice").body
    assert lab.api.access_reviews() == []
    assert lab.upstream.requests == []


def test_dec_d36_another_header_may_be_named(lab: Lab) -> None:
    proxy = lab.start(config=REVIEWED)
    answer = proxy.ask(get("/x", "X-Namespace: a", "X-Other: b", "Connection: x-other"), "alice")
    assert answer.status == 200
    assert lab.upstream.requests[0].message.values("x-other") == []


def test_dec_d36_over_http_2_likewise(lab: Lab) -> None:
    proxy = lab.start(config=REVIEWED)
    with http2(proxy, certificate="alice") as connection:
        good = request("/x", ("x-namespace", "over-http2"))
        assert connection.ask(good).status == 200
        assert connection.ask([*good, ("connection", "x-namespace")]).status in {0, 400}
    assert len(lab.api.access_reviews()) == 1
    assert len(lab.upstream.requests) == 1


# --- DEC-D38: no failure behind ends the process ------------------------------------------


def by_removal(path: Path) -> None:
    path.unlink()


def by_directory(path: Path) -> None:
    """Unreadable for everybody, root too."""
    path.unlink()
    path.mkdir()


def by_loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


def by_foreign_bytes(path: Path) -> None:
    path.write_bytes(bytes(range(256)) * 64)


def by_file_on_the_way(path: Path) -> None:
    """A directory on the way to the file is a file now."""
    path.unlink()
    path.parent.rmdir()
    path.parent.touch()


SPOILS = [by_removal, by_directory, by_loop, by_foreign_bytes, by_file_on_the_way]
EVERY_SPOIL = pytest.mark.parametrize("spoil", SPOILS, ids=lambda spoil: spoil.__name__)


def restore(path: Path, content: bytes) -> None:
    if path.parent.is_file():
        path.parent.unlink()
    path.parent.mkdir(exist_ok=True)
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    path.unlink(missing_ok=True)
    path.write_bytes(content)


@EVERY_SPOIL
def test_dec_d38_files_that_go_bad_together_do_not_end_the_process(
    lab: Lab, spoil: Callable[[Path], None]
) -> None:
    """Client CA, serving pair and the upstream's CA, each in a folder of its own."""
    contents = {
        "ca": (lab.certificates / "client-ca.crt").read_bytes(),
        "pair": (lab.certificates / "server.pem").read_bytes(),
        "upstream": (lab.certificates / "server-ca.crt").read_bytes(),
    }
    files = {name: lab.world.folder / f"d38-{name}" / "file" for name in contents}
    for name, file in files.items():
        restore(file, contents[name])
    proxy = lab.start(
        *(
            ALONE,
            FAST,
            f"--client-ca-file={files['ca']}",
            f"--upstream-ca-file={files['upstream']}",
        ),
        *(f"--tls-cert-file={files['pair']}", f"--tls-private-key-file={files['pair']}"),
        config=RULES,
    )
    until(lambda: proxy.ask(get("/metrics"), "alice").status == 200, "trust in alice")
    mark = len(proxy.text())
    for file in files.values():
        spoil(file)
    for name in ("ca", "pair"):
        until(lambda: str(files[name]) in proxy.text()[mark:], f"line about {name}")  # noqa: B023
    assert proxy.ask(get("/metrics"), "alice").status == 200, "the last good state holds"
    assert len(proxy.text()[mark:].splitlines()) <= 6, "one line for each change of state"
    for name, file in files.items():
        restore(file, contents[name])
    other = (lab.certificates / "other-ca.crt").read_bytes()
    restore(files["ca"], contents["ca"] + other)
    until(lambda: proxy.ask(get("/metrics"), "stranger").status == 200, "the next good state")
    assert proxy.process.poll() is None


@EVERY_SPOIL
def test_dec_d38_a_token_file_that_goes_bad_does_not_end_the_process(
    lab: Lab, tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    token = tmp_path / "folder" / "token"
    lab.secrets |= {"secret-own-first", "secret-own-second"}
    restore(token, b"secret-own-first")
    with contextlib.closing(FakeApi(tls=server_context(lab.certificates / "api"))) as api:
        accepted = ["Bearer secret-own-first"]
        api.on_token = lambda call: user("alice") if call.credential in accepted else refused()
        credential = {"tokenFile": str(token)}
        kubeconfig = lab.world.write_kubeconfig(
            f"d38-{api.port}", f"https://127.0.0.1:{api.port}", credential, lab.world.api_ca
        )
        proxy = lab.start(f"--kubeconfig={kubeconfig}", is_own=True)
        assert proxy.ask(get("/x", bearer(lab.token()))).status == 200
        spoil(token)
        assert proxy.ask(get("/x", bearer(lab.token()))).status in {200, 401}
        restore(token, b"secret-own-second")
        accepted[:] = ["Bearer secret-own-first", "Bearer secret-own-second"]
        until(lambda: proxy.ask(get("/x", bearer(lab.token()))).status == 200, "recovery")
        assert proxy.process.poll() is None


# --- DEC-D52: room at --max-connections ----------------------------------------------------


class Crowd:
    """Connections that a test opens, each from an address of loopback, and ends with it."""

    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def kept(self, source: str = "127.0.0.1") -> Client:
        """One whose first request is over."""
        client = self._stack.enter_context(connected(self.proxy, source))
        assert scrapes(client)
        return client

    def silent(self, source: str = "127.0.0.1") -> Client:
        """One that says nothing, not even a handshake."""
        raw = socket.create_connection(("127.0.0.1", self.proxy.port), 30, (source, 0))
        return self._stack.enter_context(Client(raw))

    def shaken(self, source: str = "127.0.0.1") -> Client:
        """One whose handshake is over and which asks nothing."""
        return self._stack.enter_context(connected(self.proxy, source))


def scrapes(client: Client) -> bool:
    client.send(get())
    return client.answer().status == 200


def has_ended(client: Client) -> bool:
    """Whether the proxy has ended the connection, without waiting for it."""
    client.connection.settimeout(0.01)
    try:
        client.receive()
    except TimeoutError:
        return False
    finally:
        client.connection.settimeout(30)
    return client.has_ended


def limited(lab: Lab, connections: int) -> Proxy:
    """No deadline ends a connection here."""
    times = ("--idle-timeout=1h", "--tls-handshake-timeout=1h", "--read-header-timeout=1h")
    flags = (OPEN, ALONE, f"--max-connections={connections}", *times)
    return lab.start(*flags, config=RULES, is_own=True)


def test_dec_d52_a_flood_of_silent_connections_keeps_no_scraper_out(lab: Lab) -> None:
    """Neither one that is connected nor one that comes."""
    proxy = limited(lab, 10)
    with Crowd(proxy) as crowd:
        scraper = crowd.kept()
        silent = [crowd.silent("127.0.0.2") for _ in range(40)]
        shaken = [crowd.shaken("127.0.0.2") for _ in range(5)]
        newcomer = crowd.kept("127.0.0.3")
        assert scrapes(scraper)
        assert scrapes(newcomer)
        until(lambda: sum(map(has_ended, silent)) >= 30, "end of the oldest")
        assert silent[0].has_ended
        assert len(shaken) == 5


def test_dec_d52_a_flood_of_kept_connections_ends_its_own(lab: Lab) -> None:
    """Room is made by the peer address that holds most, though the scraper's is the oldest."""
    proxy = limited(lab, 10)
    with Crowd(proxy) as crowd:
        scraper = crowd.kept()
        flood = [crowd.kept("127.0.0.2") for _ in range(40)]
        newcomer = crowd.kept("127.0.0.3")
        assert scrapes(scraper)
        assert scrapes(newcomer)
        until(lambda: sum(map(has_ended, flood)) >= 31, "end of the flood's own")


def test_dec_d52_unfinished_first_requests_go_before_kept_connections(lab: Lab) -> None:
    proxy = limited(lab, 6)
    with Crowd(proxy) as crowd:
        kept = [crowd.kept("127.0.0.2") for _ in range(4)]
        old, young = crowd.silent("127.0.0.3"), crowd.shaken("127.0.0.3")
        assert scrapes(crowd.kept())
        until(lambda: has_ended(old), "end of the oldest without a request")
        assert not has_ended(young)
        assert scrapes(crowd.kept())
        until(lambda: has_ended(young), "end of the next")
        assert all(scrapes(client) for client in kept)


def test_dec_d52_an_open_request_is_never_ended(lab: Lab) -> None:
    """Only then accepting pauses, until one of them is over."""
    may_answer = threading.Event()

    def hold(arrived: Arrived) -> None:
        if arrived.target == "/held":
            may_answer.wait(60)
        arrived.send(OK)

    lab.upstream.script = hold
    proxy = limited(lab, 4)
    with contextlib.ExitStack() as stack, Crowd(proxy) as crowd:
        stack.callback(may_answer.set)
        held = [crowd.shaken("127.0.0.2") for _ in range(4)]
        for client in held:
            client.send(get("/held"))
        until(lambda: lab.upstream.targets.count("/held") == 4, "requests upstream")
        late = crowd.silent("127.0.0.3")
        assert not any(map(has_ended, held))
        may_answer.set()
        assert [client.answer().status for client in held] == [200] * 4
        secure = client_context().wrap_socket(late.connection, server_hostname="proxy.test")
        with Client(secure) as client:
            assert scrapes(client)


def test_dec_d52_a_tunnel_is_never_ended(lab: Lab) -> None:
    def echo_once(arrived: Arrived) -> None:
        if arrived.target != "/ws":
            arrived.send(OK)
            return
        arrived.send(b"HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
        arrived.send(arrived.connection.recv(100))
        arrived.close()

    lab.upstream.script = echo_once
    proxy = limited(lab, 3)
    with Crowd(proxy) as crowd:
        tunnel = crowd.shaken("127.0.0.2")
        tunnel.send(get("/ws", "Connection: Upgrade", "Upgrade: echo"))
        assert tunnel.answer().status == 101
        for _ in range(5):
            crowd.kept("127.0.0.2")
        assert scrapes(crowd.kept("127.0.0.3"))
        tunnel.send(b"still here")
        assert tunnel.end() == b"still here"


def test_dec_d52_an_idle_http_2_connection_is_ended_with_a_goaway(lab: Lab) -> None:
    proxy = limited(lab, 3)
    with contextlib.ExitStack() as stack, Crowd(proxy) as crowd:
        flood = [stack.enter_context(http2(proxy)) for _ in range(3)]
        for connection in flood:
            assert connection.ask(request("/")).status == 200
        assert scrapes(crowd.kept("127.0.0.3"))

        def ended() -> list[object]:
            for connection in flood:
                connection.read_what_is_there()
            return [connection for connection in flood if connection.has_ended]

        until(ended, "end of one")
        assert len(ended()) == 1
        assert [connection.goaway for connection in flood if connection.has_ended] == [0]


def test_dec_d52_an_http_2_connection_with_an_open_stream_is_never_ended(lab: Lab) -> None:
    may_answer = threading.Event()

    def hold(arrived: Arrived) -> None:
        if arrived.target == "/held":
            may_answer.wait(60)
        arrived.send(OK)

    lab.upstream.script = hold
    proxy = limited(lab, 3)
    with contextlib.ExitStack() as stack, Crowd(proxy) as crowd:
        stack.callback(may_answer.set)
        connection = stack.enter_context(http2(proxy))
        stream = connection.open(request("/held"))
        until(lambda: "/held" in lab.upstream.targets, "request upstream")
        for _ in range(5):
            crowd.kept("127.0.0.2")
        may_answer.set()
        assert connection.answer(stream).status == 200


def test_dec_d52_the_help_says_what_happens_at_the_limit(lab: Lab) -> None:
    text = lab.run("--help").out.partition("--max-connections")[2]
    told = text.partition("\n")[2].partition("  --")[0].partition("\n\n")[0]
    assert re.search("idle|room", told), told
