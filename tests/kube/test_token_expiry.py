import base64
import json

import pytest

from pyrbacproxy.kube.memory import MAX_BYTES, expiry_of


def jwt(payload: str) -> str:
    encoded = base64.urlsafe_b64encode(payload.encode()).decode().rstrip("=")
    return f"eyJhbGciOiJub25lIn0.{encoded}.c2ln"


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        pytest.param(jwt('{"exp": 1700000000}'), 1700000000.0, id="whole"),
        pytest.param(jwt('{"exp": 1700000000.5}'), 1700000000.5, id="fraction"),
        pytest.param(jwt('{"exp": 1, "sub": "x"}'), 1.0, id="other padding"),
        pytest.param(jwt("{}"), None, id="no exp"),
        pytest.param(jwt('{"exp": "1700000000"}'), None, id="a string"),
        pytest.param(jwt('{"exp": true}'), None, id="a boolean"),
        pytest.param(jwt('{"exp": NaN}'), None, id="no number"),
        pytest.param(jwt('{"exp": Infinity}'), None, id="infinite"),
        pytest.param(jwt(json.dumps({"exp": 10**400})), None, id="too large"),
        pytest.param(jwt("[1]"), None, id="no object"),
        pytest.param(jwt("{"), None, id="no JSON"),
        pytest.param(jwt("[" * 20000), None, id="nested without end"),
        pytest.param("a.\xff.c", None, id="no base64"),
        pytest.param("opaque", None, id="opaque"),
        pytest.param("a.b", None, id="two parts"),
        pytest.param("a.b.c.d", None, id="four parts"),
        pytest.param(jwt('{"exp": 1}') + "x" * MAX_BYTES, None, id="too long"),
    ],
)
def test_expiry_of_a_token(token: str, expected: float | None) -> None:
    assert expiry_of(token) == expected
