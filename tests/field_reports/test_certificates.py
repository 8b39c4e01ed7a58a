"""Field reports FR71 to FR74, FR81, FR83 and FR93: certificates and PEM files of every kind."""

import contextlib
import dataclasses
import datetime as dt
import re
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from tests.field_reports.bare_tls import BareTls
from tests.field_reports.harness import (
    Client,
    Lab,
    Proxy,
    bearer,
    client_context,
    get,
    server_context,
)
from tests.field_reports.odd_certificates import (
    AUTHORITY,
    BASIC_CONSTRAINTS,
    BIT_STRING,
    BMP,
    COMMON_NAME,
    DN_QUALIFIER,
    FOR_CLIENTS,
    FOR_SERVERS,
    IA5,
    KEY_USAGE,
    NAME_CONSTRAINTS,
    NUMERIC,
    ON_LOOPBACK,
    ORGANIZATION,
    PRINTABLE,
    PURPOSES,
    SIGNS,
    SIGNS_CERTIFICATES,
    T61,
    UTF8,
    Made,
    extension,
    make,
    named,
    names_issuer,
)
from tests.field_reports.servers import PATIENCE_SECONDS, Arrived, Listener, Upstream, user
from tests.field_reports.watching import until

FAST = "--tls-reload-interval=100ms"
# No API server: what a client certificate may is decided by a rule.
RULES = {"authorization": {"static": [{"path": "/metrics", "verb": "get"}]}}
ALONE = "!--kubeconfig"


def lines_after(proxy: Proxy, mark: int) -> list[str]:
    """What was logged since `mark`, the length of the log then."""
    return proxy.text()[mark:].splitlines()


def put(path: Path, content: bytes) -> None:
    """Replace a file whole."""
    fresh = path.with_suffix(".fresh")
    fresh.write_bytes(content)
    fresh.replace(path)


def status(proxy: Proxy, client: Path | str | None) -> int:
    return proxy.ask(get("/metrics"), client).status


# --- authorities that Go reads: FR71 to FR73 --------------------------------------------


def client_of(authority: Made, *extensions: bytes) -> Made:
    return make("dora", issuer=authority, extensions=[FOR_CLIENTS, *extensions])


BIT_STRING_IN_NAME = make(
    "bits", (DN_QUALIFIER, BIT_STRING, b"\x00\x01\x02"), extensions=[AUTHORITY]
)
WRITTEN_OUT = make(
    "written-out",
    extensions=[AUTHORITY, extension(KEY_USAGE, SIGNS_CERTIFICATES, critical=False)],
)
EVERY_STRING = make(
    "strings",
    *((ORGANIZATION, tag, b"12 34") for tag in (UTF8, NUMERIC, PRINTABLE, T61, IA5)),
    (ORGANIZATION, BMP, "é".encode("utf-16-be")),
    extensions=[AUTHORITY],
)
BEFORE_RENEWAL = make("renewed", extensions=[AUTHORITY], serial=7)
RENEWED = make("renewed", extensions=[AUTHORITY], serial=8)
# Each authority with a client of it.
GOOD: dict[str, tuple[Made, Made]] = {
    "FR71 a BIT STRING in the name": (BIT_STRING_IN_NAME, client_of(BIT_STRING_IN_NAME)),
    "FR72 critical FALSE written out": (WRITTEN_OUT, client_of(WRITTEN_OUT)),
    "FR71 every string type": (EVERY_STRING, client_of(EVERY_STRING)),
    "FR73 renewed with name and key kept": (
        RENEWED,
        client_of(BEFORE_RENEWAL, names_issuer(BEFORE_RENEWAL)),
    ),
}
EVERY_GOOD = pytest.mark.parametrize("kind", GOOD)


@EVERY_GOOD
def test_an_authority_that_go_reads_is_used_from_the_start(
    lab: Lab, tmp_path: Path, kind: str
) -> None:
    """FR71 (c), FR72, FR73."""
    authority, client = GOOD[kind]
    authority.write(tmp_path / "ca")
    proxy = lab.start(ALONE, f"--client-ca-file={tmp_path}/ca.crt", config=RULES, is_own=True)
    assert status(proxy, client.write(tmp_path / "client")) == 200
    assert status(proxy, "stranger") == 401


