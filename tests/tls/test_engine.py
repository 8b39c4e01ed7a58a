import gc
import os
from collections.abc import Callable

import pytest
from OpenSSL import SSL

from pyrbacproxy.tls.engine import PlainHttpError, ServerEngine, TlsError
from pyrbacproxy.tls.server_context import TlsSettings, server_context
from pyrbacproxy.values import replace
from tests.tls.parties import Client, authority, issue

VERSIONS = [
    pytest.param(SSL.TLS1_3_VERSION, id="TLS 1.3"),
    pytest.param(SSL.TLS1_2_VERSION, id="TLS 1.2"),
]
SERVER = issue("CN=server")
CONTEXT = server_context(SERVER.pair, TlsSettings())


def engine(settings: TlsSettings | None = None) -> ServerEngine:
    return ServerEngine(server_context(SERVER.pair, settings) if settings else CONTEXT)


def receive_in_steps(server: ServerEngine, ciphertext: bytes, step: int) -> None:
    for start in range(0, len(ciphertext), step):
        server.receive(ciphertext[start : start + step])


def connected(client: Client | None = None) -> tuple[Client, ServerEngine]:
    client = client or Client()
    server = engine()
    client.handshake(server)
    return client, server


@pytest.mark.parametrize("version", VERSIONS)
def test_both_sides_understand_each_other(version: int) -> None:
    client, server = connected(Client(version=version))
    assert server.version == {0x304: "TLSv1.3", 0x303: "TLSv1.2"}[version]
    for size in (1, 160, 16384, 16385, 131072, 300_000):
        said = os.urandom(size)
        assert server.receive(client.say(said)) == said
        server.send(said)
        assert client.hear(b"".join(server.outgoing())) == said
        assert server.outgoing() == []
        assert client.hear(b"".join(server.sealed(said))) == said
        assert server.outgoing() == []
    assert not server.is_peer_closed


@pytest.mark.parametrize("version", VERSIONS)
def test_a_handshake_and_a_record_may_come_byte_by_byte(version: int) -> None:
    client, server = Client(version=version), engine()
    with pytest.raises(SSL.WantReadError):
        client.connection.do_handshake()
    while not server.is_ready:
        for byte in client.outgoing():
            assert server.receive(bytes([byte])) == b""
        client.hear(b"".join(server.outgoing()))
    said = client.say(b"first") + client.say(b"second")
    assert b"".join(server.receive(bytes([byte])) for byte in said) == b"firstsecond"
    assert server.receive(client.say(b"whole")) == b"whole"


@pytest.mark.parametrize("cut", range(1, 60))
def test_records_may_be_cut_anywhere(cut: int) -> None:
    client, server = connected()
    said = client.say(b"first") + client.say(b"second")
    assert server.receive(said[:cut]) + server.receive(said[cut:]) == b"firstsecond"
    # Back in step: the next whole record is read as one.
    assert server.receive(client.say(b"third")) == b"third"


def test_a_request_may_come_with_the_end_of_the_handshake() -> None:
    client, server = Client(), engine()
    with pytest.raises(SSL.WantReadError):
        client.connection.do_handshake()
    server.receive(client.outgoing())
    client.connection.bio_write(b"".join(server.outgoing()))
    client.connection.do_handshake()
    assert server.receive(client.say(b"GET")) == b"GET"
    assert server.is_ready


def test_nothing_in_is_nothing_out() -> None:
    client, server = connected()
    assert server.receive(b"") == b""
    server.send(b"")
    assert server.outgoing() == []
    assert server.receive(client.say(b"x")) == b"x"


def test_several_answers_go_out_together() -> None:
    client, server = connected()
    server.send(b"head")
    server.send(memoryview(b"body" * 50_000))
    server.send(b"end")
    assert client.hear(b"".join(server.outgoing())) == b"head" + b"body" * 50_000 + b"end"


def test_what_is_sealed_leaves_behind_what_was_due_before() -> None:
    client, server = connected()
    assert server.sealed(b"") == []
    server.send(b"first")
    assert client.hear(b"".join(server.sealed(b"second"))) == b"firstsecond"
    assert client.hear(b"".join(server.sealed(b"third"))) == b"third"


