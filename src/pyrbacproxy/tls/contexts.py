"""`TlsSettings` → an OpenSSL context: versions, suites, ALPN; asks for a client certificate and never refuses one."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """How a listener speaks TLS.

    `certificate_file` and `key_file` are both set, or both "" for a self-signed pair made in memory. `minimum` is an OpenSSL
    protocol number (0x0301 ... 0x0304). `cipher_list` is OpenSSL's list for TLS 1.2 and below: None for the default list, "" when
    none of the suites asked for exists (TLS 1.3 only, D33). `client_ca_file` "" turns certificate login off.
    """

    certificate_file: str = ""
    key_file: str = ""
    minimum: int = 0x0303
    cipher_list: str | None = None
    alpn: tuple[bytes, ...] = (b"http/1.1",)
    client_ca_file: str = ""
    reload_seconds: float = 60.0
