"""Logging: klog's text or JSON on stderr, levels, rate limits, and no secret in any line."""

import asyncio
import contextlib
import fnmatch
import json
import logging
import math
import os
import re
import select
import sys
import time
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from typing import TYPE_CHECKING, Protocol, TextIO

from pyrbacproxy.model import Decided, ExchangeRecord, Outcome
from pyrbacproxy.values import Frozen, Mutable

if TYPE_CHECKING:
    from sys import UnraisableHookArgs


# --- patient stream -------------------------------------------------------------------
#
# stderr for log lines: a reader that stopped is waited for only a moment.
#
# A pipe's reader may be late, or hang: whoever writes to it then would stop with it, and all that
# is served.

# So long a late reader is waited for, at most once in so long.
PATIENCE_SECONDS = 0.1
REST_SECONDS = 1.0


def unwaiting(descriptor: int) -> int:
    """A descriptor of our own for the same thing. A terminal's does not wait, for poll(2) tells of
    one that it takes something, not how much. Raises OSError.
    """
    if os.isatty(descriptor):
        # Where it is not ours to open, it waits: a terminal with a stopped reader is left.
        with contextlib.suppress(OSError):
            flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
            return os.open(f"/proc/self/fd/{descriptor}", flags)
    return os.dup(descriptor)


