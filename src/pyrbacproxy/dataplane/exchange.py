"""One request and its response: the state machine, on two small sinks.

Events come in as method calls, actions go out as calls of the sinks; it never waits and knows no
socket. Two halves move on their own, each by its table (`request_side`, `response_side`). The
exchange is over when the response is, and the request too unless the connection closes.

- The upstream sees nothing before the verdict.
- After the first byte of a response head went to the client there is no second response: what
  breaks then ends in an abort that the client can see (RFC 9112 §8).
- A final answer is relayed at once, body received or not; an unread body is drained if it is
  short, else the connection closes: body text is never taken for the next request (FR15).
"""

from collections.abc import Callable
from http import HTTPStatus

from pyrbacproxy.dataplane.malformed import refusal
from pyrbacproxy.dataplane.request_side import RequestSide, RequestState
from pyrbacproxy.dataplane.response_state import ResponseState
from pyrbacproxy.dataplane.services import Services
from pyrbacproxy.dataplane.sinks import ClientSink, Ending, UpstreamSink
from pyrbacproxy.dataplane.tunnel import begin_tunnel
from pyrbacproxy.handler import Respond, Verdict
from pyrbacproxy.http1.framing import Framing
from pyrbacproxy.http1.head import RequestHead, ResponseHead
from pyrbacproxy.http1.parser import ResponseReceived
from pyrbacproxy.http1.response import Response
from pyrbacproxy.record import Decided, ExchangeRecord, Failure

_SWITCHING_PROTOCOLS = 101
# As in `request_side`: each request needs them, and looking a member up is slow.
_ENDED = RequestState.ENDED
_CONNECTING = ResponseState.CONNECTING
_AWAITING = ResponseState.AWAITING
_DONE = ResponseState.DONE
_KEEP_ALIVE = Ending.KEEP_ALIVE
_BAD_GATEWAY = Response(502)
_GATEWAY_TIMEOUT = Response(504)