class Authorities:
    """The client CA file of the proxy that the tests of reloads share; it begins with alice's."""

    def __init__(self, lab: Lab) -> None:
        self.file = lab.world.folder / "authorities.crt"
        self.usual = (lab.certificates / "client-ca.crt").read_bytes()
        put(self.file, self.usual)
        self.proxy = lab.start(ALONE, FAST, f"--client-ca-file={self.file}", config=RULES)
        until(lambda: status(self.proxy, "alice") == 200, "trust in alice")
        until(lambda: status(self.proxy, "stranger") == 401, "no trust in the stranger")
        self.mark = len(self.proxy.text())

    def complaints(self) -> list[str]:
        """The warnings and errors about the file since the start of this test."""
        lines = [line for line in lines_after(self.proxy, self.mark) if str(self.file) in line]
        return [line for line in lines if line[:1] in ("E", "W")]

    def let_periods_pass(self) -> None:
        """Until a change of the file has been seen, and changed back."""
        other = self.file.with_name("other-ca.crt")
        other.write_bytes(self.file.parent.joinpath("pki/other-ca.crt").read_bytes())
        put(self.file, self.usual + other.read_bytes())
        until(lambda: status(self.proxy, "stranger") == 200, "a reload")


@pytest.fixture(name="authorities")
def _authorities(lab: Lab) -> Authorities:
    return Authorities(lab)


@EVERY_GOOD
def test_an_authority_that_go_reads_is_used_at_a_reload(
    authorities: Authorities, tmp_path: Path, kind: str
) -> None:
    """FR71 (b), FR72, FR73: the new pool holds, and the process lives."""
    authority, client = GOOD[kind]
    path = client.write(tmp_path / "client")
    put(authorities.file, authorities.usual + authority.pem)
    until(lambda: status(authorities.proxy, path) == 200, "trust in the new authority")
    assert status(authorities.proxy, "alice") == 200
    put(authorities.file, authority.pem)
    until(lambda: status(authorities.proxy, "alice") == 401, "no trust in the old authority")
    assert status(authorities.proxy, path) == 200
    assert authorities.proxy.process.poll() is None


# Go reads none of these.
BAD: dict[str, Made] = {
    "a name that is no UTF-8": make(
        "bad", subject=named((COMMON_NAME, UTF8, b"\xff\xfe")), extensions=[AUTHORITY]
    ),
    "an extension twice": make("bad", extensions=[AUTHORITY, AUTHORITY]),
    "basic constraints that can't be read": make(
        "bad", extensions=[extension(BASIC_CONSTRAINTS, b"\x30\x03\x01\x01", critical=True)]
    ),
}
EVERY_BAD = pytest.mark.parametrize("kind", BAD)


@EVERY_BAD
def test_fr71_an_authority_that_go_does_not_read_fails_at_start_up_with_file_and_index(
    lab: Lab, tmp_path: Path, kind: str
) -> None:
    """It is the third certificate of its file: 3, or 2 for those who count from 0."""
    file = tmp_path / "ca"
    usual = (lab.certificates / "client-ca.crt").read_bytes()
    file.write_bytes(usual + usual + BAD[kind].pem)
    ended = lab.run(ALONE, f"--client-ca-file={file}", config=RULES)
    assert ended.code == 1
    told = [line.partition("] ")[2] for line in ended.err.splitlines() if str(file) in line]
    assert len(told) == 1
    assert re.search(r"\b[23]\b|third", told[0].replace(str(file), "")), told


@EVERY_BAD
def test_fr71_an_authority_that_go_does_not_read_keeps_the_old_pool_at_a_reload(
    authorities: Authorities, kind: str
) -> None:
    put(authorities.file, authorities.usual + BAD[kind].pem)
    until(authorities.complaints, "line about the file")
    assert status(authorities.proxy, "alice") == 200
    assert len(authorities.complaints()) == 1
    authorities.let_periods_pass()
    assert authorities.proxy.process.poll() is None


# --- what clients show: FR71 to FR73 ----------------------------------------------------


ROOT, OTHER = (make(name, extensions=[AUTHORITY]) for name in ("root", "other"))
BOB = client_of(ROOT)


