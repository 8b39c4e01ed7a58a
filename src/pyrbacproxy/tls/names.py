"""TLS versions and cipher suites: the names of Go and IANA, OpenSSL's, and OpenShift's profiles."""

from collections.abc import Iterable

from pyrbacproxy.values import Frozen

# --- names ----------------------------------------------------------------------------
# Go's names of TLS versions and IANA's of cipher suites → OpenSSL's (reference section 5.3).

_VERSIONS = {
    # Kubernetes' flags take an empty name for the default.
    "": 0x0303,
    "VersionTLS10": 0x0301,
    "VersionTLS11": 0x0302,
    "VersionTLS12": 0x0303,
    "VersionTLS13": 0x0304,
}

# In Go's order of preference (crypto/tls, cipherSuitesPreferenceOrder with AES instructions), which
# the order of the flag's list does not change. The suites that OpenSSL is built without have no
# name (D33).
_SUITES: dict[str, str | None] = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
    "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA": None,
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA": None,
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": "ECDHE-ECDSA-AES128-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": "ECDHE-RSA-AES128-SHA256",
    "TLS_RSA_WITH_AES_128_CBC_SHA256": "AES128-SHA256",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA": None,
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA": None,
    "TLS_RSA_WITH_RC4_128_SHA": None,
}
# OpenSSL's names for two of those, which cluster profiles may hold.
_TRIPLE_DES = {
    "DES-CBC3-SHA": "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "ECDHE-RSA-DES-CBC3-SHA": "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
}
# Names from before RFC 7905, kept by Go.
_ALIASES = {
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305": "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305": "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
}
# In the order in which Go offers them (reference 5.3): for key exchange, whatever the suite.
GROUPS = ("X25519MLKEM768", "X25519", "P-256", "P-384", "P-521")
# All three are always on: a list neither adds nor removes one. In Go's order of preference with AES
# instructions.
_TLS13_SUITES = (
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
)
_GO_NAMES = {
    **{name: name for name in _TLS13_SUITES},
    **{openssl: name for name, openssl in _SUITES.items() if openssl},
    **_TRIPLE_DES,
}
# RFC 9113 section 9.2.2, for either kind of key.
_HTTP2_SUITES = frozenset(
    (
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    )
)

TLS13_CIPHERS = ":".join(_TLS13_SUITES)
# Go's defaults: ECDHE with AES-GCM, ChaCha20 or AES-CBC-SHA; no RSA key exchange (reference 15.16).
DEFAULT_CIPHERS = ":".join(
    openssl
    for name, openssl in _SUITES.items()
    if openssl and name.startswith("TLS_ECDHE_") and not name.endswith("_CBC_SHA256")
)


class CipherList(Frozen):
    """What a list of suite names comes to.

    `openssl` is OpenSSL's list for TLS 1.2 and below: None for the defaults (no names given), ""
    when no suite is left and only TLS 1.3 remains. `not_offered` holds the names of the suites that
    OpenSSL lacks, as given. `has_http2_suite` tells whether a suite that HTTP/2 demands below TLS
    1.3 is among them (D18).
    """

    openssl: str | None
    has_http2_suite: bool
    not_offered: tuple[str, ...]


def minimum_version(name: str) -> int:
    """OpenSSL's number (0x0301 ... 0x0304) of Go's name. Raises ValueError for an unknown one."""
    try:
        return _VERSIONS[name]
    except KeyError:
        known = ", ".join(filter(None, _VERSIONS))
        raise ValueError(f"unknown TLS version {name!r}, known are {known}") from None


def is_fit_for_http2(suite: str) -> bool:
    """Whether a suite, by OpenSSL's name, is none that HTTP/2 forbids (RFC 9113, appendix A).

    Those of TLS 1.3 are fit, and those with an ephemeral key exchange and an AEAD.
    """
    is_ephemeral = suite.startswith(("ECDHE-", "DHE-"))
    is_aead = "GCM" in suite or "CHACHA20" in suite
    return suite.startswith("TLS_") or (is_ephemeral and is_aead)


def cipher_list(names: Iterable[str]) -> CipherList:
    """The suites named, in Go's order. Raises ValueError with the names that Go lacks."""
    wanted: set[str] = set()
    unknown: list[str] = []
    is_given = False
    for name in names:
        is_given = True
        suite = _ALIASES.get(name, name)
        if suite in _SUITES:
            wanted.add(suite)
        elif suite not in _TLS13_SUITES:
            unknown.append(repr(name))
    if unknown:
        raise ValueError(f"unknown TLS cipher suite {', '.join(unknown)}")
    if not is_given:
        return CipherList(openssl=None, has_http2_suite=True, not_offered=())
    return CipherList(
        openssl=":".join(
            openssl for suite, openssl in _SUITES.items() if suite in wanted and openssl
        ),
        has_http2_suite=not wanted.isdisjoint(_HTTP2_SUITES),
        not_offered=tuple(
            suite for suite, openssl in _SUITES.items() if suite in wanted and not openssl
        ),
    )


def go_name(openssl: str) -> str | None:
    """Go's name of the suite that OpenSSL calls so; None when Go lacks it."""
    return _GO_NAMES.get(openssl)


# --- profiles -------------------------------------------------------------------------
#
# A cluster's TLS security profile → Go's version and suite names, as operators render them.
#
# The profiles are those of `apiserver.config.openshift.io` (reference section 11.3), written with
# OpenSSL's suite names. Operators pass the result on as `--tls-min-version` and
# `--tls-cipher-suites`, and write it into the kubelet's configuration.

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


class Profile(Frozen):
    """The lowest version, by Go's name, and suites by OpenSSL's names."""

    minimum: str
    ciphers: tuple[str, ...]


class Rendered(Frozen):
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
