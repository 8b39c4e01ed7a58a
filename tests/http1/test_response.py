from pyrbacproxy.http1.head import Headers, Response, text


def test_a_text_carries_the_headers_of_the_original() -> None:
    response = text(403, "Forbidden\n", (b"X-More", b"1"), must_close=True)
    assert response.status == 403
    assert response.body == b"Forbidden\n"
    assert response.must_close
    assert response.headers.pairs == (
        (b"Content-Type", b"text/plain; charset=utf-8"),
        (b"X-Content-Type-Options", b"nosniff"),
        (b"X-More", b"1"),
    )


def test_what_no_encoding_has_is_shown_as_a_question() -> None:
    assert text(200, "a\udcffb").body == b"a?b"


def test_an_answer_is_empty_and_keeps_the_connection_by_default() -> None:
    assert Response(502) == Response(502, Headers(), b"", must_close=False)
