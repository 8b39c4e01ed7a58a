"""The issuer's keys as time goes by: found, renewed, asked for, kept."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import pytest
import trustme
from aiohttp import web

from pyrbacproxy.oidc import issuer as discovery
from pyrbacproxy.oidc import issuer as module
from pyrbacproxy.oidc.issuer import MAX_WAITING, Issuer
from pyrbacproxy.values import replace
from tests.oidc.parties import PATIENCE_SECONDS, SETTINGS, Provider

SHORT_SECONDS = 0.02


@asynccontextmanager
async def running(
    provider: Provider,
    context: ssl.SSLContext | Callable[[], ssl.SSLContext],
    retry_seconds: float = PATIENCE_SECONDS,
) -> AsyncIterator[Issuer]:
    current = context if callable(context) else lambda: context
    settings = replace(SETTINGS, issuer=provider.issuer)
    made = Issuer(settings, current, retry_seconds=retry_seconds)
    task = asyncio.create_task(made.run())
    try:
        yield made
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():  # noqa: ASYNC110 -- another thread makes it true
            await asyncio.sleep(0.005)


def names(issuer: Issuer) -> list[str]:
    return [] if issuer.keys is None else [key.name for key in issuer.keys.keys]


async def test_the_keys_are_found(
    issuer: Provider, trusting: ssl.SSLContext, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with running(issuer, trusting) as made:
        await until(lambda: names(made) == ["rsa-1"])
    assert issuer.asked == ["/.well-known/openid-configuration", "/keys"]
    assert caplog.messages == [f"OIDC issuer {issuer.issuer}: its keys are known, 1 usable"]


async def test_discovery_is_tried_until_it_works(
    issuer: Provider, trusting: ssl.SSLContext, caplog: pytest.LogCaptureFixture
) -> None:
    issuer.discovery = {"issuer": issuer.issuer + "/"}
    async with running(issuer, trusting, SHORT_SECONDS) as made:
        await until(lambda: len(issuer.asked) > 3)
        assert made.keys is None
        assert not made.newer_keys(lambda: None)
        issuer.discovery = {}
        await until(lambda: names(made) == ["rsa-1"])
    errors = [record.message for record in caplog.records if record.levelname == "ERROR"]
    said = "the discovery document names another issuer than --oidc-issuer"
    assert errors == [f"OIDC issuer {issuer.issuer}: {said}"]


async def test_new_keys_are_seen_when_their_time_is_over(
    issuer: Provider, trusting: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discovery, "LEAST_SECONDS", SHORT_SECONDS)
    issuer.headers = {"Cache-Control": "max-age=0"}
    async with running(issuer, trusting) as made:
        await until(lambda: names(made) == ["rsa-1"])
        issuer.published = ("rsa-2", "P-256")
        await until(lambda: names(made) == ["rsa-2", "P-256"])
    assert issuer.asked.count("/.well-known/openid-configuration") == 1


async def test_an_unknown_key_makes_it_ask_at_once(
    issuer: Provider, trusting: ssl.SSLContext
) -> None:
    async with running(issuer, trusting, 0.0) as made:
        await until(lambda: names(made) == ["rsa-1"])
        issuer.published = ("rsa-2",)
        found: list[list[str]] = []
        assert made.newer_keys(lambda: found.append(names(made)))
        await until(lambda: found == [["rsa-2"]])
    assert issuer.key_questions == 2


async def test_keys_that_are_found_again_are_no_news(
    issuer: Provider, trusting: ssl.SSLContext
) -> None:
    issuer.published = ("rsa-1", "P-256")
    async with running(issuer, trusting, 0.0) as made:
        await until(lambda: len(names(made)) == 2)
        before, told = made.keys, []
        assert made.newer_keys(lambda: told.append(made.keys))
        await until(lambda: told != [])
        assert told[0] is before
    assert issuer.key_questions == 2


async def test_many_who_ask_are_one_question(issuer: Provider, trusting: ssl.SSLContext) -> None:
    async with running(issuer, trusting, 0.0) as made:
        await until(lambda: names(made) == ["rsa-1"])
        told: list[int] = []
        issuer.gate.clear()
        assert made.newer_keys(lambda: told.append(0))
        await until(lambda: issuer.key_questions == 2)
        assert all(made.newer_keys(lambda: told.append(1)) for _ in range(MAX_WAITING - 1))
        # Beyond that nobody waits, so that what they hold is bounded.
        assert not made.newer_keys(lambda: told.append(2))
        issuer.gate.set()
        await until(lambda: len(told) == MAX_WAITING)
        assert 2 not in told
        # Nothing is asked on account of those who came meanwhile.
        for _ in range(20):
            await asyncio.sleep(0.001)
        assert issuer.key_questions == 2


async def test_forged_names_of_keys_are_no_storm(
    issuer: Provider, trusting: ssl.SSLContext
) -> None:
    async with running(issuer, trusting) as made:
        await until(lambda: names(made) == ["rsa-1"])
        assert not any(made.newer_keys(lambda: None) for _ in range(100))
    assert issuer.key_questions == 1


async def test_nobody_waits_longer_than_a_scrape(
    issuer: Provider, trusting: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_WAIT_SECONDS", SHORT_SECONDS)
    async with running(issuer, trusting, 0.0) as made:
        await until(lambda: names(made) == ["rsa-1"])
        issuer.gate.clear()
        told: list[int] = []
        assert made.newer_keys(lambda: told.append(0))
        await until(lambda: told == [0])
        issuer.gate.set()


async def test_keys_stay_in_use_while_the_issuer_is_away(
    issuer: Provider,
    trusting: ssl.SSLContext,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level("INFO")
    monkeypatch.setattr(discovery, "LEAST_SECONDS", SHORT_SECONDS)
    issuer.headers = {"Cache-Control": "no-store"}
    async with running(issuer, trusting, SHORT_SECONDS) as made:
        await until(lambda: names(made) == ["rsa-1"])
        issuer.respond = lambda _: web.Response(status=503)
        await until(lambda: issuer.asked[-2:] == ["/.well-known/openid-configuration"] * 2)
        assert names(made) == ["rsa-1"]
        # It comes back with its keys elsewhere.
        issuer.published = ("rsa-2",)
        issuer.discovery = {"jwks_uri": f"{issuer.issuer}/keys?moved"}
        issuer.respond = lambda _: None
        await until(lambda: names(made) == ["rsa-2"])
    assert caplog.messages == [
        f"OIDC issuer {issuer.issuer}: its keys are known, 1 usable",
        f"OIDC issuer {issuer.issuer}: key set: the answer is 503",
        f"OIDC issuer {issuer.issuer}: discovery document: the answer is 503",
        f"OIDC issuer {issuer.issuer}: its keys are known, 1 usable",
    ]


async def test_who_waits_hears_of_a_failure_too(issuer: Provider, trusting: ssl.SSLContext) -> None:
    async with running(issuer, trusting, 0.0) as made:
        await until(lambda: names(made) == ["rsa-1"])
        issuer.respond = lambda _: web.Response(text="no JSON")
        told: list[int] = []
        assert made.newer_keys(lambda: told.append(0))
        await until(lambda: told == [0])
        assert names(made) == ["rsa-1"]


async def test_a_new_authority_is_believed_from_the_next_question_on(
    issuer: Provider, trusting: ssl.SSLContext
) -> None:
    stranger = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trustme.CA().configure_trust(stranger)
    contexts = [stranger]
    async with running(issuer, lambda: contexts[0], SHORT_SECONDS) as made:
        for _ in range(10):
            await asyncio.sleep(SHORT_SECONDS / 2)
        assert (made.keys, issuer.asked) == (None, [])
        contexts[0] = trusting
        await until(lambda: names(made) == ["rsa-1"])


def test_the_times_are_those_that_were_decided() -> None:
    assert (module.RETRY_SECONDS, module.MAX_WAIT_SECONDS) == (10.0, 8.0)
