from pyrbacproxy.model import Decided, Note, Outcome
from pyrbacproxy.proxy.exchange import malformed, refusal


def test_the_answer_says_the_status_in_words_and_is_the_last() -> None:
    answer = refusal(431)
    assert answer.status == 431
    assert answer.body == b"431 Request Header Fields Too Large"
    assert answer.must_close


def test_the_record_knows_nothing_of_the_request() -> None:
    record = malformed("192.0.2.1", 400, 5.0)
    assert (record.peer_address, record.method, record.path) == ("192.0.2.1", "", "")
    assert (record.status, record.failure) == (400, "malformed request")
    assert record.decided == Decided(
        Outcome.REFUSED, notes=(Note(0, "Refused: malformed request"),)
    )
    assert record.started_at == record.ended_at == 5.0


def test_fr99_the_record_says_what_is_malformed() -> None:
    decided = malformed("192.0.2.1", 400, 5.0, "a malformed request line").decided
    assert decided is not None
    assert decided.notes == (Note(0, "Refused: a malformed request line"),)
