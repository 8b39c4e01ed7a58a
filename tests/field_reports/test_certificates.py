"""Field reports FR71 to FR74, FR83 and FR93: odd certificates and PEM files on our side of TLS."""

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from tests.field_reports.harness import Lab, Proxy, get
from tests.field_reports.watching import until
from tests.tls import asn1
from tests.tls.asn1 import FALSE, OCTETS, SEQUENCE, TRUE, extension, tlv
from tests.tls.parties import CLIENT, Issued, as_pem, issue

FAST = "--tls-reload-interval=100ms"
YEARS = (-100_000, 100_000)  # around 2030, in hours
USAGE, UNKNOWN = b"\x55\x1d\x0f", b"\x2a\x03\x04"
CA = issue("CN=ca", is_authority=True, hours=YEARS)
OTHER_CA = issue("CN=other-ca", is_authority=True, hours=YEARS)
ALICE = issue("O=dev", "CN=alice", issuer=CA, purposes=CLIENT, hours=YEARS)
BOB = issue("CN=bob", issuer=OTHER_CA, purposes=CLIENT, hours=YEARS)
ODD_NAME = asn1.name((asn1.COMMON_NAME, 0x0C, b"odd"), (b"\x55\x04\x2e", 0x03, b"\0\x01\x02"))
SELF = issue("CN=written-out", is_authority=True, hours=YEARS)
WRITTEN_OUT = asn1.extended(SELF, [extension(USAGE, b"\x03\x02\x01\x86", FALSE)], SELF.key)
TWICE = asn1.extended(CA, [extension(UNKNOWN, b"")] * 2, CA.key)


def named_oddly(certificate: Issued, *places: int, signer: Issued | None = None) -> bytes:
    def change(parts: asn1.Parts) -> None:
        for place in places:
            parts[place] = ODD_NAME

    return asn1.changed(certificate, change, (signer or certificate).key)


ODD_CA = named_oddly(CA, asn1.ISSUER, asn1.SUBJECT)
OF_ODD_CA = named_oddly(ALICE, asn1.ISSUER, signer=CA)
ODD_CLIENT = named_oddly(ALICE, asn1.SUBJECT, signer=CA)


def put(folder: Path, name: str, certificate: bytes, key: Issued) -> Path:
    """NAME.crt and NAME.key, by their path without suffix."""
    (folder / f"{name}.crt").write_bytes(as_pem(certificate))
    (folder / f"{name}.key").write_bytes(key.key_pem())
    return folder / name


def written(folder: Path, *pems: bytes) -> Path:
    path = folder / "client-ca.crt"
    # Whole at once: the proxy may read it at any moment.
    new = path.with_suffix(".new")
    new.write_bytes(b"".join(pems))
    return new.replace(path)


def status(proxy: Proxy, certificate: Path | None = None) -> int:
    return proxy.ask(get(), certificate).status


def trusting(lab: Lab, file: Path) -> Proxy:
    return lab.start(f"--client-ca-file={file}", FAST, is_own=True)


# --- FR71 -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "der",
    [
        pytest.param(ODD_CA, id="a stranger"),
        pytest.param(
            asn1.extended(ALICE, [extension(UNKNOWN, b"", TRUE)], CA.key), id="unknown and critical"
        ),
        pytest.param(
            asn1.extended(ALICE, [extension(UNKNOWN, b"")] * 2, CA.key), id="duplicate extension"
        ),
        pytest.param(
            asn1.extended(ALICE, [extension(b"\x55\x1d\x20", b"\5\0")], CA.key), id="policies"
        ),
        pytest.param(
            asn1.changed(ALICE, lambda parts: parts.__setitem__(asn1.SERIAL, b"\2\1\xff"), CA.key),
            id="negative serial",
        ),
    ],
)
def test_fr71_an_odd_client_certificate_is_a_401(lab: Lab, tmp_path: Path, der: bytes) -> None:
    proxy = lab.start(f"--client-ca-file={written(tmp_path, CA.pem)}", is_own=True)
    client = put(tmp_path, "odd", der, CA if der is ODD_CA else ALICE)
    assert status(proxy, client) == 401
    assert sum("Listening" not in line for line in proxy.text().splitlines()) <= 1
    assert status(proxy, put(tmp_path, "alice", ALICE.der, ALICE)) == 200


def test_fr71_an_odd_name_of_a_trusted_client_is_let_in(lab: Lab, tmp_path: Path) -> None:
    proxy = lab.start(f"--client-ca-file={written(tmp_path, CA.pem)}", is_own=True)
    assert status(proxy, put(tmp_path, "odd", ODD_CLIENT, ALICE)) == 200


