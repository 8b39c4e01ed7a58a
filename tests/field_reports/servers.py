"""The two servers around a proxy under test: a fake API server and a recording upstream.

Both are threads on loopback. A test says what they answer and then looks at what they were asked.
"""

import contextlib
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from cryptography import x509

from tests.conformance.wire import Message, abort, parse

# Generous: when it is reached something is broken, not slow.
PATIENCE_SECONDS = 30.0
OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 8\r\n\r\nupstream"

Document = dict[str, object]


class Listener:
    """Accepts connections on a loopback port, ephemeral if 0; each has a thread of its own."""

    def __init__(
        self, *, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
    ) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, port), family=family, backlog=512)
        self._tls = tls
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._is_closed = False
        self.port: int = self._socket.getsockname()[1]
        self.accepted = 0
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def serve(self, connection: socket.socket) -> None:
        """Talk on one connection; it is closed when this returns or raises OSError."""
        raise NotImplementedError

    def drop_connections(self) -> None:
        """End every open connection; new ones are still accepted."""
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Stop listening (connects are refused from now on) and end every connection."""
        self._is_closed = True
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(PATIENCE_SECONDS)
        self._socket.close()
        self.drop_connections()

    def _accept(self) -> None:
        while not self._is_closed:
            with contextlib.suppress(OSError):
                connection, _ = self._socket.accept()
                threading.Thread(target=self._run, args=(connection,), daemon=True).start()

    def _forget(self, connection: socket.socket) -> None:
        with self._lock:
            self._open.discard(connection)

    def _run(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), contextlib.ExitStack() as cleanup:
            cleanup.callback(connection.close)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls:
                connection = self._tls.wrap_socket(connection, server_side=True)
                cleanup.callback(connection.close)
            with self._lock:
                self._open.add(connection)
                self.accepted += 1
            cleanup.callback(self._forget, connection)
            self.serve(connection)


# --- the API server -------------------------------------------------------------------


@dataclass(frozen=True)
class Reply:
    """What the API server answers to one review.

    `status` is the review's status; `http` the status code (from 400 on a Status object goes out).
    `delay_seconds` passes first. `fault`: "reset" aborts the connection instead, "close" closes it.
    `body` replaces the JSON text.
    """

    status: Document = field(default_factory=dict)
    http: int = 201
    delay_seconds: float = 0.0
    fault: str = ""
    body: bytes | None = None


def user(
    name: str, *groups: str, uid: str = "", extra: dict[str, list[str]] | None = None
) -> Reply:
    """A token that is good: whose it is."""
    identity = {"username": name, "uid": uid, "groups": list(groups), "extra": extra or {}}
    return Reply({"authenticated": True, "user": identity})


def refused(error: str = "") -> Reply:
    """A token that is bad, with or without an error text."""
    return Reply({"authenticated": False} | ({"error": error} if error else {}))


ALLOWED = Reply({"allowed": True})
DENIED = Reply({"allowed": False, "reason": "no rule"})


def failed(http: int) -> Reply:
    """The API server answers the review with this HTTP status and a Status object."""
    return Reply(http=http)


@dataclass(frozen=True)
class Asked:
    """One call: `kind` is "token", "access" or the request line of anything else.

    `at` is time.monotonic(). `credential` is the caller's Authorization value, `certificate` the
    subject of its client certificate (RFC 4514), each "" when absent.
    """

    kind: str
    spec: Document
    at: float
    credential: str
    certificate: str


Answering = Callable[[Asked], Reply]
KINDS = {
    "POST /apis/authentication.k8s.io/v1/tokenreviews": "token",
    "POST /apis/authorization.k8s.io/v1/subjectaccessreviews": "access",
}


class FakeApi(Listener):
    """An API server that knows TokenReview and SubjectAccessReview.

    A test decides: `api.tokens[text] = Reply` (a token not in it is refused) or, for answers that
    change, `api.on_token = function`; `api.on_access = function`. It sees `api.asked`.
    """

    def __init__(self, *, port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        self.reset()
        super().__init__(port=port, tls=tls)

    def reset(self) -> None:
        """Back to the start: no tokens, every access allowed, nothing asked."""
        self.tokens: dict[str, Reply] = {}
        self.on_token: Answering = self._from_table
        self.on_access: Answering = lambda _: ALLOWED
        self.asked: list[Asked] = []

    def token_reviews(self, token: str | None = None) -> list[Asked]:
        """The TokenReviews, of all tokens or of this one."""
        asked = [call for call in self.asked if call.kind == "token"]
        return [call for call in asked if token is None or call.spec["token"] == token]

    def access_reviews(self, user_name: str | None = None) -> list[Document]:
        """The specs of the SubjectAccessReviews, of all users or of this one."""
        specs = [call.spec for call in self.asked if call.kind == "access"]
        return [spec for spec in specs if user_name is None or spec.get("user") == user_name]

    def serve(self, connection: socket.socket) -> None:
        data = b""
        while block := connection.recv(65536):
            data += block
            while True:
                message, used = parse(data, request=True)
                if message is None or not message.complete:
                    break
                data = data[used:]
                if not self._answer(connection, message):
                    return

    def _from_table(self, call: Asked) -> Reply:
        return self.tokens.get(str(call.spec["token"]), refused())

    def _answer(self, connection: socket.socket, message: Message) -> bool:
        """Record and answer one call; false when the connection is to end."""
        review = json.loads(message.body) if message.body else {}
        line = message.start.rpartition(" ")[0].partition("?")[0]
        call = Asked(
            KINDS.get(line, line),
            review.get("spec", {}),
            time.monotonic(),
            "".join(message.values("authorization")),
            _subject(connection),
        )
        self.asked.append(call)
        match call.kind:
            case "token":
                reply = self.on_token(call)
            case "access":
                reply = self.on_access(call)
            case _:
                reply = failed(404)
        time.sleep(reply.delay_seconds)
        if reply.fault == "reset":
            abort(connection)
        if reply.fault:
            return False
        connection.sendall(_encoded(reply, review))
        return True


def _subject(connection: socket.socket) -> str:
    shown = isinstance(connection, ssl.SSLSocket) and connection.getpeercert(binary_form=True)
    return x509.load_der_x509_certificate(shown).subject.rfc4514_string() if shown else ""


def _encoded(reply: Reply, review: Document) -> bytes:
    document: Document = {"metadata": {}} | review | {"status": reply.status}
    if reply.http >= 400:
        document = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": reply.http}
        document |= {"message": f"scripted {reply.http}", "metadata": {}}
    body = json.dumps(document).encode() if reply.body is None else reply.body
    head = f"HTTP/1.1 {reply.http} Scripted\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


# --- the upstream ---------------------------------------------------------------------


class Arrived:
    """One request at the upstream. `raw` holds its bytes as they came, `message` what they mean.

    `message` is there once the head is whole; `message.start` is the request line,
    `message.values("name")` a header's values, `message.body` what came of the body.
    """

    def __init__(self, connection: socket.socket, data: bytes) -> None:
        self.connection = connection
        self.raw = data
        self.rest = b""
        self.is_over = False
        self.message = Message("", [])
        self._parse()

    @property
    def target(self) -> str:
        return self.message.start.partition(" ")[2].rpartition(" ")[0]

    @property
    def lines(self) -> list[str]:
        """The head's lines as they came, without the request line."""
        return self.raw.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")[1:]

    def read_body(self) -> bytes:
        """Wait for the whole request; what came when the proxy ended it before."""
        while not self.message.complete and (block := self.connection.recv(262144)):
            self.raw += block
            self._parse()
        return self.message.body

    def send(self, data: bytes) -> None:
        self.connection.sendall(data)

    def close(self) -> None:
        """End the connection in order once the script returns."""
        self.is_over = True

    def reset(self) -> None:
        """Abort the connection at once."""
        abort(self.connection)
        self.is_over = True

    def _parse(self) -> None:
        message, used = parse(self.raw, request=True)
        if message is None:
            return
        self.message = message
        if message.complete:
            self.raw, self.rest = self.raw[:used], self.raw[used:]


Script = Callable[[Arrived], None]


class Upstream(Listener):
    """Records each request byte for byte and answers by script.

    `upstream.script` is bytes (sent once the whole request came), or a function that is called as
    soon as a request's head came and drives the `Arrived` itself. `upstream.requests` lists what
    came, `upstream.raw` all bytes of all connections.
    """

    def __init__(self, *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> None:
        self.reset()
        super().__init__(host=host, tls=tls)

    def reset(self) -> None:
        """Back to the start: nothing seen, and a plain 200 (`OK`) for everything."""
        self.script: bytes | Script = OK
        self.requests: list[Arrived] = []
        self.raw = b""

    @property
    def targets(self) -> list[str]:
        return [request.target for request in self.requests]

    def serve(self, connection: socket.socket) -> None:
        data = b""
        while True:
            while b"\r\n\r\n" not in data:
                block = connection.recv(262144)
                if not block:
                    return
                self.raw += block
                data += block
            request = Arrived(connection, data)
            self.requests.append(request)
            if isinstance(self.script, bytes):
                request.read_body()
                request.send(self.script)
            else:
                self.script(request)
                if not request.is_over:
                    request.read_body()
            if request.is_over or not request.message.complete:
                return
            data = request.rest
