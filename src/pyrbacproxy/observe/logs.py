"""Logging set-up: klog's text or JSON on stderr, its levels, and no secret in any line.

klog's level V(n) is Python's level 20 - n, so that V(0) is INFO. What Python itself would write to
stderr, warnings and exceptions that reach nobody, are lines like others. Two layers keep secrets
out: a filter that understands TokenReview bodies (reference 6.3), and masks over the finished text,
traceback included, for whatever a token looks like elsewhere (FR67).
"""

import fnmatch
import json
import logging
import os
import re
import sys
import time
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from pyrbacproxy.observe.flood import RATION, FloodHandler
from pyrbacproxy.observe.log_text import MASK, json_on_one_line, masked, on_one_line
from pyrbacproxy.observe.patient_stream import PatientStream, unwaiting

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

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


@dataclass(frozen=True, slots=True)
class Structured:
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
    """What was raised where nobody can be told, as in a callback of the TLS library."""
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
