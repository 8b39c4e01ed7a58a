from pyrbacproxy.kube.memory import Cause, FailedAttempt
from pyrbacproxy.model import ReviewFailed


def test_to_pure_code_a_failed_attempt_is_a_failed_review() -> None:
    attempt = FailedAttempt("the API server answered 500", is_transient=True)
    assert isinstance(attempt, ReviewFailed)
    assert attempt.reason == "the API server answered 500"
    assert attempt.retry_after_seconds == 0.0


def test_of_an_attempt_that_says_nothing_more_the_api_server_is_there() -> None:
    """Nothing is used past its time then (D15): doubt is refusal."""
    assert FailedAttempt("?").cause is Cause.ANSWERED
