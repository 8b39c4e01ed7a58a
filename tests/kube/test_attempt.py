from pyrbacproxy.kube.attempt import FailedAttempt
from pyrbacproxy.reviews import ReviewFailed


def test_to_pure_code_a_failed_attempt_is_a_failed_review() -> None:
    attempt = FailedAttempt("the API server answered 500", is_transient=True)
    assert isinstance(attempt, ReviewFailed)
    assert attempt.reason == "the API server answered 500"
    assert attempt.retry_after_seconds == 0.0
