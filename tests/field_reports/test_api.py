"""Field reports of kind API: our own rate towards the API server, and its absence."""

import socket
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.conformance.wire import free_port
from tests.field_reports.harness import Lab, Proxy, bearer, get
from tests.field_reports.servers import FakeApi, Listener, Reply, user

# A Prometheus that a static rule allows, as on a node.
RULES = {
    "authorization": {
        "static": [
            {
                "resourceRequest": False,
                "path": "/metrics",
                "verb": "get",
                "user": {"name": "alice"},
            }
        ]
    }
}


def statuses(proxy: Proxy, tokens: Sequence[str]) -> list[int]:
    """What as many clients at once are answered, each on its own connection."""
    with ThreadPoolExecutor(len(tokens)) as pool:
        return list(
            pool.map(lambda token: proxy.ask(get("/metrics", bearer(token))).status, tokens)
        )


def slow_user() -> Reply:
    """A good token that takes the API server 20 ms."""
    reply = user("carol")
    return Reply(reply.status, delay_seconds=0.02)


# --- FR47: the limiter (D14) ----------------------------------------------------------


def test_fr47_a_crowd_of_tokens_is_not_throttled_by_default(lab: Lab) -> None:
    """100 at once are within the burst of both API groups; nobody waits, everybody is served."""
    tokens = [lab.token(slow_user()) for _ in range(100)]
    assert statuses(lab.start(is_own=True), tokens) == [200] * len(tokens)
    assert len(lab.api.token_reviews()) == len(tokens)


def test_fr47_beyond_the_burst_everybody_is_answered(lab: Lab) -> None:
    """Waiting is bounded: who gets no turn within a second is refused, not hung."""
    tokens = [lab.token(slow_user()) for _ in range(200)]
    found = statuses(lab.start(is_own=True), tokens)
    assert set(found) <= {200, 401, 500}
    assert found.count(200) >= 100
    refused = [token for token, status in zip(tokens, found, strict=True) if status == 401]
    assert not [token for token in refused if lab.api.token_reviews(token)]


def test_fr47_the_flags_are_obeyed(lab: Lab) -> None:
    """One bucket of 5 for all reviews, filled by 5 a second."""
    tokens = [lab.token(slow_user()) for _ in range(60)]
    proxy = lab.start("--kube-api-qps=5", "--kube-api-burst=5", is_own=True)
    started = time.monotonic()
    found = statuses(proxy, tokens)
    seconds = time.monotonic() - started
    assert set(found) <= {200, 401, 500}
    assert 401 in found
    assert 3 <= len(lab.api.asked) <= 5 + 5 * (seconds + 1)


def test_fr47_waiting_is_bounded_by_ourselves(lab: Lab) -> None:
    """A turn would come after 100 s; nobody waits for it."""
    tokens = [lab.token(user("carol")) for _ in range(4)]
    proxy = lab.start("--kube-api-qps=0.01", "--kube-api-burst=1", is_own=True)
    assert sorted(statuses(proxy, tokens)) == [401, 401, 401, 500]  # its SAR had no turn either
    assert len(lab.api.asked) == 1


def test_fr47_a_remembered_answer_costs_nothing(lab: Lab) -> None:
    token = lab.token(user("carol"))
    proxy = lab.start("--kube-api-qps=0.01", "--kube-api-burst=2", is_own=True)
    assert statuses(proxy, [token] * 20) == [200] * 20
    assert len(lab.api.asked) == 2


# --- FR48: the API server is away (D15) -----------------------------------------------


class BlackHole(Listener):
    """Accepts connections, reads, and never answers."""

    def serve(self, connection: socket.socket) -> None:
        while connection.recv(65536):
            pass


@pytest.fixture
def black_hole() -> Iterator[Listener]:
    hole = BlackHole()
    yield hole
    hole.close()


