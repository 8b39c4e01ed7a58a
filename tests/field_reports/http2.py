"""An HTTP/2 client that keeps no rules: frames go out as a test makes them, frames come in."""

import contextlib
import select
import ssl
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import hpack
from h2.errors import ErrorCodes
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from tests.field_reports.harness import Client, Proxy, client_context
from tests.field_reports.servers import PATIENCE_SECONDS

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
LARGEST_WINDOW = 2**31 - 1
_FRAME_HEAD = 9
_PIECE = 16384
# A socket that takes nothing for so long is full.
_FULL_SECONDS = 3.0

Header = tuple[str, str]


def request(path: str = "/", *more: Header, method: str = "GET") -> list[Header]:
    """The header list of a request that is in order."""
    pseudo = [(":method", method), (":scheme", "https"), (":authority", "h"), (":path", path)]
    return [*pseudo, *more]


@dataclass
class Received:
    """What came of one stream."""

    headers: list[Header] = field(default_factory=list)
    blocks: list[bytes] = field(default_factory=list)
    is_ended: bool = False
    reset: ErrorCodes | None = None

    @property
    def body(self) -> bytes:
        """The bytes of all DATA frames."""
        return b"".join(self.blocks)

    @property
    def status(self) -> int:
        """Its status; 0 when no answer came."""
        return int(dict(self.headers).get(":status", "0"))


