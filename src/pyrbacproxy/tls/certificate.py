"""A certificate in DER → the fields that a decision needs, read as Go's crypto/x509 reads them.

`cryptography` and OpenSSL each refuse encodings that Go takes (a `critical FALSE` that is written
out, a name with a BIT STRING), and only when a field is first looked at. Here everything is read at
once, from the bytes whose signature is verified, and what can't be read is a ValueError. Where Go
is laxer than DER in a field that decides (octets behind a basic constraint, a key usage or a
purpose), the certificate is refused too.

Constants are those of RFC 5280; OIDs are in DER, without tag and length.
"""

import hashlib
import ipaddress
import re
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import load_der_public_key

from pyrbacproxy.values import Frozen

PublicKey = rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey
IpNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

_BOOLEAN, _INTEGER, _BIT_STRING, _OCTET_STRING, _OID = 0x01, 0x02, 0x03, 0x04, 0x06
_UTF8, _NUMERIC, _PRINTABLE, _T61, _IA5, _BMP = 0x0C, 0x12, 0x13, 0x14, 0x16, 0x1E
_UTC_TIME, _GENERALIZED_TIME, _SEQUENCE, _SET = 0x17, 0x18, 0x30, 0x31
_CONTEXT, _CONSTRUCTED = 0x80, 0xA0
_EMAIL, _DNS, _URI, _IP = _CONTEXT | 1, _CONTEXT | 2, _CONTEXT | 6, _CONTEXT | 7

COMMON_NAME = b"\x55\x04\x03"
ORGANIZATION = b"\x55\x04\x0a"
_SHORT_NAMES = {
    COMMON_NAME: "CN",
    b"\x55\x04\x06": "C",
    b"\x55\x04\x07": "L",
    b"\x55\x04\x08": "ST",
    b"\x55\x04\x09": "STREET",
    ORGANIZATION: "O",
    b"\x55\x04\x0b": "OU",
    b"\x09\x92\x26\x89\x93\xf2\x2c\x64\x01\x01": "UID",
    b"\x09\x92\x26\x89\x93\xf2\x2c\x64\x01\x19": "DC",
}
_KEY_USAGE, _KEY_CERT_SIGN = b"\x55\x1d\x0f", 5
_RSA = b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01"
_EC = b"\x2a\x86\x48\xce\x3d\x02\x01"
_ED25519 = b"\x2b\x65\x70"
# P-224, P-256, P-384, P-521: Go has no others.
_CURVES = (
    b"\x2b\x81\x04\x00\x21",
    b"\x2a\x86\x48\xce\x3d\x03\x01\x07",
    b"\x2b\x81\x04\x00\x22",
    b"\x2b\x81\x04\x00\x23",
)
_OTHER_CURVES = {
    b"\x2b\x81\x04\x00\x0a": "secp256k1",
    b"\x2b\x24\x03\x03\x02\x08\x01\x01\x07": "brainpoolP256r1",
    b"\x2b\x24\x03\x03\x02\x08\x01\x01\x0b": "brainpoolP384r1",
    b"\x2b\x24\x03\x03\x02\x08\x01\x01\x0d": "brainpoolP512r1",
}
_AUTHORITY_INFORMATION = b"\x2b\x06\x01\x05\x05\x07\x01\x01"
_MAX_VERSION = 3
_YEAR_1_SECONDS = -62_135_596_800
_INT64_BYTES = 8
_SHORT_FORM = 0x80
_MAX_LENGTH_BYTES = 4
_HIGH_TAG = 0x1F
# Go reads an arc of an OID into an int of 31 bits, 7 bits at a time.
_MAX_ARC_BYTES = 5
_MAX_ARC_HEAD = 1 << (31 - 7)

_PRINTABLE_VALUE = re.compile(rb"[A-Za-z0-9'()+,\-./ :=?*&]*")
_NUMERIC_VALUE = re.compile(rb"[0-9 ]*")
_TIME = re.compile(r"(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)?(?:Z|([+-])(\d\d)(\d\d))", re.ASCII)
_DOMAIN = re.compile(r"[!-~]*")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_HOST = re.compile(r"(?:\[[^\]]*\](?::\d*)?|[^:\[\]]*(?::\d*)?)")
_ATEXT = re.compile(r"(?:[A-Za-z0-9!#$%&'*+\-/=?^_`{|}~.]|\\[\x01-\x7f])+")
_QUOTED = re.compile(r'"(?:[\x01-\x08\x0b\x0c\x0e-!#-\[\]-\x7f]|\\[\x01-\x09\x0b\x0c\x0e-\x7f])*"')


