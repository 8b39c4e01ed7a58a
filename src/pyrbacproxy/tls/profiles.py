"""A cluster's TLS security profile → Go's version and suite names, as operators render them.

The profiles are those of `apiserver.config.openshift.io` (reference section 11.3), written with
OpenSSL's suite names. Operators pass the result on as `--tls-min-version` and
`--tls-cipher-suites`, and write it into the kubelet's configuration.
"""

from dataclasses import dataclass

from pyrbacproxy.tls.names import go_name

_TLS13 = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
_FORWARD_SECRET = (
    *("ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
    *("ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
    *("ECDHE-ECDSA-CHACHA20-POLY1305", "ECDHE-RSA-CHACHA20-POLY1305"),
)
_WEAK = (
    *("ECDHE-ECDSA-AES128-SHA256", "ECDHE-RSA-AES128-SHA256"),
    *("ECDHE-ECDSA-AES128-SHA", "ECDHE-RSA-AES128-SHA"),
    *("ECDHE-ECDSA-AES256-SHA384", "ECDHE-RSA-AES256-SHA384"),
    *("ECDHE-ECDSA-AES256-SHA", "ECDHE-RSA-AES256-SHA"),
    *("AES128-GCM-SHA256", "AES256-GCM-SHA384", "AES128-SHA256", "AES256-SHA256"),
    *("AES128-SHA", "AES256-SHA", "DES-CBC3-SHA"),
)


@dataclass(frozen=True, slots=True)
class Profile:
    """The lowest version, by Go's name, and suites by OpenSSL's names."""

    minimum: str
    ciphers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rendered:
    """What a profile comes to: Go's names; `dropped` are the suites that Go has not."""

    minimum: str
    suites: tuple[str, ...]
    dropped: tuple[str, ...]


_INTERMEDIATE = Profile("VersionTLS12", (*_TLS13, *_FORWARD_SECRET))
_PROFILES = {
    "Old": Profile("VersionTLS10", (*_TLS13, *_FORWARD_SECRET, *_WEAK)),
    "Intermediate": _INTERMEDIATE,
    "Modern": Profile("VersionTLS13", _TLS13),
}


def rendered(name: str, custom: Profile | None = None) -> Rendered:
    """The profile of that name; "Custom" takes `custom`, which may be empty.

    A custom profile without content, and a name that is unknown, stand for Intermediate.
    """
    profile = custom if name == "Custom" else _PROFILES.get(name)
    profile = profile or _INTERMEDIATE
    suites = {cipher: go_name(cipher) for cipher in profile.ciphers}
    return Rendered(
        profile.minimum,
        tuple(suite for suite in suites.values() if suite),
        tuple(cipher for cipher, suite in suites.items() if not suite),
    )
