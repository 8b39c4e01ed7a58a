"""A page's attributes: the lower-cased method on the decoded path."""

import pytest

from pyrbacproxy.admin.attributes import page_attributes
from pyrbacproxy.authz.attributes import Attributes
from pyrbacproxy.reviews import NonResourceAttributes
from pyrbacproxy.user import UserInfo
from tests.fakes import request

ALICE = UserInfo("alice")


@pytest.mark.parametrize(
    ("method", "verb"),
    [(b"GET", "get"), (b"HEAD", "get"), (b"POST", "post"), (b"OPTIONS", "options")],
)
def test_verbs(method: bytes, verb: str) -> None:
    asked = request(b"/stat%75sz?x=1", method=method)
    found = page_attributes(asked.head, asked.target, ALICE)
    assert found == Attributes(ALICE, NonResourceAttributes(verb, "/statusz"))


def test_an_encoded_separator_is_not_exact() -> None:
    asked = request(b"/a%2fb")
    assert not page_attributes(asked.head, asked.target, ALICE).is_path_exact
