"""Invariants: a target is refused or taken apart without loss; what is forwarded decodes to what
was decided on; a path that passes reads the same to a laxer reader.
"""

import posixpath
import re
from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrbacproxy.http1.head import RemoteProtocolError
from pyrbacproxy.http1.target import (
    Form,
    Query,
    Target,
    cleaned,
    escaped_path,
    has_encoded_separator,
    is_ambiguous,
    parse_query,
    parse_target,
    path_without_decoding_slash,
)


def origin(raw_path: bytes) -> Target:
    return parse_target(b"GET", raw_path)


@pytest.mark.parametrize(
    ("method", "sent", "target"),
    [
        pytest.param(b"GET", b"/", Target(Form.ORIGIN, b"/", "/"), id="root"),
        pytest.param(
            b"GET",
            b"/%6Detrics?x=%zz",
            Target(Form.ORIGIN, b"/%6Detrics", "/metrics", b"x=%zz"),
            id="decoded once, the query not at all",
        ),
        pytest.param(b"GET", b"/m?", Target(Form.ORIGIN, b"/m", "/m", b""), id="empty query"),
        pytest.param(
            b"GET", b"/m?a?b", Target(Form.ORIGIN, b"/m", "/m", b"a?b"), id="second question mark"
        ),
        pytest.param(
            b"GET", b"/%2561", Target(Form.ORIGIN, b"/%2561", "/%61"), id="never decoded twice"
        ),
        pytest.param(
            b"GET",
            b"/x%FFy",
            Target(Form.ORIGIN, b"/x%FFy", "/x\udcffy"),
            id="an escape that is no UTF-8 survives",
        ),
        pytest.param(
            b"GET", b"/m#part", Target(Form.ORIGIN, b"/m#part", "/m#part"), id="no fragments"
        ),
        pytest.param(
            b"GET", b"//evil/x", Target(Form.ORIGIN, b"//evil/x", "//evil/x"), id="no authority"
        ),
        pytest.param(
            b"GET",
            b"http://Some.Host:99/a%2Fb?x=1",
            Target(Form.ABSOLUTE, b"/a%2Fb", "/a/b", b"x=1", b"Some.Host:99"),
            id="absolute",
        ),
        pytest.param(
            b"GET", b"HTTPS://h", Target(Form.ABSOLUTE, b"/", "/", None, b"h"), id="no path"
        ),
        pytest.param(
            b"GET", b"http://h?x", Target(Form.ABSOLUTE, b"/", "/", b"x", b"h"), id="query only"
        ),
        pytest.param(
            b"GET",
            b"http://[::1]:1/x#y",
            Target(Form.ABSOLUTE, b"/x#y", "/x#y", None, b"[::1]:1"),
            id="hash in an absolute target",
        ),
        pytest.param(b"OPTIONS", b"*", Target(Form.ASTERISK, b"*", "*"), id="asterisk"),
        pytest.param(b"GET", b"*", Target(Form.ASTERISK, b"*", "*"), id="asterisk, any method"),
        pytest.param(
            b"CONNECT",
            b"h:443",
            Target(Form.AUTHORITY, b"", "", authority=b"h:443"),
            id="authority",
        ),
        pytest.param(
            b"CONNECT", b"/m/../s", Target(Form.ORIGIN, b"/m/../s", "/m/../s"), id="CONNECT a path"
        ),
    ],
)
def test_forms(method: bytes, sent: bytes, target: Target) -> None:
    assert parse_target(method, sent) == target


@pytest.mark.parametrize(
    ("method", "sent"),
    [
        pytest.param(b"GET", b"", id="empty"),
        pytest.param(b"GET", b"metrics", id="no leading slash"),
        pytest.param(b"GET", b"h:443", id="authority without CONNECT"),
        pytest.param(b"GET", b"/caf\xc3\xa9", id="raw bytes above 127"),
        pytest.param(b"GET", b"/?\x80", id="such a byte in the query"),
        pytest.param(b"GET", b"/a b", id="blank"),
        pytest.param(b"GET", b"/a\tb", id="tab"),
        pytest.param(b"GET", b"/a\n", id="line feed at the end"),
        pytest.param(b"GET", b"/a\x7f", id="delete"),
        pytest.param(b"GET", b"/\0", id="NUL"),
        pytest.param(b"GET", b"/x%zzy", id="bad escape"),
        pytest.param(b"GET", b"/x%4", id="cut escape"),
        pytest.param(b"GET", b"/x%", id="lone per cent"),
        pytest.param(b"GET", b"http://h/x%zzy", id="bad escape, absolute"),
        pytest.param(b"GET", b"http:///x", id="empty authority"),
        pytest.param(b"GET", b"http://", id="nothing behind the scheme"),
        pytest.param(b"GET", b"http://u@h/", id="user information"),
        pytest.param(b"GET", b"http://h\\evil/", id="backslash in the authority"),
        pytest.param(b"GET", b"http://h#x", id="hash instead of a path"),
        pytest.param(b"GET", b"ftp://h/", id="another scheme"),
        pytest.param(b"GET", b"http:/x", id="one slash"),
        pytest.param(b"GET", b"mailto:x", id="no hierarchy"),
        pytest.param(b"CONNECT", b"http://h/", id="CONNECT an absolute target"),
        pytest.param(b"CONNECT", b"u@h:1", id="CONNECT with user information"),
    ],
)
def test_refused_targets(method: bytes, sent: bytes) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        parse_target(method, sent)
    assert caught.value.status == 400


