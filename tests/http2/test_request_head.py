import pytest

from pyrbacproxy.http1.framing import CHUNKED, NO_BODY, Framing, Kind
from pyrbacproxy.http1.head import Headers, RemoteProtocolError
from pyrbacproxy.http2.codec import Fields
from pyrbacproxy.http2.fields import checked_trailers, misplaced_field, read_head, written_head
from pyrbacproxy.http2.limits import MalformedStreamError
from tests.http2.talk import request

CONNECT = [(b":method", b"CONNECT"), (b":authority", b"db:5432")]


def without(name: bytes) -> Fields:
    return [field for field in request() if field[0] != name]


def changed(name: bytes, value: bytes) -> Fields:
    return [(n, value if n == name else v) for n, v in request()]


WRITTEN = {
    "a GET": (request(), True, b"GET /x HTTP/1.1\r\nhost: h\r\n\r\n"),
    "with a query and fields": (
        request(b"/x?a=1", (b"accept", b"*/*"), (b"te", b"trailers")),
        True,
        b"GET /x?a=1 HTTP/1.1\r\nhost: h\r\naccept: */*\r\nte: trailers\r\n\r\n",
    ),
    "a body": (
        request(method=b"POST"),
        False,
        b"POST /x HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n",
    ),
    "a body with a length": (
        request(b"/x", (b"content-length", b"3"), method=b"POST"),
        False,
        b"POST /x HTTP/1.1\r\nhost: h\r\ncontent-length: 3\r\n\r\n",
    ),
    "cookie crumbs": (
        request(b"/x", (b"cookie", b"a=1"), (b"x", b"y"), (b"cookie", b"b=2")),
        True,
        b"GET /x HTTP/1.1\r\nhost: h\r\ncookie: a=1; b=2\r\nx: y\r\n\r\n",
    ),
    "one cookie": (
        request(b"/x", (b"cookie", b"a=1")),
        True,
        b"GET /x HTTP/1.1\r\nhost: h\r\ncookie: a=1\r\n\r\n",
    ),
    "Host instead of an authority": (
        [*without(b":authority"), (b"host", b"g")],
        True,
        b"GET /x HTTP/1.1\r\nhost: g\r\n\r\n",
    ),
    "Host that says the same": (
        request(b"/x", (b"host", b"H")),
        True,
        b"GET /x HTTP/1.1\r\nhost: h\r\n\r\n",
    ),
    "all of the server": (
        changed(b":path", b"*"),
        True,
        b"GET * HTTP/1.1\r\nhost: h\r\n\r\n",
    ),
    "CONNECT": (CONNECT, True, b"CONNECT db:5432 HTTP/1.1\r\nhost: db:5432\r\n\r\n"),
}


@pytest.mark.parametrize("case", WRITTEN.values(), ids=WRITTEN)
def test_a_head_is_written_as_http1_has_it(case: tuple[Fields, bool, bytes]) -> None:
    fields, is_whole, raw = case
    assert written_head(fields, is_whole=is_whole) == raw


MALFORMED = {
    "no method": without(b":method"),
    "no path": without(b":path"),
    "an empty path": changed(b":path", b""),
    "no scheme": without(b":scheme"),
    "another scheme": changed(b":scheme", b"ftp"),
    "twice": [*request(), (b":path", b"/y")],
    "an unknown one": [(b":protocol", b"websocket"), *request()],
    "a response's": [(b":status", b"200"), *request()],
    "behind a field": [(b":method", b"GET"), (b"a", b"b"), *request()[1:]],
    "a line break in a pseudo-header": changed(b":path", b"/x HTTP/1.1\r\nX: y"),
    "a line break in a value": request(b"/x", (b"x", b"1\r\nX-Injected: 1")),
    "a bare line feed": request(b"/x", (b"x", b"1\n2")),
    "NUL": request(b"/x", (b"x", b"1\x002")),
    "a blank before": request(b"/x", (b"x", b" 1")),
    "a tab behind": request(b"/x", (b"x", b"1\t")),
    "upper case": request(b"/x", (b"X-A", b"1")),
    "no name": request(b"/x", (b"", b"1")),
    "a name that would end": request(b"/x", (b"x: y\r\nz", b"1")),
    "CONNECT with a path": [*CONNECT, (b":path", b"/")],
    "CONNECT with a scheme": [*CONNECT, (b":scheme", b"https")],
    "CONNECT without authority": CONNECT[:1],
}