class Mailbox(Frozen):
    """RFC 2821's, its domain in lower case."""

    local: str
    domain: str


class AlternativeNames(Frozen):
    """The SANs of the kinds that can be constrained, URIs and e-mail addresses as written."""

    emails: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    uris: tuple[str, ...] = ()
    addresses: tuple[bytes, ...] = ()


class Subtrees(Frozen):
    """The permitted or excluded names; a network is an address and its mask, of one length."""

    emails: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    uris: tuple[str, ...] = ()
    networks: tuple[tuple[bytes, bytes], ...] = ()


class NameConstraints(Frozen):
    """What an authority may issue for."""

    permitted: Subtrees
    excluded: Subtrees


class Attribute(Frozen):
    """Of a name: its type, and its value, None where that is of no string type that Go reads."""

    oid: bytes
    value: str | None


class Extensions(Frozen):
    """`is_authority` is None without basic constraints, `path_length` None without a limit.

    `may_sign` is whether the key usage has keyCertSign; as with Go a key usage without any bit says
    nothing. `unhandled` are the dotted OIDs of critical extensions that mean nothing here, and of
    policy constraints that require an explicit policy.
    """

    is_authority: bool | None = None
    path_length: int | None = None
    may_sign: bool = True
    purposes: tuple[bytes, ...] = ()
    names: AlternativeNames | None = None
    constraints: NameConstraints | None = None
    alternative_names: bytes | None = None
    subject_key: bytes = b""
    authority_key: bytes = b""
    unhandled: tuple[str, ...] = ()


class Certificate(Frozen):
    """What was read; names and key also as they stand in `der`, by which Go compares them.

    `version` is 1 to 3, `not_before` and `not_after` are epoch seconds, both inclusive.
    `signature_algorithm` is an AlgorithmIdentifier without its head. `key` is None for a kind of
    key that Go has no signatures for, and one that is too odd to be used.
    """

    der: bytes
    signed: bytes
    version: int
    serial: int
    signature_algorithm: bytes
    signature: bytes
    issuer: bytes
    issuer_attributes: tuple[Attribute, ...]
    subject: bytes
    subject_attributes: tuple[Attribute, ...]
    not_before: float
    not_after: float
    key_info: bytes
    key: PublicKey | None
    extensions: Extensions

    @property
    def fingerprint(self) -> str:
        """SHA-256, in hexadecimal."""
        return hashlib.sha256(self.der).hexdigest()


def from_der(der: bytes) -> Certificate:
    """The certificate in DER. Raises ValueError."""
    outer = _Input(der, "certificate")
    content = _Input(outer.take(_SEQUENCE), "certificate")
    outer.end()
    signed = content.element(_SEQUENCE)
    algorithm = content.take(_SEQUENCE)
    signature = _bits(content.take(_BIT_STRING), "signature")
    content.end()

    tbs = _Input(_Input(signed, "certificate").take(_SEQUENCE), "certificate")
    version = _version(tbs)
    serial = _integer(tbs.take(_INTEGER), "serial number")
    if serial < 0:
        raise ValueError("negative serial number")
    if tbs.take(_SEQUENCE) != algorithm:
        raise ValueError("inner and outer signature algorithm differ")
    _algorithm(algorithm)
    issuer = tbs.element(_SEQUENCE)
    issuer_attributes = _name(issuer, "issuer")
    validity = _Input(tbs.take(_SEQUENCE), "validity")
    not_before, not_after = _time(*validity.any()), _time(*validity.any())
    validity.end()
    subject = tbs.element(_SEQUENCE)
    subject_attributes = _name(subject, "subject")
    key_info = tbs.element(_SEQUENCE)
    key = _key(key_info)
    if version > 1:
        # issuerUniqueID and subjectUniqueID.
        tbs.optional(_CONTEXT | 1)
        tbs.optional(_CONTEXT | 2)
    listed = tbs.optional(_CONSTRUCTED | 3) if version == _MAX_VERSION else None
    extensions = Extensions() if listed is None else _extensions(listed)
    tbs.end()
    return Certificate(
        der=der,
        signed=signed,
        version=version,
        serial=serial,
        signature_algorithm=algorithm,
        signature=signature,
        issuer=issuer,
        issuer_attributes=issuer_attributes,
        subject=subject,
        subject_attributes=subject_attributes,
        not_before=not_before,
        not_after=not_after,
        key_info=key_info,
        key=key,
        extensions=extensions,
    )


