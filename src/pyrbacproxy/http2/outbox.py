"""What of one response's body waits until the client's windows let it go."""

from collections import deque

from pyrbacproxy.dataplane.sinks import Piece


class Outbox:
    """Pieces in order, cut as small as there is room. `size` is how many bytes wait.

    A piece may be a view of a buffer as large as one read; `body` keeps it alive.
    """

    __slots__ = ("_pieces", "size")

    def __init__(self) -> None:
        self._pieces: deque[Piece] = deque()
        self.size = 0

    def put(self, piece: Piece) -> None:
        """Add bytes at the end."""
        if piece:
            self._pieces.append(piece)
            self.size += len(piece)

    def take(self, room: int) -> Piece:
        """The next bytes, at most `room`; b"" if there are none. Short pieces are joined."""
        if not self._pieces:
            return b""
        first = self._pieces.popleft()
        if len(first) > room:
            view = memoryview(first)
            self._pieces.appendleft(view[room:])
            first = view[:room]
        elif self._pieces and len(first) + len(self._pieces[0]) <= room:
            first = self._joined(first, room)
        self.size -= len(first)
        return first

    def clear(self) -> None:
        """Forget what waits."""
        self._pieces.clear()
        self.size = 0

    def _joined(self, first: Piece, room: int) -> bytes:
        pieces, size = [first], len(first)
        while self._pieces and size + len(self._pieces[0]) <= room:
            piece = self._pieces.popleft()
            pieces.append(piece)
            size += len(piece)
        return b"".join(pieces)