@pytest.mark.parametrize("fields", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_request_is_none(fields: Fields) -> None:
    with pytest.raises(MalformedStreamError):
        written_head(fields, is_whole=True)


REFUSED = {
    "two hosts": (request(b"/x", (b"host", b"other")), 400),
    "no host at all": (without(b":authority"), 400),
    "a user in the authority": (changed(b":authority", b"a@h"), 400),
    "an absolute target": (changed(b":path", b"http://other/x"), 400),
    "a blank in the path": (changed(b":path", b"/a b"), 400),
    "raw bytes in the path": (changed(b":path", b"/\xc3\xa9"), 400),
    "a blank in the method": (changed(b":method", b"GET /y"), 400),
    "a method that nobody knows": (changed(b":method", b"BREW"), 501),
    "a method in small letters": (changed(b":method", b"get"), 501),
    "two lengths": (request(b"/x", (b"content-length", b"1"), (b"content-length", b"2")), 400),
    "an unknown expectation": (request(b"/x", (b"expect", b"x")), 417),
    "too many lines": (request(b"/x", *[(b"a", b"b")] * 500), 431),
    "too large": (request(b"/x", (b"a", b"b" * 70_000)), 431),
    "a control character": (request(b"/x", (b"a", b"\x01")), 400),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_what_http1_refuses_is_refused(case: tuple[Fields, int]) -> None:
    fields, status = case
    with pytest.raises(RemoteProtocolError) as fault:
        read_head(written_head(fields, is_whole=True), max_bytes=65_536)
    assert fault.value.status == status


@pytest.mark.parametrize(
    ("fields", "is_whole", "framing"),
    [
        (request(), True, NO_BODY),
        (request(), False, CHUNKED),
        (request(b"/x", (b"content-length", b"3")), False, Framing(Kind.LENGTH, 3)),
    ],
)
def test_a_written_head_is_read(fields: Fields, framing: Framing, *, is_whole: bool) -> None:
    raw = written_head(fields, is_whole=is_whole)
    received = read_head(raw, max_bytes=len(raw))
    assert (received.framing, received.raw, received.target.path) == (framing, raw, "/x")
    assert not received.may_switch


@pytest.mark.parametrize(
    ("field", "told"),
    [
        ((b"connection", b"close"), 'request header "Connection" is not valid in HTTP/2\n'),
        ((b"upgrade", b"h2c"), 'request header "Upgrade" is not valid in HTTP/2\n'),
        (
            (b"transfer-encoding", b"chunked"),
            'request header "Transfer-Encoding" is not valid in HTTP/2\n',
        ),
        ((b"keep-alive", b"1"), 'request header "Keep-Alive" is not valid in HTTP/2\n'),
        (
            (b"proxy-connection", b"close"),
            'request header "Proxy-Connection" is not valid in HTTP/2\n',
        ),
        ((b"te", b"gzip"), 'request header "TE" may only be "trailers" in HTTP/2\n'),
    ],
)
def test_fields_of_a_connection_have_no_place(field: tuple[bytes, bytes], told: str) -> None:
    answer = misplaced_field(request(b"/x", field))
    assert answer is not None
    assert (answer.status, answer.body.decode()) == (400, told)


def test_others_have() -> None:
    assert misplaced_field(request(b"/x", (b"te", b"trailers"))) is None


def test_trailers() -> None:
    assert checked_trailers([(b"x-sum", b"1")]) == Headers([(b"x-sum", b"1")])
    for fields in (
        None,
        [(b":path", b"/")],
        [(b"x", b"1\r\n")],
        [(b"x", b"1\x01")],
        [(b"transfer-encoding", b"chunked")],
    ):
        with pytest.raises(MalformedStreamError):
            checked_trailers(fields)