def name_text(attributes: tuple[Attribute, ...]) -> str:
    """A name as RFC 4514 writes it, last attribute first, "?" for a value that is no string.

    Fit for a log: what can't be printed is escaped.
    """
    return ",".join(_attribute_text(attribute) for attribute in reversed(attributes))


def instant_text(seconds: float) -> str:
    """Epoch seconds as RFC 3339 writes them, in UTC."""
    # A certificate may begin in the year 0, which Python's calendar lacks.
    instant = datetime.fromtimestamp(max(seconds, _YEAR_1_SECONDS), UTC)
    return instant.strftime("%Y-%m-%dT%H:%M:%SZ")


def mailbox(text: str) -> Mailbox | None:
    """An e-mail address of RFC 2821, None if it is none."""
    local, at, domain = text.rpartition("@")
    if not at or not is_domain(domain):
        return None
    if _QUOTED.fullmatch(local):
        return Mailbox(re.sub(r"\\(.)", r"\1", local[1:-1], flags=re.DOTALL), domain.lower())
    plain = re.sub(r"\\(.)", r"\1", local, flags=re.DOTALL)
    is_dotted_wrong = plain.startswith(".") or plain.endswith(".") or ".." in plain
    if not _ATEXT.fullmatch(local) or is_dotted_wrong:
        return None
    return Mailbox(plain, domain.lower())


def uri_host(uri: str) -> str:
    """The host of a URI, its port included, in lower case, "" without one. Raises ValueError."""
    if any(character < " " or character == "\x7f" for character in uri):
        raise ValueError("malformed URI")
    rest, _, fragment = uri.partition("#")
    rest = rest.partition("?")[0]
    scheme = _SCHEME.match(rest)
    rest = rest[scheme.end() :] if scheme else rest
    if scheme and not rest.startswith("/"):
        return ""
    authority, path = "", rest
    if rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        path = slash + path
    elif not scheme and ":" in rest.partition("/")[0]:
        raise ValueError("malformed URI")
    host = authority.rpartition("@")[2]
    if _BAD_ESCAPE.search(path + fragment) or not _HOST.fullmatch(host) or not is_domain(host):
        raise ValueError("malformed URI")
    return host.lower()


def is_domain(text: str, *, is_constraint: bool = False) -> bool:
    """What Go takes for a domain name: labels of printable ASCII, or nothing at all."""
    if not text:
        return True
    if is_constraint and text.startswith("."):
        text = text[1:]
    return bool(_DOMAIN.fullmatch(text)) and all(text.split("."))


class _Input:
    """DER that is read from front to back; `what` names it in the ValueErrors."""

    __slots__ = ("_data", "_position", "_what")

    def __init__(self, data: bytes, what: str) -> None:
        self._data = data
        self._position = 0
        self._what = what

    def __bool__(self) -> bool:
        return self._position < len(self._data)

    def next_is(self, tag: int) -> bool:
        """Whether a value with this tag comes next."""
        return self._data[self._position : self._position + 1] == bytes((tag,))

    def any(self) -> tuple[int, bytes]:
        """The tag and the content of the next value."""
        tag, start, end = self._bounds()
        self._position = end
        return tag, self._data[start:end]

    def take(self, tag: int) -> bytes:
        """The content of the next value, which must have this tag."""
        if not self.next_is(tag):
            raise self._malformed()
        return self.any()[1]

    def element(self, tag: int) -> bytes:
        """The next value with tag and length."""
        start = self._position
        self.take(tag)
        return self._data[start : self._position]

    def optional(self, tag: int) -> bytes | None:
        """The content of the next value if it has this tag."""
        return self.take(tag) if self.next_is(tag) else None

    def all(self, tag: int) -> Iterator[bytes]:
        """The contents of all that is left; each must have this tag."""
        while self:
            yield self.take(tag)

    def rest(self) -> bytes:
        """What is left, which stays to be read."""
        return self._data[self._position :]

    def end(self) -> None:
        """Nothing may be left."""
        if self:
            raise ValueError(f"trailing octets in {self._what}")

    def _bounds(self) -> tuple[int, int, int]:
        # X.690 section 8.1, in DER's shortest form (section 10.1).
        data, start = self._data, self._position + 2
        if len(data) < start or data[start - 2] & _HIGH_TAG == _HIGH_TAG:
            raise self._malformed()
        length = data[start - 1]
        if length >= _SHORT_FORM:
            count = length - _SHORT_FORM
            if not 0 < count <= _MAX_LENGTH_BYTES or len(data) < start + count:
                raise self._malformed()
            length = int.from_bytes(data[start : start + count], "big")
            if length < _SHORT_FORM or not data[start]:
                raise self._malformed()
            start += count
        if len(data) < start + length:
            raise self._malformed()
        return data[self._position], start, start + length

    def _malformed(self) -> ValueError:
        return ValueError(f"malformed {self._what}")


