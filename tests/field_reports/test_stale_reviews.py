"""Field reports R05 and FR48: positive reviews through an outage of the API server (D15, N9).

With no time of their own (`--token-cache-ttl=0s`) answers have ended as soon as they were used, so
that no test waits for it.
"""

import base64
import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.wire import free_port
from tests.field_reports.harness import Lab, Proxy, bearer, get
from tests.field_reports.servers import (
    DENIED,
    PATIENCE_SECONDS,
    FakeApi,
    Reply,
    failed,
    refused,
    user,
)

NO_TIME = ("--token-cache-ttl=0s", "--authorized-ttl=0s", "--unauthorized-ttl=0s")
BEGIN = "The API server is away"


class Outage:
    """A proxy with an API server of its own, which can be ended and come back at its port."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._apis = [FakeApi()]

    @property
    def api(self) -> FakeApi:
        """The one that is there, or was there last."""
        return self._apis[-1]

    def start(self, *flags: str) -> Proxy:
        url = f"http://127.0.0.1:{self.api.port}"
        kubeconfig = self._lab.world.write_kubeconfig(f"stale-{self.api.port}", url)
        return self._lab.start(f"--kubeconfig={kubeconfig}", *flags, is_own=True)

    def token(self, text: str = "") -> str:
        """One that is good."""
        token = text or self._lab.token()
        self._lab.secrets.add(token)
        self.api.tokens[token] = user("carol", uid="1")
        return token

    def begin(self) -> None:
        """Nothing listens any more."""
        self.api.close()

    def end(self) -> FakeApi:
        """An API server that knows no token is at the same port."""
        self._apis.append(FakeApi(port=self.api.port))
        return self.api

    def close(self) -> None:
        for api in self._apis:
            api.close()


@pytest.fixture
def outage(lab: Lab) -> Iterator[Outage]:
    made = Outage(lab)
    yield made
    made.close()


def status(proxy: Proxy, token: str) -> int:
    return proxy.ask(get("/metrics", bearer(token))).status


def until(proxy: Proxy, token: str, expected: int) -> None:
    """Ask until it is answered so: what runs behind takes its time."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (found := status(proxy, token)) != expected:
        assert time.monotonic() < deadline, found
        time.sleep(0.02)


def jwt(lifetime_seconds: float) -> tuple[str, float]:
    """A token that names its end, and that end (seconds since the epoch)."""
    ends_at = time.time() + lifetime_seconds
    claims = base64.urlsafe_b64encode(json.dumps({"exp": ends_at}).encode()).decode().rstrip("=")
    return f"eyJhbGciOiJub25lIn0.{claims}.c2lnbmF0dXJl", ends_at


def test_r05_scrapes_go_on_while_the_api_server_is_away(outage: Outage) -> None:
    port = free_port()
    proxy = outage.start(
        *NO_TIME,
        "--stale-review-period=1h",
        f"--proxy-endpoints-port={port}",
        "--proxy-endpoints-address=127.0.0.1",
    )
    token = outage.token()
    assert status(proxy, token) == 200
    outage.begin()
    assert [status(proxy, token) for _ in range(5)] == [200] * 5
    assert status(proxy, "secret-never-seen") == 401
    log = proxy.wait_for("The API server is away: positive reviews are used up to 3600s")
    assert log.count(BEGIN) == 1
    outage.end().tokens[token] = user("carol", uid="1")
    assert status(proxy, token) == 200
    proxy.wait_for("The API server is heard again; stale reviews used meanwhile: ")
    with proxy.connect("alice", port=port) as client:
        client.send(get("/metrics"))
        page = client.answer().body.decode()
    for kind in ("TokenReview", "SubjectAccessReview"):
        line = f'kube_rbac_proxy_stale_reviews_total{{review="{kind}"}} '
        assert float(page.partition(line)[2].partition("\n")[0]) >= 5


