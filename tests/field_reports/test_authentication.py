"""Field reports of kind AUTHN: how long a verdict lives, and how a credential is read."""

import base64
import json
import threading
import time
from pathlib import Path

import pytest

from tests.conformance import pki
from tests.conformance.wire import free_port
from tests.field_reports.harness import Lab, Proxy, bearer, get, server_context
from tests.field_reports.servers import (
    PATIENCE_SECONDS,
    Asked,
    FakeApi,
    Reply,
    failed,
    refused,
    user,
)

NEGATIVE_SECONDS = 10.0
ERROR_SECONDS = 2.0
POLL_SECONDS = 0.1


def poll_for(proxy: Proxy, token: str, status: int) -> float:
    """Ask until the status comes; the seconds it took. Fails when it never comes."""
    began = time.monotonic()
    while proxy.ask(get("/metrics", bearer(token))).status != status:
        assert time.monotonic() < began + PATIENCE_SECONDS, f"never {status}"
        time.sleep(POLL_SECONDS)
    return time.monotonic() - began


# --- FR35, DEC-D14: verdicts and their time --------------------------------------------


@pytest.mark.parametrize(
    "error",
    [
        pytest.param("", id="refused", marks=pytest.mark.e2e),  # it waits for 10 s
        pytest.param("token is malformed", id="in error"),
    ],
)
def test_fr35_a_refusal_is_remembered_briefly_and_repeats_do_not_extend_it(
    lab: Lab, error: str
) -> None:
    proxy = lab.start()
    token = lab.token(refused(error))
    assert proxy.ask(get("/metrics", bearer(token))).status == 401
    lab.api.tokens[token] = user("alice", uid=token[-8:])
    poll_for(proxy, token, 200)  # each try is a repeat
    lifetime = ERROR_SECONDS if error else NEGATIVE_SECONDS
    first, second = lab.api.token_reviews(token)
    # Reviews are further apart than a lifetime, less what the clock may round.
    assert second.at - first.at > lifetime - 0.5


@pytest.mark.parametrize(
    "trouble",
    [failed(500), failed(403), failed(404), Reply(fault="reset"), Reply(body=b"no json")],
    ids=["500", "403", "404", "reset", "no json"],
)
def test_fr35_an_error_is_never_remembered(lab: Lab, trouble: Reply) -> None:
    proxy = lab.start()
    token = lab.token(trouble)
    assert proxy.ask(get("/metrics", bearer(token))).status == 401
    lab.api.tokens[token] = user("alice")
    assert proxy.ask(get("/metrics", bearer(token))).status == 200


def test_fr35_a_revoked_token_is_refused_after_its_time(lab: Lab) -> None:
    proxy = lab.start("--token-cache-ttl=1s")
    token = lab.token(user("alice"))
    assert proxy.ask(get("/metrics", bearer(token))).status == 200
    lab.api.tokens[token] = refused()
    poll_for(proxy, token, 401)


def test_fr35_no_verdict_lives_longer_than_its_token(lab: Lab) -> None:
    proxy = lab.start()
    claims = {"sub": "alice", "exp": int(time.time()) + 3}
    parts = (json.dumps(part).encode() for part in ({"alg": "RS256"}, claims))
    text = ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)
    token = f"{text}.{lab.token()}"
    lab.secrets.add(token)
    lab.api.tokens[token] = user("alice", uid=token[-8:])
    assert proxy.ask(get("/metrics", bearer(token))).status == 200
    lab.api.tokens[token] = refused()
    poll_for(proxy, token, 401)  # the ordinary time is two minutes


def test_dec_d14_a_good_verdict_is_remembered(lab: Lab) -> None:
    proxy = lab.start()
    token = lab.token(user("alice"))
    for _ in range(3):
        assert proxy.ask(get("/metrics", bearer(token))).status == 200
    assert len(lab.api.token_reviews(token)) == 1
    assert len(lab.api.access_reviews()) == 1