def _integer(content: bytes, what: str, most_bytes: int | None = None) -> int:
    is_padded = len(content) > 1 and (
        (content[0] == 0 and content[1] < _SHORT_FORM)
        or (content[0] == 0xFF and content[1] >= _SHORT_FORM)  # noqa: PLR2004 -- a sign's octet
    )
    if not content or is_padded or (most_bytes is not None and len(content) > most_bytes):
        raise ValueError(f"malformed {what}")
    return int.from_bytes(content, "big", signed=True)


def _boolean(content: bytes, what: str) -> bool:
    if content not in (b"\x00", b"\xff"):
        raise ValueError(f"malformed {what}")
    return content == b"\xff"


def _bits(content: bytes, what: str) -> bytes:
    """The octets of a bit string whose unused bits are 0."""
    unused, octets = content[:1], content[1:]
    if not unused or unused[0] > 7 or (unused[0] and not octets):  # noqa: PLR2004 -- of an octet
        raise ValueError(f"malformed {what}")
    if octets and octets[-1] & ((1 << unused[0]) - 1):
        raise ValueError(f"malformed {what}")
    return octets


def _arcs(content: bytes, what: str) -> list[int]:
    """The arcs of an OID, the first two still in one."""
    arcs: list[int] = []
    arc, count = 0, 0
    for octet in content:
        count += 1
        if count > _MAX_ARC_BYTES or arc >= _MAX_ARC_HEAD or (count == 1 and octet == _SHORT_FORM):
            raise ValueError(f"malformed {what}")
        arc = arc << 7 | octet & 0x7F
        if octet < _SHORT_FORM:
            arcs.append(arc)
            arc, count = 0, 0
    if count or not arcs:
        raise ValueError(f"malformed {what}")
    return arcs