class Exchange:
    """One request and its response. `record` is filled on the way and observed at the end.

    `keeps_alive`: the client is willing to send another request. `cancel` ends the running decision
    and is set by who started it; `upstream_head` is what was sent upstream, for those who remember
    decisions. Bodies and trailers go straight to the two sides.
    """

    __slots__ = (
        "_client",
        "_ending",
        "_keeps_alive",
        "_services",
        "cancel",
        "record",
        "request_side",
        "response_side",
        "upstream_head",
    )

    def __init__(
        self,
        services: Services,
        client: ClientSink,
        record: ExchangeRecord,
        *,
        head: RequestHead,
        framing: Framing,
        keeps_alive: bool,
    ) -> None:
        self.record = record
        self.cancel: Callable[[], None] | None = None
        self.upstream_head = b""
        self._services = services
        self._client = client
        self._keeps_alive = keeps_alive
        self.request_side = RequestSide(services, client, record, head=head, framing=framing)
        self.response_side = client.response_side(record, head)
        self._ending = _KEEP_ALIVE

    # The verdict

    def decided(self, verdict: Verdict) -> None:
        """Answer, or forward.

        Raises LocalProtocolError for a head that cannot be written; nothing was done then.
        """
        if isinstance(verdict, Respond):
            self._note(verdict.decided)
            self.respond(verdict.response)
            return
        self.forward(verdict.decided, self.request_side.upstream_head(verdict.head))

    def forward(self, decided: Decided, upstream_head: bytes) -> None:
        """Send this head upstream, without another look at it."""
        self._note(decided)
        self.upstream_head = upstream_head
        self.response_side.step(_CONNECTING)
        self._services.connector.connect(self, is_fresh=False)

    def respond(self, response: Response) -> None:
        """Give an answer of our own instead of an upstream's; the upstream is dropped."""
        self._drop_upstream()
        if response.must_close or not self._may_keep_alive():
            self._ending = Ending.CLOSE
        self.response_side.whole(response, closes=self._ending is Ending.CLOSE)
        self.request_side.discard()
        self._finish_if_over()

    # The client's events

    @property
    def is_request_ended(self) -> bool:
        """Whether all of the request was received, and passed on."""
        return self.request_side.is_passed_on

    def request_ended(self) -> None:
        """The client's body is complete."""
        self.request_side.ended()
        self._finish_if_over()

    def request_broken(self, status: int) -> None:
        """The client's body cannot be read on: 400 if nothing was answered yet (D30)."""
        self._fail(Failure.MALFORMED_BODY)
        if self.response_side.state is _DONE:
            self._finish(Ending.CLOSE)
        elif self.response_side.state is ResponseState.RELAYING:
            self._abort()
        else:
            self._cancel_decision()
            self.respond(refusal(status))

    def request_cut_short(self) -> None:
        """The client ended its sending within the body; it may still read (RFC 9112 §8).

        An answer that is on its way goes on, else it is 400 as for a body that cannot be read.
        """
        if self.response_side.state is not ResponseState.RELAYING:
            self.request_broken(HTTPStatus.BAD_REQUEST)
            return
        self._fail(Failure.MALFORMED_BODY)
        self._ending = Ending.CLOSE
        self.request_side.discard()

    def client_paused(self) -> None:
        """The client's write buffer is over its mark: read no more from the upstream."""
        if (upstream := self.request_side.upstream) is not None:
            upstream.pause_reading()

    def client_resumed(self) -> None:
        """The client's write buffer is low again."""
        if (upstream := self.request_side.upstream) is not None:
            upstream.resume_reading()

    def client_gone(self, failure: Failure | None = None) -> None:
        """The client's connection is lost: so is the upstream's, at once (FR51).

        `failure`: we ended it, for this reason.
        """
        self._fail(failure or Failure.CLIENT_GONE)
        self._cancel_decision()
        self._abort()

    def woken(self) -> None:
        """The time asked for by `wake_after` has come."""
        if self.response_side.state is _DONE:
            self._finish(Ending.CLOSE)
        elif self.response_side.state is _AWAITING:
            if self.request_side.expects_continue:
                self.response_side.go_ahead()
            if self.request_side.is_stalled():
                self._fail(Failure.CLIENT_STALLED)
                self.respond(refusal(HTTPStatus.REQUEST_TIMEOUT))

    # The upstream's events

    @property
    def is_awaiting(self) -> bool:
        """Whether the upstream has the request's head and has not answered."""
        return self.response_side.state is _AWAITING

    @property
    def wants_upstream(self) -> bool:
        """Whether a connection is still waited for."""
        return self.response_side.state is _CONNECTING

    def upstream_ready(self, upstream: UpstreamSink) -> None:
        """Send the head, and the body bytes that waited."""
        self.response_side.step(_AWAITING)
        request = self.request_side
        upstream.begin(self, request.head.method, self.upstream_head, request.framing)
        request.attach(upstream)
        if request.expects_continue:
            self._client.wake_after(self._services.limits.continue_seconds)

    def upstream_failed(self, failure: Failure, cause: str = "") -> None:
        """No connection: 504 if it took too long, else 502."""
        self._fail(failure, cause)
        self.respond(_GATEWAY_TIMEOUT if failure is Failure.CONNECT_TIMEOUT else _BAD_GATEWAY)

    def upstream_lost(self, failure: Failure, cause: str = "") -> None:
        """The connection ended too early.

        Ask again where that is safe, else 502; after the head it is an abort.
        """
        request = self.request_side
        upstream = request.detach()
        is_awaiting = self.response_side.state is _AWAITING
        if is_awaiting and upstream is not None and request.can_be_repeated(upstream):
            request.is_last_try = True
            self.response_side.step(_CONNECTING)
            self._services.connector.connect(self, is_fresh=True)
            return
        self._fail(failure, cause)
        if is_awaiting:
            self.respond(_BAD_GATEWAY)
        else:
            self._abort()

    def upstream_paused(self) -> None:
        """The upstream takes no more: read no more of the client's body."""
        self.request_side.hold()

    def upstream_resumed(self) -> None:
        """The upstream takes more."""
        self.request_side.release()

    def interim(self, head: ResponseHead) -> None:
        """Pass a 1xx on."""
        # Who has answered so far is no stale connection.
        self.request_side.is_last_try = True
        self.response_side.interim(head)

    def response(self, received: ResponseReceived) -> None:
        """Begin to relay the final response."""
        self.record.upstream_answered_at = self._services.clock()
        if received.head.status == _SWITCHING_PROTOCOLS:
            self._switch(received)
            return
        closes = not self._may_keep_alive()
        if self.response_side.head(received, closes=closes) or closes:
            self._ending = Ending.CLOSE

    def response_ended(self) -> None:
        """The upstream's response is complete, and its connection out of our hands."""
        self.request_side.detach()
        self.response_side.ended()
        self.request_side.discard()
        self._finish_if_over()

    def _switch(self, received: ResponseReceived) -> None:
        """Become a tunnel, if it is the one that was asked for and the whole request went up."""
        upstream = self.request_side.upstream
        if upstream is None or not self.request_side.has_asked_for(received.head):
            self.upstream_failed(Failure.UNWANTED_SWITCH)
            return
        self.response_side.head(received, closes=False)
        self.response_side.ended()
        self.request_side.detach()
        begin_tunnel(self._services, self.record, self._client.release(), upstream.release())

    # What several of them need

    def _fail(self, failure: Failure, cause: str = "") -> None:
        self.record.failure = failure
        self.record.cause = cause

    def _note(self, decided: Decided) -> None:
        self.record.decided = decided
        self.record.decided_at = self._services.clock()

    def _may_keep_alive(self) -> bool:
        """Whether the client's connection can serve on after this response."""
        if not self._keeps_alive or self._client.must_close:
            return False
        request = self.request_side
        return request.can_be_drained and not request.expects_continue

    def _cancel_decision(self) -> None:
        if self.response_side.state is ResponseState.DECIDING and self.cancel is not None:
            self.cancel()

    def _drop_upstream(self) -> None:
        upstream = self.request_side.detach()
        if upstream is not None:
            upstream.close()
        elif self.wants_upstream:
            self._services.connector.withdraw(self)

    def _finish_if_over(self) -> None:
        if self.response_side.state is _DONE and (
            self.request_side.state is _ENDED or self._ending is not _KEEP_ALIVE
        ):
            self._finish(self._ending)

    def _abort(self) -> None:
        """End it so that nobody can take the response for complete."""
        self._drop_upstream()
        self.response_side.flush()
        if self.response_side.state is not _DONE:
            self.response_side.step(_DONE)
        self._finish(Ending.ABORT)

    def _finish(self, ending: Ending) -> None:
        self.record.ended_at = self._services.clock()
        self._services.observe(self.record)
        self._client.finished(ending)
