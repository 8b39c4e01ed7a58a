"""The TLS contexts in use: which pair is shown, and where, until the awaited one is whole."""

import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from pyrbacproxy.certificates import Certificates
from pyrbacproxy.config.complete import complete
from pyrbacproxy.config.flag_parsing import parse
from pyrbacproxy.config.settings import Settings
from pyrbacproxy.demo.pki import Authority, Pair
from pyrbacproxy.oidc.settings import OidcSettings
from pyrbacproxy.startup.gate import GateSettings
from pyrbacproxy.tls.engine import ServerEngine
from pyrbacproxy.tls.files import TlsFileError
from pyrbacproxy.tls.server_context import TlsSettings
from pyrbacproxy.values import replace
from tests.tls.parties import Client

AWAITED = GateSettings(waits_for_pair=True)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    Authority(tmp_path)
    words = ("--secure-listen-address=:8443", f"--client-ca-file={tmp_path / 'demo-ca.crt'}")
    rule = tmp_path / "rule.yaml"
    rule.write_text("authorization: {static: [{path: /metrics, user: {name: alice}}]}")
    found = complete(parse((*words, f"--config-file={rule}")).options, {})
    assert isinstance(found, Settings), found
    pair = str(tmp_path / "pair.pem")
    return replace(found, tls=TlsSettings(certificate_file=pair, key_file=pair))


def subject(context: Callable[[], object]) -> str:
    client = Client()
    client.handshake(ServerEngine(context()))  # type: ignore[arg-type]
    certificate = client.connection.get_peer_certificate()
    assert certificate is not None
    return certificate.to_cryptography().subject.rfc4514_string()


def issued(folder: Path, name: str) -> Pair:
    pair = Authority(folder).serving(name)
    pair.combined_file.rename(folder / "pair.pem")
    return pair


def test_the_secure_listener_and_the_endpoints_port_show_the_same_pair(
    settings: Settings, tmp_path: Path
) -> None:
    issued(tmp_path, "one")
    certificates = Certificates(settings)
    assert subject(certificates.serving) == subject(certificates.of_endpoints) == "CN=one"


def test_without_files_both_show_one_made_in_memory(settings: Settings) -> None:
    certificates = Certificates(replace(settings, tls=TlsSettings()))
    assert certificates.serving() is certificates.of_endpoints()
    assert "@" in subject(certificates.serving)


def test_the_issuer_s_authority_is_kept_fresh(settings: Settings, tmp_path: Path) -> None:
    ca = tmp_path / "issuer.crt"
    ca.write_bytes((tmp_path / "demo-ca.crt").read_bytes())
    oidc = OidcSettings("https://i.test", "c", ca_file=str(ca))
    certificates = Certificates(replace(settings, tls=TlsSettings(), oidc=oidc))
    assert certificates.issuer is not None
    first = certificates.issuer.current
    certificates.reloader.check()
    assert certificates.issuer.current is first
    ca.write_text("half")
    certificates.reloader.check()
    assert certificates.issuer.current is first
    assert "holds no certificate" in certificates.reloader.faults()["OIDC issuer CA"]
    (tmp_path / "other").mkdir()
    ca.write_bytes(Authority(tmp_path / "other").certificate_file.read_bytes())
    certificates.reloader.check()
    assert certificates.issuer.current is not first


def test_an_issuer_without_a_file_is_vouched_for_by_the_system(settings: Settings) -> None:
    """Not by nobody, nor is it a reason to fail (CHANGELOG of the original, 0.19.0 and 0.19.1)."""
    oidc = OidcSettings("https://i.test", "c")
    certificates = Certificates(replace(settings, tls=TlsSettings(), oidc=oidc))
    assert certificates.issuer is not None
    context = certificates.issuer.current
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert Certificates(replace(settings, tls=TlsSettings())).issuer is None


def test_a_pair_that_nobody_waits_for_must_be_there(settings: Settings) -> None:
    with pytest.raises(TlsFileError, match=r"pair\.pem"):
        Certificates(settings)


def test_until_the_awaited_pair_is_whole_the_endpoints_port_alone_has_a_stand_in(
    settings: Settings, tmp_path: Path
) -> None:
    certificates = Certificates(replace(settings, gate=AWAITED))
    assert "@" in subject(certificates.of_endpoints)
    with pytest.raises(RuntimeError, match="without a pair"):
        certificates.serving()
    (tmp_path / "pair.pem").write_text("half")
    assert "holds no certificate" in certificates.load_pair()
    issued(tmp_path, "late")
    # The reloader alone does not look for it: it is the gate's.
    certificates.reloader.check()
    assert "@" in subject(certificates.of_endpoints)
    assert certificates.load_pair() == ""
    assert subject(certificates.serving) == subject(certificates.of_endpoints) == "CN=late"


def test_an_awaited_pair_is_kept_fresh_once_it_was_there(
    settings: Settings, tmp_path: Path
) -> None:
    issued(tmp_path, "one")
    certificates = Certificates(replace(settings, gate=AWAITED))
    assert subject(certificates.of_endpoints) == "CN=one"
    issued(tmp_path, "two")
    certificates.reloader.check()
    assert subject(certificates.serving) == "CN=two"
    (tmp_path / "pair.pem").unlink()
    assert certificates.load_pair() == ""


# --- FR87: a client CA that is not there yet ------------------------------------------


def test_fr87_with_a_gate_a_missing_client_ca_may_come_later(
    settings: Settings, tmp_path: Path
) -> None:
    issued(tmp_path, "one")
    ca, path = (tmp_path / "demo-ca.crt").read_bytes(), tmp_path / "late-ca.crt"
    tls = replace(settings.tls, client_ca_file=str(path))
    gate = GateSettings(absent_paths=("/nowhere",))
    with pytest.raises(TlsFileError, match=r"late-ca\.crt"):
        Certificates(replace(settings, tls=tls))
    certificates = Certificates(replace(settings, tls=tls, gate=gate))
    assert "No such file" in certificates.load_client_ca()
    assert certificates.reloader.faults() == {"client CA": "not there yet"}
    generation = certificates.chains.generation
    path.write_text("half")
    assert "holds no certificate" in certificates.load_client_ca()
    path.write_bytes(ca)
    assert certificates.load_client_ca() == ""
    assert certificates.chains.generation != generation
    assert certificates.reloader.faults() == {}
    path.write_text("half")
    certificates.reloader.check()
    assert "holds no certificate" in certificates.reloader.faults()["client CA"]


def test_fr87_a_client_ca_that_is_there_and_bad_is_not_waited_for(
    settings: Settings, tmp_path: Path
) -> None:
    issued(tmp_path, "one")
    path = tmp_path / "late-ca.crt"
    path.write_text("half")
    tls = replace(settings.tls, client_ca_file=str(path))
    with pytest.raises(TlsFileError, match="holds no certificate"):
        Certificates(replace(settings, tls=tls, gate=AWAITED))
