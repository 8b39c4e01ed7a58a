"""The listeners' flags; which files are bad is `tls.server_context`' business and tested there."""

from pathlib import Path

import pytest
import trustme

from pyrbacproxy.config import complete as listening
from pyrbacproxy.config.findings import Findings
from pyrbacproxy.config.flag_parsing import Options, parse
from pyrbacproxy.config.settings import Address
from pyrbacproxy.http2.limits import Http2Limits
from pyrbacproxy.tls.server_context import TlsSettings

SECURE = "--secure-listen-address=127.0.0.1:8443"
BOTH = (b"http/1.1", b"h2")


def options(*words: str) -> Options:
    parsed = parse(words)
    assert parsed.problems == ()
    return parsed.options


@pytest.fixture(name="pair", scope="module")
def fixture_pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with certificate and key, as the kubelet keeps them."""
    path = tmp_path_factory.mktemp("tls") / "pair.pem"
    trustme.CA().issue_cert("proxy.test").private_key_and_cert_chain_pem.write_to_path(path)
    return path


# --- addresses ------------------------------------------------------------------------


def test_an_address_is_parsed_or_told_by_flag_and_value() -> None:
    findings = Findings()
    found = listening.listen_address(options(SECURE), "secure-listen-address", findings)
    assert found == Address("127.0.0.1", 8443, "127.0.0.1:8443", SECURE)
    assert listening.listen_address(options(), "secure-listen-address", findings) is None
    assert findings == Findings()
    wrong = options("--secure-listen-address=8443")
    assert listening.listen_address(wrong, "secure-listen-address", findings) is None
    assert findings.problems == [
        '--secure-listen-address=8443: address "8443": missing port in address'
    ]


def checked(*words: str) -> Findings:
    findings = Findings()
    listening.check_listeners(options(*words), findings)
    return findings


def test_one_listener_is_needed() -> None:
    assert checked().problems == ["no listen address provided: --secure-listen-address is missing"]
    assert checked("--insecure-listen-address=:80").problems == []


def test_deprecated_ways_to_listen_get_a_line_each() -> None:
    assert checked(SECURE, "--tls-cert-file=a", "--tls-private-key-file=a") == Findings()
    (warning,) = checked("--insecure-listen-address=:80").warnings
    assert "--insecure-listen-address is deprecated" in warning
    (warning,) = checked(SECURE).warnings
    assert "--tls-cert-file" in warning


def endpoints(*words: str, secure: Address | None) -> tuple[Address | None, Findings]:
    findings = Findings()
    return listening.endpoints_settings(options(*words), secure, findings), findings


PORT = "--proxy-endpoints-port=1"
LOCAL = Address("127.0.0.1", 8443, "127.0.0.1:8443")


@pytest.mark.parametrize(
    ("words", "secure", "expected"),
    [
        ((SECURE,), LOCAL, None),
        ((SECURE, PORT), LOCAL, Address("127.0.0.1", 1, "127.0.0.1:1", PORT)),
        ((SECURE, PORT), Address("::1", 2, ""), Address("::1", 1, "[::1]:1", PORT)),
        ((SECURE, PORT), Address("", 2, ":2"), Address("", 1, ":1", PORT)),
        (
            (SECURE, PORT, "--proxy-endpoints-address=[::1]"),
            LOCAL,
            Address("::1", 1, "[::1]:1", f"--proxy-endpoints-address=[::1] {PORT}"),
        ),
        # The secure address was wrong, which is told elsewhere.
        ((SECURE, PORT), None, None),
    ],
)
def test_the_endpoints_port_binds_next_to_the_secure_one(
    words: tuple[str, ...], secure: Address | None, expected: Address | None
) -> None:
    assert endpoints(*words, secure=secure) == (expected, Findings())


@pytest.mark.parametrize("port", ["-1", "65536"])
def test_a_port_that_cannot_be(port: str) -> None:
    _, findings = endpoints(SECURE, f"--proxy-endpoints-port={port}", secure=LOCAL)
    assert findings.problems == [f"--proxy-endpoints-port={port}: must be 0 ... 65535"]


def test_endpoint_flags_without_effect_are_told() -> None:
    _, findings = endpoints(
        "--insecure-listen-address=:80", "--proxy-endpoints-port=1", secure=None
    )
    assert "--proxy-endpoints-port has no effect" in findings.warnings[0]
    _, findings = endpoints("--proxy-endpoints-port=-1", secure=None)
    assert findings.problems == []
    _, findings = endpoints(SECURE, "--proxy-endpoints-address=::1", secure=LOCAL)
    assert "--proxy-endpoints-address has no effect" in findings.warnings[0]


@pytest.mark.parametrize(
    ("secure", "host", "is_taken"),
    [
        ("", "", True),
        ("", "127.0.0.1", True),
        ("127.0.0.1", "::", True),
        ("10.0.0.1", "", True),
        ("10.0.0.1", "127.0.0.1", False),
        ("0.0.0.0", "127.0.0.1", True),
        ("0.0.0.0", "::1", True),
    ],
)
def test_the_two_ports_are_two(secure: str, host: str, *, is_taken: bool) -> None:
    words = (PORT, *((f"--proxy-endpoints-address={host}",) if host else ()))
    _, findings = endpoints(SECURE, *words, secure=Address(secure, 1, "HERE"))
    said = f"{' '.join(reversed(words))}: is what --secure-listen-address=HERE listens on"
    assert findings.problems == ([said] if is_taken else [])
    _, findings = endpoints(SECURE, *words, secure=Address(secure, 2, "HERE"))
    assert findings.problems == []


def test_the_endpoints_host_is_a_host() -> None:
    _, findings = endpoints(SECURE, "--proxy-endpoints-address=h:1", secure=LOCAL)
    assert findings.problems[0].startswith("--proxy-endpoints-address=h:1: ")


# --- TLS ------------------------------------------------------------------------------


def tls(*words: str) -> tuple[TlsSettings, Findings]:
    findings = Findings()
    return listening.tls_settings(options(*words), findings), findings


def test_tls_defaults() -> None:
    assert tls(SECURE) == (TlsSettings(alpn=BOTH), Findings())


def test_one_file_may_be_certificate_key_and_authority(pair: Path) -> None:
    settings, findings = tls(
        SECURE,
        f"--tls-cert-file={pair}",
        f"--tls-private-key-file={pair}",
        f"--client-ca-file={pair}",
        "--tls-min-version=VersionTLS13",
    )
    assert findings == Findings()
    assert settings == TlsSettings(
        certificate_file=str(pair),
        key_file=str(pair),
        client_ca_file=str(pair),
        minimum=0x0304,
        alpn=BOTH,
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--tls-cert-file=/none.crt", "--tls-private-key-file=/none.key"), "/none.crt"),
        (("--tls-cert-file=/none.crt",), "--tls-private-key-file"),
        (("--tls-private-key-file=/none.key",), "--tls-cert-file"),
        (("--client-ca-file=/none.ca",), "--client-ca-file: /none.ca"),
        (("--tls-min-version=TLS1.2",), "--tls-min-version: unknown TLS version 'TLS1.2'"),
        (("--tls-cipher-suites=ECDHE-RSA",), "--tls-cipher-suites: unknown TLS cipher suite"),
        (
            ("--tls-reload-interval=0", "--tls-cert-file=/c", "--tls-private-key-file=/k"),
            "--tls-reload-interval=0s: must be greater than 0",
        ),
    ],
)
def test_bad_tls_flags_end_the_start(words: tuple[str, ...], said: str) -> None:
    _, findings = tls(SECURE, *words)
    assert said in findings.problems[0]


def test_a_pair_that_is_waited_for_may_be_missing_but_not_half_named() -> None:
    pair = ("--tls-cert-file=/none.crt", "--tls-private-key-file=/none.key")
    settings, findings = tls(SECURE, *pair, "--wait-for-serving-cert")
    assert (settings.certificate_file, settings.key_file) == ("/none.crt", "/none.key")
    assert findings == Findings()
    said = tls(SECURE, pair[0], "--wait-for-serving-cert")[1].problems
    assert said == ["--tls-cert-file=/none.crt needs --tls-private-key-file"]


def test_without_a_secure_address_only_the_client_ca_counts() -> None:
    words = ("--insecure-listen-address=:1", "--tls-cert-file=/none", "--tls-min-version=x")
    assert tls(*words) == (TlsSettings(), Findings())
    assert tls(*words, "--client-ca-file=/none")[1].problems != []


def test_another_reload_interval_is_deprecated() -> None:
    settings, findings = tls(SECURE, "--tls-reload-interval=1m30s")
    assert settings.reload_seconds == 90.0
    assert "--tls-reload-interval is deprecated" in findings.warnings[0]


@pytest.mark.parametrize("listener", [SECURE, "--insecure-listen-address=:1"])
def test_without_a_pair_to_reload_no_interval_ends_the_start(listener: str) -> None:
    settings, findings = tls(listener, "--tls-reload-interval=-1s")
    assert settings.reload_seconds == 60.0
    assert findings == Findings(warnings=["--tls-reload-interval=-1s: taken as 1m0s"])


LACKING = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((f"--tls-cipher-suites={LACKING}",), ["HTTP/2 is not offered"]),
        ((f"--tls-cipher-suites={LACKING}", "--http2-disable"), []),
        ((f"--tls-cipher-suites={LACKING}", "--tls-min-version=VersionTLS13"), []),
        (("--tls-cipher-suites=TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",), []),
        (("--tls-cipher-suites=",), []),
    ],
)
def test_dec_d18_a_list_that_http2_refuses_is_served_without_it(
    words: tuple[str, ...], said: list[str]
) -> None:
    settings, findings = tls(SECURE, *words)
    assert findings.problems == []
    assert settings.alpn == (BOTH if not said and "--http2-disable" not in words else BOTH[:1])
    assert len(findings.warnings) == len(said)
    assert all(word in warning for word, warning in zip(said, findings.warnings, strict=True))


def test_dec_d33_suites_that_openssl_lacks_are_named_once() -> None:
    suites = "TLS_RSA_WITH_RC4_128_SHA,TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA"
    settings, findings = tls(SECURE, "--http2-disable", f"--tls-cipher-suites={suites}")
    assert settings.cipher_list == ""
    not_offered, only_13 = findings.warnings
    assert all(suite in not_offered for suite in suites.split(","))
    assert "only TLS 1.3 is served" in only_13


def test_fr33_suites_have_their_iana_names() -> None:
    names = "TLS_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305"
    settings, findings = tls(SECURE, "--http2-disable", f"--tls-cipher-suites={names}")
    assert (settings.cipher_list, findings) == ("ECDHE-RSA-CHACHA20-POLY1305", Findings())


def test_dec_d25_http1_is_preferred_unless_asked_otherwise() -> None:
    assert tls(SECURE)[0].alpn == BOTH
    assert tls(SECURE, "--http2-prefer")[0].alpn == BOTH[::-1]
    assert tls(SECURE, "--http2-prefer", "--http2-disable")[0].alpn == BOTH[:1]


# --- HTTP/2 ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "limits", "said"),
    [
        ((), Http2Limits(), []),
        (("--http2-max-concurrent-streams=7", "--http2-max-size=65536"), None, []),
        (("--http2-disable", "--http2-max-size=1"), None, []),
        (
            ("--http2-max-concurrent-streams=0", "--http2-max-size=5"),
            Http2Limits(250, 1_048_576, 5, 1_048_576),
            ["--http2-max-concurrent-streams=0: taken as 250", "--http2-max-size=5: taken as"],
        ),
        (
            ("--http2-max-concurrent-streams=100000",),
            Http2Limits(100_000, 262_144, 262_144, 1_048_576),
            ["--http2-max-size=262144: taken as"],
        ),
    ],
)
def test_dec_d19_sizes_that_become_others_are_told_once(
    words: tuple[str, ...], limits: Http2Limits | None, said: list[str]
) -> None:
    findings = Findings()
    found = listening.http2_limits(options(*words), findings)
    assert limits is None or found == limits
    assert (found is None) is ("--http2-disable" in words)
    assert findings.problems == []
    assert [
        warning.startswith(start) for warning, start in zip(findings.warnings, said, strict=True)
    ] == [True] * len(said)
