"""What kube-apiserver's TokenReview says of good, unknown and misdirected tokens."""

import pytest

from pyrbacproxy.demo.tokens import API_AUDIENCE, TokenEntry, TokenTable, service_account
from pyrbacproxy.model import TokenReviewAnswer, UserInfo

ROBOT = service_account("work", "robot", "u-1")
KNOWN = UserInfo(
    "system:serviceaccount:work:robot",
    "u-1",
    ("system:serviceaccounts", "system:serviceaccounts:work", "system:authenticated"),
)
GROUPED = UserInfo("g", groups=("system:authenticated", "dev"))
TABLE = TokenTable(
    {
        "robot": TokenEntry(ROBOT),
        "grouped": TokenEntry(GROUPED),
        "for-two": TokenEntry(ROBOT, ("proxy", "other")),
    }
)


def bad(text: str) -> TokenReviewAnswer:
    return TokenReviewAnswer(authenticated=False, error=text)


CASES = {
    "known": ("robot", (), TokenReviewAnswer(True, KNOWN, (API_AUDIENCE,))),
    "group added once": ("grouped", (), TokenReviewAnswer(True, GROUPED, (API_AUDIENCE,))),
    "unknown": ("nobody", (), bad("invalid bearer token")),
    "audience shared": (
        "for-two",
        ("other", "third"),
        TokenReviewAnswer(True, KNOWN, ("other",)),
    ),
    "audience of the API server is not the proxy's": (
        "robot",
        ("proxy",),
        bad(
            f'[invalid bearer token, token audiences ["{API_AUDIENCE}"]'
            ' is invalid for the target audiences ["proxy"]]'
        ),
    ),
    "audience of the proxy is not the API server's": (
        "for-two",
        (),
        bad(
            '[invalid bearer token, token audiences ["proxy" "other"]'
            f' is invalid for the target audiences ["{API_AUDIENCE}"]]'
        ),
    ),
}


@pytest.mark.parametrize(("token", "audiences", "answer"), CASES.values(), ids=CASES.keys())
def test_review(token: str, audiences: tuple[str, ...], answer: TokenReviewAnswer) -> None:
    assert TABLE.review(token, audiences) == answer


def test_a_service_account_without_a_uid_gets_one() -> None:
    assert service_account("a", "b").uid
