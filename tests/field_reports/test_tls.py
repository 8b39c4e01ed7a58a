"""Field reports of kind TLS: files at the start, client certificates, suites, last bytes."""

import base64
import re
import ssl
import struct
import threading
import time
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from tests.conformance import pki
from tests.field_reports.harness import Client, Lab, bearer, client_context, get
from tests.field_reports.servers import OK, Arrived, user
from tests.field_reports.watching import open_files, until

OPEN = "--ignore-paths=/*"
# The DER form of the name prime256v1, as `openssl ecparam -genkey` puts it before the key.
EC_PARAMETERS = (
    b"-----BEGIN EC PARAMETERS-----\n"
    + base64.b64encode(bytes.fromhex("06082a8648ce3d030107"))
    + b"\n-----END EC PARAMETERS-----\n"
)
CERTIFICATES: dict[str, dict[str, object]] = {
    "ca": {"cn": ["ca"], "ca": True},
    "server": {"cn": ["server"], "issuer": "ca", "eku": ["server"], "dns": ["proxy.test"]},
    "rsa": {"cn": ["rsa"], "issuer": "ca", "dns": ["proxy.test"], "rsa": True},
    "middle": {"cn": ["middle"], "issuer": "ca", "ca": True},
    "late": {"cn": ["late"], "issuer": "ca", "ca": True, "days": [-3, -1]},
    "server-auth-only": {"cn": ["alice"], "issuer": "ca", "eku": ["server"]},
    "no-usage": {"cn": ["alice"], "issuer": "ca"},
    "empty-name": {"cn": [], "o": ["a"], "issuer": "ca", "eku": ["client"]},
    "two-groups": {"cn": ["alice"], "o": ["a", "b"], "issuer": "ca", "eku": ["client"]},
    "through-middle": {
        "cn": ["alice"],
        "o": ["m"],
        "issuer": "middle",
        "eku": ["client"],
        "chain": ["middle"],
    },
    "without-middle": {"cn": ["alice"], "issuer": "middle", "eku": ["client"]},
    "through-late": {"cn": ["alice"], "issuer": "late", "eku": ["client"], "chain": ["late"]},
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    pki.build(CERTIFICATES, folder)
    return folder


# --- FR28: one PEM for both, and files that are not there yet -------------------------


def sec1(key_file: Path) -> bytes:
    """The key in the older form that EC tools write."""
    key = serialization.load_pem_private_key(key_file.read_bytes(), None)
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


@pytest.mark.parametrize(
    "order",
    [
        pytest.param(["key", "leaf"], id="key-first"),
        pytest.param(["leaf", "key"], id="key-last"),
        pytest.param(["leaf", "chain", "key"], id="with-chain"),
        pytest.param(["parameters", "sec1", "leaf"], id="ec-parameters-first"),
        pytest.param(["leaf", "chain", "parameters", "sec1"], id="ec-parameters-last"),
    ],
)
def test_fr28_one_file_for_both_in_any_order(
    lab: Lab, made: Path, tmp_path: Path, order: list[str]
) -> None:
    blocks = {
        "key": (made / "server.key").read_bytes(),
        "leaf": (made / "server.crt").read_bytes(),
        "chain": (made / "ca.crt").read_bytes(),
        "parameters": EC_PARAMETERS,
        "sec1": sec1(made / "server.key"),
    }
    file = tmp_path / "both.pem"
    file.write_bytes(b"".join(blocks[name] for name in order))
    proxy = lab.start(
        OPEN, f"--tls-cert-file={file}", f"--tls-private-key-file={file}", is_own=True
    )
    # Not the default context: from Python 3.13 on it refuses what has no authority key identifier.
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.load_verify_locations(made / "ca.crt")
    with proxy.connect(tls=trusting) as client:
        client.send(get())
        assert client.answer().status == 200


def test_fr28_a_pair_that_is_not_there_ends_the_start(lab: Lab, tmp_path: Path) -> None:
    file = tmp_path / "not-yet.pem"
    ended = lab.run(f"--tls-cert-file={file}", f"--tls-private-key-file={file}")
    assert ended.code == 1
    assert str(file) in ended.err


# --- FR29, FR30: certificates that do not help must not hurt --------------------------

VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


def shown(lab: Lab, certificate: str, version: ssl.TLSVersion) -> ssl.SSLContext:
    context = client_context(lab.certificates / certificate)
    context.minimum_version = context.maximum_version = version
    return context


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
@pytest.mark.parametrize("certificate", ["stranger", "expired", "serverauth"])
@pytest.mark.parametrize("has_ca", [True, False], ids=["client-ca", "fr30-without-client-ca"])
def test_fr29_a_useless_certificate_does_not_block_a_token(
    lab: Lab,
    certificate: str,
    version: ssl.TLSVersion,
    has_ca: bool,  # noqa: FBT001
) -> None:
    proxy = lab.start(*([] if has_ca else ["!--client-ca-file"]))
    token = lab.token(user("alice"))
    with proxy.connect(tls=shown(lab, certificate, version)) as client:
        assert isinstance(client.connection, ssl.SSLSocket)
        client.send(get())
        assert client.answer().status == 401
        client.send(get("/metrics", bearer(token)))
        assert client.answer().status == 200
    assert len(lab.upstream.requests) == 1


@pytest.mark.parametrize("certificate", ["alice", "stranger"])
def test_fr30_without_a_client_ca_no_certificate_counts(lab: Lab, certificate: str) -> None:
    proxy = lab.start("!--client-ca-file")
    token = lab.token(user("bob"))
    assert proxy.ask(get(), certificate).status == 401
    assert proxy.ask(get("/metrics", bearer(token)), certificate).status == 200
    assert lab.api.access_reviews("bob")
    assert not lab.api.access_reviews("alice")
    assert proxy.process.poll() is None


# --- FR32: from a certificate to a user -----------------------------------------------


@pytest.mark.parametrize(
    ("certificate", "groups"),
    [
        pytest.param("server-auth-only", None, id="serverAuth-only"),
        pytest.param("no-usage", [], id="no-extended-usage"),
        pytest.param("empty-name", None, id="no-common-name"),
        pytest.param("two-groups", ["a", "b"], id="two-organizations"),
        pytest.param("through-middle", ["m"], id="intermediate-sent"),
        pytest.param("without-middle", None, id="intermediate-not-sent"),
        pytest.param("through-late", None, id="intermediate-expired"),
    ],
)
def test_fr32_who_a_certificate_is(
    lab: Lab, made: Path, certificate: str, groups: list[str] | None
) -> None:
    proxy = lab.start(f"--client-ca-file={made}/ca.crt")
    answer = proxy.ask(get(f"/{certificate}"), made / certificate)
    assert answer.status == (401 if groups is None else 200)
    asked = [(spec["user"], spec["groups"]) for spec in lab.api.access_reviews()]
    assert asked == ([] if groups is None else [("alice", [*groups, "system:authenticated"])])
    assert lab.api.token_reviews() == []


# --- FR33: versions and suites --------------------------------------------------------

HANDSHAKE, ALERT = 22, 21
SUITES = {"3DES": [0x000A, 0xC012], "RC4": [0x0005, 0xC007, 0xC011], "AES": [0xC02B, 0xC02F]}


def hello(suites: list[int]) -> bytes:
    """A TLS 1.2 client hello that offers these suites, with what any of them needs."""
    groups = bytes.fromhex("000a0006000400170018")  # P-256, P-384
    points = bytes.fromhex("000b00020100")
    signatures = bytes.fromhex("000d000a0008040304010805 0804")
    extensions = groups + points + signatures
    listed = b"".join(struct.pack(">H", suite) for suite in suites)
    body = b"\x03\x03" + bytes(32) + b"\x00" + struct.pack(">H", len(listed)) + listed
    body += b"\x01\x00" + struct.pack(">H", len(extensions)) + extensions
    message = b"\x01" + len(body).to_bytes(3, "big") + body
    return b"\x16\x03\x01" + struct.pack(">H", len(message)) + message


@pytest.mark.parametrize("certificate", ["server", "rsa"])
@pytest.mark.parametrize("suites", SUITES)
def test_fr33_weak_suites_are_never_on_by_default(
    lab: Lab, made: Path, suites: str, certificate: str
) -> None:
    files = [f"--tls-cert-file={made}/{certificate}.crt"]
    files += [f"--tls-private-key-file={made}/{certificate}.key"]
    with lab.start(*files, "--tls-cipher-suites=").connect(is_plain=True) as client:
        client.send(hello(SUITES[suites]))
        first = client.receive()
    assert first[0] == (HANDSHAKE if suites == "AES" else ALERT)


def agreed(lab: Lab, flags: list[str], ciphers: str, version: ssl.TLSVersion) -> str:
    """The suite that a client with these agrees on with a proxy with those flags; "" for none."""
    context = client_context()
    context.minimum_version = context.maximum_version = version
    context.set_ciphers(ciphers)
    try:
        with lab.start(OPEN, *flags).connect(tls=context) as client:
            assert isinstance(client.connection, ssl.SSLSocket)
            client.send(get())
            assert client.answer().status == 200
            suite = client.connection.cipher()
            return suite[0] if suite else ""
    except ssl.SSLError:
        return ""


ONE = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
ALIAS = "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305"
MISSING = "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA,TLS_RSA_WITH_RC4_128_SHA"
TLS12, TLS13 = VERSIONS
OLD = "ignore:ssl.TLSVersion:DeprecationWarning"  # they are what these tests are about


@pytest.mark.parametrize(
    ("suites", "ciphers", "version", "suite"),
    [
        pytest.param(ONE, "ALL", TLS12, "ECDHE-ECDSA-AES256-GCM-SHA384", id="iana-name"),
        pytest.param(ONE, "ECDHE-ECDSA-AES128-GCM-SHA256", TLS12, "", id="not-listed"),
        pytest.param(ALIAS, "ALL", TLS12, "ECDHE-ECDSA-CHACHA20-POLY1305", id="old-alias"),
        pytest.param(
            f"TLS_AES_128_GCM_SHA256,{ONE}",
            "ALL",
            TLS12,
            "ECDHE-ECDSA-AES256-GCM-SHA384",
            id="tls13-name-beside",
        ),
        pytest.param(ONE, "ALL", TLS13, "TLS_AES_.*", id="tls13-stays-on"),
        pytest.param(MISSING, "ALL", TLS13, "TLS_AES_.*", id="d33-missing-tls13"),
        pytest.param(MISSING, "ALL", TLS12, "", id="d33-missing-tls12"),
        pytest.param("", "AES128-SHA", TLS12, "", id="default-without-rsa-key-exchange"),
    ],
)
def test_fr33_listed_suites_are_used_and_no_others(
    lab: Lab, suites: str, ciphers: str, version: ssl.TLSVersion, suite: str
) -> None:
    used = agreed(lab, [f"--tls-cipher-suites={suites}"], ciphers, version)
    assert re.fullmatch(suite, used)


def test_fr33_the_default_offers_modern_suites(lab: Lab) -> None:
    assert agreed(lab, ["--tls-cipher-suites="], "ALL", TLS12).startswith("ECDHE-ECDSA-")


def test_fr33_a_minimum_of_13_refuses_12(lab: Lab) -> None:
    flags = ["--tls-min-version=VersionTLS13"]
    assert agreed(lab, flags, "ALL", TLS12) == ""
    assert agreed(lab, flags, "ALL", TLS13).startswith("TLS_AES_")


@pytest.mark.filterwarnings(OLD)
def test_fr33_the_default_minimum_is_12(lab: Lab) -> None:
    assert agreed(lab, [], "ALL:@SECLEVEL=0", TLS12)
    assert agreed(lab, [], "ALL:@SECLEVEL=0", ssl.TLSVersion.TLSv1_1) == ""


@pytest.mark.filterwarnings(OLD)
@pytest.mark.parametrize("version", ["TLSv1", "TLSv1_1"])
def test_fr33_older_versions_work_when_asked_for(lab: Lab, version: str) -> None:
    flags = ["--tls-min-version=VersionTLS10"]
    assert agreed(lab, flags, "ALL:@SECLEVEL=0", ssl.TLSVersion[version])


@pytest.mark.parametrize("name", ["TLS_NOT_A_SUITE", "ECDHE-RSA-AES128-GCM-SHA256"])
def test_fr33_an_unknown_suite_ends_the_start(lab: Lab, name: str) -> None:
    ended = lab.run(f"--tls-cipher-suites={ONE},{name}")
    assert ended.code == 1
    assert name in ended.err
    assert "--tls-cipher-suites" in ended.err


def test_fr33_missing_suites_are_named_once(lab: Lab) -> None:
    proxy = lab.start(f"--tls-cipher-suites={MISSING}", is_own=True)
    for name in MISSING.split(","):
        assert proxy.text().count(name) == 1
    assert "1.3" in proxy.text()


def test_fr33_a_list_without_the_http2_suite_starts_and_says_so(lab: Lab) -> None:
    proxy = lab.start(f"--tls-cipher-suites={ONE}", is_own=True)  # D18
    told = [line for line in proxy.text().splitlines() if "h2" in line or "HTTP/2" in line]
    assert len(told) == 1


# --- FR34: ends of connections --------------------------------------------------------

BIG = 8 << 20


class Engine:
    """A client whose TLS runs in memory, so that it can say close_notify and go on reading."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = client_context().wrap_bio(self._in, self._out, server_hostname="proxy.test")
        while not self._is_shaken():
            self._in.write(client.receive())

    def send(self, data: bytes) -> None:
        self._tls.write(data)
        self._flush()

    def say_close_notify(self) -> None:
        with pytest.raises(ssl.SSLWantReadError):  # it would wait for the other's
            self._tls.unwrap()
        self._flush()

    def read_all(self) -> bytes:
        """Everything until the proxy's close_notify, or the end of the connection."""
        data = b""
        while True:
            try:
                block = self._tls.read(65536)
            except ssl.SSLWantReadError:
                block = self.client.receive()
                if not block:
                    return data
                self._in.write(block)
            except ssl.SSLZeroReturnError:
                return data
            else:
                if not block:
                    return data
                data += block

    def _is_shaken(self) -> bool:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        finally:
            self._flush()
        return True

    def _flush(self) -> None:
        self.client.send(self._out.read())


@pytest.mark.parametrize(
    ("how", "version"),
    [("close-notify", "1.1"), ("fin", "1.1"), ("fin", "1.0")],
)
def test_fr34_a_half_closed_client_gets_its_whole_answer(lab: Lab, how: str, version: str) -> None:
    is_half_closed = threading.Event()

    def answer_late(request: Arrived) -> None:
        is_half_closed.wait(30)
        time.sleep(2)  # a slow upstream; what is late is under test
        request.send(f"HTTP/1.1 200 OK\r\nContent-Length: {BIG}\r\n\r\n".encode() + bytes(BIG))

    lab.upstream.script = answer_late
    proxy = lab.start(OPEN)
    with proxy.connect(is_plain=True) as client:
        engine = Engine(client)
        engine.send(f"GET / HTTP/{version}\r\nHost: h\r\n\r\n".encode())
        until(lambda: lab.upstream.requests, "request upstream")
        if how == "fin":
            client.half_close()
        else:
            engine.say_close_notify()
        is_half_closed.set()
        answer = engine.read_all()
    *interim, head, body = answer.split(b"\r\n\r\n")
    assert head.startswith(f"HTTP/{version} 200".encode())
    assert len(body) == BIG
    assert not (interim and version == "1.0")  # RFC 9110 section 15.2
    assert all(lines.startswith(b"HTTP/1.1 1") for lines in interim)


def test_fr34_a_client_that_never_answers_our_close_is_let_go(lab: Lab) -> None:
    lab.upstream.script = OK
    proxy = lab.start(OPEN, is_own=True)
    assert proxy.ask(get()).status == 200
    files = open_files(proxy.process.pid)
    with proxy.connect(is_plain=True) as client:
        engine = Engine(client)
        engine.send(get("/metrics", "Connection: close"))
        assert b"upstream" in engine.read_all()
        until(lambda: open_files(proxy.process.pid) <= files, "end of the connection")