def below(*extensions: bytes) -> tuple[Made, Made]:
    """A client and its issuer, an authority below the root."""
    issuer = make("below", issuer=ROOT, extensions=[AUTHORITY, *extensions])
    return client_of(issuer), issuer


STRING_TYPES = {
    "UTF8String": (UTF8, b"dora"),
    "PrintableString": (PRINTABLE, b"dora"),
    "T61String": (T61, b"dora"),
    "IA5String": (IA5, b"dora"),
    "BMPString": (BMP, "dora".encode("utf-16-be")),
}


@pytest.fixture(name="guard")
def _guard(lab: Lab) -> Proxy:
    """Trusts the root and the renewed authority, and tells the upstream who came."""
    file = lab.world.folder / "guard.crt"
    file.write_bytes(ROOT.pem + RENEWED.pem)
    flags = (ALONE, f"--client-ca-file={file}", "--auth-header-fields-enabled")
    proxy = lab.start(*flags, config=RULES)
    proxy.wait_for("Listening securely on")
    return proxy


def test_fr71_a_stranger_whose_name_cannot_be_read_gets_a_401_and_one_line(
    guard: Proxy, tmp_path: Path
) -> None:
    path = BIT_STRING_IN_NAME.write(tmp_path / "stranger")
    mark = len(guard.text())
    assert status(guard, path) == 401
    assert status(guard, client_of(ROOT).write(tmp_path / "dora")) == 200
    assert len(lines_after(guard, mark)) <= 1


@pytest.mark.parametrize("kind", STRING_TYPES)
def test_fr71_a_name_counts_in_every_string_type(
    lab: Lab, guard: Proxy, tmp_path: Path, kind: str
) -> None:
    tag, text = STRING_TYPES[kind]
    name = named((ORGANIZATION, tag, text), (COMMON_NAME, tag, text))
    client = make("dora", issuer=ROOT, subject=name, extensions=[FOR_CLIENTS])
    assert status(guard, client.write(tmp_path / "dora")) == 200
    seen = lab.upstream.requests[0].message
    assert seen.values("x-remote-user") == ["dora"]
    assert "dora" in "".join(seen.values("x-remote-groups")).split("|")


def test_fr72_a_client_with_critical_false_written_out_is_let_in(
    guard: Proxy, tmp_path: Path
) -> None:
    client = client_of(ROOT, extension(KEY_USAGE, SIGNS, critical=False))
    assert status(guard, client.write(tmp_path / "dora")) == 200


def test_fr73_a_client_that_names_the_issuer_before_its_renewal_is_let_in(
    guard: Proxy, tmp_path: Path
) -> None:
    client = client_of(BEFORE_RENEWAL, names_issuer(BEFORE_RENEWAL))
    assert status(guard, client.write(tmp_path / "dora")) == 200


def test_fr73_a_name_alone_does_not_make_an_issuer(guard: Proxy, tmp_path: Path) -> None:
    """The signature counts: here another key signed under the renewed authority's name."""
    impostor = make("other key", subject=RENEWED.subject, extensions=[AUTHORITY])
    assert status(guard, client_of(impostor).write(tmp_path / "dora")) == 401


UNREADABLE = b"\x30\x03\x01\x01"
# Each with the rest of its chain.
REFUSED: dict[str, tuple[Made, ...]] = {
    "an unknown critical extension": (
        client_of(ROOT, extension("1.3.6.1.4.1.99999.1", b"\x05\x00", critical=True)),
    ),
    "basic constraints that can't be read": (
        client_of(ROOT, extension(BASIC_CONSTRAINTS, UNREADABLE)),
    ),
    "a key usage that can't be read": (client_of(ROOT, extension(KEY_USAGE, UNREADABLE)),),
    "purposes that can't be read": (
        make("dora", issuer=ROOT, extensions=[extension(PURPOSES, UNREADABLE)]),
    ),
    "name constraints of the issuer that can't be read": below(
        extension(NAME_CONSTRAINTS, UNREADABLE, critical=True)
    ),
    "a key usage of the issuer that can't be read": below(extension(KEY_USAGE, UNREADABLE)),
    "an unknown critical extension of the issuer": below(
        extension("1.3.6.1.4.1.99999.1", b"\x05\x00", critical=True)
    ),
    "an issuer that is no authority": (client_of(BOB), BOB),
    "an extension twice": (client_of(ROOT, FOR_CLIENTS),),
    "an organization that does not decode": (
        make("dora", (ORGANIZATION, BMP, b"\x00"), issuer=ROOT, extensions=[FOR_CLIENTS]),
    ),
    "a common name that does not decode": (
        make(*("dora", (COMMON_NAME, UTF8, b"\xff\xfe")), issuer=ROOT, extensions=[FOR_CLIENTS]),
    ),
    "a signature of another key": (dataclasses.replace(client_of(OTHER), key=client_of(ROOT).key),),
}


