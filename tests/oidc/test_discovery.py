"""What the discovery document and the headers of the key set say."""

import json

import pytest

from pyrbacproxy.http1.head import Headers
from pyrbacproxy.oidc.issuer import (
    LEAST_SECONDS,
    MOST_SECONDS,
    USUAL_SECONDS,
    discovery_url,
    fresh_seconds,
    key_set_url,
)

ISSUER = "https://issuer.test/realm"
AT_1994 = 784_111_777.0  # RFC 9110 section 5.6.7's example


@pytest.mark.parametrize("issuer", [ISSUER, ISSUER + "/"])
def test_the_document_is_below_the_issuer(issuer: str) -> None:
    assert discovery_url(issuer) == ISSUER + "/.well-known/openid-configuration"


def test_it_tells_where_the_keys_are() -> None:
    document = {"issuer": ISSUER, "jwks_uri": "https://keys.test/k?a=b", "more": [1]}
    assert key_set_url(json.dumps(document).encode(), ISSUER) == "https://keys.test/k?a=b"


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ([], "no JSON object"),
        ({}, "another issuer"),
        ({"issuer": ISSUER + "/", "jwks_uri": "https://k"}, "another issuer"),
        ({"issuer": ISSUER}, "no https address"),
        ({"issuer": ISSUER, "jwks_uri": "http://keys.test"}, "no https address"),
        ({"issuer": ISSUER, "jwks_uri": "/keys"}, "no https address"),
        ({"issuer": ISSUER, "jwks_uri": "https://[k"}, "no https address"),
        ({"issuer": ISSUER, "jwks_uri": ["https://k"]}, "no https address"),
    ],
)
def test_a_document_in_doubt_is_refused(document: object, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        key_set_url(json.dumps(document).encode(), ISSUER)


@pytest.mark.parametrize(
    ("lines", "seconds"),
    [
        ((), USUAL_SECONDS),
        ((("Cache-Control", "public, max-age=1200"),), 1200.0),
        ((("Cache-Control", 'max-age="1200"'),), 1200.0),
        ((("Cache-Control", "max-age=1200"), ("Age", "200")), 1000.0),
        ((("Cache-Control", "max-age=1200"), ("Age", "x")), 1200.0),
        ((("Cache-Control", "max-age=1200"), ("Expires", "0")), 1200.0),
        ((("Cache-Control", "max-age=0"),), LEAST_SECONDS),
        ((("Cache-Control", "max-age=999999999"),), MOST_SECONDS),
        ((("Cache-Control", "max-age=x"),), USUAL_SECONDS),
        ((("Cache-Control", "no-cache, max-age=1200"),), LEAST_SECONDS),
        ((("Cache-Control", "max-age=1200, no-store"),), LEAST_SECONDS),
        ((("Expires", "Sun, 06 Nov 1994 08:59:37 GMT"),), 600.0),
        ((("Expires", "Sun, 06 Nov 1994 08:49:37 GMT"),), LEAST_SECONDS),
        ((("Expires", "Fri, 31 Dec 9999 23:59:59 GMT"),), MOST_SECONDS),
        ((("Expires", "0"),), LEAST_SECONDS),
        ((("Expires", "Mon, 32 Foo 2000 99:99:99 GMT"),), LEAST_SECONDS),
    ],
)
def test_keys_are_kept_as_their_headers_say_within_bounds(
    lines: tuple[tuple[str, str], ...], seconds: float
) -> None:
    headers = Headers((name.encode(), value.encode()) for name, value in lines)
    assert fresh_seconds(headers, AT_1994) == seconds
