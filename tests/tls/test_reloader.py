import asyncio
import gc
import weakref
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from OpenSSL import SSL

from pyrbacproxy.tls.client_chain import ClientCaPool
from pyrbacproxy.tls.engine import ServerEngine
from pyrbacproxy.tls.files import TlsFileError, WatchedFiles
from pyrbacproxy.tls.reloader import CLIENT_CA, SERVING_PAIR, TlsReloader
from pyrbacproxy.tls.server_context import TlsSettings
from tests.tls.parties import NOON, Client, Issued, authority, issue

ONE = issue("CN=one")
TWO = issue("CN=two")
CA = authority("CN=ca")
CA_TWO = authority("CN=ca-two")


class Listener:
    """What is in use; an event tells when that changes."""

    def __init__(self, settings: TlsSettings, *, is_pair_awaited: bool = False) -> None:
        self.contexts: list[SSL.Context] = []
        self.pools: list[ClientCaPool] = []
        self.changed = asyncio.Event()
        self.reloader = TlsReloader(
            settings, self.on_context, self.on_pool, is_pair_awaited=is_pair_awaited
        )

    def on_context(self, context: SSL.Context) -> None:
        self.contexts.append(context)
        self.changed.set()

    def on_pool(self, pool: ClientCaPool) -> None:
        self.pools.append(pool)
        self.changed.set()

    def served(self) -> Issued:
        client = Client()
        client.handshake(ServerEngine(self.contexts[-1]))
        certificate = client.connection.get_peer_certificate()
        assert certificate is not None
        leaf = certificate.to_cryptography()
        return next(issued for issued in (ONE, TWO) if issued.certificate == leaf)


@pytest.fixture
def settings(tmp_path: Path) -> TlsSettings:
    (tmp_path / "tls.crt").write_bytes(ONE.pem)
    (tmp_path / "tls.key").write_bytes(ONE.key_pem())
    (tmp_path / "ca.crt").write_bytes(CA.pem)
    return TlsSettings(
        certificate_file=str(tmp_path / "tls.crt"),
        key_file=str(tmp_path / "tls.key"),
        client_ca_file=str(tmp_path / "ca.crt"),
        reload_seconds=0.01,
    )


@pytest.fixture
def listener(settings: TlsSettings) -> Listener:
    made = Listener(settings)
    made.reloader.load()
    return made


def test_everything_is_loaded_for_the_start(listener: Listener) -> None:
    assert listener.served() is ONE
    assert [len(pool.anchors) for pool in listener.pools] == [1]


@pytest.mark.parametrize("name", ["tls.crt", "tls.key", "ca.crt"])
def test_a_missing_file_ends_the_start(settings: TlsSettings, tmp_path: Path, name: str) -> None:
    (tmp_path / name).unlink()
    with pytest.raises(TlsFileError, match=name):
        Listener(settings).reloader.load()


def test_an_awaited_pair_comes_later_and_is_then_kept_fresh(
    settings: TlsSettings, tmp_path: Path
) -> None:
    (tmp_path / "tls.key").unlink()
    listener = Listener(settings, is_pair_awaited=True)
    listener.reloader.load()
    listener.reloader.check()
    with pytest.raises(TlsFileError, match=r"tls\.key"):
        listener.reloader.load_pair()
    (tmp_path / "tls.key").write_bytes(TWO.key_pem())
    with pytest.raises(TlsFileError, match="does not match"):
        listener.reloader.load_pair()
    assert (listener.contexts, len(listener.pools)) == ([], 1)
    (tmp_path / "tls.key").write_bytes(ONE.key_pem())
    listener.reloader.load_pair()
    assert listener.served() is ONE
    (tmp_path / "tls.crt").write_bytes(TWO.pem)
    (tmp_path / "tls.key").write_bytes(TWO.key_pem())
    # Not the gate's any more: a bad pair would keep the old one.
    listener.reloader.load_pair()
    assert listener.served() is ONE
    listener.reloader.check()
    assert listener.served() is TWO


