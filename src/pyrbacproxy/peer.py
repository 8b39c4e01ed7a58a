"""`Peer`: the other end of a client connection: its address and, if verified, its certificate."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """A client certificate whose chain ends in the current client CA pool.

    `not_before` and `not_after` (seconds since the epoch, both inclusive) are the intersection of
    the validity of every certificate of the chain: who uses it compares them with the request's
    `received_at`. `common_name` is the last CN of the subject ("" when it has none),
    `organizations` every O in order; `fingerprint` is the lower-case hex SHA-256 of the leaf's DER.
    """

    common_name: str
    organizations: tuple[str, ...]
    not_before: float
    not_after: float
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Peer:
    """The other end: `address` is its IP address without port.

    `certificate` is set only when it was presented and verified. `refusal` says why a certificate
    that was presented is not trusted; it is "" when none was presented or it is trusted.
    """

    address: str
    certificate: ClientCertificate | None = None
    refusal: str = ""
