"""OIDC mode of the real program: an issuer over TLS, and all that the original's users met."""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import trustme

from tests.field_reports.harness import Answer, Lab, Proxy, bearer, get
from tests.field_reports.servers import DENIED, PATIENCE_SECONDS
from tests.oidc.parties import Provider, provider

CA = trustme.CA()
HEADERS = "--auth-header-fields-enabled"
STATIC = {
    "authorization": {"static": [{"user": {"groups": ["ops"]}, "path": "/metrics", "verb": "get"}]}
}


@pytest.fixture(scope="module")
def issuer() -> Iterator[Provider]:
    with provider(CA) as made:
        yield made


class Oidc:
    """Proxies in OIDC mode, and tokens that no log may show."""

    def __init__(self, lab: Lab, issuer: Provider) -> None:
        self.lab = lab
        self.issuer = issuer
        self.ca = lab.world.folder / "issuer.crt"
        self.ca.write_bytes(CA.cert_pem.bytes())
        issuer.published = ("rsa-1",)
        issuer.headers = {}

    def start(
        self, *flags: str, config: Mapping[str, object] | None = None, is_own: bool = False
    ) -> Proxy:
        """One that knows the issuer's keys."""
        proxy = self.lab.start(
            "!--client-ca-file",
            f"--oidc-issuer={self.issuer.issuer}",
            "--oidc-clientID=proxy",
            "--oidc-username-claim=sub",
            f"--oidc-ca-file={self.ca}",
            *flags,
            config=config,
            is_own=is_own,
        )
        proxy.wait_for("its keys are known")
        return proxy

    def token(self, key: str = "rsa-1", algorithm: str = "RS256", **claims: object) -> str:
        token = self.issuer.token(key, algorithm, **claims)
        self.lab.secrets.update({token, *token.split(".")[1:]})
        return token

    def ask(self, proxy: Proxy, token: str, *lines: str) -> Answer:
        return proxy.ask(get("/metrics", bearer(token), *lines))


@pytest.fixture
def oidc(lab: Lab, issuer: Provider) -> Oidc:
    return Oidc(lab, issuer)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


# --- U25: the original's own three cases ------------------------------------------------


def test_u25_a_bad_token_is_unauthorized(oidc: Oidc) -> None:
    proxy = oidc.start()
    oidc.lab.secrets.add("opaque-bad-token")
    answer = oidc.ask(proxy, "opaque-bad-token")
    assert (answer.status, answer.body) == (401, b"Unauthorized\n")
    assert oidc.lab.api.asked == []


def test_u25_a_good_token_that_may_not_is_forbidden(oidc: Oidc) -> None:
    oidc.lab.api.on_access = lambda _: DENIED
    answer = oidc.ask(oidc.start(), oidc.token(sub="denied"))
    assert answer.status == 403
    assert b"user=denied" in answer.body


def test_u25_a_good_token_that_may_comes_through_with_its_user(oidc: Oidc) -> None:
    token = oidc.token(sub="alice", groups=["dev", "ops"], jti="id-7")
    answer = oidc.ask(oidc.start(HEADERS), token, "X-Remote-User: root")
    assert answer.status == 200
    message = oidc.lab.upstream.requests[0].message
    assert message.values("x-remote-user") == ["alice"]
    assert message.values("x-remote-groups") == ["dev|ops"]
    assert message.values("authorization") == []
    (access,) = oidc.lab.api.asked
    assert access.kind == "access"
    assert access.spec["user"] == "alice"
    # Reference 3.4: `system:authenticated` is not added in OIDC mode.
    assert access.spec["groups"] == ["dev", "ops"]
    assert access.spec["extra"] == {"authentication.kubernetes.io/credential-id": ["JTI=id-7"]}


# --- who is let in ----------------------------------------------------------------------


def test_static_rules_need_no_api_server_s_word(oidc: Oidc) -> None:
    proxy = oidc.start(config=STATIC)
    oidc.lab.api.on_access = lambda _: DENIED
    assert oidc.ask(proxy, oidc.token(groups="ops")).status == 200
    assert oidc.lab.api.asked == []
    assert oidc.ask(proxy, oidc.token(groups="dev")).status == 403


