from pathlib import Path

import pytest
import trustme

from pyrbacproxy.config import complete as forwarding
from pyrbacproxy.config.findings import Findings
from pyrbacproxy.config.flag_parsing import parse
from pyrbacproxy.egress import EgressProxies, ProxyAddress
from pyrbacproxy.proxy.connector import UpstreamSettings

PROXY = ProxyAddress("http", "proxy.test", 3128)


def upstream(
    *words: str, proxies: EgressProxies | None = None
) -> tuple[UpstreamSettings, Findings]:
    parsed = parse(words)
    assert parsed.problems == ()
    findings = Findings()
    return forwarding.upstream_settings(
        parsed.options, proxies or EgressProxies(), findings
    ), findings


@pytest.fixture(name="pki", scope="module")
def fixture_pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pki")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.crt")
    client = authority.issue_cert("client.test")
    client.private_key_pem.write_to_path(folder / "client.key")
    client.cert_chain_pems[0].write_to_path(folder / "client.crt")
    authority.issue_cert("other.test").private_key_pem.write_to_path(folder / "other.key")
    return folder


def test_an_http_upstream() -> None:
    assert upstream("--upstream=http://127.0.0.1:9537") == (
        UpstreamSettings("http", "127.0.0.1", 9537),
        Findings(),
    )


def test_an_https_upstream_with_authority_and_pair(pki: Path) -> None:
    settings, findings = upstream(
        "--upstream=https://h",
        f"--upstream-ca-file={pki}/ca.crt",
        f"--upstream-client-cert-file={pki}/client.crt",
        f"--upstream-client-key-file={pki}/client.key",
    )
    assert findings == Findings()
    assert settings.ca_file == f"{pki}/ca.crt"
    assert settings.client_certificate_file == f"{pki}/client.crt"
    assert settings.client_key_file == f"{pki}/client.key"


def test_dec_d4_a_client_pair_needs_no_authority(pki: Path) -> None:
    settings, findings = upstream(
        "--upstream=https://h",
        f"--upstream-client-cert-file={pki}/client.crt",
        f"--upstream-client-key-file={pki}/client.key",
    )
    assert (settings.ca_file, findings) == ("", Findings())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("--upstream-client-cert-file=PKI/client.crt",),
            "--upstream-client-cert-file=PKI/client.crt: --upstream-client-key-file must be given",
        ),
        (
            ("--upstream-client-key-file=PKI/client.key", "--upstream-ca-file=PKI/ca.crt"),
            "--upstream-client-key-file=PKI/client.key: --upstream-client-cert-file must be given",
        ),
        (("--upstream-ca-file=PKI/none",), "--upstream-ca-file: PKI/none"),
        (("--upstream-ca-file=PKI/client.key",), "--upstream-ca-file: PKI/client.key"),
        (
            (
                "--upstream-client-cert-file=PKI/client.crt",
                "--upstream-client-key-file=PKI/other.key",
            ),
            "--upstream-client-key-file: PKI/other.key",
        ),
        (
            (
                "--upstream-client-cert-file=PKI/none",
                "--upstream-client-key-file=PKI/client.key",
            ),
            "--upstream-client-cert-file: PKI/none",
        ),
        (("--upstream=http://[::1",), "--upstream=http://[::1: missing ']' in host"),
        (
            ("--upstream=http://me:secret@h:x",),
            "--upstream=http://<masked>@h:x: invalid port",
        ),
        (
            ("--upstream=unix:x",),
            "--upstream=unix:x: a unix socket must be an absolute path, as in unix:///run/x.sock",
        ),
    ],
)
def test_what_ends_the_start(pki: Path, words: tuple[str, ...], said: str) -> None:
    words = tuple(word.replace("PKI", str(pki)) for word in ("--upstream=https://h", *words))
    _, findings = upstream(*words)
    assert findings.problems[0].startswith(said.replace("PKI", str(pki)))
    assert len(findings.problems) == 1


@pytest.mark.parametrize("url", ["https://h", "http://[::1", "unix:x.sock"])
def test_nothing_that_is_bad_hides_a_bad_file(pki: Path, url: str) -> None:
    _, findings = upstream(
        f"--upstream={url}",
        f"--upstream-ca-file={pki}/none",
        f"--upstream-client-cert-file={pki}/none",
        f"--upstream-client-key-file={pki}/client.crt",
    )
    flags = [problem.partition(":")[0] for problem in findings.problems]
    assert flags[:3] == [
        *("--upstream-ca-file", "--upstream-client-cert-file", "--upstream-client-key-file"),
    ]
    assert len(flags) == (3 if url == "https://h" else 4)


@pytest.mark.parametrize("words", [(), ("--upstream=http:h",), ("--upstream=ftp://h",)])
def test_an_upstream_that_cannot_be_reached_is_only_warned_about(words: tuple[str, ...]) -> None:
    settings, findings = upstream(*words)
    assert settings.scheme == ""
    assert findings.problems == []
    assert "every forwarded request answers 502" in findings.warnings[0]


def test_fr97_a_missing_scheme_ends_the_start() -> None:
    _, findings = upstream("--upstream=localhost:9100")
    assert findings.warnings == []
    assert findings.problems == [
        "--upstream=localhost:9100: the scheme is missing; did you mean http://localhost:9100/?"
    ]


def test_tls_flags_without_tls_are_told(pki: Path) -> None:
    _, findings = upstream("--upstream=http://h", f"--upstream-ca-file={pki}/ca.crt")
    assert "have no effect without https://" in findings.warnings[0]


def test_h2c_takes_neither_tls_nor_a_proxy(pki: Path) -> None:
    settings, findings = upstream(
        "--upstream=https://far.test",
        "--upstream-force-h2c",
        f"--upstream-ca-file={pki}/ca.crt",
        proxies=EgressProxies(http=PROXY, https=PROXY),
    )
    assert settings.is_h2c
    assert not settings.is_tls
    assert not settings.offers_http2
    assert settings.port == 443
    assert settings.proxy is None
    assert "have no effect with --upstream-force-h2c" in findings.warnings[0]
    assert "goes there without TLS" in findings.warnings[1]


def test_http_2_is_offered_where_no_authority_is_named(pki: Path) -> None:
    assert upstream("--upstream=https://h")[0].offers_http2
    assert not upstream("--upstream=http://h")[0].offers_http2
    named, _ = upstream("--upstream=https://h", f"--upstream-ca-file={pki}/ca.crt")
    assert named.is_tls
    assert not named.offers_http2


def test_dec_d34_the_egress_proxy_is_chosen_here() -> None:
    proxies = EgressProxies(http=PROXY)
    assert upstream("--upstream=http://far.test", proxies=proxies)[0].proxy == PROXY
    assert upstream("--upstream=http://127.0.0.1", proxies=proxies)[0].proxy is None
    assert upstream("--upstream=https://far.test", proxies=proxies)[0].proxy is None


def test_dec_n10_a_unix_socket_needs_no_proxy_and_no_tls(pki: Path) -> None:
    settings, findings = upstream(
        "--upstream=unix:///run/x.sock",
        f"--upstream-ca-file={pki}/ca.crt",
        "--upstream-force-h2c",
        proxies=EgressProxies(http=PROXY),
    )
    assert settings == UpstreamSettings(
        "http", socket_path="/run/x.sock", ca_file=f"{pki}/ca.crt", is_h2c=True
    )
    assert findings.problems == []
    assert [text for text in findings.warnings if "have no effect" in text] == findings.warnings
