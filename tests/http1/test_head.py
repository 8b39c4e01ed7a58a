import pytest

from pyrbacproxy.http1.head import (
    Headers,
    RemoteProtocolError,
    RequestHead,
    ResponseHead,
    check_host,
    folded,
    is_valid_host,
)

MANY = Headers([(b"X-A", b"1"), (b"Cookie", b"a"), (b"x-a", b"2, ,Three"), (b"X-A", b"")])


def test_lines_keep_their_order_and_spelling() -> None:
    assert list(MANY) == list(MANY.pairs)
    assert len(MANY) == 4
    assert [name for name, _ in MANY] == [b"X-A", b"Cookie", b"x-a", b"X-A"]
    assert [lowered for lowered, _ in MANY.lowered_items()] == [b"x-a", b"cookie", b"x-a", b"x-a"]


def test_look_ups_take_the_lower_case_name() -> None:
    assert b"x-a" in MANY
    assert b"X-A" not in MANY
    assert MANY.get(b"x-a") == b"1"
    assert MANY.get(b"x-b") is None
    assert MANY.get_all(b"x-a") == [b"1", b"2, ,Three", b""]
    assert MANY.get_all(b"x-b") == []


def test_tokens_come_from_all_lines_trimmed_and_lower_cased() -> None:
    assert MANY.tokens(b"x-a") == [b"1", b"2", b"three"]
    assert MANY.tokens(b"x-b") == []


def test_changes_make_copies() -> None:
    assert MANY.without({b"x-a"}) == Headers([(b"Cookie", b"a")])
    assert MANY.without({b"x-b"}) is MANY
    assert Headers().with_added((b"A", b"1"), (b"B", b"2")) == Headers([(b"A", b"1"), (b"B", b"2")])
    assert len(MANY) == 4


def test_headers_are_values() -> None:
    same = Headers(list(MANY.pairs))
    assert same == MANY
    assert hash(same) == hash(MANY)
    assert Headers() != MANY
    assert MANY.pairs != MANY


def test_no_value_is_shown_for_it_may_be_a_credential() -> None:
    shown = repr(RequestHead(b"GET", b"/", Headers([(b"Authorization", b"Bearer geheim")])))
    assert "Authorization" in shown
    assert "geheim" not in shown


@pytest.mark.parametrize(
    ("connection", "minor", "is_persistent"),
    [
        pytest.param([], 1, True, id="1.1 stays"),
        pytest.param([b"close"], 1, False, id="1.1 says close"),
        pytest.param([b"foo", b"x, CLOSE"], 1, False, id="close in another line, in capitals"),
        pytest.param([], 0, False, id="1.0 goes"),
        pytest.param([b"Keep-Alive"], 0, True, id="1.0 asks to stay"),
        pytest.param([b"keep-alive, close"], 0, False, id="close wins"),
    ],
)
def test_whether_a_connection_lives_on(
    *, connection: list[bytes], minor: int, is_persistent: bool
) -> None:
    headers = Headers([(b"Connection", value) for value in connection])
    assert RequestHead(b"GET", b"/", headers, minor).is_persistent is is_persistent
    assert ResponseHead(200, b"OK", headers, minor).is_persistent is is_persistent


@pytest.mark.parametrize(
    "host", [b"", b"h", b"Some.Host:99", b"[::1]:9637", b"a_b", b"%25", b"!$&'()*+,;=~"]
)
def test_hosts(host: bytes) -> None:
    assert is_valid_host(host)
    check_host(RequestHead(b"GET", b"/", Headers([(b"Host", host)])))


@pytest.mark.parametrize(
    "host", [b"a b", b"a/b", b"a?b", b"u@h", b"a#b", b"a\\b", b"\xe9", b"h\n", b'"', b"<h>"]
)
def test_no_hosts(host: bytes) -> None:
    assert not is_valid_host(host)
    with pytest.raises(RemoteProtocolError, match="malformed") as caught:
        check_host(RequestHead(b"GET", b"/", Headers([(b"Host", host)])))
    assert caught.value.status == 400


def test_http_1_1_needs_exactly_one_host() -> None:
    with pytest.raises(RemoteProtocolError, match="no Host"):
        check_host(RequestHead(b"GET", b"/", Headers()))
    with pytest.raises(RemoteProtocolError, match="more than one"):
        check_host(RequestHead(b"GET", b"/", Headers([(b"Host", b"h"), (b"host", b"h")])))


def test_http_1_0_may_do_without_but_not_have_two() -> None:
    check_host(RequestHead(b"GET", b"/", Headers(), minor=0))
    with pytest.raises(RemoteProtocolError, match="more than one"):
        check_host(RequestHead(b"GET", b"/", Headers([(b"Host", b"h"), (b"host", b"i")]), minor=0))


@pytest.mark.parametrize("name", [b"x-remote-user", b"X_REMOTE_USER", b"X-Remote_User"])
def test_all_spellings_fold_to_one(name: bytes) -> None:
    assert folded(name) == b"x-remote-user"
