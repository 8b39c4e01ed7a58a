"""klog's text, its levels, and no secret in any line (FR67)."""

import io
import json
import logging
import os
import re
import signal
import sys
import time
import warnings
from collections.abc import Iterable, Iterator

import pytest

from pyrbacproxy.observe import logs
from pyrbacproxy.observe.logs import MASK

JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl"
PATIENCE_SECONDS = 60
LINE = re.compile(r"([IWE])\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ test_logs\.py:\d+\] (.*)\n", re.DOTALL)


@pytest.fixture(name="undisturbed", autouse=True)
def fixture_undisturbed() -> Iterator[None]:
    """Leaves logging as it was."""
    root, package = logging.getLogger(), logging.getLogger(logs.PACKAGE)
    before = (root.handlers[:], root.level, package.level, logging.raiseExceptions)
    hook = sys.unraisablehook
    yield
    sys.unraisablehook = hook
    root.handlers[:], root.level, package.level = before[0], before[1], before[2]
    logging.raiseExceptions = before[3]


class Log:
    """A logger set up by `logs`, and what it wrote."""

    def __init__(
        self,
        verbosity: int = 0,
        vmodule: Iterable[tuple[str, int]] = (),
        name: str = "pyrbacproxy.kube.api_client",
        *,
        is_json: bool = False,
    ) -> None:
        self.stream = io.StringIO()
        logs.set_up(verbosity, vmodule, self.stream, is_json=is_json)
        self.logger = logging.getLogger(name)

    def fail(self, text: str) -> None:
        """Logs an exception with that text."""
        error = ValueError(text)
        self.logger.error("failed", exc_info=(ValueError, error, None))

    @property
    def text(self) -> str:
        return self.stream.getvalue()

    @property
    def fields(self) -> dict[str, str | int | float]:
        """The one JSON object that was written."""
        assert self.text.count("\n") == 1, self.text
        found = json.loads(self.text)
        assert isinstance(found, dict)
        return found

    @property
    def message(self) -> str:
        found = LINE.fullmatch(self.text)
        assert found, self.text
        return found[2]


@pytest.mark.parametrize(
    ("level", "letter"),
    [(logging.INFO, "I"), (logging.WARNING, "W"), (logging.ERROR, "E"), (logging.CRITICAL, "E")],
)
def test_a_line_looks_like_klogs(level: int, letter: str) -> None:
    log = Log()
    log.logger.log(level, "Listening securely on %s", ":9637")
    found = LINE.fullmatch(log.text)
    assert found
    assert found.groups() == (letter, "Listening securely on :9637")


def test_the_process_id_is_padded_to_seven() -> None:
    log = Log()
    log.logger.info("x")
    assert re.search(r"\.\d{6} [ \d]{7} test_logs", log.text)


@pytest.mark.parametrize(("verbosity", "heard"), [(0, [0]), (2, [0, 1, 2]), (10, range(11))])
def test_levels_are_klogs(verbosity: int, heard: Iterable[int]) -> None:
    log = Log(verbosity)
    for level in range(11):
        log.logger.log(logs.level_of(level), "V%d", level)
    assert re.findall(r"V(\d+)", log.text) == [str(level) for level in heard]


def test_any_level_is_above_nothing() -> None:
    assert logs.level_of(8) == 12
    assert logs.level_of(1000) == 1


def test_other_libraries_are_heard_from_warnings_on() -> None:
    log = Log(10, name="aiohttp.client")
    log.logger.info("no")
    log.logger.warning("yes")
    assert log.message == "yes"


@pytest.mark.parametrize(
    ("patterns", "is_heard"),
    [
        ([("api_client", 4)], True),
        ([("api_*", 4)], True),
        ([("pyrbacproxy/kube/*", 4)], True),
        ([("api_client", 3)], False),
        ([("reviewer", 4)], False),
        ([("kube", 4)], False),
    ],
)
def test_vmodule_raises_single_modules(patterns: list[tuple[str, int]], *, is_heard: bool) -> None:
    log = Log(0, patterns)
    log.logger.log(logs.level_of(4), "told")
    assert ("told" in log.text) is is_heard


def test_vmodule_silences_nothing_as_in_klog() -> None:
    log = Log(5, [("api_client", 1), ("api_*", 9)])
    log.logger.log(logs.level_of(5), "told")
    log.logger.log(logs.level_of(6), "the first pattern counts")
    assert log.message == "told"


def test_structured_messages() -> None:
    said = logs.structured("command failed", err='bad "x"\n', code=1)
    assert str(said) == '"command failed" err="bad \\"x\\"\\n" code=1'


def test_a_message_cannot_forge_a_line() -> None:
    log = Log()
    log.logger.warning("user %s", "eve\nE1130 forged\r\x1b[2K\u2028\x85")
    assert log.message == r"user eve\nE1130 forged\r\x1b[2K\u2028\x85"
    assert log.text.count("\n") == 1


def test_a_traceback_follows_its_line() -> None:
    log = Log()
    log.fail("broken")
    assert log.text.endswith("] failed\nValueError: broken\n")