def test_nothing_is_said_after_the_end() -> None:
    _, server = connected()
    server.shutdown()
    server.outgoing()
    for size in (1, 1_000_000):
        with pytest.raises(TlsError):
            server.send(b"x" * size)
        with pytest.raises(TlsError):
            server.sealed(b"x" * size)


def test_a_long_chain_goes_out_whole() -> None:
    links = tuple(authority(f"CN={'x' * 60}").der for _ in range(40))
    pair = replace(SERVER.pair, chain=(SERVER.der, *links))
    server = ServerEngine(server_context(pair, TlsSettings()))
    client = Client()
    client.handshake(server)
    sent = client.connection.get_peer_cert_chain() or []
    assert len(sent) == 1 + len(links)


# FR34
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("with_data", [b"", b"last words"])
def test_close_notify_is_noticed_and_the_answer_still_goes(version: int, with_data: bytes) -> None:
    client, server = connected(Client(version=version))
    said = client.say(with_data) if with_data else b""
    client.connection.shutdown()
    assert server.receive(said + client.outgoing()) == with_data
    assert server.is_peer_closed
    server.send(b"answer")
    assert client.hear(b"".join(server.outgoing())) == b"answer"


@pytest.mark.parametrize("version", VERSIONS)
def test_our_close_notify_leaves_the_client_its_voice(version: int) -> None:
    client, server = connected(Client(version=version))
    server.shutdown()
    with pytest.raises(SSL.ZeroReturnError):
        client.hear(b"".join(server.outgoing()))
    assert server.receive(client.say(b"still here")) == b"still here"
    with pytest.raises(TlsError, match="shutdown"):
        server.send(b"no more")


def test_before_the_handshake_there_is_nothing_to_close() -> None:
    server = engine()
    server.shutdown()
    assert server.outgoing() == []


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda record: record[:-1] + bytes([record[-1] ^ 1]), id="one record"),
        pytest.param(lambda record: record[:-1] + bytes([record[-1] ^ 1]) + b"x", id="and more"),
        pytest.param(lambda record: b"not TLS at all" + record, id="garbage"),
    ],
)
def test_a_spoilt_record_ends_the_connection_with_an_alert(
    spoil: Callable[[bytes], bytes],
) -> None:
    client, server = connected()
    with pytest.raises(TlsError):
        server.receive(spoil(client.say(b"secret")))
    with pytest.raises(SSL.Error):
        client.hear(b"".join(server.outgoing()))
    # It stays ended, and closing it is no error.
    with pytest.raises(TlsError):
        server.receive(b"again")
    server.shutdown()


def test_a_renegotiation_is_declined() -> None:
    client, server = connected(Client(version=SSL.TLS1_2_VERSION))
    client.connection.renegotiate()
    with pytest.raises(SSL.WantReadError):
        client.connection.do_handshake()
    assert server.receive(client.outgoing()) == b""
    client.connection.bio_write(b"".join(server.outgoing()))
    with pytest.raises(SSL.Error):
        client.connection.do_handshake()


@pytest.mark.parametrize(
    "start", [b"GET / HTTP/1.1\r\n", b"HEAD /", b"POST /x", b"PUT /y", b"OPTIONS *"]
)
@pytest.mark.parametrize("step", [1, 100])
def test_plain_http_is_told_from_garbage(start: bytes, step: int) -> None:
    server = engine()
    with pytest.raises(PlainHttpError):
        receive_in_steps(server, start, step)
    # No alert before the plain answer.
    assert server.outgoing() == []
    assert PlainHttpError.ANSWER.startswith(b"HTTP/1.0 400 Bad Request\r\n\r\n")


def test_other_protocols_are_garbage() -> None:
    server = engine()
    with pytest.raises(TlsError) as failed:
        server.receive(b"SSH-2.0-OpenSSH_9.2\r\n")
    assert not isinstance(failed.value, PlainHttpError)


def test_an_old_version_is_refused() -> None:
    with pytest.raises(TlsError, match="protocol"):
        Client(version=SSL.TLS1_1_VERSION).handshake(engine())


