"""The cluster's TLS profiles as the proxy's flags, and what a client then gets (reference 11.3).

Two clients look: Python's OpenSSL, one suite at a time, and sslyze, whose own old OpenSSL knows
what is weak. Both must find what the profile names and nothing else.
"""

import asyncio
import json
import ssl
import sys
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import trustme

from pyrbacproxy.node.audit import NoSidecarError, sidecars
from pyrbacproxy.node.documents import Document, Json
from pyrbacproxy.tls.names import Profile, Rendered, rendered
from tests.e2e.proxy import Proxies, Proxy

# The old versions are what these tests are about.
OLD_VERSIONS = "ignore:ssl.TLSVersion:DeprecationWarning"
Found: TypeAlias = dict[str, Any]
VERSIONS = ("TLSv1", "TLSv1_1", "TLSv1_2", "TLSv1_3")
KEYS = ("ECDSA", "RSA")
# Twelve servers take a minute on a busy machine, of which most is sslyze's own waiting.
SCAN_SECONDS = 300.0
SSLYZE = Path(sys.prefix) / "sslyze" / "bin" / "sslyze"

TLS13 = ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"]
MODERN_SUITES = {
    "ECDSA": [
        "ECDHE-ECDSA-AES128-GCM-SHA256",
        "ECDHE-ECDSA-AES256-GCM-SHA384",
        "ECDHE-ECDSA-CHACHA20-POLY1305",
    ],
    "RSA": [
        "ECDHE-RSA-AES128-GCM-SHA256",
        "ECDHE-RSA-AES256-GCM-SHA384",
        "ECDHE-RSA-CHACHA20-POLY1305",
    ],
}
# With SHA-1, the only ones that versions before 1.2 can use.
SHA1_SUITES = {
    "ECDSA": ["ECDHE-ECDSA-AES128-SHA", "ECDHE-ECDSA-AES256-SHA"],
    "RSA": ["ECDHE-RSA-AES128-SHA", "ECDHE-RSA-AES256-SHA", "AES128-SHA", "AES256-SHA"],
}
OTHER_OLD_SUITES = {
    "ECDSA": ["ECDHE-ECDSA-AES128-SHA256"],
    "RSA": ["ECDHE-RSA-AES128-SHA256", "AES128-GCM-SHA256", "AES256-GCM-SHA384", "AES128-SHA256"],
}


@dataclass(frozen=True)
class Case:
    """A profile, and what clients get of it: suites by OpenSSL's names, for each kind of key."""

    name: str
    minimum: str
    custom: Profile | None = None
    tls12: tuple[dict[str, list[str]], ...] = ()
    before: tuple[dict[str, list[str]], ...] = ()
    warning: str = ""

    @property
    def profile(self) -> Rendered:
        return rendered(self.name, self.custom)

    def suites(self, version: str, key: str) -> set[str]:
        if version == "TLSv1_3":
            return set(TLS13)
        if version not in VERSIONS or VERSIONS.index(version) < VERSIONS.index(self.minimum):
            return set()
        tables = self.tls12 if version == "TLSv1_2" else self.before
        return {suite for table in tables for suite in table[key]}