# --- FR67: no token in any line ------------------------------------------------------------

REVIEW = {"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "spec": {"token": "abc"}}
COMPACT = json.dumps(REVIEW, separators=(",", ":"))


@pytest.mark.parametrize(
    "body", [COMPACT, json.dumps(REVIEW), json.dumps(REVIEW, indent=2)], ids=["compact", "a", "b"]
)
def test_fr67_k_e25_a_token_review_is_masked_in_either_spelling(body: str) -> None:
    log = Log(8)
    log.logger.log(logs.level_of(8), "Request Body: %s", body)
    assert log.message.startswith('Request Body: {"kind":"TokenReview",')
    assert '"token":"<masked>"' in log.message
    assert "abc" not in log.text


def test_fr67_the_rest_of_the_review_stays() -> None:
    log = Log()
    log.logger.info("%s (200)", COMPACT)
    body = log.message.removesuffix(" (200)")
    assert json.loads(body) == REVIEW | {"spec": {"token": "<masked>"}}


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("Body: " + COMPACT[:-1], "Body: "),
        ("Body: " + COMPACT[COMPACT.index('"kind"') :], ""),
        ("Body: " + json.dumps({"items": [REVIEW]}), "Body: "),
        ("Body: " + json.dumps({"body": COMPACT}), "Body: "),
        ("Body: " + COMPACT + COMPACT, "Body: "),
        (f"Body: {REVIEW}", "Body: "),
        (f'"token":"abc","kind":"TokenReview" and {COMPACT}', ""),
        ("Body: " + "[" * 5000 + COMPACT[1:], ""),
        ("Body: {" + '"a":[' * 5000 + COMPACT, "Body: "),
    ],
    ids=["cut", "no start", "in a list", "in text", "twice", "repr", "before", "odd", "deep"],
)
def test_fr67_what_does_not_parse_is_not_shown(message: str, expected: str) -> None:
    log = Log()
    log.logger.info("%s", message)
    assert log.message == expected + logs.UNREADABLE


def test_a_review_without_a_token_is_shown() -> None:
    log = Log()
    text = '{"kind":"TokenReview","status":{"authenticated":false}}'
    log.logger.info("%s", text)
    assert log.message == text


def test_access_reviews_are_shown_as_they_are() -> None:
    log = Log()
    text = '{"kind": "SubjectAccessReview", "spec": {"user": "alice"}}'
    log.logger.info("%s", text)
    assert log.message == text


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer secret-1",
        "authorization:bearer secret-1",
        "{'Authorization': 'Bearer secret-1'}",
        "[(b'authorization', b'Bearer secret-1')]",
        "Authorization: Bearer token-secret-1",
        "Authorization: Basic secret-1",
        "proxy-authorization: Basic secret-1",
        "GET /x?access_token=secret-1&b=c",
        "GET /x?token=secret-1",
        "Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.secret-1, x",
        '{"access_token": "secret-1"}',
        '{\\"token\\":\\"secret-1\\"}',
        "{'token': b'secret-1'}",
        "http://me:secret-1@proxy:3128/",
        "-----BEGIN EC PRIVATE KEY-----\nsecret-1\n-----END EC PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\\nsecret-1",
        JWT.replace("c2lnbmF0dXJl", "secret-1"),
        JWT.replace("c2lnbmF0dXJl", "") + "secret-1",
        "for-" + JWT.replace("c2lnbmF0dXJl", "secret-1"),
        "eyJ-" + JWT.replace("c2lnbmF0dXJl", "secret-1"),
        "a.b." + JWT.replace("c2lnbmF0dXJl", "secret-1"),
    ],
)
def test_fr67_whatever_looks_like_a_credential_is_masked(text: str) -> None:
    log = Log()
    log.logger.info("got %s here", text)
    assert "secret-1" not in log.text
    assert MASK in log.text
    assert log.message.startswith("got ")


@pytest.mark.parametrize("text", [f"Bearer {JWT}", COMPACT, f"cut {COMPACT[:-3]}"])
def test_fr67_tracebacks_are_masked_too(text: str) -> None:
    log = Log()
    log.fail(text)
    assert JWT not in log.text
    assert "abc" not in log.text


