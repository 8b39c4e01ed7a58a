"""PEM or DER → one certificate, or ValueError: the library raises more than that.

A version that no certificate has is a bad certificate like another, not a fault of ours: whoever
connects can show one, and whoever writes a file can put one in it.
"""

from cryptography import x509


def from_pem(block: bytes) -> x509.Certificate:
    """The certificate of one PEM block. Raises ValueError."""
    try:
        return x509.load_pem_x509_certificate(block)
    except x509.InvalidVersion as error:
        raise ValueError(str(error)) from error


def from_der(content: bytes) -> x509.Certificate:
    """The certificate in DER. Raises ValueError."""
    try:
        return x509.load_der_x509_certificate(content)
    except x509.InvalidVersion as error:
        raise ValueError(str(error)) from error
