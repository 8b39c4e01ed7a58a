import pytest

from pyrbacproxy.handler import Handler
from pyrbacproxy.http1.framing import NO_BODY
from pyrbacproxy.http1.head import Headers, RequestHead
from pyrbacproxy.http1.parser import RequestParser, RequestReceived
from pyrbacproxy.model import ClientCertificate, Peer
from pyrbacproxy.proxy import exchange as decision_memory
from pyrbacproxy.proxy.exchange import DecisionMemory, Question, Remembered
from pyrbacproxy.proxy.heads import Destination, Heads, UpstreamHead
from pyrbacproxy.values import Frozen, replace
from tests.proxy.dialogue import ALLOWED, forwarding_handler

ALICE = ClientCertificate("alice", (), 0.0, 100.0, "ab")
PEER = Peer("192.0.2.1", ALICE)


def other_handler() -> Handler:
    return lambda request: forwarding_handler(request)  # noqa: PLW0108 - another object


def head(path: str = "/x", *lines: str, method: str = "GET") -> RequestReceived:
    text = "\r\n".join([f"{method} {path} HTTP/1.1", "Host: h", *lines, "", ""])
    event = RequestParser(max_head_bytes=65536).feed(text.encode())[0]
    assert isinstance(event, RequestReceived)
    return event


def decision(
    received: RequestReceived, peer: Peer = PEER, usable_until: float = 60.0
) -> Remembered:
    question = Question(received, peer, forwarding_handler)
    return Remembered(
        question, usable_until, ALLOWED, UpstreamHead(b"upstream head"), keeps_alive=True
    )


def knows(
    memory: DecisionMemory,
    received: RequestReceived,
    peer: Peer = PEER,
    handler: Handler = forwarding_handler,
    now: float = 0.0,
) -> bool:
    return memory.recall(received.raw, peer, handler, now) is not None


def test_the_same_bytes_from_an_equal_peer_are_known() -> None:
    memory = DecisionMemory()
    kept = decision(head())
    memory.keep(kept)
    for peer in (PEER, Peer("192.0.2.1", ALICE)):
        found = memory.recall(head().raw, peer, forwarding_handler, 59.0)
        assert found is not None
        assert found.upstream_head == kept.upstream_head
        assert found.question.received.head.method == b"GET"
        assert found.question.received.target.path == "/x"


def test_what_outlives_the_connection_holds_no_credential() -> None:
    memory = DecisionMemory()
    received = head("/x?access_token=hush", "Authorization: Bearer hush")
    memory.keep(decision(received))
    assert knows(memory, received)
    assert "hush" in _everything(received)
    assert "hush" not in _everything(memory._kept)


@pytest.mark.parametrize(
    "line",
    [(b"authorization", b"Basic aHVzaA=="), (b"Cookie", b"id=hush")],
    ids=["basic", "cookie"],
)
def test_a_head_that_carries_a_credential_on_is_not_kept(line: tuple[bytes, bytes]) -> None:
    memory = DecisionMemory()
    kept = decision(head())
    heads = Heads(Destination(b"up:80"))
    passed_on = heads.request(RequestHead(b"GET", b"/x", Headers([line])), NO_BODY)
    memory.keep(replace(kept, upstream_head=passed_on))
    assert not knows(memory, head())


def _everything(value: object) -> str:
    """All text below a value, whatever its repr hides."""
    if isinstance(value, dict):
        return _everything([*value.keys(), *value.values()])
    if isinstance(value, list | tuple):
        return " ".join(map(_everything, value))
    if isinstance(value, Frozen):
        return _everything([*vars(value).values()])
    if isinstance(value, Headers):
        return _everything(value.pairs)
    return str(value)


@pytest.mark.parametrize(
    ("received", "peer", "handler", "now", "is_kept"),
    [
        pytest.param(head("/x", "X: 1"), PEER, forwarding_handler, 0.0, True, id="other bytes"),
        pytest.param(
            head(), Peer("192.0.2.2", ALICE), forwarding_handler, 0.0, True, id="other address"
        ),
        pytest.param(
            head(), Peer("192.0.2.1"), forwarding_handler, 0.0, False, id="other certificate"
        ),
        pytest.param(head(), PEER, other_handler(), 0.0, False, id="other handler"),
        pytest.param(head(), PEER, forwarding_handler, 60.0, False, id="too late"),
    ],
)
def test_what_is_remembered_dies_with_what_it_hangs_on(
    received: RequestReceived, peer: Peer, handler: Handler, now: float, *, is_kept: bool
) -> None:
    memory = DecisionMemory()
    memory.keep(decision(head()))
    assert not knows(memory, received, peer, handler, now)
    assert knows(memory, head()) == is_kept


@pytest.mark.parametrize(
    "received",
    [
        pytest.param(head("/x", "Content-Length: 1", method="POST"), id="a body"),
        pytest.param(head("/x", "X: " + "x" * 8192), id="a long head"),
    ],
)
def test_what_is_never_remembered(received: RequestReceived) -> None:
    memory = DecisionMemory()
    memory.keep(decision(received))
    assert not knows(memory, received)


def test_the_oldest_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision_memory, "_MAX_KEPT", 2)
    memory = DecisionMemory()
    for path in ("/1", "/2", "/3"):
        memory.keep(decision(head(path)))
    assert [knows(memory, head(path)) for path in ("/1", "/2", "/3")] == [False, True, True]


def test_an_upgrade_is_not_kept() -> None:
    memory = DecisionMemory()
    received = head("/x", "Connection: upgrade", "Upgrade: echo")
    memory.keep(decision(received))
    assert not knows(memory, received)