def shown(proxy: Proxy, *chain: Made) -> int:
    """The status of a client that shows these; 0 when the handshake fails."""
    with socket.create_connection(("127.0.0.1", proxy.port), PATIENCE_SECONDS) as raw:
        try:
            bare = BareTls(raw, [made.der for made in chain], chain[0].key)
        except (EOFError, ConnectionError):
            return 0
        client = Client(cast("socket.socket", bare))
        client.send(get("/metrics"))
        return client.answer().status


def test_fr71_the_client_that_shows_anything_is_let_in_with_what_is_good(guard: Proxy) -> None:
    """Or the test below would show nothing."""
    assert shown(guard, client_of(ROOT)) == 200
    assert shown(guard, *below()) == 200


@pytest.mark.parametrize("kind", REFUSED)
def test_fr71_lenient_reading_lets_nobody_else_in(lab: Lab, guard: Proxy, kind: str) -> None:
    """What Go's handshake fails at may fail in the handshake here, too."""
    mark = len(guard.text())
    assert shown(guard, *REFUSED[kind]) in {0, 401}
    assert lab.upstream.requests == []
    assert shown(guard, client_of(ROOT)) == 200
    assert len(lines_after(guard, mark)) <= 1


LENIENT = {
    "an unknown extension": client_of(ROOT, extension("1.3.6.1.4.1.99999.1", b"\xff")),
    "a serial number of 0": make("dora", issuer=ROOT, extensions=[FOR_CLIENTS], serial=0),
    "a long serial number": make("dora", issuer=ROOT, extensions=[FOR_CLIENTS], serial=1 << 240),
    "a BIT STRING in the name": make(
        "dora", (DN_QUALIFIER, BIT_STRING, b"\x00\x01"), issuer=ROOT, extensions=[FOR_CLIENTS]
    ),
    "a name that is too long": make("d" * 300, issuer=ROOT, extensions=[FOR_CLIENTS]),
    "a country of three letters": make(
        "dora", ("2.5.4.6", PRINTABLE, b"DEU"), issuer=ROOT, extensions=[FOR_CLIENTS]
    ),
}


@pytest.mark.parametrize("kind", LENIENT)
def test_fr71_what_go_takes_is_let_in(guard: Proxy, kind: str) -> None:
    assert shown(guard, LENIENT[kind]) == 200


# --- FR72: what servers show ------------------------------------------------------------


SERVER = make(
    "server",
    issuer=WRITTEN_OUT,
    extensions=[FOR_SERVERS, ON_LOOPBACK, extension(KEY_USAGE, SIGNS, critical=False)],
)


def test_fr72_a_serving_pair_with_critical_false_written_out_serves(
    lab: Lab, tmp_path: Path
) -> None:
    pair = SERVER.write(tmp_path / "pair")
    proxy = lab.start(
        *(ALONE, f"--tls-cert-file={pair}.crt", f"--tls-private-key-file={pair}.key"),
        config=RULES,
        is_own=True,
    )
    assert status(proxy, "alice") == 200


def test_fr72_an_upstream_with_critical_false_written_out_is_trusted(
    lab: Lab, tmp_path: Path
) -> None:
    WRITTEN_OUT.write(tmp_path / "ca")
    tls = server_context(SERVER.write(tmp_path / "pair"))
    with contextlib.closing(Upstream(tls=tls)) as upstream:
        proxy = lab.start(
            *(ALONE, f"--upstream=https://127.0.0.1:{upstream.port}"),
            f"--upstream-ca-file={tmp_path}/ca.crt",
            config=RULES,
            is_own=True,
        )
        assert status(proxy, "alice") == 200