def test_fr71_an_authority_that_go_reads_is_used_from_the_start(lab: Lab, tmp_path: Path) -> None:
    proxy = lab.start(f"--client-ca-file={written(tmp_path, as_pem(ODD_CA))}", is_own=True)
    assert status(proxy, put(tmp_path, "alice", OF_ODD_CA, ALICE)) == 200


def test_fr71_an_authority_that_go_reads_is_used_after_a_reload(lab: Lab, tmp_path: Path) -> None:
    proxy = trusting(lab, written(tmp_path, OTHER_CA.pem))
    client = put(tmp_path, "alice", OF_ODD_CA, ALICE)
    assert status(proxy, client) == 401
    written(tmp_path, as_pem(ODD_CA))
    until(lambda: status(proxy, client) == 200, "trust in the odd one")


def test_fr71_an_authority_that_go_does_not_read_ends_the_start(lab: Lab, tmp_path: Path) -> None:
    file = written(tmp_path, CA.pem, as_pem(TWICE))
    ended = lab.run(f"--client-ca-file={file}")
    assert ended.code == 1
    assert f"{file}: bad certificate: number 2: duplicate extension 1.2.3.4" in ended.err


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(as_pem(TWICE), id="duplicate extension"),
        pytest.param(as_pem(CA.der + b"\0"), id="trailing octets"),
        pytest.param(CA.pem[:-30], id="cut off"),
    ],
)
def test_fr71_an_authority_that_go_does_not_read_keeps_the_old_ones(
    lab: Lab, tmp_path: Path, bad: bytes
) -> None:
    proxy = trusting(lab, written(tmp_path, CA.pem))
    alice, bob = put(tmp_path, "alice", ALICE.der, ALICE), put(tmp_path, "bob", BOB.der, BOB)
    file = written(tmp_path, OTHER_CA.pem, bad)
    proxy.wait_for(f"Keeping the old client CA: {file}: ")
    assert (status(proxy, alice), status(proxy, bob)) == (200, 401)
    written(tmp_path, CA.pem, OTHER_CA.pem)
    until(lambda: status(proxy, bob) == 200, "trust in both")
    assert proxy.text().count("Keeping the old client CA") == 1


# --- FR72 -----------------------------------------------------------------------------


def test_fr72_critical_false_may_be_written_out(lab: Lab, tmp_path: Path) -> None:
    odd = put(tmp_path, "odd", WRITTEN_OUT, SELF)
    proxy = lab.start(
        f"--tls-cert-file={odd}.crt",
        f"--tls-private-key-file={odd}.key",
        f"--client-ca-file={odd}.crt",
        is_own=True,
    )
    assert status(proxy, odd) == 200
    leaf = issue("CN=alice", issuer=SELF, purposes=CLIENT, hours=YEARS)
    assert status(proxy, put(tmp_path, "leaf", leaf.der, leaf)) == 200


# --- FR73 -----------------------------------------------------------------------------


def test_fr73_an_authority_is_renewed_with_its_name_and_key(lab: Lab, tmp_path: Path) -> None:
    # keyIdentifier, authorityCertIssuer and authorityCertSerialNumber of the one before.
    identifier = tlv(
        SEQUENCE,
        tlv(0x80, b"key"),
        tlv(0xA1, tlv(0xA4, CA.certificate.subject.public_bytes())),
        tlv(0x82, CA.certificate.serial_number.to_bytes(20, "big").lstrip(b"\0")),
    )
    client = asn1.extended(ALICE, [extension(b"\x55\x1d\x23", identifier)], CA.key)
    renewed = issue("CN=ca", key=CA.key, is_authority=True, hours=YEARS)
    own = extension(b"\x55\x1d\x0e", tlv(OCTETS, b"another key"))
    for der in (renewed.der, asn1.extended(renewed, [own], CA.key)):
        file = written(tmp_path, as_pem(der))
        proxy = lab.start(f"--client-ca-file={file}", is_own=True)
        assert status(proxy, put(tmp_path, "alice", client, ALICE)) == 200


# --- FR74 -----------------------------------------------------------------------------


def test_fr74_authorities_joined_on_one_line_are_both_used(lab: Lab, tmp_path: Path) -> None:
    joined = OTHER_CA.pem.rstrip(b"\n") + CA.pem
    proxy = trusting(lab, written(tmp_path, joined))
    clients = put(tmp_path, "alice", ALICE.der, ALICE), put(tmp_path, "bob", BOB.der, BOB)
    assert [status(proxy, client) for client in clients] == [200, 200]
    written(tmp_path, CA.pem)
    until(lambda: status(proxy, clients[1]) == 401, "no trust in the other one")
    written(tmp_path, joined)
    until(lambda: status(proxy, clients[1]) == 200, "trust in both")
    assert status(proxy, clients[0]) == 200