def test_dec_d14_equal_reviews_in_flight_are_one_and_outlive_the_first_asker(lab: Lab) -> None:
    proxy = lab.start()
    token = lab.token(user("alice"))
    reply = lab.api.tokens[token]
    asked, release = threading.Event(), threading.Event()

    def wait(_: Asked) -> Reply:
        asked.set()
        release.wait(PATIENCE_SECONDS)
        return reply

    lab.api.on_token = wait
    first = proxy.connect()
    first.send(get("/metrics", bearer(token)))
    assert asked.wait(PATIENCE_SECONDS)
    clients = [proxy.connect() for _ in range(4)]
    for client in clients:
        client.send(get("/metrics", bearer(token)))
    first.reset()
    release.set()
    for client in clients:
        with client:
            assert client.answer().status == 200
    assert len(lab.api.token_reviews(token)) == 1


# --- FR38, DEC-D26: the Authorization header -------------------------------------------


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        (["authorization: bearer GOOD"], 200),
        (["AUTHORIZATION: BEARER GOOD"], 200),
        (["Authorization:Bearer GOOD"], 200),
        (["Authorization: \t Bearer GOOD \t "], 200),
        (["Authorization: Bearer GOOD x"], 200),
        (["Authorization: Bearer  GOOD"], 401),
        (["Authorization: Bearer\tGOOD"], 401),
        (["Authorization: Bearer"], 401),
        (["Authorization: Bearer "], 401),
        (["Authorization:"], 401),
        (["Authorization: GOOD"], 401),
        (["Authorization: BearerGOOD"], 401),
        (["Authorization: Bearer,GOOD"], 401),
        (["Authorization: Basic eA=="], 401),
        (["Authorization: Bearer BAD", "Authorization: Bearer GOOD"], 401),
        (["Authorization: Bearer GOOD", "Authorization: Bearer BAD"], 200),
        (["Authorization: Basic eA==", "Authorization: Bearer GOOD"], 401),
        (["Proxy-Authorization: Bearer GOOD"], 401),
        (["X-Forwarded-Access-Token: GOOD"], 401),
        ([], 401),
    ],
)
def test_fr38_the_authorization_header_is_read_one_way(
    lab: Lab, lines: list[str], status: int
) -> None:
    proxy = lab.start()
    words = {"GOOD": lab.token(user("alice")), "BAD": lab.token(refused())}
    texts = [line.replace("GOOD", words["GOOD"]).replace("BAD", words["BAD"]) for line in lines]
    answer = proxy.ask(get("/metrics", *texts))
    assert answer.status == status
    assert len(lab.upstream.requests) == (status == 200)
    if status == 401:
        assert answer.values("www-authenticate") == ["Bearer"]
        assert answer.body == b"Unauthorized\n"


def test_fr38_a_token_in_the_query_is_no_credential(lab: Lab) -> None:
    proxy = lab.start()
    token = lab.token(user("alice"))
    assert proxy.ask(get(f"/metrics?access_token={token}&token={token}")).status == 401
    assert lab.api.asked == []


# --- FR39: our own credential ----------------------------------------------------------