def test_krp_0_18_0_both_prefixes_are_put_in_front(oidc: Oidc) -> None:
    proxy = oidc.start("--oidc-username-prefix=oidc:", "--oidc-groups-prefix=oidc-", HEADERS)
    token = oidc.token(sub="system:admin", groups=["system:masters"])
    assert oidc.ask(proxy, token).status == 200
    (access,) = oidc.lab.api.access_reviews("oidc:system:admin")
    assert access["groups"] == ["oidc-system:masters"]
    assert oidc.lab.upstream.requests[0].message.values("x-remote-user") == ["oidc:system:admin"]


@pytest.mark.parametrize(
    ("key", "algorithm"),
    [("rsa-1", "RS384"), ("rsa-1", "PS256"), ("P-256", "ES256"), ("P-521", "ES512")],
)
def test_each_algorithm_that_was_asked_for_is_accepted(
    oidc: Oidc, key: str, algorithm: str
) -> None:
    oidc.issuer.published = ("rsa-1", "P-256", "P-521")
    accepted = ("RS384", "PS256", "ES256", "ES512")
    proxy = oidc.start(*(f"--oidc-sign-alg={name}" for name in accepted), is_own=True)
    assert oidc.ask(proxy, oidc.token(key, algorithm)).status == 200
    assert oidc.ask(proxy, oidc.token("rsa-1", "RS256")).status == 401
    proxy.wait_for("its algorithm is not among --oidc-sign-alg")


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "expired": ({"exp": 1}, "expired"),
    "another client": ({"aud": "grafana"}, "wrong audience"),
    "another issuer": ({"iss": "https://other.test"}, "not from this issuer"),
    "not yet": ({"nbf": 4_000_000_000}, "not valid yet"),
    "no name": ({"sub": ""}, "the username claim is no text"),
    "odd name": ({"sub": ["alice"]}, "a standard claim is of the wrong kind"),
    "groups elsewhere": (
        {"_claim_names": {"groups": "a"}, "_claim_sources": {"a": {"endpoint": "https://x.test"}}},
        "the groups are a distributed claim, and those are not fetched",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_token_in_doubt_is_unauthorized_and_the_log_says_why(oidc: Oidc, case: str) -> None:
    claims, said = REFUSED[case]
    proxy = oidc.start("--v=2")  # else lines about one client are rationed
    asked = len(oidc.issuer.asked)
    assert oidc.ask(proxy, oidc.token(**claims)).status == 401
    proxy.wait_for(said)
    assert len(oidc.issuer.asked) == asked


def test_neither_certificates_nor_websocket_tokens_say_who_it_is(oidc: Oidc) -> None:
    proxy = oidc.start(f"--client-ca-file={oidc.lab.certificates}/client-ca.crt")
    assert "--client-ca-file has no effect with --oidc-issuer" in proxy.text()
    assert proxy.ask(get("/metrics"), "alice").status == 401


# --- time and keys ----------------------------------------------------------------------


def test_a_token_ends_with_its_time_on_a_connection_that_lives(oidc: Oidc) -> None:
    """By a static rule, whose decisions would hold for ever were the token's user known so."""
    proxy = oidc.start(config=STATIC)
    assert oidc.ask(proxy, oidc.token(groups="ops")).status == 200
    expiry = int(time.time()) + 3
    request = get("/metrics", bearer(oidc.token(groups="ops", exp=expiry)))
    with proxy.connect() as client:
        while time.time() < expiry:
            client.send(request)
            assert client.answer().status == 200 or time.time() >= expiry
        client.send(request)
        assert client.answer().status == 401


@pytest.mark.e2e  # the issuer is asked again after 10 s
def test_keys_rotate_and_the_old_one_is_worth_nothing_any_more(oidc: Oidc) -> None:
    proxy = oidc.start(config=STATIC, is_own=True)
    old = oidc.token(groups="ops")
    with proxy.connect() as client:
        client.send(get("/metrics", bearer(old)))
        assert client.answer().status == 200
        oidc.issuer.published = ("rsa-2",)
        new = oidc.token("rsa-2", groups="ops")
        # It is asked again at most every 10 s.
        until(lambda: oidc.ask(proxy, new).status == 200)
        client.send(get("/metrics", bearer(old)))
        assert client.answer().status == 401


def test_forged_tokens_are_no_storm_at_the_issuer(oidc: Oidc) -> None:
    proxy = oidc.start(is_own=True)
    before = oidc.issuer.key_questions
    forged = [oidc.token("rsa-2", sub=f"u{number}") for number in range(50)]
    assert {oidc.ask(proxy, token).status for token in forged} == {401}
    assert oidc.issuer.key_questions <= before + 2
    assert oidc.ask(proxy, oidc.token()).status == 200


@pytest.mark.e2e  # the issuer is asked again after 10 s
def test_an_issuer_that_comes_late_is_found(lab: Lab) -> None:
    with provider(CA) as late:
        late.discovery = {"issuer": "https://not.ready.test"}
        oidc = Oidc(lab, late)
        flags = (f"--oidc-issuer={late.issuer}", "--oidc-clientID=proxy", HEADERS)
        proxy = lab.start("!--client-ca-file", f"--oidc-ca-file={oidc.ca}", *flags, is_own=True)
        proxy.wait_for("another issuer than --oidc-issuer")
        token = oidc.token(email="a@b.test", email_verified=True)
        assert oidc.ask(proxy, token).status == 401
        proxy.wait_for("the issuer's keys are not known yet")
        late.discovery = {}
        until(lambda: oidc.ask(proxy, token).status == 200)
        assert lab.upstream.requests[0].message.values("x-remote-user") == ["a@b.test"]
        assert oidc.ask(proxy, oidc.token(email="a@b.test", email_verified=False)).status == 401


@pytest.mark.e2e  # the issuer is asked again after 10 s
def test_the_issuer_s_authority_is_read_again(oidc: Oidc) -> None:
    """What the original reads at start alone."""
    oidc.ca.write_bytes(trustme.CA().cert_pem.bytes())
    flags = (f"--oidc-issuer={oidc.issuer.issuer}", "--oidc-clientID=proxy")
    files = (f"--oidc-ca-file={oidc.ca}", "--oidc-username-claim=sub", "--tls-reload-interval=1s")
    proxy = oidc.lab.start("!--client-ca-file", *flags, *files, is_own=True)
    proxy.wait_for("cannot be reached")
    changed = oidc.ca.with_suffix(".new")
    changed.write_bytes(CA.cert_pem.bytes())
    changed.replace(oidc.ca)
    proxy.wait_for("Reloaded the OIDC issuer CA")
    until(lambda: oidc.ask(proxy, oidc.token()).status == 200)


# --- the start --------------------------------------------------------------------------


def test_what_an_issuer_needs_is_told_at_the_start(lab: Lab) -> None:
    ended = lab.run(
        "--oidc-issuer=http://i.test", "--oidc-ca-file=/no/such", "--oidc-sign-alg=none"
    )
    assert ended.code == 1
    for said in (
        "--oidc-issuer: must be an https URL",
        "--oidc-clientID: must be set",
        "--oidc-sign-alg=none: must be one of ES256, ",
        "--oidc-ca-file: /no/such: cannot be read: No such file or directory",
    ):
        assert said in ended.err


def test_krp_0_19_1_an_issuer_needs_no_authority_of_its_own(lab: Lab, issuer: Provider) -> None:
    """It is then the system's, which don't know ours: never no verification (0.19.0)."""
    flags = (f"--oidc-issuer={issuer.issuer}", "--oidc-clientID=proxy")
    proxy = lab.start("!--client-ca-file", *flags, is_own=True)
    proxy.wait_for("cannot be reached")
    assert proxy.process.poll() is None