def test_fr74_a_certificate_with_headers_is_named(lab: Lab, tmp_path: Path) -> None:
    with_headers = OTHER_CA.pem.replace(b"TE-----\n", b"TE-----\nKey: value\n\n", 1)
    file = written(tmp_path, CA.pem, with_headers)
    proxy = lab.start(f"--client-ca-file={file}", is_own=True)
    assert f"{file}: certificate 2 is not used, for it has PEM headers" in proxy.text()
    assert status(proxy, put(tmp_path, "alice", ALICE.der, ALICE)) == 200


def test_fr74_a_serving_chain_joined_on_one_line_is_served_whole(lab: Lab, tmp_path: Path) -> None:
    server = issue("CN=server", issuer=CA, hours=YEARS)
    pair = put(tmp_path, "server", server.der, server)
    (tmp_path / "server.crt").write_bytes(server.pem.rstrip(b"\n") + CA.pem.rstrip(b"\n"))
    proxy = lab.start(
        f"--tls-cert-file={pair}.crt", f"--tls-private-key-file={pair}.key", is_own=True
    )
    assert status(proxy) == 401
    (tmp_path / "server.crt").write_bytes(server.pem + CA.pem[:-30])
    ended = lab.run(f"--tls-cert-file={pair}.crt", f"--tls-private-key-file={pair}.key")
    assert ended.code == 1
    assert f"{pair}.crt: certificate 2 has no END line" in ended.err


# --- FR83 -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "curve", [ec.SECP256K1(), ec.BrainpoolP256R1(), ec.SECP224R1()], ids=lambda curve: curve.name
)
def test_fr83_a_key_on_a_curve_that_no_client_takes_ends_the_start(
    lab: Lab, tmp_path: Path, curve: ec.EllipticCurve
) -> None:
    server = issue("CN=server", key=ec.generate_private_key(curve), hours=YEARS)
    pair = put(tmp_path, "server", server.der, server)
    ended = lab.run(f"--tls-cert-file={pair}.crt", f"--tls-private-key-file={pair}.key")
    assert ended.code == 1
    assert f"{pair}.key: the private key is on the curve {curve.name}" in ended.err
    # Go reads certificates with P-224, and has no signature with it in TLS.
    is_readable = isinstance(curve, ec.SECP224R1)
    assert (f"{pair}.crt" in ended.err) == (not is_readable)
    assert is_readable or f"unsupported elliptic curve {curve.name}" in ended.err


# --- FR93, D39 ------------------------------------------------------------------------

VALID = issue("CN=valid", hours=YEARS)
EXPIRED = issue("CN=outdated", hours=(-100_000, -90_000))
EXPIRED_AT = (
    "the certificate of CN=outdated expired at "
    f"{EXPIRED.certificate.not_valid_after_utc:%Y-%m-%dT%H:%M:%SZ}"
)


def serving(lab: Lab, pair: Path) -> Proxy:
    return lab.start(
        f"--tls-cert-file={pair}.crt", f"--tls-private-key-file={pair}.key", FAST, is_own=True
    )


def shown(proxy: Proxy) -> bytes | None:
    """The certificate that a new connection sees."""
    with proxy.connect() as client:
        return client.connection.getpeercert(binary_form=True)  # type: ignore[attr-defined, no-any-return]


def test_fr93_an_expired_pair_serves_from_the_start_with_a_warning(
    lab: Lab, tmp_path: Path
) -> None:
    pair = put(tmp_path, "server", EXPIRED.der, EXPIRED)
    proxy = serving(lab, pair)
    assert shown(proxy) == EXPIRED.der
    assert proxy.text().count(f"{pair}.crt: {EXPIRED_AT}: clients that verify it") == 1
    put(tmp_path, "server", VALID.der, VALID)
    until(lambda: shown(proxy) == VALID.der, "the valid pair")


def test_fr93_a_valid_pair_stays_when_an_expired_one_comes(lab: Lab, tmp_path: Path) -> None:
    pair = put(tmp_path, "server", VALID.der, VALID)
    proxy = serving(lab, pair)
    put(tmp_path, "server", EXPIRED.der, EXPIRED)
    line = f"Keeping the old serving certificate: {pair}.crt: {EXPIRED_AT}, the one in use is valid"
    proxy.wait_for(line)
    assert shown(proxy) == VALID.der
    renewed = issue("CN=renewed", hours=YEARS)
    put(tmp_path, "server", renewed.der, renewed)
    until(lambda: shown(proxy) == renewed.der, "the renewed pair")
    assert proxy.text().count(line) == 1