# FR26: certificate first, key much later, rubbish in between.
def test_a_pair_in_two_steps_is_served_once_it_is_whole(listener: Listener, tmp_path: Path) -> None:
    for content in (TWO.pem, TWO.pem[:100], b"", TWO.pem):
        (tmp_path / "tls.crt").write_bytes(content)
        for _ in range(3):
            listener.reloader.check()
        assert listener.served() is ONE
    assert len(listener.contexts) == 1
    (tmp_path / "tls.key").write_bytes(TWO.key_pem())
    listener.reloader.check()
    assert listener.served() is TWO


def test_a_connection_keeps_its_context(listener: Listener, tmp_path: Path) -> None:
    engine, client = ServerEngine(listener.contexts[-1]), Client()
    client.handshake(engine)
    (tmp_path / "tls.crt").write_bytes(TWO.pem)
    (tmp_path / "tls.key").write_bytes(TWO.key_pem())
    listener.reloader.check()
    assert len(listener.contexts) == 2
    assert engine.receive(client.say(b"still here")) == b"still here"


# FR61
def test_a_replaced_context_leaves_nothing_behind(listener: Listener, tmp_path: Path) -> None:
    old = weakref.ref(listener.contexts.pop())
    (tmp_path / "tls.crt").write_bytes(TWO.pem)
    (tmp_path / "tls.key").write_bytes(TWO.key_pem())
    listener.reloader.check()
    gc.collect()
    assert old() is None
    assert listener.served() is TWO


# FR24
def test_a_pool_is_replaced_and_a_bad_one_is_not_used(listener: Listener, tmp_path: Path) -> None:
    for content in (b"", b"half written\n", ONE.key_pem()):
        (tmp_path / "ca.crt").write_bytes(content)
        listener.reloader.check()
    assert len(listener.pools) == 1
    (tmp_path / "ca.crt").write_bytes(CA_TWO.pem)
    listener.reloader.check()
    assert [pool.anchors[0].der for pool in listener.pools] == [
        CA.der,
        CA_TWO.der,
    ]
    assert len(listener.contexts) == 1


def test_one_file_may_hold_both(tmp_path: Path) -> None:
    both = tmp_path / "both.pem"
    both.write_bytes(ONE.key_pem() + ONE.pem)
    listener = Listener(TlsSettings(certificate_file=str(both), key_file=str(both)))
    listener.reloader.load()
    both.write_bytes(TWO.pem + TWO.key_pem())
    listener.reloader.check()
    assert listener.served() is TWO
    assert listener.pools == []


def test_without_files_there_is_nothing_to_do() -> None:
    listener = Listener(TlsSettings())
    listener.reloader.load()
    listener.reloader.check()
    assert listener.contexts == []
    assert listener.pools == []


def test_others_are_checked_too(tmp_path: Path) -> None:
    path = tmp_path / "other"
    path.write_bytes(b"1")
    seen: list[tuple[bytes, ...]] = []
    listener = Listener(TlsSettings())
    other = WatchedFiles("other", (str(path),), seen.append)
    reloader = TlsReloader(TlsSettings(), listener.on_context, listener.on_pool, [other])
    reloader.load()
    path.write_bytes(b"2")
    reloader.check()
    assert seen == [(b"1",), (b"2",)]
    assert reloader.watched == (other,)


async def test_it_runs_until_cancelled(listener: Listener, tmp_path: Path) -> None:
    running = asyncio.create_task(listener.reloader.run())
    for ca in (CA_TWO, CA):
        listener.changed.clear()
        (tmp_path / "ca.crt").write_bytes(ca.pem)
        await asyncio.wait_for(listener.changed.wait(), 10)
        assert listener.pools[-1].anchors[0].der == ca.der
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


def test_what_is_wrong_with_the_newest_files_is_told_until_it_is_mended(
    settings: TlsSettings, tmp_path: Path
) -> None:
    reloader = Listener(settings).reloader
    reloader.load()
    assert reloader.faults() == {}
    (tmp_path / "tls.crt").write_bytes(TWO.pem)
    (tmp_path / "ca.crt").unlink()
    reloader.check()
    assert set(reloader.faults()) == {SERVING_PAIR, CLIENT_CA}
    assert "does not match" in reloader.faults()[SERVING_PAIR]
    (tmp_path / "tls.crt").write_bytes(ONE.pem)
    reloader.check()
    assert set(reloader.faults()) == {CLIENT_CA}