# --- FR73, FR81: what an impostor gets to read ------------------------------------------


class Impostor(Listener):
    """Counts the bytes that it can decrypt, and closes at the first ones."""

    def __init__(self, tls: ssl.SSLContext) -> None:
        self.heard = 0
        self.is_over = False
        super().__init__(tls=tls)

    def serve(self, connection: socket.socket) -> None:
        self.heard += len(connection.recv(65536))

    def _run(self, connection: socket.socket) -> None:
        super()._run(connection)
        self.is_over = True


def ask_upstream(lab: Lab, port: int, ca: Path) -> None:
    proxy = lab.start(
        *(ALONE, f"--upstream=https://127.0.0.1:{port}", f"--upstream-ca-file={ca}"),
        config=RULES,
        is_own=True,
    )
    assert status(proxy, "alice") == 502


def ask_api_server(lab: Lab, port: int, ca: Path) -> None:
    own = "secret-own-credential"
    lab.secrets.add(own)
    server = f"https://127.0.0.1:{port}"
    kubeconfig = lab.world.write_kubeconfig(f"kubeconfig-{port}", server, {"token": own}, str(ca))
    proxy = lab.start(f"--kubeconfig={kubeconfig}", is_own=True)
    assert proxy.ask(get("/metrics", bearer(lab.token()))).status == 401


def ask_issuer(lab: Lab, port: int, ca: Path) -> None:
    proxy = lab.start(
        *("!--client-ca-file", f"--oidc-issuer=https://127.0.0.1:{port}", "--oidc-clientID=proxy"),
        f"--oidc-ca-file={ca}",
        is_own=True,
    )
    assert proxy.ask(get("/metrics", bearer(lab.token()))).status == 401


PARTIES: dict[str, Callable[[Lab, int, Path], None]] = {
    "upstream": ask_upstream,
    "API server": ask_api_server,
    "issuer": ask_issuer,
}
EVERY_PARTY = pytest.mark.parametrize("party", PARTIES)


def heard_by(lab: Lab, folder: Path, party: str, server: Made, authority: Made) -> int:
    """How many bytes a server with this certificate gets, where this authority is trusted."""
    authority.write(folder / "ca")
    with contextlib.closing(Impostor(server_context(server.write(folder / "pair")))) as impostor:
        PARTIES[party](lab, impostor.port, folder / "ca.crt")
        until(lambda: impostor.is_over, "connection")
        return impostor.heard


def server_of(authority: Made, *extensions: bytes) -> Made:
    return make("127.0.0.1", issuer=authority, extensions=[FOR_SERVERS, *extensions])


@EVERY_PARTY
def test_fr81_a_server_named_by_its_common_name_alone_gets_no_byte(
    lab: Lab, tmp_path: Path, party: str
) -> None:
    assert heard_by(lab, tmp_path, party, server_of(ROOT), ROOT) == 0


@EVERY_PARTY
def test_fr81_a_server_with_a_subject_alternative_name_is_asked(
    lab: Lab, tmp_path: Path, party: str
) -> None:
    """Or the test above would count nothing, whatever was sent."""
    assert heard_by(lab, tmp_path, party, server_of(ROOT, ON_LOOPBACK), ROOT) > 0


@EVERY_PARTY
def test_fr72_a_server_with_critical_false_written_out_is_asked(
    lab: Lab, tmp_path: Path, party: str
) -> None:
    assert heard_by(lab, tmp_path, party, SERVER, WRITTEN_OUT) > 0


@EVERY_PARTY
def test_fr73_a_server_that_names_the_issuer_before_its_renewal_gets_no_byte(
    lab: Lab, tmp_path: Path, party: str
) -> None:
    """OpenSSL can't be told to take the hint as one: the README says so. No check comes later."""
    server = server_of(BEFORE_RENEWAL, ON_LOOPBACK, names_issuer(BEFORE_RENEWAL))
    assert heard_by(lab, tmp_path, party, server, RENEWED) == 0


# --- FR74: PEM files --------------------------------------------------------------------