class Http2:
    """One connection. `goaway` is the proxy's last word, `settings` its first.

    SETTINGS of the proxy are acknowledged, windows are opened as far as the test says.
    """

    def __init__(self, client: Client, settings: dict[int, int]) -> None:
        self.client = client
        self.streams: dict[int, Received] = {}
        self.settings: dict[int, int] = {}
        self.goaway: ErrorCodes | None = None
        self._encoder = hpack.Encoder()
        self._decoder = hpack.Decoder()
        self._next = 1
        client.send(PREFACE)
        self.send(SettingsFrame(settings=settings))

    # --- out --------------------------------------------------------------------------

    def send(self, *frames: Frame) -> None:
        """Write frames; lost in silence when the proxy has ended the connection."""
        self.client.send(b"".join(frame.serialize() for frame in frames))

    def pour(self, frames: Iterable[Frame]) -> bool:
        """Write frames; false when they are not taken: by an ended connection, or a full one."""
        self.client.connection.settimeout(_FULL_SECONDS)
        try:
            self.client.connection.sendall(b"".join(frame.serialize() for frame in frames))
        except OSError:
            return False
        finally:
            self.client.connection.settimeout(PATIENCE_SECONDS)
        return True

    def next_stream(self) -> int:
        """A stream's number that was not used."""
        number, self._next = self._next, self._next + 2
        return number

    def block(self, headers: Sequence[Header]) -> bytes:
        """A header block; blocks must go out in the order in which they are made."""
        return bytes(self._encoder.encode(list(headers), huffman=False))

    def head(self, headers: Sequence[Header], *, is_whole: bool = True) -> tuple[int, list[Frame]]:
        """The frames that open a stream, with its number. `is_whole`: there is no body."""
        number, block = self.next_stream(), self.block(headers)
        pieces = [block[start : start + _PIECE] for start in range(0, len(block), _PIECE)]
        frames: list[Frame] = [HeadersFrame(number, pieces[0])]
        frames += [ContinuationFrame(number, piece) for piece in pieces[1:]]
        if is_whole:
            frames[0].flags.add("END_STREAM")
        frames[-1].flags.add("END_HEADERS")
        return number, frames

    def open(self, headers: Sequence[Header], *, is_whole: bool = True) -> int:
        """Open a stream; its number."""
        number, frames = self.head(headers, is_whole=is_whole)
        self.send(*frames)
        return number

    def data(self, stream: int, body: bytes, *, is_last: bool = True) -> None:
        """One DATA frame."""
        self.send(DataFrame(stream, body, flags=["END_STREAM"] if is_last else []))

    def widen(self, stream: int = 0, size: int = LARGEST_WINDOW - 65535) -> None:
        """Let the proxy send so many bytes more."""
        self.send(WindowUpdateFrame(stream, window_increment=size))

    # --- in ---------------------------------------------------------------------------

    def read(self) -> None:
        """Take what comes next. Raises TimeoutError when nothing does."""
        self.client.receive()
        for frame in self._frames():
            self._note(frame)

    def read_what_is_there(self) -> None:
        """Take what has come, and don't wait."""
        while not self.has_ended and self._has_bytes():
            self.read()

    def answer(self, stream: int) -> Received:
        """The whole answer on a stream, or what came of it when stream or connection ended."""
        while not self.has_ended and not self.at(stream).is_ended:
            self.read()
        return self.at(stream)

    def ask(self, headers: Sequence[Header]) -> Received:
        """The answer to one request without a body."""
        return self.answer(self.open(headers))

    def end(self) -> ErrorCodes | None:
        """Wait until the proxy ends the connection; what its GOAWAY said, if it came."""
        while not self.has_ended:
            self.read()
        return self.goaway

    def at(self, stream: int) -> Received:
        """What has come of a stream so far."""
        return self.streams.setdefault(stream, Received())

    @property
    def has_ended(self) -> bool:
        """Whether the proxy has ended the connection."""
        return self.client.has_ended

    def _has_bytes(self) -> bool:
        connection = self.client.connection
        if isinstance(connection, ssl.SSLSocket) and connection.pending():
            return True
        return bool(select.select([connection], [], [], 0)[0])

    def _frames(self) -> Iterator[Frame]:
        while len(self.client.received) >= _FRAME_HEAD:
            data = memoryview(self.client.received)
            frame, length = Frame.parse_frame_header(data[:_FRAME_HEAD])
            if len(data) < _FRAME_HEAD + length:
                return
            frame.parse_body(data[_FRAME_HEAD : _FRAME_HEAD + length])
            self.client.received = self.client.received[_FRAME_HEAD + length :]
            yield frame

    def _note(self, frame: Frame) -> None:
        if isinstance(frame, SettingsFrame) and "ACK" not in frame.flags:
            self.settings = dict(frame.settings)
            self.send(SettingsFrame(flags=["ACK"]))
        elif isinstance(frame, GoAwayFrame):
            self.goaway = ErrorCodes(frame.error_code)
        elif isinstance(frame, HeadersFrame):
            assert "END_HEADERS" in frame.flags, "answers of these tests are short"
            decoded = self._decoder.decode(frame.data)
            answer = self.at(frame.stream_id)
            answer.headers += [(str(name), str(value)) for name, value in decoded]
        elif isinstance(frame, DataFrame):
            self.at(frame.stream_id).blocks.append(frame.data)
        elif isinstance(frame, RstStreamFrame):
            self.at(frame.stream_id).reset = ErrorCodes(frame.error_code)
            self.at(frame.stream_id).is_ended = True
        if "END_STREAM" in frame.flags:
            self.at(frame.stream_id).is_ended = True


@contextlib.contextmanager
def negotiated(proxy: Proxy, certificate: str = "") -> Iterator[Client]:
    """A TLS connection whose client offers nothing but h2 and has sent nothing yet."""
    context = client_context(proxy.certificates / certificate if certificate else None)
    context.set_alpn_protocols(["h2"])
    with proxy.connect(tls=context) as client:
        assert isinstance(client.connection, ssl.SSLSocket)
        assert client.connection.selected_alpn_protocol() == "h2"
        yield client


@contextlib.contextmanager
def http2(
    proxy: Proxy, settings: dict[int, int] | None = None, *, certificate: str = ""
) -> Iterator[Http2]:
    """An HTTP/2 connection over TLS, begun with these settings of the client's."""
    with negotiated(proxy, certificate) as client:
        yield Http2(client, settings or {})