@given(st.binary(max_size=40) | st.text("/.%2fFeE?#;\\a", max_size=20).map(str.encode))
def test_a_target_is_refused_or_kept_whole(tail: bytes) -> None:
    sent = b"/" + tail
    try:
        target = parse_target(b"GET", sent)
    except RemoteProtocolError:
        assert re.search(rb"[^\x21-\x7e]|%(?![0-9A-Fa-f]{2})", sent)
        return
    query = b"" if target.raw_query is None else b"?" + target.raw_query
    assert target.raw_path + query == sent
    assert target.path.encode("utf-8", "surrogateescape") == unquote_to_bytes(target.raw_path)


@pytest.mark.parametrize(
    ("raw_path", "clean"),
    [
        (b"/", b"/"),
        (b"", b"/"),
        (b"/a", b"/a"),
        (b"/a/", b"/a/"),
        (b"//", b"/"),
        (b"//a", b"/a"),
        (b"//evil.test/x", b"/evil.test/x"),
        (b"/a//b///c", b"/a/b/c"),
        (b"/./a/.", b"/a"),
        (b"/a/./", b"/a/"),
        (b"/a/..", b"/"),
        (b"/a/../", b"/"),
        (b"/a/b/..", b"/a"),
        (b"/a/b/../", b"/a/"),
        (b"/../../x", b"/x"),
        (b"/a/../../..", b"/"),
        (b"a/b", b"/a/b"),
        (b"//a%20b", b"/a%20b"),
        (b"/%2e%2e/x", b"/%2e%2e/x"),
        (b"/a%2f..%2fb", b"/a%2f..%2fb"),
        (b"/...", b"/..."),
    ],
)
def test_cleaned(raw_path: bytes, clean: bytes) -> None:
    assert cleaned(raw_path) == clean


@given(st.text("/.a%", max_size=20).map(lambda tail: ("/" + tail).encode()))
def test_a_cleaned_path_stays_on_this_host_and_is_clean(raw_path: bytes) -> None:
    clean = cleaned(raw_path)
    assert clean.startswith(b"/")
    assert not clean.startswith(b"//")
    assert cleaned(clean) == clean
    assert clean.rstrip(b"/") == b"/" + posixpath.normpath(raw_path).lstrip(b"/") or clean == b"/"


@pytest.mark.parametrize(
    "raw_path",
    [
        b"/public/%2e%2e",
        b"/public/%2E.",
        b"/public/.%2e",
        b"/a/%2e/b",
        b"/a%2f..%2fb",
        b"/a%2F%2Fb",
        b"/a/%2Fb",
        b"/a/%2F",
        b"/%2Fa",
        b"/x%00y",
        b"/a%5C..%5Cb",
        b"/a\\..\\b",
        b"/\\evil.test",
        b"/a/..;/b",
        b"/a/..;x=1/b",
        b"/a/.;/b",
        b"/a/;x/b",
        b"/a/;x",
        b"/a/..%3Bx/b",
        b"/a;\\..\\b",
        b"/a/%2e%2e%5c",
    ],
)
def test_ambiguous_paths(raw_path: bytes) -> None:
    assert is_ambiguous(origin(raw_path))


@pytest.mark.parametrize(
    "raw_path",
    [
        b"/",
        b"/a/",
        b"/a%20b",
        b"/a%2Fb",
        b"/a%2F",
        b"/a%5C",
        b"/a\\b",
        b"/metrics;x=1",
        b"/a;x/b;y",
        b"/%252e%252e/x",
        b"/..%2561",
        b"/%2e%2e%2e",
        b"/a%3Bb",
        b"/x%FF",
        b"/m#part",
    ],
)
def test_plain_paths(raw_path: bytes) -> None:
    assert not is_ambiguous(origin(raw_path))


def test_what_the_raw_path_already_holds_is_not_ambiguous_but_unclean() -> None:
    assert not is_ambiguous(parse_target(b"CONNECT", b"/a/../b%20c"))
    assert is_ambiguous(parse_target(b"CONNECT", b"/a/./%2e%2e/c"))


@given(st.text("/.%2efF5cC;\\a", max_size=16).map(lambda tail: cleaned(("/" + tail).encode())))
def test_no_reader_walks_elsewhere_on_a_path_that_passes(raw_path: bytes) -> None:
    try:
        target = origin(raw_path)
    except RemoteProtocolError:
        return
    if is_ambiguous(target):
        return
    for path in (target.path, target.path.replace("\\", "/")):
        for read in (path, re.sub(r";[^/]*", "", path)):
            assert not {"", ".", ".."} & set(read.rstrip("/").split("/")[1:])