FIRST, SECOND = (make(name, extensions=[AUTHORITY]) for name in ("first", "second"))
ATTRIBUTES = b"Bag Attributes\n    friendlyName: x\nsubject=CN = x\n"
# What people put together from two PEM blocks.
JOINED: dict[str, Callable[[bytes, bytes], bytes]] = {
    "the first without a line end": lambda one, two: one.rstrip() + two,
    "neither with a line end": lambda one, two: one.rstrip() + two.rstrip(),
    "a blank between": lambda one, two: one.rstrip() + b" " + two,
    "text before it in its line": lambda one, two: one + b"second: " + two,
    "CRLF": lambda one, two: (one + two).replace(b"\n", b"\r\n"),
    "CR": lambda one, two: (one + two).replace(b"\n", b"\r"),
    "blank lines": lambda one, two: b"\n\n" + one + b"\n\n" + two + b"\n",
    "text between": lambda one, two: one + ATTRIBUTES + two,
    "blanks at the ends of lines": lambda one, two: (one + two).replace(b"\n", b" \t\n"),
    "indented": lambda one, two: b"  " + (one + two).replace(b"\n", b"\n  "),
    "a byte order mark": lambda one, two: b"\xef\xbb\xbf" + one + two,
    "the first without its end": lambda one, two: one.rpartition(b"-----END")[0] + two,
    "the second without its end": lambda one, two: one + two.rpartition(b"-----END")[0],
    "a wrong word at the end": lambda one, two: one.replace(b"END CERT", b"END CART") + two,
    "four dashes": lambda one, two: one + two.replace(b"-----END", b"----END"),
}
EVERY_JOINED = pytest.mark.parametrize("kind", JOINED)


@pytest.fixture(name="clients")
def _clients(tmp_path: Path) -> list[Path]:
    """A client of each authority."""
    made = (client_of(authority) for authority in (FIRST, SECOND))
    return [client.write(tmp_path / f"client-{number}") for number, client in enumerate(made)]


def started(lab: Lab, file: Path, *flags: str) -> Proxy | None:
    """A proxy, or None when it failed at start-up for a problem with this file."""
    try:
        return lab.start(*flags, config=RULES, is_own=True)
    except AssertionError as error:
        assert str(error).startswith("ended with 1:")  # noqa: PT017 -- both ends are right
        assert str(file) in str(error)  # noqa: PT017
        return None


def test_fr74_joined_client_authorities_all_count_or_none_from_the_start(
    lab: Lab, tmp_path: Path, clients: list[Path]
) -> None:
    file = tmp_path / "ca"
    file.write_bytes(JOINED["the first without a line end"](FIRST.pem, SECOND.pem))
    if proxy := started(lab, file, ALONE, f"--client-ca-file={file}"):
        assert [status(proxy, client) for client in clients] == [200, 200]


@EVERY_JOINED
def test_fr74_joined_client_authorities_all_count_or_none_at_a_reload(
    authorities: Authorities, clients: list[Path], kind: str
) -> None:
    """A pool that is smaller than its file, in silence, is the one wrong answer."""
    proxy = authorities.proxy

    def statuses() -> list[int]:
        return [*(status(proxy, client) for client in clients), status(proxy, "alice")]

    put(authorities.file, JOINED[kind](FIRST.pem, SECOND.pem))
    until(lambda: authorities.complaints() or statuses() != [401, 401, 200], "reload")
    if (found := statuses()) != [200, 200, 401]:
        assert found == [401, 401, 200]
        assert len(authorities.complaints()) == 1


def test_fr74_a_block_with_pem_headers_is_left_out_with_a_warning(
    authorities: Authorities, clients: list[Path]
) -> None:
    """As Go does it, which says nothing."""
    first, headers = FIRST.pem.split(b"\n", 1), b"Comment: x\n\n"
    put(authorities.file, first[0] + b"\n" + headers + first[1] + SECOND.pem)
    until(lambda: status(authorities.proxy, clients[1]) == 200, "trust in the second")
    assert status(authorities.proxy, clients[0]) == 401
    until(lambda: [line for line in authorities.complaints() if line[0] == "W"], "warning")