def test_r05_answers_that_have_ended_are_found_again(outage: Outage) -> None:
    """With a time of their own, which is over at some moment in here."""
    times = ("--token-cache-ttl=100ms", "--authorized-ttl=100ms")
    proxy = outage.start(*times, "--stale-review-period=1h")
    token = outage.token()
    assert status(proxy, token) == 200
    outage.begin()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while BEGIN not in proxy.text():
        assert status(proxy, token) == 200
        assert time.monotonic() < deadline
    assert status(proxy, token) == 200


def test_r05_the_period_ends(outage: Outage) -> None:
    proxy = outage.start(*NO_TIME, "--stale-review-period=1s")
    token = outage.token()
    assert status(proxy, token) == 200
    outage.begin()
    until(proxy, token, 401)
    assert status(proxy, token) == 401


def test_r05_off_means_at_once(outage: Outage) -> None:
    proxy = outage.start(*NO_TIME)
    token = outage.token()
    assert status(proxy, token) == 200
    outage.begin()
    assert status(proxy, token) == 401
    assert BEGIN not in proxy.text()


def test_r05_a_token_s_own_end_is_honoured(outage: Outage) -> None:
    proxy = outage.start(*NO_TIME, "--stale-review-period=1h")
    text, ends_at = jwt(4.0)
    token = outage.token(text)
    until(proxy, token, 200)
    outage.begin()
    found = 200
    while found == 200:
        asked_at = time.time()
        found = status(proxy, token)
        assert found == 401 or asked_at < ends_at
        time.sleep(0.02)
    assert time.time() >= ends_at, "refused before its end"
    assert status(proxy, token) == 401


def test_r05_back_again_its_refusal_counts_and_lasts(outage: Outage) -> None:
    proxy = outage.start(*NO_TIME, "--stale-review-period=1h")
    token = outage.token()
    assert status(proxy, token) == 200
    outage.begin()
    assert status(proxy, token) == 200
    outage.end()
    until(proxy, token, 401)
    outage.begin()
    assert status(proxy, token) == 401


def test_r05_a_right_that_was_taken_away_is_gone_when_it_is_back(outage: Outage) -> None:
    proxy = outage.start(*NO_TIME, "--stale-review-period=1h")
    token = outage.token()
    assert status(proxy, token) == 200
    outage.begin()
    assert status(proxy, token) == 200
    api = outage.end()
    api.tokens[token] = user("carol", uid="1")
    api.on_access = lambda _: DENIED
    until(proxy, token, 403)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        pytest.param(failed(500), 200, id="500"),
        pytest.param(failed(503), 200, id="503"),
        pytest.param(Reply(fault="close"), 200, id="closed"),
        pytest.param(failed(401), 401, id="401"),
        pytest.param(failed(403), 401, id="403"),
        pytest.param(failed(404), 401, id="404"),
        pytest.param(Reply(body=b"<html>"), 401, id="nonsense"),
        pytest.param(refused(), 401, id="refused"),
        pytest.param(refused("webhook is down"), 401, id="refused-in-error"),
    ],
)
def test_r05_what_the_api_server_says_decides(outage: Outage, reply: Reply, expected: int) -> None:
    proxy = outage.start(*NO_TIME, "--stale-review-period=1h")
    token = outage.token()
    assert status(proxy, token) == 200
    outage.api.tokens[token] = reply
    assert status(proxy, token) == expected


def test_r05_429_is_no_outage(outage: Outage) -> None:
    proxy = outage.start(*NO_TIME, "--stale-review-period=1h")
    token = outage.token()
    assert status(proxy, token) == 200
    outage.api.tokens[token] = failed(429)
    assert status(proxy, token) == 401
    assert BEGIN not in proxy.text()


def test_r05_another_client_ca_ends_it(lab: Lab, outage: Outage, tmp_path: Path) -> None:
    bundle = tmp_path / "client-ca.crt"
    shutil.copy(lab.certificates / "client-ca.crt", bundle)
    proxy = outage.start(
        *NO_TIME,
        "--stale-review-period=1h",
        f"--client-ca-file={bundle}",
        "--tls-reload-interval=50ms",
    )
    token = outage.token()
    assert status(proxy, token) == 200
    outage.begin()
    assert status(proxy, token) == 200
    shutil.copy(lab.certificates / "other-ca.crt", bundle)
    until(proxy, token, 401)
