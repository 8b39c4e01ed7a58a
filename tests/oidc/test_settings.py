from pyrbacproxy.egress import EgressProxies
from pyrbacproxy.oidc.settings import ALGORITHMS, OidcSettings


def test_an_issuer_signs_with_a_private_key_always() -> None:
    assert sorted(ALGORITHMS) == [
        *("ES256", "ES384", "ES512", "PS256", "PS384", "PS512"),
        *("RS256", "RS384", "RS512"),
    ]


def test_the_defaults_are_those_of_the_flags() -> None:
    settings = OidcSettings("https://i.test", "c")
    assert (settings.username_claim, settings.groups_claim) == ("email", "groups")
    assert (settings.username_prefix, settings.groups_prefix) == ("", "")
    assert settings.algorithms == {"RS256"}
    assert settings.proxies == EgressProxies()