@pytest.mark.parametrize(
    ("raw_path", "expected"),
    [
        (b"/a%2Fb", True),
        (b"/a%2fb", True),
        (b"/a%5Cb", True),
        (b"/a%5cb", True),
        (b"/a%00", True),
        (b"/a\\b", True),
        (b"/a%20b", False),
        (b"/a%252Fb", False),
        (b"/a/b", False),
    ],
)
def test_encoded_separators(*, raw_path: bytes, expected: bool) -> None:
    assert has_encoded_separator(raw_path) is expected


@pytest.mark.parametrize(
    ("raw_path", "path"),
    [
        (b"/a/b", "/a/b"),
        (b"/%61%20b", "/a b"),
        (b"/%61%2Fb%2f%63", "/a%2Fb%2fc"),
        (b"/%2F", "/%2F"),
        (b"/%252F%2F", "/%2F%2F"),
        (b"/%C3%2F%A9", "/\udcc3%2F\udca9"),
    ],
)
def test_the_other_reading_keeps_encoded_slashes(raw_path: bytes, path: str) -> None:
    assert path_without_decoding_slash(origin(raw_path)) == path


@pytest.mark.parametrize(
    ("raw_path", "forwarded"),
    [
        (b"/a:b@c!d$e'f(g)*+,;=~-_.h", b"/a:b@c!d$e'f(g)*+,;=~-_.h"),
        (b'/a|b^c`d{e}f\\g"h<i>', b"/a%7Cb%5Ec%60d%7Be%7Df%5Cg%22h%3Ci%3E"),
        (b"/metrics#part", b"/metrics%23part"),
        (b"/a%2Fb|c%2fd", b"/a%2Fb%7Cc%2fd"),
        (b"/[x]", b"/[x]"),
        (b"/%41%3B%27", b"/%41%3B%27"),
    ],
)
def test_forwarded_paths(raw_path: bytes, forwarded: bytes) -> None:
    assert escaped_path(raw_path) == forwarded


@given(st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E)).map(str.encode))
def test_what_is_forwarded_decodes_to_what_was_decided_on(tail: bytes) -> None:
    try:
        target = origin(b"/" + tail.replace(b"?", b""))
    except RemoteProtocolError:
        return
    forwarded = escaped_path(target.raw_path)
    assert origin(forwarded).path == target.path
    assert escaped_path(forwarded) == forwarded


@pytest.mark.parametrize(
    ("raw_query", "pairs", "is_doubtful"),
    [
        pytest.param(None, [], False, id="none"),
        pytest.param(b"", [], False, id="empty"),
        pytest.param(b"a=1&b=2&a=3", [("a", "1"), ("b", "2"), ("a", "3")], False, id="repeated"),
        pytest.param(b"&&a=1&", [("a", "1")], False, id="empty fields"),
        pytest.param(b"a", [("a", "")], False, id="no equals sign"),
        pytest.param(b"=x", [("", "x")], False, id="no name"),
        pytest.param(b"a=b=c", [("a", "b=c")], False, id="second equals sign"),
        pytest.param(b"a+b=c%2Bd%20e+f", [("a b", "c+d e f")], False, id="blanks"),
        pytest.param(b"a=%26%3D", [("a", "&=")], False, id="decoded after cutting"),
        pytest.param(b"a=%E9", [("a", "\udce9")], False, id="no UTF-8"),
        pytest.param(b"a=1;b=2&c=3", [("c", "3")], True, id="semicolon"),
        pytest.param(b"a=1%3Bb", [("a", "1;b")], False, id="escaped semicolon"),
        pytest.param(b"a=%zz&c=3", [("c", "3")], True, id="bad escape in a value"),
        pytest.param(b"%z=1&c=3", [("c", "3")], True, id="bad escape in a name"),
        pytest.param(b"c=%", [], True, id="lone per cent"),
    ],
)
def test_queries(
    *, raw_query: bytes | None, pairs: list[tuple[str, str]], is_doubtful: bool
) -> None:
    assert parse_query(raw_query) == Query(tuple(pairs), is_doubtful)


def test_a_thousand_pairs_are_read_and_one_more_is_doubtful() -> None:
    assert not parse_query(b"a=1&" * 1000).is_doubtful
    query = parse_query(b"a=1&" * 1001)
    assert query.is_doubtful
    assert len(query.pairs) == 1000
    assert parse_query(b"&".join([b"a=1"] * 1001)).is_doubtful


def test_a_query_of_separators_is_not_worth_its_length() -> None:
    assert not parse_query(b"&" * 1000 + b"a=1").is_doubtful
    assert parse_query(b"&" * 1001 + b"a=1") == Query((), is_doubtful=True)
