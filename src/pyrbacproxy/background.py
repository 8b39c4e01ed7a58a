"""What goes on beside the requests: no fault ends it, each is logged once, and it is tried again.

A reload, a refresh, a watch or a timer that fails in an unforeseen way must take neither the
process with it nor itself (D38): what it last achieved holds meanwhile. `Exception` alone is meant;
a cancellation, KeyboardInterrupt and SystemExit do as ever.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
_LOG = logging.getLogger(__name__)
# Of the log's rationed kinds (observe.flood): what a client brings about must not fill a disk.
_RATION = {"ration": "background"}


class Activity:
    """One of them; `name` is for the log, a metric's label and the pages.

    `fault` says why the last try failed, "" when it did not; `failures` counts since the start.
    With `withholds_text` the words of an exception, which may quote a secret, are never shown.
    """

    __slots__ = ("_logged", "_withholds_text", "failures", "fault", "name", "pause_seconds")

    def __init__(self, name: str, *, withholds_text: bool = False) -> None:
        self.name = name
        self.fault = ""
        self.failures = 0
        self.pause_seconds = FIRST_PAUSE_SECONDS
        self._withholds_text = withholds_text
        self._logged = ""

    def failed(self, error: Exception, what: str = "") -> float:
        """Count and, at a change of state, log a failure; the seconds until the next try."""
        self.failures += 1
        kind = type(error).__name__
        self.fault = f"failed with {kind} and is tried again; the log has the traceback"
        described = f"{what} {kind}" if self._withholds_text else f"{what} {kind} {_words(error)}"
        if described != self._logged:
            self._logged = described
            shown = _without_text(error) if self._withholds_text else error
            about = f"{self.name}: {what}" if what else self.name
            _LOG.error(
                "%s: unexpected %s, to be tried again", about, kind, exc_info=shown, extra=_RATION
            )
        pause = self.pause_seconds
        self.pause_seconds = min(2 * pause, LONGEST_PAUSE_SECONDS)
        return pause

    def worked(self) -> None:
        """A try has succeeded."""
        if self.fault:
            self.fault = self._logged = ""
            self.pause_seconds = FIRST_PAUSE_SECONDS
            _LOG.info("%s: works again", self.name, extra=_RATION)

    async def attempt(self, step: Callable[[], Awaitable[float]]) -> float:
        """Await one step, which returns the seconds until the next; so does this, after a failure
        too.
        """
        try:
            seconds = await step()
        except Exception as error:  # noqa: BLE001 - the one place for them
            return self.failed(error)
        self.worked()
        return seconds

    async def repeat(self, step: Callable[[], Awaitable[float]], pause_seconds: float) -> None:
        """Pause, await a step, pause for as long as it says, and so on until it says 0."""
        while True:
            await asyncio.sleep(pause_seconds)
            pause_seconds = await self.attempt(step)
            if not pause_seconds:
                return


class LoopFaults(Activity):
    """What callbacks of the event loop and forgotten tasks have raised: the loop goes on by itself.

    Nothing tells when they work again, so a fault counts as past after `LONGEST_PAUSE_SECONDS`.
    """

    __slots__ = ("_failed_at",)

    def __init__(self) -> None:
        super().__init__("event loop")
        self._failed_at = 0.0

    def handle(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """The loop's exception handler."""
        error = context.get("exception")
        message = str(context.get("message", ""))
        if message.startswith("SSL handshake failed"):
            # uvloop's words for what the dial that waits for the handshake is given, and reports.
            return
        if not isinstance(error, Exception):
            loop.default_exception_handler(context)
            return
        self.look(loop)
        self._failed_at = loop.time()
        # Without a callback's arguments, which differ each time.
        self.failed(error, message.partition("(")[0])

    def look(self, loop: asyncio.AbstractEventLoop) -> None:
        """Forget a fault that is past."""
        if self.fault and loop.time() - self._failed_at >= LONGEST_PAUSE_SECONDS:
            self.worked()


def _words(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(f"{type(one).__name__} {_words(one)}" for one in error.exceptions)
    return str(error)


def _without_text(error: Exception) -> Exception:
    """For a traceback that says where, not what."""
    return RuntimeError("its text is withheld").with_traceback(error.__traceback__)