def test_fr74_joined_upstream_authorities_all_count_or_none(lab: Lab, tmp_path: Path) -> None:
    file = tmp_path / "ca"
    file.write_bytes(JOINED["the first without a line end"](FIRST.pem, SECOND.pem))
    pairs = [server_of(authority, ON_LOOPBACK) for authority in (FIRST, SECOND)]
    paths = [pair.write(tmp_path / f"pair-{number}") for number, pair in enumerate(pairs)]
    tls = server_context(paths[0])
    with contextlib.closing(Upstream(tls=tls)) as upstream:
        proxy = started(
            *(lab, file, ALONE, f"--upstream=https://127.0.0.1:{upstream.port}"),
            f"--upstream-ca-file={file}",
        )
        if proxy is None:
            return
        upstream.script = closing
        assert status(proxy, "alice") == 200
        tls.load_cert_chain(f"{paths[1]}.crt", f"{paths[1]}.key")
        assert status(proxy, "alice") == 200


def closing(request: Arrived) -> None:
    """Answer, so that the next request needs a connection of its own."""
    request.send(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
    request.close()


MIDDLE = make("middle", issuer=FIRST, extensions=[AUTHORITY])
CHAINED = make("chained", issuer=MIDDLE, extensions=[FOR_SERVERS, ON_LOOPBACK])


def is_verified(proxy: Proxy, authority: Path) -> bool:
    """Whether a client that knows this authority alone can verify what is served."""
    context = client_context()
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(authority)
    try:
        proxy.connect(tls=context).connection.close()
    except ssl.SSLCertVerificationError:
        return False
    return True


def serving(path: Path) -> tuple[str, str]:
    return f"--tls-cert-file={path}.crt", f"--tls-private-key-file={path}.key"


def test_fr74_a_joined_serving_chain_is_served_whole_or_not_at_all(
    lab: Lab, tmp_path: Path
) -> None:
    FIRST.write(tmp_path / "first")
    pair = CHAINED.write(tmp_path / "pair")
    text = JOINED["the first without a line end"](CHAINED.pem, MIDDLE.pem)
    pair.with_suffix(".crt").write_bytes(text)
    if proxy := started(lab, pair.with_suffix(".crt"), ALONE, *serving(pair)):
        assert is_verified(proxy, tmp_path / "first.crt")


def test_fr74_a_joined_serving_chain_at_a_reload_is_served_whole_or_not_at_all(
    lab: Lab, tmp_path: Path
) -> None:
    for name, made in {"first": FIRST, "second": SECOND}.items():
        made.write(tmp_path / name)
    old, file = server_of(SECOND, ON_LOOPBACK), tmp_path / "pair.pem"
    put(file, old.pem + old.key_pem)
    flags = (f"--tls-cert-file={file}", f"--tls-private-key-file={file}")
    proxy = lab.start(ALONE, FAST, *flags, config=RULES, is_own=True)
    assert is_verified(proxy, tmp_path / "second.crt")
    mark = len(proxy.text())
    chain = JOINED["the first without a line end"](CHAINED.pem, MIDDLE.pem)
    put(file, chain + CHAINED.key_pem)

    def complaints() -> list[str]:
        lines = [line for line in lines_after(proxy, mark) if str(file) in line]
        return [line for line in lines if line[:1] in ("E", "W")]

    until(lambda: complaints() or served(proxy) == CHAINED.der, "reload")
    if served(proxy) == CHAINED.der:
        assert is_verified(proxy, tmp_path / "first.crt")
    else:
        assert is_verified(proxy, tmp_path / "second.crt")
        assert len(complaints()) == 1


# --- FR83: keys that no client can use --------------------------------------------------


CURVES = {"secp256k1": ec.SECP256K1(), "brainpoolP256r1": ec.BrainpoolP256R1()}
EVERY_CURVE = pytest.mark.parametrize("curve", CURVES)


def on_curve(curve: str) -> Made:
    return make("server", extensions=[ON_LOOPBACK], curve=CURVES[curve])


@EVERY_CURVE
def test_fr83_a_serving_key_that_no_client_can_use_fails_at_start_up(
    lab: Lab, tmp_path: Path, curve: str
) -> None:
    pair = on_curve(curve).write(tmp_path / "pair")
    ended = lab.run(ALONE, *serving(pair), config=RULES)
    assert ended.code == 1
    assert curve.lower() in ended.err.lower()
    assert f"{pair}." in ended.err


def served(proxy: Proxy) -> bytes:
    """The certificate that a new connection sees; none when the handshake fails."""
    with contextlib.suppress(ssl.SSLError), proxy.connect() as client:
        assert isinstance(client.connection, ssl.SSLSocket)
        return client.connection.getpeercert(binary_form=True) or b""
    return b""


class Pair:
    """A serving pair in one file, of the proxy that the tests of its reloads share."""

    def __init__(self, lab: Lab) -> None:
        self.file = lab.world.folder / "pair.pem"
        self.usual = make("usual", extensions=[ON_LOOPBACK])
        self.put(self.usual)
        flags = (f"--tls-cert-file={self.file}", f"--tls-private-key-file={self.file}")
        self.proxy = lab.start(ALONE, FAST, *flags, config=RULES)
        until(lambda: served(self.proxy) == self.usual.der, "usual pair")
        self.mark = len(self.proxy.text())

    def put(self, made: Made) -> None:
        put(self.file, made.pem + made.key_pem)

    def complaints(self) -> list[str]:
        lines = lines_after(self.proxy, self.mark)
        return [line for line in lines if line[:1] in ("E", "W")]

    def takes_the_next(self) -> bool:
        """Whether a good new pair is put to use."""
        fresh = make("fresh", extensions=[ON_LOOPBACK])
        self.put(fresh)
        return until(lambda: served(self.proxy) == fresh.der, "fresh pair")


@pytest.fixture(name="pair")
def _pair(lab: Lab) -> Pair:
    return Pair(lab)


@EVERY_CURVE
def test_fr83_such_a_key_at_a_reload_keeps_the_old_pair(pair: Pair, curve: str) -> None:
    pair.put(on_curve(curve))
    until(pair.complaints, "line about the curve")
    assert served(pair.proxy) == pair.usual.der
    assert len(pair.complaints()) == 1
    assert pair.takes_the_next()


# --- FR93, DEC-D39: expired pairs -------------------------------------------------------


def expired() -> Made:
    return make("worn-out", extensions=[ON_LOOPBACK], days=(-9, -2))


def test_fr93_an_expired_pair_serves_from_the_start_with_one_warning(
    lab: Lab, tmp_path: Path
) -> None:
    pair = expired().write(tmp_path / "pair")
    proxy = lab.start(ALONE, *serving(pair), config=RULES, is_own=True)
    assert status(proxy, "alice") == 200
    warnings = [line for line in proxy.text().splitlines() if line[:1] == "W" and "expired" in line]
    assert len(warnings) == 1
    assert "worn-out" in warnings[0]
    assert f"{dt.datetime.now(dt.UTC) - dt.timedelta(days=2):%Y-%m-%d}" in warnings[0]


def test_fr93_an_expired_pair_at_a_reload_does_not_replace_a_valid_one(pair: Pair) -> None:
    pair.put(expired())
    until(pair.complaints, "line about the expired pair")
    assert served(pair.proxy) == pair.usual.der
    assert len(pair.complaints()) == 1
    assert "expired" in pair.complaints()[0]
    assert str(pair.file) in pair.complaints()[0]
    assert pair.takes_the_next()


def test_fr93_the_readiness_page_says_to_those_who_may_which_pair_expired(
    lab: Lab, tmp_path: Path
) -> None:
    file = tmp_path / "pair.pem"
    usual = make("usual", extensions=[ON_LOOPBACK])
    put(file, usual.pem + usual.key_pem)
    with socket.create_server(("127.0.0.1", 0)) as found:
        endpoints = found.getsockname()[1]
    proxy = lab.start(
        *(FAST, f"--tls-cert-file={file}", f"--tls-private-key-file={file}"),
        f"--proxy-endpoints-port={endpoints}",
        is_own=True,
    )
    token = bearer(lab.token(user("alice")))

    def page(target: str, *lines: str) -> tuple[int, str]:
        with proxy.connect(port=endpoints) as client:
            client.send(get(target, *lines))
            answer = client.answer()
        return answer.status, answer.body.decode()

    bad = expired()
    put(file, bad.pem + bad.key_pem)
    until(lambda: "expired" in page("/readyz/serving-certificate", token)[1], "cause on the page")
    assert page("/readyz?verbose")[0] == 200
    assert "worn-out" not in page("/readyz?verbose")[1]
    assert str(file) not in page("/readyz?verbose")[1]