LACKS_HTTP2 = {"ECDSA": ["ECDHE-ECDSA-AES256-GCM-SHA384"], "RSA": ["ECDHE-RSA-AES256-GCM-SHA384"]}
CASES = {
    "old": Case(
        "Old",
        "TLSv1",
        tls12=(MODERN_SUITES, SHA1_SUITES, OTHER_OLD_SUITES),
        before=(SHA1_SUITES,),
        warning="not offered, for OpenSSL lacks them: TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    ),
    "intermediate": Case("Intermediate", "TLSv1_2", tls12=(MODERN_SUITES,)),
    "modern": Case("Modern", "TLSv1_3"),
    "custom without HTTP/2's suite": Case(
        "Custom",
        "TLSv1_1",
        Profile(
            "VersionTLS11",
            (
                *("ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
                *("ECDHE-ECDSA-AES256-SHA", "ECDHE-RSA-AES256-SHA", "AES256-SHA256"),
            ),
        ),
        tls12=(
            LACKS_HTTP2,
            {"ECDSA": ["ECDHE-ECDSA-AES256-SHA"], "RSA": ["ECDHE-RSA-AES256-SHA"]},
        ),
        before=({"ECDSA": ["ECDHE-ECDSA-AES256-SHA"], "RSA": ["ECDHE-RSA-AES256-SHA"]},),
        warning="HTTP/2 is not offered, for the list lacks TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    ),
    # No list means Go's defaults, which are what the flag's absence means.
    "custom, empty": Case(
        "Custom",
        "TLSv1_2",
        Profile("VersionTLS12", ()),
        tls12=(
            MODERN_SUITES,
            {key: [s for s in suites if "ECDHE" in s] for key, suites in SHA1_SUITES.items()},
        ),
    ),
    # D33: all that OpenSSL lacks leaves TLS 1.3.
    "custom, of missing suites": Case(
        "Custom",
        "TLSv1",
        Profile("VersionTLS10", ("DES-CBC3-SHA", "ECDHE-RSA-DES-CBC3-SHA")),
        warning="none is left for TLS 1.2: only TLS 1.3 is served",
    ),
}


Start: TypeAlias = Callable[[Case, str], Awaitable[Proxy]]


def arguments(profile: Rendered) -> list[str]:
    """The proxy's flags for a profile, as operators write them."""
    suites = ",".join(profile.suites)
    return [f"--tls-cipher-suites={suites}", f"--tls-min-version={profile.minimum}"]


def check_arguments(objects: Iterable[Document], profile: Rendered) -> None:
    """Each sidecar in rendered objects has the profile's flags. Raises NoSidecarError for none."""
    for sidecar in sidecars(objects):
        missing = set(arguments(profile)) - set(sidecar.arguments)
        assert not missing, f"{sidecar.owner} lacks {sorted(missing)}"


# --- rendered objects -----------------------------------------------------------------


def daemonset(name: str, *words: str) -> Document:
    container: Document = {"name": name, "args": list[Json](words)}
    template: Document = {"spec": {"containers": [{"name": "machine-config-daemon"}, container]}}
    metadata: Document = {"name": "machine-config-daemon"}
    return {"kind": "DaemonSet", "metadata": metadata, "spec": {"template": template}}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_rendered_flags_are_found_in_the_sidecar(case: Case) -> None:
    words = arguments(case.profile)
    check_arguments([daemonset("kube-rbac-proxy-crio", *words, "--v=2")], case.profile)
    for one in words:
        others = [word for word in words if word != one]
        with pytest.raises(AssertionError, match="DaemonSet machine-config-daemon lacks"):
            check_arguments([daemonset("kube-rbac-proxy-crio", *others)], case.profile)


@pytest.mark.parametrize("name", ["kube-rbac-proxy", "kube-rbac-proxy-crio-2"])
def test_no_container_to_look_at_is_a_failure(name: str) -> None:
    profile = rendered("Intermediate")
    with pytest.raises(NoSidecarError):
        check_arguments([daemonset(name, *arguments(profile))], profile)
    with pytest.raises(NoSidecarError):
        check_arguments([], profile)


# --- live handshakes ------------------------------------------------------------------


@pytest.fixture(scope="session")
def rsa_pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rsa") / "pair.pem"
    issued = trustme.CA().issue_cert("localhost", key_type=trustme.KeyType.RSA)
    issued.private_key_and_cert_chain_pem.write_to_path(path)
    return path


@pytest.fixture
def start(rsa_pair: Path, proxies: Proxies) -> Start:
    """Starts a proxy with a case's flags; no request comes so far as to need a service."""

    async def start(case: Case, key: str) -> Proxy:
        pair = [f"--tls-cert-file={rsa_pair}", f"--tls-private-key-file={rsa_pair}"]
        flags = [*arguments(case.profile), *(pair if key == "RSA" else [])]
        return await proxies.start("http://127.0.0.1:1/", *flags)

    return start


def client(version: str, suites: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
    context.set_ciphers(f"{suites}:@SECLEVEL=0")
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context


def known_suites() -> list[str]:
    """What Python's OpenSSL can offer below TLS 1.3, weak ones included."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_ciphers("ALL:COMPLEMENTOFALL:@SECLEVEL=0")
    return [one["name"] for one in context.get_ciphers() if one["protocol"] != "TLSv1.3"]


async def agreed(proxy: Proxy, version: str, suites: str) -> tuple[str, str | None]:
    """The suite and ALPN protocol of one connection; "" when there is none."""
    host, _, port = proxy.address.partition(":")
    try:
        _, writer = await asyncio.open_connection(host, int(port), ssl=client(version, suites))
    except (ssl.SSLError, ConnectionResetError):
        return "", None
    connection = writer.get_extra_info("ssl_object")
    assert isinstance(connection, ssl.SSLObject)
    suite = connection.cipher()
    assert suite
    assert connection.version() == version.replace("_", ".")
    writer.close()
    return suite[0], connection.selected_alpn_protocol()


@pytest.mark.e2e
@pytest.mark.filterwarnings(OLD_VERSIONS)
@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_handshakes_get_what_the_profile_names(case: Case, key: str, start: Start) -> None:
    serving = await start(case, key)
    got = {version: (await agreed(serving, version, "ALL"))[0] for version in VERSIONS}
    wanted = {version: case.suites(version, key) for version in VERSIONS}
    assert {version for version in VERSIONS if got[version]} == {v for v in wanted if wanted[v]}
    assert all(got[version] in wanted[version] for version in VERSIONS if got[version])
    accepted = {one for one in known_suites() if (await agreed(serving, "TLSv1_2", one))[0] == one}
    assert accepted == wanted["TLSv1_2"]
    assert case.warning in serving.program.output()


@pytest.mark.e2e
@pytest.mark.parametrize("key", KEYS)
async def test_http2_is_not_offered_without_its_suite(key: str, start: Start) -> None:
    serving = await start(CASES["custom without HTTP/2's suite"], key)
    assert (await agreed(serving, "TLSv1_2", "ALL"))[1] == "http/1.1"


# --- sslyze ---------------------------------------------------------------------------

# What can be wrong besides versions and suites, and what sslyze must say of it. It cannot look for
# ROBOT where a client certificate is asked for.
SOUND: Found = {
    "tls_compression": {"supports_compression": False},
    "session_renegotiation": {"is_vulnerable_to_client_renegotiation_dos": False},
    "heartbleed": {"is_vulnerable_to_heartbleed": False},
    "openssl_ccs_injection": {"is_vulnerable_to_ccs_injection": False},
    "tls_1_3_early_data": {"supports_early_data": False},
}
OTHER_SCANS = [
    "--compression",
    "--reneg",
    "--heartbleed",
    "--openssl_ccs",
    "--early_data",
]
VERSION_SCANS = ("--sslv2", "--sslv3", "--tlsv1", "--tlsv1_1", "--tlsv1_2", "--tlsv1_3")
# By the names in its report; no profile knows the first two.
SSLYZE_VERSIONS = {
    "ssl_2_0": "SSLv2",
    "ssl_3_0": "SSLv3",
    "tls_1_0": "TLSv1",
    "tls_1_1": "TLSv1_1",
    "tls_1_2": "TLSv1_2",
    "tls_1_3": "TLSv1_3",
}


async def scan(folder: Path, *words: str) -> dict[str, Found]:
    """What sslyze finds of each address among the words: its scans' results by their names."""
    assert SSLYZE.exists(), f"{SSLYZE} is missing: `make setup` brings it"
    result = folder / "sslyze.json"
    flags = ("--mozilla_config=disable", "--quiet", f"--json_out={result}")
    process = await asyncio.create_subprocess_exec(SSLYZE, *flags, *words)
    async with asyncio.timeout(SCAN_SECONDS):
        assert await process.wait() == 0
    servers = json.loads(result.read_text())["server_scan_results"]
    return {
        f"{one['server_location']['hostname']}:{one['server_location']['port']}": completed(one)
        for one in servers
    }


def completed(server: Found) -> Found:
    """The results that were asked for; a scan that failed must not pass for one without finding."""
    assert server["scan_status"] == "COMPLETED", server
    attempts = {
        name: attempt
        for name, attempt in server["scan_result"].items()
        if attempt["status"] != "NOT_SCHEDULED"
    }
    assert {attempt["status"] for attempt in attempts.values()} == {"COMPLETED"}, attempts
    return {name: attempt["result"] for name, attempt in attempts.items()}


def accepted(found: Found, version: str) -> set[str]:
    suites = found[f"{version}_cipher_suites"]["accepted_cipher_suites"]
    return {suite["cipher_suite"]["openssl_name"] for suite in suites}


@pytest.mark.e2e
async def test_sslyze_finds_nothing_weak_beyond_the_profiles(start: Start, tmp_path: Path) -> None:
    # All at once: sslyze lets 8 s pass for each, whatever it finds.
    served = {
        (await start(case, key)).address: (case, key) for case in CASES.values() for key in KEYS
    }
    scanned = await scan(tmp_path, *VERSION_SCANS, *served)
    assert scanned.keys() == served.keys()
    for address, (case, key) in served.items():
        found = {version: accepted(scanned[address], version) for version in SSLYZE_VERSIONS}
        wanted = {name: case.suites(version, key) for name, version in SSLYZE_VERSIONS.items()}
        assert found == wanted, (case.name, key)


@pytest.mark.e2e
async def test_sslyze_finds_the_widest_profile_sound(start: Start, tmp_path: Path) -> None:
    proxy = await start(CASES["old"], "RSA")
    found = (await scan(tmp_path, *OTHER_SCANS, proxy.address))[proxy.address]
    for name, results in SOUND.items():
        assert {result: found[name][result] for result in results} == results, name