def test_fr39_a_rotated_token_file_is_read_again_at_once(lab: Lab, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("own-first")
    lab.secrets |= {"own-first", "own-second"}
    accepted = ["Bearer own-first"]

    def judge(call: Asked) -> Reply:
        return user(str(call.spec["token"])) if call.credential in accepted else failed(401)

    world = lab.world
    api = FakeApi(tls=server_context(lab.certificates / "api"))
    api.on_token = judge
    server = f"https://127.0.0.1:{api.port}"
    credential = {"tokenFile": str(path)}
    kubeconfig = world.write_kubeconfig("by-token", server, credential, world.api_ca)
    try:
        proxy = lab.start(f"--kubeconfig={kubeconfig}", is_own=True)
        assert proxy.ask(get("/metrics", bearer(lab.token()))).status == 200
        assert {call.credential for call in api.asked} == {"Bearer own-first"}
        path.write_text("own-second")
        accepted[:] = ["Bearer own-second"]
        assert proxy.ask(get("/metrics", bearer(lab.token()))).status == 200
        assert api.token_reviews()[-1].credential == "Bearer own-second"
    finally:
        api.close()


def test_fr39_a_rotated_client_certificate_is_read_again(lab: Lab, tmp_path: Path) -> None:
    table: dict[str, dict[str, object]] = {"ca": {"cn": ["ca"], "ca": True}}
    for name in ("first", "second"):
        table[name] = {"cn": [name], "issuer": "ca", "eku": ["client"]}
    pki.build(table, tmp_path)
    api = FakeApi(tls=server_context(lab.certificates / "api", tmp_path / "ca.crt"))
    current = tmp_path / "current.pem"
    current.symlink_to(tmp_path / "first.pem")
    accepted = ["CN=first"]

    def judge(call: Asked) -> Reply:
        return user(str(call.spec["token"])) if call.certificate in accepted else failed(401)

    api.on_token = judge
    kubeconfig = lab.world.write_kubeconfig(
        "by-certificate",
        f"https://127.0.0.1:{api.port}",
        {"client-certificate": str(current), "client-key": str(current)},
        str(lab.certificates / "server-ca.crt"),
    )
    try:
        proxy = lab.start(f"--kubeconfig={kubeconfig}", is_own=True)
        assert proxy.ask(get("/metrics", bearer(lab.token()))).status == 200
        fresh = tmp_path / "fresh"
        fresh.symlink_to(tmp_path / "second.pem")
        fresh.replace(current)
        accepted[:] = ["CN=second"]
        # The connections with the old certificate are warm; the new one is used within 60 s.
        deadline = time.monotonic() + 2 * PATIENCE_SECONDS
        while (status := proxy.ask(get("/metrics", bearer(lab.token()))).status) != 200:
            assert time.monotonic() < deadline, status
            time.sleep(POLL_SECONDS)
        assert api.token_reviews()[-1].certificate == "CN=second"
    finally:
        api.close()


# --- DEC-D20, DEC-D29: without an API server; audiences --------------------------------

RULES = {"authorization": {"static": [{"path": "/metrics", "user": {"name": "alice"}}]}}


def test_dec_d20_certificates_and_rules_need_no_api_server(lab: Lab) -> None:
    proxy = lab.start("!--kubeconfig", config=RULES)
    proxy.wait_for("kubeconfig")
    assert proxy.ask(get("/metrics"), "alice").status == 200
    assert proxy.ask(get("/metrics", bearer(lab.token()))).status == 401
    assert lab.api.asked == []


GET_RULE = {
    "authorization": {"static": [{"path": "/metrics", "verb": "get", "user": {"name": "alice"}}]}
}


@pytest.mark.parametrize(
    ("request_", "certificate"),
    [
        pytest.param(get("/other"), "alice", id="path"),
        pytest.param(get(method="POST"), "alice", id="verb"),
        pytest.param(get(), "bob", id="user"),
    ],
)
def test_fr95_what_no_rule_allows_is_forbidden_where_nobody_else_could_be_asked(
    lab: Lab, request_: bytes, certificate: str
) -> None:
    port = free_port()
    proxy = lab.start("!--kubeconfig", f"--proxy-endpoints-port={port}", config=GET_RULE)
    assert proxy.ask(request_, certificate).status == 403
    with proxy.connect(certificate, port=port) as client:
        client.send(get("/statusz"))
        assert client.answer().status == 403


@pytest.mark.parametrize(
    ("flags", "config"),
    [
        (("!--kubeconfig",), None),
        (("!--kubeconfig", "!--client-ca-file"), RULES),
        (("!--kubeconfig", "--auth-token-audiences=a"), RULES),
        (("--kubeconfig=/nonexistent/kubeconfig",), RULES),
    ],
    ids=["no rules", "no client CA", "audiences", "missing file"],
)
def test_dec_d20_else_a_missing_credential_ends_the_start(
    lab: Lab, flags: tuple[str, ...], config: dict[str, object] | None
) -> None:
    ended = lab.run(*flags, config=config)
    assert ended.code == 1
    assert "kubeconfig" in ended.err


@pytest.mark.parametrize(
    ("audiences", "status"),
    [(None, 401), ([], 401), (["other"], 401), (["b"], 200), (["other", "a"], 200)],
)
def test_dec_d29_a_token_must_be_meant_for_us(
    lab: Lab, audiences: list[str] | None, status: int
) -> None:
    proxy = lab.start("--auth-token-audiences=a,b")
    reply = user("alice")
    if audiences is not None:
        reply.status["audiences"] = audiences
    token = lab.token(reply)
    assert proxy.ask(get("/metrics", bearer(token))).status == status
    assert lab.api.token_reviews(token)[0].spec["audiences"] == ["a", "b"]