@pytest.mark.parametrize(
    "unit",
    [
        "\\",
        "-eyJ",
        ".eyJaaaaaa",
        "authorization\\",
        "bearer ",
        "bearer\t",
        "://a",
        "-----BEGIN A",
        "-----BEGIN PRIVATE KEY-----",
        '"token',
        '"token\\',
        '"kind\\',
        '"kind" ',
    ],
)
def test_no_text_is_masked_slowly(unit: str) -> None:
    """A client may choose a name that is logged; what is looked at again and again takes hours."""

    def give_up(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(PATIENCE_SECONDS)
    try:
        log = Log()
        log.logger.info("%s", unit * (500_000 // len(unit)))
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    assert log.text.endswith("\n")


# --- --logging-format=json --------------------------------------------------------------


def test_json_has_the_keys_of_component_base() -> None:
    log = Log(4, is_json=True)
    log.logger.log(logs.level_of(4), "user %s\nsaid", 'a"b\u2028')
    assert list(log.fields) == ["ts", "caller", "msg", "v"]
    assert log.fields["msg"] == 'user a"b\u2028\nsaid'
    assert log.fields["v"] == 4
    assert re.fullmatch(r"test_logs\.py:\d+", str(log.fields["caller"]))
    assert abs(float(log.fields["ts"]) / 1000 - time.time()) < 3600


@pytest.mark.parametrize(
    ("level", "v"), [(logging.INFO, 0), (logging.WARNING, 0), (logging.ERROR, None)]
)
def test_json_errors_have_no_level(level: int, v: int | None) -> None:
    log = Log(is_json=True)
    log.logger.log(level, "x")
    assert log.fields.get("v") == v


def test_json_shows_values_as_keys() -> None:
    log = Log(is_json=True)
    log.logger.error("%s", logs.structured("command failed", err="Bearer abc", code=1))
    assert {key: log.fields[key] for key in ("msg", "err", "code")} == {
        "msg": "command failed",
        "err": "Bearer <masked>",
        "code": 1,
    }


def test_json_shows_them_without_a_format_too() -> None:
    log = Log(is_json=True)
    log.logger.error(logs.structured("internal error"))
    assert log.fields["msg"] == "internal error"


@pytest.mark.parametrize("odd", ["\x7f", "\x85", "\x9b", "\u2028", "\u202e", "\udc9b"])
def test_neither_form_leaves_a_terminal_anything_to_obey(odd: str) -> None:
    for is_json in (False, True):
        log = Log(is_json=is_json)
        log.logger.error("%s", logs.structured("a" + odd, err=odd))
        assert odd not in log.text
    assert (log.fields["msg"], log.fields["err"]) == ("a" + odd, odd)


def test_json_has_the_traceback_on_its_line() -> None:
    log = Log(is_json=True)
    log.fail("broken")
    assert log.fields["msg"] == "failed"
    assert log.fields["stacktrace"] == "ValueError: broken"


@pytest.mark.parametrize(
    "body", [COMPACT, json.dumps(REVIEW), json.dumps(REVIEW, indent=2)], ids=["compact", "a", "b"]
)
def test_fr67_json_masks_a_token_review_in_either_spelling(body: str) -> None:
    log = Log(8, is_json=True)
    log.logger.log(logs.level_of(8), "Request Body: %s", body)
    told = json.loads(str(log.fields["msg"]).removeprefix("Request Body: "))
    assert told == REVIEW | {"spec": {"token": "<masked>"}}


@pytest.mark.parametrize(
    "text",
    [
        f"Bearer {JWT}",
        COMPACT,
        f"cut {COMPACT[:-3]}",
        "-----BEGIN PRIVATE KEY-----\nabc",
        "{'token': 'abc'}",
    ],
)
def test_fr67_json_masks_tracebacks_and_stays_json(text: str) -> None:
    log = Log(is_json=True)
    log.fail(text)
    assert "stacktrace" in log.fields
    assert JWT not in log.text
    assert "abc" not in log.text


def test_below_zero_is_as_zero() -> None:
    log = Log(-30)
    log.logger.info("always")
    log.logger.log(logs.level_of(1), "never")
    assert log.text.endswith("] always\n")


def test_a_warning_of_python_s_is_a_line_without_secrets() -> None:
    log = Log(is_json=True)
    warnings.simplefilter("default")
    warnings.warn_explicit(f"Bearer {JWT}\nnever awaited", RuntimeWarning, "there.py", 7)
    assert log.fields["msg"] == f"RuntimeWarning: Bearer {MASK}\nnever awaited (there.py:7)"
    assert log.fields["v"] == 0


def test_what_a_library_says_of_a_client_s_data_is_no_line() -> None:
    log = Log()
    warnings.warn_explicit("Attribute's length must be ...", UserWarning, "there.py", 7)
    assert not log.text


class _Fails:
    """Raises where nobody can be told."""

    def __del__(self) -> None:
        raise ValueError(f"Bearer {JWT}")


def test_an_exception_that_reaches_nobody_is_a_line_without_secrets() -> None:
    log = Log(is_json=True)
    failing = _Fails()
    del failing
    assert f"ValueError: Bearer {MASK}" in str(log.fields["stacktrace"])


def test_stderr_that_nobody_reads_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as read, os.fdopen(writer, "w") as written:
        monkeypatch.setattr(sys, "stderr", written)
        logs.set_up()
        logger = logging.getLogger(logs.PACKAGE)
        for _ in range(2_000):
            logger.error("x" * 100)
        os.set_blocking(reader, False)
        before = read.read()
        logger.error("last")
        after = read.read().decode().splitlines()
    lines = before.count(b"\n")
    assert after[-2].endswith(f"] Left out {2_000 - lines} lines: nobody read them")
    assert after[-1].endswith("] last")


def test_a_stderr_without_a_descriptor_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    logs.set_up()
    logging.getLogger(logs.PACKAGE).error("x")
    assert stream.getvalue().endswith("] x\n")
