"""Where a response is, and which step may follow; for every way of writing one to a client."""

from enum import IntEnum, auto


class ResponseState(IntEnum):
    """Where the response is."""

    DECIDING = auto()
    CONNECTING = auto()
    AWAITING = auto()  # the upstream has the head
    RELAYING = auto()  # the client has a response head
    DONE = auto()


# An IntEnum, because its members are hashed in C: four steps a response.
_STEPS = {
    ResponseState.DECIDING: (ResponseState.CONNECTING, ResponseState.DONE),
    ResponseState.CONNECTING: (ResponseState.AWAITING, ResponseState.DONE),
    ResponseState.AWAITING: (
        ResponseState.RELAYING,
        ResponseState.DONE,
        ResponseState.CONNECTING,  # once more, on a fresh connection
    ),
    ResponseState.RELAYING: (ResponseState.DONE,),
    ResponseState.DONE: (),
}


class ResponseProgress:
    """The `state` of one response."""

    __slots__ = ("state",)

    def __init__(self) -> None:
        self.state = ResponseState.DECIDING

    def step(self, state: ResponseState) -> None:
        """Move on. Raises RuntimeError for a step that the table lacks: a bug of ours."""
        if state not in _STEPS[self.state]:
            raise RuntimeError(f"{self.state} cannot become {state}")
        self.state = state
