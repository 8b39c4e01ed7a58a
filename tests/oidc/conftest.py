"""One authority for all, and an issuer for each test."""

import ssl
from collections.abc import Iterator

import pytest
import trustme

from tests.oidc.parties import Provider, provider

CA = trustme.CA()


@pytest.fixture
def issuer() -> Iterator[Provider]:
    with provider(CA) as made:
        yield made


@pytest.fixture
def trusting() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    CA.configure_trust(context)
    return context