def judge_without_api(lab: Lab, proxy: Proxy, *, no_rule: int = 500) -> None:
    """The certificate with a static rule works; the others are told at once, side by side.

    `no_rule` is the status of what no static rule allows; HEAD is no get.
    """
    token = lab.token()
    with ThreadPoolExecutor(3) as pool:
        by_token = pool.submit(proxy.ask, get("/metrics", bearer(token)))
        by_review = pool.submit(proxy.ask, get("/metrics"), "bob")
        head = pool.submit(proxy.ask, get("/metrics", method="HEAD"), "alice", to_head=True)
        for _ in range(5):
            assert proxy.ask(get("/metrics"), "alice").status == 200
        assert by_token.result().status == 401
        assert (by_review.result().status, head.result().status) == (no_rule, no_rule)


def test_fr48_an_api_server_that_refuses_connections(lab: Lab) -> None:
    kubeconfig = lab.world.write_kubeconfig("refused", f"http://127.0.0.1:{free_port()}")
    proxy = lab.start(f"--kubeconfig={kubeconfig}", config=RULES, is_own=True)
    judge_without_api(lab, proxy)


@pytest.mark.e2e  # until the reviews time out
def test_fr48_an_api_server_that_answers_nothing(lab: Lab, black_hole: Listener) -> None:
    kubeconfig = lab.world.write_kubeconfig("hole", f"http://127.0.0.1:{black_hole.port}")
    proxy = lab.start(f"--kubeconfig={kubeconfig}", config=RULES, is_own=True)
    judge_without_api(lab, proxy)


def test_fr48_an_api_server_that_goes_away_and_comes_back(lab: Lab) -> None:
    api = FakeApi()
    kubeconfig = lab.world.write_kubeconfig("leaves", f"http://127.0.0.1:{api.port}")
    proxy = lab.start(f"--kubeconfig={kubeconfig}", config=RULES, is_own=True)
    token = lab.token()
    api.tokens[token] = user("carol", uid="1")
    assert proxy.ask(get("/metrics", bearer(token))).status == 200
    assert proxy.ask(get("/metrics"), "alice").status == 200
    assert len(api.asked) == 2, "the certificate with a static rule needs no review"
    api.close()
    judge_without_api(lab, proxy)
    assert proxy.ask(get("/metrics", bearer(token))).status == 200, "remembered answers stay"


def test_fr48_nothing_is_asked_for_a_static_rule(lab: Lab) -> None:
    proxy = lab.start(config=RULES)
    assert proxy.ask(get("/metrics"), "alice").status == 200
    assert lab.api.asked == []
    assert proxy.ask(get("/metrics"), "bob").status == 200
    assert [call.kind for call in lab.api.asked] == ["access"]


def test_fr48_without_any_kubeconfig_static_rules_suffice(lab: Lab) -> None:
    """D20: a client CA and static rules need no API server; the rest is refused."""
    proxy = lab.start("!--kubeconfig", config=RULES, is_own=True)
    assert [line for line in proxy.text().splitlines() if line.startswith("W")]
    judge_without_api(lab, proxy, no_rule=403)


# --- D34: proxies on the way to the API server ----------------------------------------


@pytest.mark.parametrize(
    ("no_proxy", "is_used"),
    [
        pytest.param("198.51.100.0/24", True, id="used"),
        pytest.param("192.0.2.0/24", False, id="no-proxy-cidr"),
    ],
)
def test_fr48_d34_the_way_to_the_api_server_may_lead_through_a_proxy(
    lab: Lab,
    no_proxy: str,
    is_used: bool,  # noqa: FBT001
) -> None:
    """192.0.2.0/24 is nowhere (RFC 5737)."""
    kubeconfig = lab.world.write_kubeconfig("far", "http://192.0.2.7:6443")
    far = FakeApi()
    token = lab.token()
    far.tokens[token] = user("carol", uid="1")
    env = {"HTTP_PROXY": f"http://127.0.0.1:{far.port}", "NO_PROXY": no_proxy}
    proxy = lab.start(f"--kubeconfig={kubeconfig}", env=env, is_own=True)
    proxy.ask(get("/metrics", bearer(token)))
    lines = [call.kind for call in far.asked]
    far.close()
    prefix = "POST http://192.0.2.7:6443/apis/authentication.k8s.io/v1/tokenreviews"
    assert (prefix in lines) == is_used
    assert is_used or lines == []