class PatientStream:
    """Writes texts to a descriptor, which it does not own and leaves as it is.

    `poll` waits up to so many seconds and tells whether it takes `select.PIPE_BUF` bytes at once
    (pipe(7), poll(2)); `clock` tells monotonic seconds.
    """

    def __init__(
        self,
        descriptor: int,
        *,
        poll: Callable[[float], bool] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._descriptor = descriptor
        self._poll = poll or _poll_of(descriptor)
        self._clock = clock
        self._patient_at = clock()
        # What of a text did not go out yet.
        self._rest = memoryview(b"")

    def is_ready(self) -> bool:
        """Whether the next text can begin to go out. Raises OSError, as `write` does."""
        self._write_rest()
        return not self._rest and self._takes()

    def write(self, text: str) -> None:
        """Write it, or keep for later what can't be written now: for whoever asked `is_ready`."""
        data = text.encode("utf-8", "backslashreplace")
        self._rest = memoryview(self._rest.tobytes() + data)
        self._write_rest()

    def flush(self) -> None:
        """Let out what waits, as far as it is taken: at the end nobody writes any more."""
        self._write_rest()

    def _write_rest(self) -> None:
        rest, self._rest = self._rest, memoryview(b"")
        # What is raised else ends the text: there is nobody.
        with contextlib.suppress(BlockingIOError):
            while rest and self._takes():
                rest = rest[os.write(self._descriptor, rest[: select.PIPE_BUF]) :]
        self._rest = rest

    def _takes(self) -> bool:
        if self._poll(0.0):
            return True
        now = self._clock()
        if now < self._patient_at:
            return False
        self._patient_at = now + REST_SECONDS
        return self._poll(PATIENCE_SECONDS)


def _poll_of(descriptor: int) -> Callable[[float], bool]:
    ready = select.poll()
    ready.register(descriptor, select.POLLOUT)
    return lambda seconds: bool(ready.poll(seconds * 1000))


# --- log text -------------------------------------------------------------------------
# Text as a log may hold it: on one line, nothing that a terminal would obey, no credential.

MASK = "<masked>"

# What would end a line, move a terminal's cursor, or turn the order of the text round; and halves
# of surrogate pairs, which not every stream can write.
_CONTROL = re.compile(
    r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
# Each keeps its first group. A secret ends at a blank, a quote, or what ends a value in a URL.
# Names in a line may be long and a client's choice: none of these may look at a character again for
# each place where it could begin.
_SECRETS = (
    re.compile(r"(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(?=-----END|\Z)", re.DOTALL),
    re.compile(r"(base64url\.bearer\.authorization\.k8s\.io\.)[A-Za-z0-9_=-]+"),
    re.compile(r"(\b(?:access_|id_|refresh_)?token=)[^\s&\"'#;,]+", re.IGNORECASE),
    re.compile(
        r"([\"'](?:access_|id_|refresh_)?token\\*[\"']\s*:\s*b?\\*[\"'])[^\"'\\]+", re.IGNORECASE
    ),
    re.compile(r"(\bbearer\s+)(?!tokens?[:,.;)]?(?:\s|\Z))[^\s\"',;\\]+", re.IGNORECASE),
    re.compile(
        r"(\bauthorization\W{1,8}(?:basic|negotiate|ntlm|digest)\s+)[^\s\"',;\\]+", re.IGNORECASE
    ),
    re.compile(r"(://)[^\s/@\"']+(?=@)"),
    # From where its letters begin, and only if a dot ends them.
    re.compile(
        r"(?<![A-Za-z0-9_-])(?=[A-Za-z0-9_-]++\.[A-Za-z0-9_-])([A-Za-z0-9_-]*?\b)"
        r"eyJ[A-Za-z0-9_-]{6,}+\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?"
    ),
)


def masked(text: str) -> str:
    """The text without anything that looks like a credential."""
    for pattern in _SECRETS:
        text = pattern.sub(rf"\1{MASK}", text)
    return text


def on_one_line(text: str) -> str:
    """The text with everything odd in it escaped as in Python's string literals."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def json_on_one_line(text: str) -> str:
    """The same for JSON that leaves other characters than ASCII as they are: it means the same."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


# --- flood ----------------------------------------------------------------------------
#
# A log handler that rations: so many lines of one kind a second, and how many more there were.
#
# Who cannot be authenticated must not be able to fill a disk. A line is rationed when its record
# names its kind, as in `extra={RATION: "upstream"}`; kinds are few, and never from the wire. Lines
# that are not read are left out as well.

RATION = "ration"
LINES_A_SECOND = 10


class _Kind(Mutable):
    """One kind's lines in the second that began at a moment; the newest of them."""

    began_at: float
    newest: logging.LogRecord
    lines: int = 0

    def is_over(self, now: float) -> bool:
        """Whether the second is; a clock that was set back ends it too."""
        return not 0.0 <= now - self.began_at < 1.0


class Stream(Protocol):
    """What lines are written to."""

    def write(self, text: str, /) -> object:
        """Write a line with its end."""
        ...


class FloodHandler(logging.StreamHandler[Stream]):
    """Writes to a stream that `is_ready`. What was left out is told before the next line, of
    whatever kind.
    """

    def __init__(self, stream: Stream, is_ready: Callable[[], bool] = lambda: True) -> None:
        super().__init__(stream)
        self._is_ready = is_ready
        self._kinds: dict[str, _Kind] = {}
        self._unread = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record, if its kind's ration allows it."""
        for told in tuple(self._overdue(record.created)):
            self._write(told)
        if self._is_within_ration(record):
            self._write(record)

    def _write(self, record: logging.LogRecord) -> None:
        try:
            is_ready = self._is_ready()
        except OSError:  # the reader is gone
            is_ready = False
        if not is_ready:
            self._unread += 1
            return
        if self._unread:
            text = "Left out %d lines: nobody read them"
            lines, self._unread = self._unread, 0
            super().emit(_about(record, text, lines))
        super().emit(record)

    def _is_within_ration(self, record: logging.LogRecord) -> bool:
        name = getattr(record, RATION, None)
        if name is None:
            return True
        kind = self._kinds.setdefault(name, _Kind(record.created, record))
        kind.lines += 1
        kind.newest = record
        return kind.lines <= LINES_A_SECOND

    def _overdue(self, now: float) -> Iterator[logging.LogRecord]:
        """A line for each kind of which lines were left out in a second that is over."""
        for name, kind in tuple(self._kinds.items()):
            if not kind.is_over(now):
                continue
            del self._kinds[name]
            if kind.lines > LINES_A_SECOND:
                text = "Left out %d more lines like this within a second: %s"
                yield _about(kind.newest, text, kind.lines - LINES_A_SECOND, name)


def _about(record: logging.LogRecord, text: str, *values: object) -> logging.LogRecord:
    """A line that says this, from where the record comes from."""
    told = copy(record)
    told.msg, told.args, told.exc_info = text, values, None
    return told


# --- logs -----------------------------------------------------------------------------
#
# Logging set-up: klog's text or JSON on stderr, its levels, and no secret in any line.
#
# klog's level V(n) is Python's level 20 - n, so that V(0) is INFO. What Python itself would write
# to stderr, warnings and exceptions that reach nobody, are lines like others. Two layers keep
# secrets out: a filter that understands TokenReview bodies (reference 6.3), and masks over the
# finished text, traceback included, for whatever a token looks like elsewhere (FR67).

PACKAGE = "pyrbacproxy"
UNREADABLE = "<hidden: a TokenReview that is not whole>"
_LOG = logging.getLogger(__name__)

# With blanks, with single quotes (a repr), or with the quotes escaped (JSON in JSON).
_TOKEN_REVIEW = re.compile(r"""["']kind\\*["']\s*:\s*\\*["']TokenReview""")


def set_up(
    verbosity: int = 0,
    vmodule: Iterable[tuple[str, int]] = (),
    stream: TextIO | None = None,
    *,
    is_json: bool = False,
) -> None:
    """Makes the process log as klog does, or with `is_json` as Kubernetes' components do when asked
    for it; `vmodule` holds (module pattern, level) pairs.

    Other libraries are heard from WARNING on. A second call replaces what the first set up.
    """
    patterns = tuple(vmodule)
    handler = _handler(stream)
    handler.setFormatter(JsonFormatter() if is_json else KlogFormatter())
    if patterns:
        handler.addFilter(_ModuleLevels(verbosity, patterns))
    handler.addFilter(TokenFilter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    most = max([verbosity, *(level for _, level in patterns)])
    logging.getLogger(PACKAGE).setLevel(level_of(most))
    logging.raiseExceptions = False  # a closed stderr must not cost a request
    # Clients can have as many as they like: `cryptography` judges the names in a certificate so.
    warnings.filterwarnings("ignore", category=UserWarning)
    warnings.showwarning = _log_warning
    sys.unraisablehook = _log_unraisable


def level_of(verbosity: int) -> int:
    """The Python level of klog's V(verbosity). Below 0 is as 0: klog's Info is always written."""
    return max(logging.INFO - max(verbosity, 0), 1)


class Structured(Frozen):
    """A message with values beside it. As text klog's form: `"command failed" err="..."`.

    `is_bare`: a line that the original has too begins as there, without quotes.
    """

    message: str
    pairs: tuple[tuple[str, str | int | float], ...]
    is_bare: bool = False

    def __str__(self) -> str:
        """On one line."""
        shown = (
            f"{key}={_quoted(value) if isinstance(value, str) else value}"
            for key, value in self.pairs
        )
        return " ".join((self.message if self.is_bare else _quoted(self.message), *shown))


def structured(message: str, **pairs: str | float) -> Structured:
    """What `_LOG.error("%s", ...)` takes to write such a line, or such keys in JSON."""
    return Structured(message, tuple(pairs.items()))


def _handler(stream: TextIO | None) -> FloodHandler:
    if stream is not None:
        return FloodHandler(stream)
    try:
        number = sys.stderr.fileno()
    except (AttributeError, OSError):  # there is none, or it is something of a test's
        return FloodHandler(sys.stderr)
    lines = PatientStream(unwaiting(number) if os.isatty(number) else number)
    return FloodHandler(lines, lines.is_ready)


def _log_warning(  # noqa: PLR0917 - `warnings.showwarning`'s signature
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,  # noqa: ARG001 - as above
    line: str | None = None,  # noqa: ARG001 - as above
) -> None:
    said = f"{category.__name__}: {message} ({filename}:{lineno})"
    _LOG.warning("%s", said, extra={RATION: "warning"})


def _log_unraisable(found: "UnraisableHookArgs") -> None:
    """What was raised where no caller is, as in a callback of the TLS library."""
    fault = found.exc_value
    _LOG.error("%s", found.err_msg or "an exception reached nobody", exc_info=fault)


class TokenFilter(logging.Filter):
    """Masks the token in a TokenReview; of one that does not parse, nothing is shown."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Rewrites the record where needed; every record passes."""
        message = record.getMessage()
        if _TOKEN_REVIEW.search(message):
            record.msg, record.args = _without_token(message), ()
        return True


class KlogFormatter(logging.Formatter):
    """`I1130 09:10:48.123456   12345 file.py:123] message`, on one line, secrets masked."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, and below it the traceback if there is one."""
        when = time.strftime("%m%d %H:%M:%S", time.localtime(record.created))
        letter = _letter(record.levelno)
        microseconds = int(record.created % 1 * 1_000_000)
        place = f"{record.filename}:{record.lineno}"
        text = on_one_line(record.getMessage())
        line = f"{letter}{when}.{microseconds:06d} {os.getpid():7d} {place}] {text}"
        if record.exc_info:
            trace = self.formatException(record.exc_info)
            line += "\n" + (UNREADABLE if _TOKEN_REVIEW.search(trace) else trace)
        return masked(line)


class JsonFormatter(logging.Formatter):
    """One JSON object a line, with the keys of Kubernetes' component-base; secrets masked.

    `ts` is in milliseconds; `v` is the level, which errors lack.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        fields: dict[str, str | int | float] = {
            "ts": record.created * 1000,
            "caller": f"{record.filename}:{record.lineno}",
        }
        said = _said(record)
        fields["msg"] = masked(said.message)
        if record.levelno < logging.ERROR:
            fields["v"] = max(logging.INFO - record.levelno, 0)
        for key, value in said.pairs:
            fields[key] = masked(value) if isinstance(value, str) else value
        if record.exc_info:
            trace = self.formatException(record.exc_info)
            fields["stacktrace"] = UNREADABLE if _TOKEN_REVIEW.search(trace) else masked(trace)
        return json_on_one_line(json.dumps(fields, separators=(",", ":"), ensure_ascii=False))


def _said(record: logging.LogRecord) -> Structured:
    """What the record says, apart from its values if it has some."""
    for said in (record.msg, *(record.args if isinstance(record.args, tuple) else ())):
        if isinstance(said, Structured):
            return said
    return Structured(record.getMessage(), ())


class _ModuleLevels(logging.Filter):
    """`--vmodule`: a module whose name matches a pattern is heard at that level too, as in klog.

    A pattern is matched with the module's last part, one with a slash with the whole path; klog's
    `.go` does not exist here. Of several patterns the first counts.
    """

    def __init__(self, verbosity: int, patterns: tuple[tuple[str, int], ...]) -> None:
        super().__init__()
        self._verbosity = verbosity
        self._patterns = patterns

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record's module is to be heard at this level."""
        return record.levelno >= level_of(self._level(record.name))

    def _level(self, name: str) -> int:
        path = name.replace(".", "/")
        for pattern, level in self._patterns:
            subject = path if "/" in pattern else path.rpartition("/")[2]
            if fnmatch.fnmatchcase(subject, pattern):
                return max(level, self._verbosity)
        return self._verbosity


def _without_token(message: str) -> str:
    """The message with its TokenReview masked; what stands before the body stays."""
    before, brace, _ = message.partition("{")
    if not brace or _TOKEN_REVIEW.search(before):
        return UNREADABLE
    body = message[len(before) :]
    try:
        review, end = json.JSONDecoder().raw_decode(body)
    except (ValueError, RecursionError):
        return before + UNREADABLE
    rest = body[end:]
    # It may also be somewhere inside the object, or in a second one.
    if review.get("kind") != "TokenReview" or _TOKEN_REVIEW.search(rest):
        return before + UNREADABLE
    spec = review.get("spec")
    if isinstance(spec, dict) and "token" in spec:
        spec["token"] = MASK
    return before + json.dumps(review, separators=(",", ":"), ensure_ascii=False) + rest


def _letter(level: int) -> str:
    if level >= logging.ERROR:
        return "E"
    return "W" if level >= logging.WARNING else "I"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


# --- decision log ---------------------------------------------------------------------
#
# Writes what is to be logged of an exchange: a refusal, its notes, a failed or slow upstream.
#
# A refusal is one line (FR99): in the original's words where it has some, and then what an operator
# needs to find the missing right or the wrong client. Each value is quoted as in JSON, so that no
# name or path from the wire can look like another line or value; queries are in no record.
#
# Any client can have lines written, so refusals are rationed by kind and peer, and
# everything that is always written by kind.


_REFUSING = 400
# One kind of one peer may have so many lines at once, and one more each second; others are counted,
# and the next line tells. Fewer than `flood` allows a kind, so that a peer leaves room for others.
_MOST_LINES = 5
_LINES_A_SECOND = 1.0
# Peers and kinds that are known at a time; the one that has been silent longest is forgotten.
_MOST_KNOWN = 1024
# How long the upstream's answer may take before the log says so, and how often that is looked at.
_LONG_SECONDS = 30.0
_LOOK_SECONDS = 3.0
_DECIDED_BY = {"static": "static rule", "review": "access review", "none": "no authorizer"}
# What a value may take; a path may have 64 KiB.
_LONGEST_VALUE = 512


class _Share(Mutable):
    """What one kind and peer may still write; `seen_at` is in monotonic seconds."""

    seen_at: float
    lines: float = _MOST_LINES
    left_out: int = 0


class RefusalRation:
    """Decides which refusals are written; of bounded size."""

    def __init__(self) -> None:
        self._shares: OrderedDict[tuple[str, int, str], _Share] = OrderedDict()

    def __len__(self) -> int:
        return len(self._shares)

    def take(self, outcome: str, status: int, peer: str, now: float) -> int | None:
        """None if the line is to be left out, else how many were since the last one."""
        key = (outcome, status, peer)
        share = self._shares.get(key)
        if share is None:
            share = self._shares[key] = _Share(now)
            if len(self._shares) > _MOST_KNOWN:
                self._shares.popitem(last=False)
        else:
            self._shares.move_to_end(key)
            earned = max(0.0, now - share.seen_at) * _LINES_A_SECOND
            share.lines = min(_MOST_LINES, share.lines + earned)
            share.seen_at = now
        if share.lines < 1.0:
            share.left_out += 1
            return None
        share.lines -= 1.0
        left_out, share.left_out = share.left_out, 0
        return left_out


class DecisionLog:
    """Writes the lines of the exchanges of one listener, or of several.

    `verb_of` gives what Kubernetes calls a method.
    """

    def __init__(self, verb_of: Callable[[bytes], str]) -> None:
        self._verb_of = verb_of
        self._ration = RefusalRation()

    def observe(self, record: ExchangeRecord) -> None:
        """One line for a refusal, or for each note; free of secrets by their authors' care.

        An upstream that failed is told as the original tells it, in one line: without it a 502 is
        a riddle.
        """
        failure = record.failure
        if failure is not None and failure.reason:
            cause = f" ({record.cause})" if record.cause else ""
            _LOG.error("http: proxy error: %s%s", failure, cause, extra={RATION: "proxy error"})
        decided = record.decided
        if decided is None:
            return
        if decided.outcome is not Outcome.ALLOWED and not 0 < record.status < _REFUSING:
            self._refused(record, decided)
            return
        for note in decided.notes:
            level = logging.ERROR if note.is_error else level_of(note.level)
            rationed = {RATION: decided.outcome.value} if level >= logging.INFO else None
            _LOG.log(level, "%s", note.text, extra=rationed)

    def _refused(self, record: ExchangeRecord, decided: Decided) -> None:
        is_error = any(note.is_error for note in decided.notes)
        left_out = 0
        # Who asks for more gets all, as from the original.
        is_rationed = not _LOG.isEnabledFor(level_of(2))
        if is_rationed:
            kind = (decided.outcome, record.status, record.peer_address)
            taken = self._ration.take(*kind, record.ended_at)
            if taken is None:
                return
            left_out = taken
        verb = self._verb_of(record.method.encode()) if record.method else ""
        line = _refusal(record, decided, verb, left_out)
        rationed = {RATION: decided.outcome.value} if is_rationed or is_error else None
        _LOG.log(logging.ERROR if is_error else logging.INFO, "%s", line, extra=rationed)


class AnswerWatch:
    """Logs at `--v=2` each exchange whose upstream has not answered for 30 s (FR94).

    It looks at what runs every few seconds, so that no request pays for it, and not at all at a
    lower level. `awaiting` gives the exchanges that wait for an answer.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, awaiting: Callable[[], Iterable[ExchangeRecord]]
    ) -> None:
        self._loop = loop
        self._awaiting = awaiting
        # Since when each was seen waiting; the record keeps its id from being another's.
        self._seen: dict[int, tuple[ExchangeRecord, float]] = {}
        self._handle: asyncio.TimerHandle | None = None
        if _LOG.isEnabledFor(level_of(2)):
            self._look_later()

    def close(self) -> None:
        """Look no more."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _look_later(self) -> None:
        self._handle = self._loop.call_at(self._loop.time() + _LOOK_SECONDS, self._look)

    def _look(self) -> None:
        # First: a fault in this look must not end the looking.
        self._look_later()
        now = self._loop.time()
        seen: dict[int, tuple[ExchangeRecord, float]] = {}
        for record in self._awaiting():
            _, since = self._seen.get(id(record), (record, now))
            if now - since >= _LONG_SECONDS:
                self._tell(record)
                since = math.inf  # once
            seen[id(record)] = (record, since)
        self._seen = seen

    def _tell(self, record: ExchangeRecord) -> None:
        pairs = (
            ("peer", record.peer_address),
            ("user", "" if record.decided is None else record.decided.user_name),
            ("method", record.method),
            ("path", record.path),
        )
        text = f"the upstream has not answered for {_LONG_SECONDS:.0f} s; still waiting"
        shown = tuple((key, _cut(value, _LONGEST_VALUE)) for key, value in pairs if value)
        _LOG.log(level_of(2), "%s", Structured(text, shown, is_bare=True))


def _refusal(record: ExchangeRecord, decided: Decided, verb: str, left_out: int) -> Structured:
    words = " ".join(note.text for note in decided.notes) or "Refused"
    pairs: dict[str, str | int] = {
        "status": record.status,
        "peer": record.peer_address,
        "user": decided.user_name,
        "groups": ", ".join(decided.groups),
        "identity": decided.identity_source,
        "method": record.method,
        "verb": verb,
        "path": record.path,
        "asked": decided.asked,
        "decidedBy": _DECIDED_BY.get(decided.decision_source, ""),
        "leftOut": left_out,
    }
    shown = tuple((key, _short(value)) for key, value in pairs.items() if value)
    return Structured(_cut(words, 4 * _LONGEST_VALUE), shown, is_bare=True)


def _short(value: str | int) -> str | int:
    return _cut(value, _LONGEST_VALUE) if isinstance(value, str) else value


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}..."
