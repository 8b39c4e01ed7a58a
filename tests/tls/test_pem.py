import base64
from collections.abc import Callable

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from hypothesis import given
from hypothesis import strategies as st

from pyrbacproxy.tls.pem import Certificates, certificate_blocks, certificates, key_block


def block(label: str, body: str = "QUJD\n") -> bytes:
    return f"-----BEGIN {label}-----\n{body}-----END {label}-----".encode()


BEGIN = b"-----BEGIN CERTIFICATE-----"
END = b"-----END CERTIFICATE-----"
CERTIFICATE = block("CERTIFICATE")
SECOND = block("CERTIFICATE", "REVG\n")
KEY = block("PRIVATE KEY")
WITH_HEADERS = block("CERTIFICATE", "Proc-Type: 4,ENCRYPTED\nKey: value\n\nQUJD\n")
BAG = b"Bag Attributes\n    localKeyID: 01 02\nsubject=CN = ca\n\nissuer=CN = ca\n"


# FR74
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(b"", [], id="empty"),
        pytest.param(b"half written\n", [], id="no block"),
        pytest.param(CERTIFICATE + b"\n", [b"ABC"], id="one"),
        pytest.param(CERTIFICATE, [b"ABC"], id="without a last line end"),
        pytest.param(CERTIFICATE + SECOND, [b"ABC", b"DEF"], id="joined on one line"),
        pytest.param(
            CERTIFICATE + b"subject=b\n" + SECOND, [b"ABC", b"DEF"], id="joined, text before"
        ),
        pytest.param(b"issuer=a" + CERTIFICATE, [b"ABC"], id="in the middle of a line"),
        pytest.param(b"\xef\xbb\xbf" + CERTIFICATE, [b"ABC"], id="byte order mark"),
        pytest.param(BAG + CERTIFICATE + b"\n" + BAG + SECOND, [b"ABC", b"DEF"], id="bags"),
        pytest.param(
            b"subject=a\n" + CERTIFICATE + b"\n# comment \xe4\n" + KEY + b"\n" + SECOND,
            [b"ABC", b"DEF"],
            id="text and other blocks between",
        ),
        pytest.param(KEY + CERTIFICATE + KEY, [b"ABC"], id="joined to keys"),
        pytest.param(block("X509 CRL") + b"\n", [], id="other labels"),
        pytest.param(block("TRUSTED CERTIFICATE"), [], id="labels that only end so"),
        pytest.param(CERTIFICATE.replace(b"\n", b"\r\n"), [b"ABC"], id="CRLF"),
        pytest.param(CERTIFICATE.replace(b"\n", b" \t\n"), [b"ABC"], id="blanks at line ends"),
        pytest.param(block("CERTIFICATE", "\n QU\n\n\tJD  \n\n"), [b"ABC"], id="blank lines"),
        pytest.param(block("CERTIFICATE", "QUJD"), [b"ABC"], id="END behind the base64"),
        pytest.param(block("CERTIFICATE", ""), [b""], id="an empty block"),
        pytest.param(WITH_HEADERS + b"\n" + CERTIFICATE, [b"ABC"], id="a block with headers"),
    ],
)
def test_certificates_are_found_among_others(text: bytes, expected: list[bytes]) -> None:
    assert list(certificates(text).ders) == expected


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param(CERTIFICATE[:-10], "certificate 1 has no END line", id="cut short"),
        pytest.param(
            CERTIFICATE + b"\n" + SECOND[:-10], "certificate 2 has no END", id="the second"
        ),
        pytest.param(CERTIFICATE[:-10] + b"\n" + SECOND, "certificate 1 has no", id="the first"),
        pytest.param(BEGIN + b"\n" + KEY + END, "certificate 1 has no END", id="a key within"),
        pytest.param(BEGIN + b"QUJD\n" + END, "text in its BEGIN line", id="one line"),
        pytest.param(block("CERTIFICATE", "QUJ\n"), "1 is not valid base64", id="no padding"),
        pytest.param(block("CERTIFICATE", "QU=D\n"), "not valid base64", id="early padding"),
        pytest.param(block("CERTIFICATE", "QU*JD\n"), "not valid base64", id="other characters"),
        pytest.param(
            CERTIFICATE.replace(b"\n", b"\r"), "text in its BEGIN line", id="carriage returns"
        ),
        pytest.param(
            b"# " + CERTIFICATE.replace(b"\n", b"\n# "), "not valid base64", id="commented out"
        ),
    ],
)
def test_a_damaged_block_is_an_error_with_its_number(text: bytes, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        certificates(text)


def test_blocks_with_headers_are_named() -> None:
    text = CERTIFICATE + WITH_HEADERS + b"\n" + SECOND + b"\n" + WITH_HEADERS
    assert certificates(text) == Certificates((b"ABC", b"DEF"), (2, 4))


PIECES = st.one_of(
    st.sampled_from(
        [
            *(BEGIN, END, CERTIFICATE, SECOND, WITH_HEADERS, KEY, BAG, b"\n", b"\r\n", b" ", b"#"),
            *(b"-----", b"QUJD", b"QUJD\n", b"Key: value\n", b"BEGIN CERTIFICATE-----", b"\xff"),
            *(CERTIFICATE + b"\n", b"\n" + SECOND, b"-----END CERTIFICATE-----\n", BEGIN + b"\n"),
        ]
    ),
    st.binary(max_size=8),
)


@given(st.lists(PIECES, max_size=12).map(b"".join))
def test_as_many_are_used_as_begin_or_the_text_is_refused(text: bytes) -> None:
    try:
        found = certificates(text)
    except ValueError:
        return
    assert len(found.ders) + len(found.with_headers) == text.count(BEGIN)
    assert [base64.b64decode(one.split(b"-----")[2]) for one in certificate_blocks(text)] == [
        *found.ders
    ]


@pytest.mark.parametrize("label", ["PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY"])
def test_the_first_key_of_any_form_is_taken(label: str) -> None:
    key = block(label)
    text = b"\n".join((block("EC PARAMETERS"), CERTIFICATE, key, block("PRIVATE KEY", "WFla\n")))
    assert key_block(text) == key + b"\n"


# FR74
@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda key: key.strip(), id="without a last line end"),
        pytest.param(lambda key: key.replace(b"\n", b"\r\n"), id="CRLF"),
        pytest.param(lambda key: key.replace(b"\n", b"\n\n"), id="blank lines"),
        pytest.param(lambda key: key.replace(b"\n", b" \n "), id="blanks"),
        pytest.param(lambda key: CERTIFICATE + key + CERTIFICATE, id="joined to certificates"),
        pytest.param(lambda key: BAG + key, id="bag"),
    ],
)
def test_a_key_is_read_as_laxly(change: Callable[[bytes], bytes]) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    found = key_block(change(text))
    assert found is not None
    read = load_pem_private_key(found, password=None)
    assert read.public_key() == key.public_key()


@pytest.mark.parametrize("text", [b"", CERTIFICATE, block("NOTAPRIVATE KEY"), block("PUBLIC KEY")])
def test_no_key_is_none(text: bytes) -> None:
    assert key_block(text) is None


def test_an_encrypted_key_keeps_its_headers() -> None:
    encrypted = block("RSA PRIVATE KEY", "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES\n\nQUJD\n")
    assert key_block(encrypted) == encrypted
    damaged = block("PRIVATE KEY", "QUJ\n")
    assert key_block(damaged) == damaged
