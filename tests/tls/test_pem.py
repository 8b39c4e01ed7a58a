import pytest

from pyrbacproxy.tls.pem import certificate_blocks, has_headers, key_block


def block(label: str, body: str = "QUJD\n") -> bytes:
    return f"-----BEGIN {label}-----\n{body}-----END {label}-----".encode()


CERTIFICATE = block("CERTIFICATE")
SECOND = block("CERTIFICATE", "REVG\n")
KEY = block("PRIVATE KEY")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(b"", [], id="empty"),
        pytest.param(b"half written\n", [], id="no block"),
        pytest.param(CERTIFICATE + b"\n", [CERTIFICATE], id="one"),
        pytest.param(CERTIFICATE, [CERTIFICATE], id="without a last line end"),
        pytest.param(
            b"subject=a\n" + CERTIFICATE + b"\n# comment\n" + KEY + b"\n" + SECOND,
            [CERTIFICATE, SECOND],
            id="text and other blocks between",
        ),
        pytest.param(block("X509 CRL") + b"\n", [], id="other labels"),
        pytest.param(block("TRUSTED CERTIFICATE"), [], id="labels that only end so"),
        pytest.param(CERTIFICATE[:-10], [], id="cut short"),
        pytest.param(b"x" + CERTIFICATE, [], id="not at the start of a line"),
        pytest.param(
            CERTIFICATE.replace(b"\n", b"\r\n"),
            [CERTIFICATE.replace(b"\n", b"\r\n")],
            id="CRLF",
        ),
    ],
)
def test_certificates_are_found_among_others(text: bytes, expected: list[bytes]) -> None:
    assert certificate_blocks(text) == expected


@pytest.mark.parametrize("label", ["PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY"])
def test_the_first_key_of_any_form_is_taken(label: str) -> None:
    key = block(label)
    text = b"\n".join((block("EC PARAMETERS"), CERTIFICATE, key, block("PRIVATE KEY", "WFla\n")))
    assert key_block(text) == key


@pytest.mark.parametrize("text", [b"", CERTIFICATE, block("NOTAPRIVATE KEY"), block("PUBLIC KEY")])
def test_no_key_is_none(text: bytes) -> None:
    assert key_block(text) is None


def test_headers_are_told_from_base64() -> None:
    assert has_headers(block("CERTIFICATE", "Proc-Type: 4,ENCRYPTED\n\nQUJD\n"))
    assert not has_headers(CERTIFICATE)
