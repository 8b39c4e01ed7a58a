"""Protocol errors: `LocalProtocolError` is our bug, `RemoteProtocolError(status)` is theirs."""


class ProtocolError(Exception):
    """Somebody broke HTTP/1.1."""


class LocalProtocolError(ProtocolError):
    """We were about to break it: a bug of ours."""


class RemoteProtocolError(ProtocolError):
    """The other side broke it.

    `status` is the answer that fits when the other side is a client: 400, 417, 431, 501 or 505.
    """

    def __init__(self, message: str, *, status: int = 400) -> None:
        super().__init__(message)
        self.status = status