@pytest.mark.parametrize(
    ("served", "offered", "chosen"),
    [
        pytest.param((b"http/1.1",), (b"h2", b"http/1.1"), b"http/1.1", id="only ours"),
        pytest.param((b"http/1.1", b"h2"), (b"h2", b"http/1.1"), b"http/1.1", id="D25"),
        pytest.param((b"http/1.1", b"h2"), (b"h2",), b"h2", id="an h2-only client"),
        pytest.param((b"h2", b"http/1.1"), (b"http/1.1", b"h2"), b"h2", id="h2 preferred"),
        pytest.param((b"http/1.1",), (), b"", id="no ALPN"),
    ],
)
def test_alpn_takes_our_preference(
    served: tuple[bytes, ...], offered: tuple[bytes, ...], chosen: bytes
) -> None:
    server = engine(TlsSettings(alpn=served))
    client = Client(alpn=offered)
    client.handshake(server)
    assert server.alpn() == client.connection.get_alpn_proto_negotiated() == chosen


def test_http2_is_none_below_tls_1_2() -> None:
    both = (b"h2", b"http/1.1")
    server = engine(TlsSettings(alpn=both, minimum=SSL.TLS1_VERSION))
    Client(alpn=both, version=SSL.TLS1_1_VERSION).handshake(server)
    assert server.alpn() == b"http/1.1"
    server = engine(TlsSettings(alpn=both, minimum=SSL.TLS1_VERSION))
    with pytest.raises(TlsError, match="no application protocol"):
        Client(alpn=both[:1], version=SSL.TLS1_1_VERSION).handshake(server)


def test_the_suite_is_known() -> None:
    server = engine()
    Client(version=SSL.TLS1_2_VERSION, ciphers="ECDHE-ECDSA-AES256-SHA").handshake(server)
    assert server.cipher == "ECDHE-ECDSA-AES256-SHA"


def test_alpn_without_a_common_protocol_is_refused() -> None:
    server = engine()
    client = Client(alpn=(b"spdy/3",))
    with pytest.raises(TlsError, match="no application protocol"):
        client.handshake(server)
    with pytest.raises(SSL.Error, match="no application protocol"):
        client.hear(b"".join(server.outgoing()))
    # The next connection on the context is not harmed.
    connected()


@pytest.mark.parametrize("version", VERSIONS)
def test_the_chain_is_handed_out_as_presented(version: int) -> None:
    root = authority("CN=root")
    between = authority("CN=between", issuer=root)
    leaf = issue("CN=alice", issuer=between)
    stranger = authority("CN=stranger")
    client = Client(version=version, identity=leaf, chain=(stranger, between))
    _, server = connected(client)
    assert server.peer_chain() == (leaf.der, stranger.der, between.der)


def test_without_a_certificate_the_chain_is_empty() -> None:
    _, server = connected()
    assert server.peer_chain() == ()


@pytest.mark.parametrize("version", VERSIONS)
def test_an_offered_session_is_not_resumed_and_harms_nobody(version: int) -> None:
    leaf = issue("CN=alice")
    client, server = connected(Client(version=version, identity=leaf))
    server.send(b"x")
    assert client.hear(b"".join(server.outgoing())) == b"x"
    client.offer_session_again()
    _, again = connected(client)
    assert again.peer_chain() == (leaf.der,)


def test_no_ticket_is_made_that_nobody_could_use() -> None:
    server, client = engine(), Client()
    with pytest.raises(SSL.WantReadError):
        client.connection.do_handshake()
    server.receive(client.outgoing())
    client.connection.bio_write(b"".join(server.outgoing()))
    client.connection.do_handshake()
    server.receive(client.outgoing())
    assert server.is_ready
    assert server.outgoing() == []


# FR61: whatever becomes of a connection, nothing of it stays.
def test_connections_leave_nothing_behind() -> None:
    before = live_connections()
    for _ in range(50):
        connected(Client(identity=SERVER))
        abandon_the_handshake()
        with pytest.raises(TlsError):
            engine().receive(b"garbage, not TLS")
        with pytest.raises(TlsError):
            Client(alpn=(b"spdy/3",)).handshake(engine())
    assert live_connections() == before


def live_connections() -> int:
    gc.collect()
    return sum(isinstance(thing, SSL.Connection) for thing in gc.get_objects())


def abandon_the_handshake() -> None:
    server, client = engine(), Client()
    with pytest.raises(SSL.WantReadError):
        client.connection.do_handshake()
    server.receive(client.outgoing())
    assert not server.is_ready
