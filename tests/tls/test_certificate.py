import pytest

from pyrbacproxy.tls.certificate import from_der, from_pem
from tests.tls.parties import as_pem, issue, with_version

GOOD = issue("CN=a")


def test_a_certificate_is_read() -> None:
    assert from_der(GOOD.der) == from_pem(GOOD.pem) == GOOD.certificate


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(GOOD.der[:-1], id="cut off"),
        pytest.param(with_version(GOOD.der, 1), id="version 2"),
        pytest.param(with_version(GOOD.der, 5), id="version 6"),
    ],
)
def test_whatever_is_wrong_is_a_value_error(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        from_der(content)
    with pytest.raises(ValueError, match=r"."):
        from_pem(as_pem(content))