def _dotted(oid: bytes) -> str:
    both, *others = _arcs(oid, "OID")
    first = min(both // 40, 2)
    return ".".join(map(str, (first, both - 40 * first, *others)))


def _time(tag: int, content: bytes) -> float:
    # With or without seconds, and with an offset: Go takes them, though RFC 5280 forbids both.
    text = content.decode("latin-1")
    if tag == _UTC_TIME:
        century = "20" if text < "50" else "19"
    elif tag == _GENERALIZED_TIME:
        century, text = text[:2], text[2:]
    else:
        raise ValueError("malformed validity")
    match = _TIME.fullmatch(text[2:])
    if match is None or (match[5] is None and tag == _GENERALIZED_TIME):
        raise ValueError("malformed validity")
    month, day, hour, minute, second, offset_hour, offset_minute = (
        int(match[group] or 0) for group in (1, 2, 3, 4, 5, 7, 8)
    )
    is_clock = hour < 24 and max(minute, second, offset_minute) < 60  # noqa: PLR2004 -- a clock's
    offset = (offset_hour * 60 + offset_minute) * 60
    if not is_clock or (match[6] and not offset):
        raise ValueError("malformed validity")
    try:
        # The calendar repeats after 400 years, and Python's begins with the year 1.
        year = int(century + text[:2])
        days = date(year or 400, month, day).toordinal() - (0 if year else 146_097)
    except ValueError:
        raise ValueError("malformed validity") from None
    local = (days - date(1970, 1, 1).toordinal()) * 86_400 + (hour * 60 + minute) * 60 + second
    return float(local + offset if match[6] == "-" else local - offset)


def _version(tbs: _Input) -> int:
    explicit = tbs.optional(_CONSTRUCTED)
    if explicit is None:
        return 1
    inner = _Input(explicit, "version")
    version = _integer(inner.take(_INTEGER), "version", _INT64_BYTES) + 1
    inner.end()
    if not 1 <= version <= _MAX_VERSION:
        raise ValueError(f"{version} is not a valid X509 version")
    return version


def _algorithm(content: bytes) -> tuple[bytes, bytes]:
    """OID and parameters, these with their head."""
    identifier = _Input(content, "algorithm identifier")
    oid = identifier.take(_OID)
    _arcs(oid, "algorithm identifier")
    parameters = identifier.rest()
    if identifier:
        identifier.any()
    identifier.end()
    return oid, parameters


def _name(element: bytes, what: str) -> tuple[Attribute, ...]:
    attributes: list[Attribute] = []
    for relative in _Input(_Input(element, what).take(_SEQUENCE), what).all(_SET):
        for pair in _Input(relative, what).all(_SEQUENCE):
            item = _Input(pair, what)
            oid = item.take(_OID)
            _arcs(oid, what)
            tag, content = item.any()
            item.end()
            attributes.append(Attribute(oid, _value(tag, content, what)))
    return tuple(attributes)


def _value(tag: int, content: bytes, what: str) -> str | None:
    if tag in _STRINGS:
        text = _STRINGS[tag](content)
        if text is None:
            raise ValueError(f"malformed string in {what}")
        return text
    if tag in _OTHER_VALUES:
        _OTHER_VALUES[tag](content, what)
    return None


def _utf8(content: bytes) -> str | None:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def _ia5(content: bytes) -> str | None:
    return content.decode() if content.isascii() else None


def _printable(content: bytes) -> str | None:
    return content.decode() if _PRINTABLE_VALUE.fullmatch(content) else None


def _numeric(content: bytes) -> str | None:
    return content.decode() if _NUMERIC_VALUE.fullmatch(content) else None


def _bmp(content: bytes) -> str | None:
    content = content.removesuffix(b"\0\0") if len(content) % 2 == 0 else content
    try:
        # UCS-2: surrogates, alone or in pairs, are none of its characters.
        text = content.decode("utf-16-be")
    except UnicodeDecodeError:
        return None
    is_sound = all(character < "\ufdd0" or "\ufdef" < character < "\ufffe" for character in text)
    return text if is_sound else None


_STRINGS: dict[int, Callable[[bytes], str | None]] = {
    # As the world uses it, not as ITU-T T.61 has it.
    _T61: lambda content: content.decode("latin-1"),
    _PRINTABLE: _printable,
    _UTF8: _utf8,
    _BMP: _bmp,
    _IA5: _ia5,
    _NUMERIC: _numeric,
}
_OTHER_VALUES: dict[int, Callable[[bytes, str], object]] = {
    _INTEGER: lambda content, what: _integer(content, what, _INT64_BYTES),
    _BIT_STRING: _bits,
    _OID: _arcs,
    _UTC_TIME: lambda content, _: _time(_UTC_TIME, content),
    _GENERALIZED_TIME: lambda content, _: _time(_GENERALIZED_TIME, content),
    _BOOLEAN: _boolean,
}


def _attribute_text(attribute: Attribute) -> str:
    kind = _SHORT_NAMES.get(attribute.oid) or _dotted(attribute.oid)
    value = "?" if attribute.value is None else attribute.value
    value = re.sub(r'([,+"\\<>;=])', r"\\\1", value)
    return f"{kind}=" + "".join(
        character if character.isprintable() else ascii(character)[1:-1] for character in value
    )


def _key(element: bytes) -> PublicKey | None:
    info = _Input(_Input(element, "public key").take(_SEQUENCE), "public key")
    oid, parameters = _algorithm(info.take(_SEQUENCE))
    data = _bits(info.take(_BIT_STRING), "public key")
    info.end()
    if oid == _RSA:
        if parameters != b"\x05\x00":
            raise ValueError("RSA key without NULL parameters")
        _check_rsa(data)
    elif oid == _EC:
        curve = _Input(parameters, "ECDSA parameters").take(_OID)
        if curve not in _CURVES:
            raise ValueError(
                f"unsupported elliptic curve {_OTHER_CURVES.get(curve) or _dotted(curve)}"
            )
        if data[:1] != b"\x04":
            raise ValueError("malformed ECDSA key")
    elif oid == _ED25519:
        if parameters:
            raise ValueError("Ed25519 key with parameters")
    else:
        return None
    try:
        key = load_der_public_key(element)
    except (ValueError, UnsupportedAlgorithm) as error:
        if oid == _RSA:
            # Go reads any two numbers, and trusts no signature of theirs.
            return None
        raise ValueError("malformed public key") from error
    return key if isinstance(key, PublicKey) else None


def _check_rsa(data: bytes) -> None:
    numbers = _Input(_Input(data, "RSA key").take(_SEQUENCE), "RSA key")
    modulus = _integer(numbers.take(_INTEGER), "RSA key")
    exponent = _integer(numbers.take(_INTEGER), "RSA key", _INT64_BYTES)
    if modulus <= 0 or exponent <= 0:
        raise ValueError("malformed RSA key")


def _extensions(listed: bytes) -> Extensions:
    outer = _Input(listed, "extensions")
    values: dict[bytes, tuple[bytes, bool]] = {}
    for content in _Input(outer.take(_SEQUENCE), "extensions").all(_SEQUENCE):
        item = _Input(content, "extension")
        oid = item.take(_OID)
        _arcs(oid, "extension")
        # DER leaves FALSE out; FreeIPA and others write it.
        critical = item.optional(_BOOLEAN)
        is_critical = critical is not None and _boolean(critical, "extension")
        value = item.take(_OCTET_STRING)
        item.end()
        if oid in values:
            raise ValueError(f"duplicate extension {_dotted(oid)}")
        values[oid] = value, is_critical
    outer.end()
    return _understood(values)


def _understood(values: dict[bytes, tuple[bytes, bool]]) -> Extensions:
    for oid, (value, is_critical) in values.items():
        if oid in _CHECKED:
            _CHECKED[oid](value)
        if is_critical and oid in _NEVER_CRITICAL:
            raise ValueError(f"extension {_dotted(oid)} is marked critical")

    def content(oid: bytes) -> bytes | None:
        return values[oid][0] if oid in values else None

    basic = content(b"\x55\x1d\x13")
    is_authority, path_length = (None, None) if basic is None else _basic_constraints(basic)
    usage = content(_KEY_USAGE)
    bits = 0 if usage is None else _key_usage(usage)
    purposes = content(b"\x55\x1d\x25")
    alternative = content(b"\x55\x1d\x11")
    names = None if alternative is None else _alternative_names(alternative)
    constrained = content(b"\x55\x1d\x1e")
    constraints, is_whole = (None, True) if constrained is None else _constraints(constrained)
    # Names of no kind that is known, or constraints for them, are not understood.
    partly = {b"\x55\x1d\x11": names != AlternativeNames(), b"\x55\x1d\x1e": is_whole}
    unhandled = [
        _dotted(oid)
        for oid, (_, is_critical) in values.items()
        if is_critical and not partly.get(oid, oid in _KNOWN)
    ]
    # Go checks policies then, critical or not; they are not processed here.
    policy_constraints = content(b"\x55\x1d\x24")
    if policy_constraints is not None and _policy_constraints(policy_constraints):
        unhandled.append("2.5.29.36 (an explicit policy is required)")
    return Extensions(
        is_authority=is_authority,
        path_length=path_length,
        may_sign=not bits or bool(bits & (1 << _KEY_CERT_SIGN)),
        purposes=() if purposes is None else _purposes(purposes),
        names=names,
        constraints=constraints,
        alternative_names=alternative,
        subject_key=_subject_key(content(b"\x55\x1d\x0e")),
        authority_key=_authority_key(content(b"\x55\x1d\x23")),
        unhandled=tuple(unhandled),
    )


def _basic_constraints(value: bytes) -> tuple[bool, int | None]:
    what = "basic constraints"
    outer = _Input(value, what)
    inner = _Input(outer.take(_SEQUENCE), what)
    outer.end()
    authority = inner.optional(_BOOLEAN)
    is_authority = authority is not None and _boolean(authority, what)
    length = inner.optional(_INTEGER)
    inner.end()
    if length is None:
        return is_authority, None
    path_length = _integer(length, what, _INT64_BYTES)
    if path_length < 0:
        raise ValueError(f"malformed {what}")
    return is_authority, path_length


def _key_usage(value: bytes) -> int:
    """Bit n for the n-th of RFC 5280 section 4.2.1.3."""
    outer = _Input(value, "key usage")
    octets = _bits(outer.take(_BIT_STRING), "key usage")
    outer.end()
    count = min(9, 8 * len(octets))
    return sum(1 << bit for bit in range(count) if octets[bit // 8] >> (7 - bit % 8) & 1)


def _purposes(value: bytes) -> tuple[bytes, ...]:
    what = "extended key usage"
    outer = _Input(value, what)
    purposes = tuple(_Input(outer.take(_SEQUENCE), what).all(_OID))
    outer.end()
    for purpose in purposes:
        _arcs(purpose, what)
    return purposes


def _alternative_names(value: bytes) -> AlternativeNames:
    what = "subject alternative name"
    kinds: dict[int, list[bytes]] = {_EMAIL: [], _DNS: [], _URI: [], _IP: []}
    names = _Input(_Input(value, what).take(_SEQUENCE), what)
    while names:
        tag, content = names.any()
        kinds.get(tag, []).append(content)
    texts = {tag: tuple(_ascii(one, what) for one in kinds[tag]) for tag in (_EMAIL, _DNS, _URI)}
    for uri in texts[_URI]:
        uri_host(uri)
    for address in kinds[_IP]:
        if len(address) not in (4, 16) or _is_mapped(address):
            raise ValueError(f"malformed {what}")
    return AlternativeNames(texts[_EMAIL], texts[_DNS], texts[_URI], tuple(kinds[_IP]))


def _constraints(value: bytes) -> tuple[NameConstraints, bool]:
    """The constraints, and whether they are all of kinds that are known."""
    what = "name constraints"
    outer = _Input(value, what)
    inner = _Input(outer.take(_SEQUENCE), what)
    outer.end()
    permitted, excluded = inner.optional(_CONSTRUCTED), inner.optional(_CONSTRUCTED | 1)
    inner.end()
    if b"" in (permitted, excluded) or (permitted is None and excluded is None):
        raise ValueError("empty name constraints")
    allowed, is_known = _subtrees(permitted or b"", what)
    forbidden, is_known_too = _subtrees(excluded or b"", what)
    return NameConstraints(allowed, forbidden), is_known and is_known_too


def _subtrees(content: bytes, what: str) -> tuple[Subtrees, bool]:
    kinds: dict[int, list[bytes]] = {_EMAIL: [], _DNS: [], _URI: [], _IP: []}
    is_known = True
    for subtree in _Input(content, what).all(_SEQUENCE):
        tag, base = _Input(subtree, what).any()
        if tag in kinds:
            kinds[tag].append(base)
        else:
            is_known = False
    domains, uris, emails = (
        tuple(_ascii(one, what) for one in kinds[tag]) for tag in (_DNS, _URI, _EMAIL)
    )
    is_sound = (
        all(is_domain(one, is_constraint=True) for one in domains)
        and all(is_domain(one, is_constraint=True) and not is_address(one) for one in uris)
        and all(
            mailbox(one) if "@" in one else is_domain(one, is_constraint=True) for one in emails
        )
        and all(_is_network(one) for one in kinds[_IP])
    )
    if not is_sound:
        raise ValueError(f"malformed {what}")
    networks = tuple((one[: len(one) // 2], one[len(one) // 2 :]) for one in kinds[_IP])
    return Subtrees(emails, domains, uris, networks), is_known


def _ascii(content: bytes, what: str) -> str:
    text = _ia5(content)
    if text is None:
        raise ValueError(f"malformed {what}")
    return text


def _is_mapped(address: bytes) -> bool:
    """Whether it is an IPv4 address within IPv6."""
    return len(address) == 16 and address.startswith(bytes(10) + b"\xff\xff")  # noqa: PLR2004


def is_address(text: str) -> bool:
    """Whether it is an IPv4 or IPv6 address."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _is_network(content: bytes) -> bool:
    size = len(content) // 2
    mask = int.from_bytes(content[size:], "big")
    # Ones, then zeros: the complement is one less than a power of two.
    complement = mask ^ ((1 << 8 * size) - 1)
    is_mask = complement & (complement + 1) == 0
    return len(content) in (8, 32) and is_mask and not _is_mapped(content[:size])


def _subject_key(value: bytes | None) -> bytes:
    return b"" if value is None else _Input(value, "subject key identifier").take(_OCTET_STRING)


def _authority_key(value: bytes | None) -> bytes:
    what = "authority key identifier"
    if value is None:
        return b""
    return _Input(_Input(value, what).take(_SEQUENCE), what).optional(_CONTEXT) or b""


# What no decision here asks for, but without which Go doesn't read a certificate.


def _distribution_points(value: bytes) -> None:
    what = "CRL distribution points"
    for point in _Input(_Input(value, what).take(_SEQUENCE), what).all(_SEQUENCE):
        name = _Input(point, what).optional(_CONSTRUCTED)
        if name is not None:
            full = _Input(_Input(name, what).take(_CONSTRUCTED), what)
            while full.next_is(_URI):
                full.take(_URI)


def _policies(value: bytes) -> None:
    what = "certificate policies"
    seen: set[bytes] = set()
    for policy in _Input(_Input(value, what).take(_SEQUENCE), what).all(_SEQUENCE):
        oid = _Input(policy, what).take(_OID)
        _long_oid(oid, what)
        if oid in seen:
            raise ValueError(f"duplicate in {what}")
        seen.add(oid)


def _long_oid(oid: bytes, what: str) -> None:
    """An OID whose arcs may be of any size."""
    starts = [0, *(at + 1 for at, octet in enumerate(oid[:-1]) if octet < _SHORT_FORM)]
    if not oid or oid[-1] >= _SHORT_FORM or any(oid[at] == _SHORT_FORM for at in starts):
        raise ValueError(f"malformed {what}")


def _policy_constraints(value: bytes) -> bool:
    """Whether an explicit policy is required (RFC 5280 §4.2.1.11)."""
    what = "policy constraints"
    inner = _Input(_Input(value, what).take(_SEQUENCE), what)
    numbers = [inner.optional(tag) for tag in (_CONTEXT, _CONTEXT | 1)]
    for number in numbers:
        if number is not None:
            _integer(number, what, _INT64_BYTES)
    return numbers[0] is not None


def _policy_mappings(value: bytes) -> None:
    what = "policy mappings"
    for pair in _Input(_Input(value, what).take(_SEQUENCE), what).all(_SEQUENCE):
        mapping = _Input(pair, what)
        mapping.take(_OID)
        mapping.take(_OID)


def _inhibit_any_policy(value: bytes) -> None:
    _integer(_Input(value, "inhibitAnyPolicy").take(_INTEGER), "inhibitAnyPolicy", _INT64_BYTES)


def _information_access(value: bytes) -> None:
    what = "authority information access"
    for description in _Input(_Input(value, what).take(_SEQUENCE), what).all(_SEQUENCE):
        item = _Input(description, what)
        _arcs(item.take(_OID), what)
        item.optional(_URI)


_CHECKED: dict[bytes, Callable[[bytes], object]] = {
    b"\x55\x1d\x1f": _distribution_points,
    b"\x55\x1d\x20": _policies,
    b"\x55\x1d\x21": _policy_mappings,
    b"\x55\x1d\x24": _policy_constraints,
    b"\x55\x1d\x36": _inhibit_any_policy,
    _AUTHORITY_INFORMATION: _information_access,
}
# RFC 5280 sections 4.2.1.1, 4.2.1.2 and 4.2.2.1.
_NEVER_CRITICAL = frozenset((b"\x55\x1d\x23", b"\x55\x1d\x0e", _AUTHORITY_INFORMATION))
# Beside the two that may be understood in part.
_KNOWN = frozenset((*_CHECKED, *_NEVER_CRITICAL, _KEY_USAGE, b"\x55\x1d\x13", b"\x55\x1d\x25"))
