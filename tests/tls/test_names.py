import pytest

from pyrbacproxy.tls.names import (
    DEFAULT_CIPHERS,
    TLS13_CIPHERS,
    CipherList,
    cipher_list,
    go_name,
    is_fit_for_http2,
    minimum_version,
)

TLS13 = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
# What OpenShift's profiles come to as flags (reference section 11.3).
INTERMEDIATE = (
    *TLS13,
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
)
OLD = (
    *INTERMEDIATE,
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
)
INTERMEDIATE_OPENSSL = (
    "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:"
    "ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:"
    "ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305"
)
CBC_SHA = "ECDHE-ECDSA-AES128-SHA:ECDHE-RSA-AES128-SHA:ECDHE-ECDSA-AES256-SHA:ECDHE-RSA-AES256-SHA"
OLD_OPENSSL = (
    f"{INTERMEDIATE_OPENSSL}:{CBC_SHA}:AES128-GCM-SHA256:AES256-GCM-SHA384:AES128-SHA:AES256-SHA:"
    "ECDHE-ECDSA-AES128-SHA256:ECDHE-RSA-AES128-SHA256:AES128-SHA256"
)
RC4 = (
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_RC4_128_SHA",
)


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("VersionTLS10", 0x0301),
        ("VersionTLS11", 0x0302),
        ("VersionTLS12", 0x0303),
        ("VersionTLS13", 0x0304),
        ("", 0x0303),
    ],
)
def test_a_version_is_named_as_in_go(name: str, number: int) -> None:
    assert minimum_version(name) == number


@pytest.mark.parametrize("name", ["TLS1.2", "versiontls12", "VersionTLS14", "VersionSSL30"])
def test_an_unknown_version_is_quoted(name: str) -> None:
    with pytest.raises(ValueError, match=rf"'{name}', known are VersionTLS10, .*VersionTLS13$"):
        minimum_version(name)


# FR33
@pytest.mark.parametrize(
    ("names", "expected"),
    [
        pytest.param((), CipherList(None, True, ()), id="none given: the defaults"),
        pytest.param(TLS13, CipherList("", False, ()), id="TLS 1.3 names have no effect"),
        pytest.param(
            INTERMEDIATE, CipherList(INTERMEDIATE_OPENSSL, True, ()), id="intermediate profile"
        ),
        pytest.param(
            OLD,
            CipherList(OLD_OPENSSL, True, ("TLS_RSA_WITH_3DES_EDE_CBC_SHA",)),
            id="old profile: 3DES is not offered",
        ),
        pytest.param(
            tuple(reversed(INTERMEDIATE)),
            CipherList(INTERMEDIATE_OPENSSL, True, ()),
            id="Go's order, not the list's",
        ),
        pytest.param(
            ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305"),
            CipherList("ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305", False, ()),
            id="legacy aliases",
        ),
        pytest.param(RC4, CipherList("", False, RC4), id="nothing is left but TLS 1.3 (D33)"),
        pytest.param(
            ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",),
            CipherList("ECDHE-RSA-AES128-GCM-SHA256", True, ()),
            id="HTTP/2's suite for RSA keys",
        ),
        pytest.param(
            ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",) * 2,
            CipherList("ECDHE-ECDSA-AES256-GCM-SHA384", False, ()),
            id="without HTTP/2's suite (D18), named twice",
        ),
    ],
)
def test_suites_are_named_as_in_go(names: tuple[str, ...], expected: CipherList) -> None:
    assert cipher_list(iter(names)) == expected


@pytest.mark.parametrize(
    "name",
    [
        "ECDHE-RSA-AES128-GCM-SHA256",
        "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384",
        "TLS_RSA_WITH_AES_256_CBC_SHA256",
        "tls_aes_128_gcm_sha256",
        "",
    ],
)
def test_an_unknown_suite_is_quoted(name: str) -> None:
    with pytest.raises(ValueError, match=f"unknown TLS cipher suite '{name}'"):
        cipher_list(["TLS_AES_128_GCM_SHA256", name])


def test_every_unknown_suite_is_quoted() -> None:
    with pytest.raises(ValueError, match="unknown TLS cipher suite 'A', 'B'"):
        cipher_list(["A", "TLS_AES_128_GCM_SHA256", "B"])


def test_the_defaults_are_gos() -> None:
    assert f"{INTERMEDIATE_OPENSSL}:{CBC_SHA}" == DEFAULT_CIPHERS
    assert ":".join(TLS13) == TLS13_CIPHERS


@pytest.mark.parametrize(
    ("openssl", "name"),
    [
        ("TLS_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256"),
        ("ECDHE-RSA-CHACHA20-POLY1305", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"),
        ("AES128-SHA256", "TLS_RSA_WITH_AES_128_CBC_SHA256"),
        ("DES-CBC3-SHA", "TLS_RSA_WITH_3DES_EDE_CBC_SHA"),
        ("ECDHE-RSA-AES256-SHA384", None),
        ("TLS_RSA_WITH_AES_128_CBC_SHA", None),
    ],
)
def test_a_suite_of_openssl_has_gos_name(openssl: str, name: str | None) -> None:
    assert go_name(openssl) == name


@pytest.mark.parametrize(
    ("suite", "is_fit"),
    [
        ("TLS_AES_128_GCM_SHA256", True),
        ("ECDHE-RSA-AES128-GCM-SHA256", True),
        ("ECDHE-ECDSA-CHACHA20-POLY1305", True),
        ("ECDHE-RSA-AES256-SHA", False),
        ("AES128-GCM-SHA256", False),
        ("", False),
    ],
)
def test_suites_that_http2_forbids(suite: str, *, is_fit: bool) -> None:
    assert is_fit_for_http2(suite) is is_fit
