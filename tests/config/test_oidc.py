"""The flags of an issuer: what they make, what is wrong with them, what they put out of use."""

from pathlib import Path

import pytest

from pyrbacproxy.config.complete import oidc_settings
from pyrbacproxy.config.findings import Findings
from pyrbacproxy.config.flag_parsing import parse
from pyrbacproxy.demo.pki import Authority
from pyrbacproxy.egress import EgressProxies
from pyrbacproxy.oidc.settings import OidcSettings

ISSUER = ("--oidc-issuer=https://i.test/realm", "--oidc-clientID=c")
PROXIES = EgressProxies(no_proxy=("i.test",))


def read(*words: str) -> tuple[OidcSettings | None, Findings]:
    parsed = parse(words)
    assert parsed.problems == ()
    findings = Findings()
    return oidc_settings(parsed.options, PROXIES, findings), findings


def test_without_an_issuer_there_is_nothing() -> None:
    assert read() == (None, Findings())


def test_the_defaults_are_the_originals() -> None:
    expected = OidcSettings("https://i.test/realm", "c", proxies=PROXIES)
    assert read(*ISSUER) == (expected, Findings())


def test_every_flag_counts(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    found, findings = read(
        *ISSUER,
        "--oidc-groups-claim=roles",
        "--oidc-username-claim=sub",
        "--oidc-username-prefix=oidc:",
        "--oidc-groups-prefix=g-",
        "--oidc-sign-alg=ES256",
        "--oidc-sign-alg=PS512",
        f"--oidc-ca-file={authority.certificate_file}",
    )
    assert findings == Findings()
    assert found == OidcSettings(
        "https://i.test/realm",
        "c",
        username_claim="sub",
        groups_claim="roles",
        username_prefix="oidc:",
        groups_prefix="g-",
        algorithms=frozenset({"ES256", "PS512"}),
        ca_file=str(authority.certificate_file),
        proxies=PROXIES,
    )


NO_ALGORITHM = (
    "must be one of ES256, ES384, ES512, PS256, PS384, PS512, RS256, RS384, RS512; "
    "repeat the flag for more"
)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--oidc-issuer=https://i.test",), "--oidc-clientID: must be set when --oidc-issuer is"),
        (
            (*ISSUER, "--oidc-username-claim="),
            "--oidc-username-claim: must not be empty when --oidc-issuer is set",
        ),
        ((*ISSUER, "--oidc-sign-alg=none"), f"--oidc-sign-alg=none: {NO_ALGORITHM}"),
        ((*ISSUER, "--oidc-sign-alg=HS256"), f"--oidc-sign-alg=HS256: {NO_ALGORITHM}"),
        (
            (*ISSUER, "--oidc-sign-alg=RS256,ES256"),
            f"--oidc-sign-alg=RS256,ES256: {NO_ALGORITHM}",
        ),
        ((*ISSUER, "--oidc-sign-alg="), f"--oidc-sign-alg=: {NO_ALGORITHM}"),
        ((*ISSUER, "--oidc-sign-alg=rs256"), f"--oidc-sign-alg=rs256: {NO_ALGORITHM}"),
        (
            (*ISSUER, "--oidc-ca-file=/no/such"),
            "--oidc-ca-file: /no/such: cannot be read: No such file or directory",
        ),
    ],
)
def test_a_bad_value_is_a_problem(words: tuple[str, ...], said: str) -> None:
    _, findings = read(*words)
    assert findings.problems == [said]


@pytest.mark.parametrize("content", [b"", b"no certificate"])
def test_a_file_without_authorities_is_a_problem(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "ca"
    path.write_bytes(content)
    _, findings = read(*ISSUER, f"--oidc-ca-file={path}")
    assert findings.problems == [f"--oidc-ca-file: {path}: holds no certificate"]


@pytest.mark.parametrize(
    "issuer",
    [
        "http://i.test",
        "i.test",
        "https://u@i.test",
        "https://u:p@i.test",
        "https://i.test?a",
        "https://i.test?",
        "https://i.test#a",
        " https://i.test",
        "https://i .test",
        "https://i.test/%zz",
        "https://i.test/\t",
        "https://i.test#",
        "https://",
        "https://:443",
        "https://i.test:0",
        "https://i.test:x",
        "https://[i.test",
    ],
)
def test_the_issuer_is_a_plain_https_url(issuer: str) -> None:
    _, findings = read(f"--oidc-issuer={issuer}", "--oidc-clientID=c")
    assert findings.problems == [
        "--oidc-issuer: must be an https URL without user, password, query or fragment"
    ]


@pytest.mark.parametrize(
    "issuer",
    [
        "https://i.test",
        "https://i.test/",
        "HTTPS://i.test",
        "https://i.test:8443/a/b",
        "https://[::1]:8443",
    ],
)
def test_a_path_and_a_port_may_be_in_it(issuer: str) -> None:
    found, findings = read(f"--oidc-issuer={issuer}", "--oidc-clientID=c")
    assert findings == Findings()
    assert found is not None
    assert found.issuer == issuer


@pytest.mark.parametrize(
    "word", ["--client-ca-file=/no/such", "--auth-token-audiences=a", "--token-cache-ttl=1s"]
)
def test_what_an_issuer_replaces_is_told(word: str) -> None:
    _, findings = read(*ISSUER, word)
    assert findings.warnings == [f"{word.partition('=')[0]} has no effect with --oidc-issuer"]
    assert findings.problems == []
    assert read(word) == (None, Findings())


@pytest.mark.parametrize(
    "word", ["--oidc-clientID=c", "--oidc-groups-prefix=x", "--oidc-ca-file=/no/such"]
)
def test_what_needs_an_issuer_is_told(word: str) -> None:
    _, findings = read(word)
    said = f"{word.partition('=')[0]} has no effect without --oidc-issuer"
    assert findings == Findings([], [said])
