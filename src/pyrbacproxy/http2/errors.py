"""What ends an HTTP/2 connection, or one stream of it: the codes of RFC 9113 §7 that we use."""

from enum import IntEnum


class Code(IntEnum):
    """Error codes (RFC 9113 §7)."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    ENHANCE_YOUR_CALM = 11
    INADEQUATE_SECURITY = 12


class ConnectionFaultError(Exception):
    """The client broke the connection's rules: it ends with `code` (a number of RFC 9113 §7)."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class MalformedStreamError(Exception):
    """A message that is none: its stream is reset with PROTOCOL_ERROR (RFC 9113 §8.1.1)."""