# --- FR93, D39 ------------------------------------------------------------------------

OLD = issue("CN=old", hours=(-9, -5))
SOON_OVER = issue("CN=soon-over", hours=(-1, 1))


def put(folder: Path, pair: Issued) -> None:
    (folder / "tls.crt").write_bytes(pair.pem)
    (folder / "tls.key").write_bytes(pair.key_pem())


def shown(listener: Listener) -> bytes:
    client = Client()
    client.handshake(ServerEngine(listener.contexts[-1]))
    certificate = client.connection.get_peer_certificate()
    assert certificate is not None
    return certificate.to_cryptography().public_bytes(Encoding.DER)


def at_noon(settings: TlsSettings, now: list[float]) -> Listener:
    listener = Listener(settings)
    listener.reloader = TlsReloader(
        settings, listener.on_context, listener.on_pool, clock=lambda: now[0]
    )
    return listener


def test_fr93_an_expired_pair_serves_from_the_start(
    settings: TlsSettings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(tmp_path, OLD)
    listener = at_noon(settings, [NOON.timestamp()])
    listener.reloader.load()
    assert shown(listener) == OLD.der
    (line,) = [record.getMessage() for record in caplog.records]
    assert line == (
        f"{tmp_path}/tls.crt: the certificate of CN=old expired at 2030-06-01T07:00:00Z: "
        "clients that verify it will refuse it"
    )
    put(tmp_path, SOON_OVER)
    listener.reloader.check()
    assert shown(listener) == SOON_OVER.der


def test_fr93_a_valid_pair_stays_as_long_as_it_is_valid(
    settings: TlsSettings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    now = [NOON.timestamp()]
    put(tmp_path, SOON_OVER)
    listener = at_noon(settings, now)
    listener.reloader.load()
    put(tmp_path, OLD)
    for _ in range(3):
        listener.reloader.check()
    assert shown(listener) == SOON_OVER.der
    fault = (
        f"{tmp_path}/tls.crt: the certificate of CN=old expired at 2030-06-01T07:00:00Z, "
        "the one in use is valid until 2030-06-01T13:00:00Z"
    )
    assert listener.reloader.faults() == {SERVING_PAIR: fault}
    assert [record.getMessage() for record in caplog.records] == [
        f"Keeping the old serving certificate: {fault}"
    ]
    now[0] += 3601
    listener.reloader.check()
    assert shown(listener) == OLD.der
    assert listener.reloader.faults() == {}


# FR83
def test_a_key_that_no_client_takes_keeps_the_old_pair(listener: Listener, tmp_path: Path) -> None:
    put(tmp_path, issue("CN=odd", key=ec.generate_private_key(ec.SECP256K1())))
    listener.reloader.check()
    assert listener.served() is ONE
    assert "unsupported elliptic curve secp256k1" in listener.reloader.faults()[SERVING_PAIR]


# FR74
def test_certificates_with_headers_are_named_once(
    listener: Listener, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with_headers = CA.pem.replace(b"TE-----\n", b"TE-----\nKey: value\n\n", 1)
    (tmp_path / "ca.crt").write_bytes(CA_TWO.pem + with_headers)
    put(tmp_path, TWO)
    (tmp_path / "tls.crt").write_bytes(with_headers + TWO.pem)
    for _ in range(3):
        listener.reloader.check()
    assert [record.getMessage() for record in caplog.records] == [
        f"{tmp_path}/tls.crt: certificate 1 is not used, for it has PEM headers",
        f"{tmp_path}/ca.crt: certificate 2 is not used, for it has PEM headers",
    ]
    assert listener.served() is TWO
    assert [anchor.der for anchor in listener.pools[-1].anchors] == [CA_TWO.der]
