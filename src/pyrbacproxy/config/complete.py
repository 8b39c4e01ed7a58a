"""Flags and the files they name become `Settings`, or a list of every problem."""

import os
import re
import socket
from collections.abc import Mapping
from ipaddress import IPv6Address
from urllib.parse import quote, unquote, urlsplit

from pyrbacproxy.access import AccessSettings
from pyrbacproxy.authn.identity_headers import IdentitySettings
from pyrbacproxy.authz.authorizers import PageChecks
from pyrbacproxy.authz.paths import PathPatterns, PatternError, compile_pattern
from pyrbacproxy.config import authorization_file
from pyrbacproxy.config.authorization_file import AuthorizationFile
from pyrbacproxy.config.findings import Findings
from pyrbacproxy.config.flag_parsing import Options, reported, shown_values
from pyrbacproxy.config.flags import FLAGS, Fate, quoted, without_password
from pyrbacproxy.config.settings import Address, Settings
from pyrbacproxy.egress import EgressProxies, from_environment, proxy_for
from pyrbacproxy.http2.limits import Http2Limits, limits_of
from pyrbacproxy.kube import kubeconfig
from pyrbacproxy.kube.kubeconfig import KubeSettings
from pyrbacproxy.oidc.settings import ALGORITHMS, OidcSettings
from pyrbacproxy.pages.status import PageSettings
from pyrbacproxy.proxy.connector import UpstreamSettings
from pyrbacproxy.proxy.exchange import Limits
from pyrbacproxy.regular_file import read_regular
from pyrbacproxy.startup.gate import GateSettings
from pyrbacproxy.tls import server_context
from pyrbacproxy.tls.files import TlsFileError
from pyrbacproxy.tls.names import CipherList, cipher_list, minimum_version
from pyrbacproxy.tls.server_context import NamedFile, TlsSettings, pair_problems
from pyrbacproxy.tls.upstream_context import upstream_context
from pyrbacproxy.values import Frozen, replace

# --- address --------------------------------------------------------------------------
# `host:port` as Go's `net.Listen` reads it → `Address`.

_LARGEST_PORT = 65_535


def parse_address(text: str) -> Address:
    """The address to bind; raises ValueError.

    The host may be empty, a name, or an IPv6 address in brackets; the port a number or the name of
    a TCP service, empty for any free port (reference 6.1).
    """
    host, port = _split(text)
    return Address(host, _listener_port(port), text)


def parse_host(text: str) -> str:
    """A host without port, brackets removed; raises ValueError."""
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1]
        if ":" not in text:
            raise ValueError(f"address {quoted(text)}: brackets are for IPv6 addresses")
    elif text.count(":") == 1:
        raise ValueError(f"address {quoted(text)}: must be a host without port")
    if any(character in text for character in "[]/@"):
        raise ValueError(f"address {quoted(text)}: not a host")
    return text


def _split(text: str) -> tuple[str, str]:
    head, colon, port = text.rpartition(":")
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket:
            raise ValueError(f"address {quoted(text)}: missing ']' in address")
        if not rest.startswith(":"):
            raise ValueError(f"address {quoted(text)}: missing port in address")
        port = rest[1:]
    else:
        if not colon:
            raise ValueError(f"address {quoted(text)}: missing port in address")
        host = head
        if ":" in host:
            raise ValueError(f"address {quoted(text)}: too many colons in address")
    if any(character in host + port for character in "[]") or ":" in port:
        raise ValueError(f"address {quoted(text)}: unexpected bracket or colon")
    return host, port


def _listener_port(text: str) -> int:
    if not text:
        return 0
    if re.fullmatch(r"\+?0*[0-9]{1,5}", text, re.ASCII) and int(text) <= _LARGEST_PORT:
        return int(text)
    if re.fullmatch(r"[+-]?[0-9]+", text, re.ASCII):
        raise ValueError(f"invalid port {quoted(text)}")
    try:
        return socket.getservbyname(text.lower(), "tcp")
    except (OSError, ValueError):
        raise ValueError(f"unknown port {quoted(text)}") from None


# --- upstream url ---------------------------------------------------------------------
# The upstream's URL as Go's `url.Parse` reads it → `UpstreamSettings` without files and proxy.

_PORTS = {"http": 80, "https": 443}

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):(.*)", re.IGNORECASE | re.DOTALL)
_AUTHORITY = re.compile(r"//([^/]*)(.*)", re.DOTALL)
# A host, or an address in brackets, and a port where the scheme is missing; no user or password.
_NO_SCHEME = re.compile(r"([\w.-]+|\[[0-9a-f:.%]+\]):[0-9]+(/[^@]*)?", re.IGNORECASE | re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
# RFC 3986 section 3.2.1; the first @ of several is an unescaped one.
_USER = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})*")
_BAD_ESCAPE = re.compile(r"%(?![0-9a-f]{2})", re.IGNORECASE)
# What may stand in a name; Go lets no more pass, and percent escapes nobody means.
_HOST = re.compile(r"[^\x00-\x20\x7f#/?@\\^`{|}%\"<>\[\]]*")
# RFC 3986's path characters; quote() itself keeps letters, digits and -._~ .
_PATH = "%/:@!$&'()*+,;="
# unix(7): what fits into `sun_path` with the byte that ends it.
_MAX_SOCKET_PATH_BYTES = 107


def parse_upstream_url(text: str) -> UpstreamSettings:
    """Where requests go; raises ValueError, which quotes nothing, for it could be a password.

    What Go parses although nothing can be sent there (no scheme, no host, another scheme) has the
    scheme "": every forwarded request answers 502 (reference 1.2).
    """
    if _CONTROL.search(text):
        raise ValueError("a control character in the URL")
    before_query, _, query = text.partition("#")[0].partition("?")
    if _NO_SCHEME.fullmatch(before_query):
        # To Go "localhost:9100" is a scheme and an opaque rest, so that every request is a 502.
        end = "" if "/" in before_query else "/"
        raise ValueError(f"the scheme is missing; did you mean http://{before_query}{end}?")
    scheme, rest = _scheme(before_query)
    if scheme == "unix":
        return _unix_socket(rest, has_more="?" in text or "#" in text)
    found = _AUTHORITY.fullmatch(rest)
    authority, path = (found[1], found[2]) if found else ("", rest)
    if scheme and not found and not path.startswith("/"):
        return UpstreamSettings()  # "http:host" is a scheme and an opaque rest to Go
    if not scheme and not found and ":" in path.partition("/")[0]:
        raise ValueError("the first path segment must not hold a colon; is http:// missing?")
    host, port = _host_and_port(authority)
    if " " in query:
        raise ValueError("a blank in the query")
    if _BAD_ESCAPE.search(path):
        raise ValueError("a bad percent escape in the path")
    if not host and port is not None and scheme == "http":
        host = "localhost"  # ":8080" is this machine to Go, too
    if scheme not in _PORTS or not host:
        return UpstreamSettings()
    return UpstreamSettings(
        scheme=scheme,
        host=host,
        port=_PORTS[scheme] if port is None else port,
        base_path=quote(path, safe=_PATH).encode(),
        raw_query=query.encode(errors="surrogateescape"),
    )


def _unix_socket(rest: str, *, has_more: bool) -> UpstreamSettings:
    """`unix:///run/x.sock` (N10): all of the path is the socket's, none is for the requests."""
    if has_more:
        raise ValueError("a unix socket has no query and no fragment; write ? and # as %3F and %23")
    path = rest.removeprefix("//")
    if not path.startswith("/") or path.endswith("/"):
        raise ValueError("a unix socket must be an absolute path, as in unix:///run/x.sock")
    if _BAD_ESCAPE.search(path) or "%00" in path:
        raise ValueError("a bad percent escape in the path")
    socket_path = unquote(path, errors="surrogateescape")
    if len(socket_path.encode(errors="surrogateescape")) > _MAX_SOCKET_PATH_BYTES:
        raise ValueError(f"a unix socket's path is at most {_MAX_SOCKET_PATH_BYTES} bytes long")
    return UpstreamSettings("http", socket_path=socket_path)


def _scheme(text: str) -> tuple[str, str]:
    found = _SCHEME.fullmatch(text)
    if found:
        return found[1].lower(), found[2]
    if text.startswith(":"):
        raise ValueError("missing protocol scheme")
    return "", text


def _host_and_port(authority: str) -> tuple[str, int | None]:
    """Host without brackets, and the port if any; user and password are dropped, as in Go."""
    user, _, host = authority.rpartition("@")
    if not _USER.fullmatch(user):
        raise ValueError("user and password hold what must be escaped")
    if host.startswith("["):
        address, bracket, rest = host[1:].partition("]")
        if not bracket:
            raise ValueError("missing ']' in host")
        if rest and not rest.startswith(":"):
            raise ValueError("invalid port after host")
        return _ipv6(address.replace("%25", "%", 1)), _port(rest[1:])
    name, colon, port = host.rpartition(":")
    if not colon:
        return _checked_host(host), None
    return _checked_host(name), _port(port)


def _checked_host(host: str) -> str:
    if not _HOST.fullmatch(host):
        raise ValueError("invalid character in host name")
    return host


def _ipv6(text: str) -> str:
    try:
        IPv6Address(text)
    except ValueError:
        raise ValueError("no IPv6 address between the brackets") from None
    return text


def _port(text: str) -> int | None:
    if not text:
        return None
    if not re.fullmatch(r"0*[0-9]{1,5}", text, re.ASCII) or not 0 < int(text) <= _LARGEST_PORT:
        raise ValueError("invalid port after host")
    return int(text)


# --- listening ------------------------------------------------------------------------
# The listeners' flags → addresses and `TlsSettings`.


_EVERYWHERE = frozenset(("", "::", "0.0.0.0"))  # noqa: S104 - compared, not bound
_TLS13 = 0x0304
_USUAL_RELOAD_SECONDS = 60.0


def listen_address(options: Options, flag: str, findings: Findings) -> Address | None:
    """The address in a flag; None when it is empty or wrong."""
    text = options.text(flag)
    if not text:
        return None
    try:
        return replace(parse_address(text), flags=f"--{flag}={text}")
    except ValueError as error:
        findings.problem(f"--{flag}={text}: {error}")
        return None


def check_listeners(options: Options, findings: Findings) -> None:
    """One listener at least, and a line for each deprecated way to listen (reference 1.2)."""
    secure, insecure = (
        options.text("secure-listen-address"),
        options.text("insecure-listen-address"),
    )
    if not options.may_be_given("secure-listen-address", "insecure-listen-address"):
        findings.problem("no listen address provided: --secure-listen-address is missing")
    if insecure:
        findings.warn(
            "--insecure-listen-address is deprecated: tokens cross the network in clear text"
        )
    if secure and not options.may_be_given("tls-cert-file", "tls-private-key-file"):
        findings.warn(
            "running without --tls-cert-file and --tls-private-key-file is deprecated: "
            "clients cannot verify a self-signed certificate"
        )


def endpoints_settings(
    options: Options, secure: Address | None, findings: Findings
) -> Address | None:
    """Where /healthz is served, next to the secure address."""
    port = options.integer("proxy-endpoints-port")
    host_text = options.text("proxy-endpoints-address")
    try:
        host = parse_host(host_text)
    except ValueError as error:
        findings.problem(f"--proxy-endpoints-address={host_text}: {error}")
        return None
    if not port:
        if host_text and "proxy-endpoints-port" not in options.doubtful:
            findings.warn("--proxy-endpoints-address has no effect without --proxy-endpoints-port")
        return None
    if not options.text("secure-listen-address"):
        # Without the insecure one neither, the missing address is the mistake.
        if options.text("insecure-listen-address"):
            findings.warn("--proxy-endpoints-port has no effect without --secure-listen-address")
        return None
    if not 0 < port <= _LARGEST_PORT:
        findings.problem(f"--proxy-endpoints-port={port}: must be 0 ... {_LARGEST_PORT}")
    if secure is None:
        return None
    flags = f"--proxy-endpoints-port={port}"
    if host_text:
        flags = f"--proxy-endpoints-address={host_text} {flags}"
    else:
        host = secure.host
    if port == secure.port and _overlap(host, secure.host):
        # Bound first, it would make a gate wait for us, for ever.
        findings.problem(f"{flags}: is what --secure-listen-address={secure.text} listens on")
    return Address(host, port, f"[{host}]:{port}" if ":" in host else f"{host}:{port}", flags)


def _overlap(*hosts: str) -> bool:
    """Whether two hosts have an address in common; what a name stands for is not looked up."""
    return hosts[0] == hosts[1] or not _EVERYWHERE.isdisjoint(hosts)


def tls_settings(options: Options, findings: Findings) -> TlsSettings:
    """The certificate's flags count only where TLS is served; the client CA is read in any case
    but OIDC mode, where a certificate says nothing (reference 3.4).
    """
    is_oidc = bool(options.text("oidc-issuer"))
    settings = TlsSettings(client_ca_file="" if is_oidc else options.text("client-ca-file"))
    if options.text("secure-listen-address"):
        settings = replace(
            settings,
            certificate_file=options.text("tls-cert-file"),
            key_file=options.text("tls-private-key-file"),
            minimum=_minimum(options, findings),
        )
        suites = _suites(options, findings)
        if suites is not None:
            alpn = _alpn(options, suites, settings.minimum, findings)
            settings = replace(settings, cipher_list=suites.openssl, alpn=alpn)
    settings = replace(
        settings,
        reload_seconds=_reload_seconds(options, settings.certificate_file, findings),
    )
    for problem in server_context.problems(_present(options, settings)):
        findings.problem(problem)
    return settings


def _reload_seconds(options: Options, certificate_file: str, findings: Findings) -> float:
    """The original panics over 0 where there is a pair to reload, and nowhere else."""
    flag = "tls-reload-interval"
    seconds = options.number(flag)
    if seconds <= 0 and certificate_file:
        findings.problem(f"{options.duration_words(flag)}: must be greater than 0")
    elif seconds <= 0:
        findings.warn(f"{options.duration_words(flag)}: taken as 1m0s")
    elif seconds != _USUAL_RELOAD_SECONDS:
        findings.warn(f"--{flag} is deprecated: leave it at 1m0s")
    return seconds if seconds > 0 else _USUAL_RELOAD_SECONDS


def http2_limits(options: Options, findings: Findings) -> Http2Limits | None:
    """What an HTTP/2 client may use; None where HTTP/2 is off. Says which values are others (D19).

    Whether it is offered over TLS is `TlsSettings.alpn`'s to say.
    """
    streams = options.integer("http2-max-concurrent-streams")
    size = options.integer("http2-max-size")
    limits = limits_of(streams, size)
    if options.is_on("http2-disable"):
        return None
    if not streams:
        findings.warn(f"--http2-max-concurrent-streams=0: taken as {limits.streams}")
    if (limits.frame, limits.connection_window) != (size, size * streams):
        findings.warn(
            f"--http2-max-size={size}: taken as frames of {limits.frame} bytes, windows of "
            f"{limits.window} for a stream and {limits.connection_window} for a connection"
        )
    return limits


def _present(options: Options, settings: TlsSettings) -> TlsSettings:
    """The settings without what may come later: a pair that is waited for, and with a gate a client
    CA that is missing; and without a pair of which one half may have been meant.
    """
    is_gated = any(
        (
            options.texts("wait-for-absent"),
            options.is_on("wait-for-port"),
            options.is_on("wait-for-serving-cert"),
        )
    )
    if is_gated and settings.client_ca_file and _is_missing(settings.client_ca_file):
        settings = replace(settings, client_ca_file="")
    is_whole = bool(settings.certificate_file and settings.key_file)
    is_doubtful = not options.doubtful.isdisjoint(("tls-cert-file", "tls-private-key-file"))
    if (is_whole and options.is_on("wait-for-serving-cert")) or (not is_whole and is_doubtful):
        return replace(settings, certificate_file="", key_file="")
    return settings


def _is_missing(path: str) -> bool:
    """Whether there is no such file, for certain."""
    try:
        os.stat(path)  # noqa: PTH116 - Path.exists takes other errors for an absence
    except FileNotFoundError:
        return True
    except (OSError, ValueError):
        return False
    return False


def _minimum(options: Options, findings: Findings) -> int:
    try:
        return minimum_version(options.text("tls-min-version"))
    except ValueError as error:
        findings.problem(f"--tls-min-version: {error}")
        return minimum_version("")


def _suites(options: Options, findings: Findings) -> CipherList | None:
    try:
        suites = cipher_list(options.texts("tls-cipher-suites"))
    except ValueError as error:
        findings.problem(f"--tls-cipher-suites: {error}")
        return None
    if suites.not_offered:
        missing = ", ".join(suites.not_offered)
        findings.warn(f"--tls-cipher-suites: not offered, for OpenSSL lacks them: {missing}")
    return suites


def _alpn(
    options: Options, suites: CipherList, minimum: int, findings: Findings
) -> tuple[bytes, ...]:
    """The protocols to offer, ours first (D25), without HTTP/2 where its suite is missing (D18)."""
    if suites.openssl == "" and minimum < _TLS13:
        findings.warn("--tls-cipher-suites: none is left for TLS 1.2: only TLS 1.3 is served")
    if options.is_on("http2-disable"):
        return (server_context.HTTP1,)
    if not suites.has_http2_suite and minimum < _TLS13:
        findings.warn(
            "--tls-cipher-suites: HTTP/2 is not offered, for the list lacks "
            "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 and TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
        )
        return (server_context.HTTP1,)
    both = (server_context.HTTP1, server_context.HTTP2)
    return both[::-1] if options.is_on("http2-prefer") else both


# --- forwarding -----------------------------------------------------------------------
# The upstream's flags → `UpstreamSettings`: URL, authorities, client pair, egress proxy.

_CA = "--upstream-ca-file"
_CERTIFICATE = "--upstream-client-cert-file"
_KEY = "--upstream-client-key-file"


def upstream_settings(
    options: Options, proxies: EgressProxies, findings: Findings
) -> UpstreamSettings:
    """Where requests are forwarded; problems and warnings go to `findings`."""
    _check_files(options, findings)
    text = options.text("upstream")
    if not text and "upstream" in options.doubtful:
        return UpstreamSettings()
    shown = without_password(text)
    try:
        settings = parse_upstream_url(text)
    except ValueError as error:
        findings.problem(f"--upstream={shown}: {error}")
        return UpstreamSettings()
    settings = replace(
        settings,
        ca_file=options.text("upstream-ca-file"),
        client_certificate_file=options.text("upstream-client-cert-file"),
        client_key_file=options.text("upstream-client-key-file"),
        is_h2c=options.is_on("upstream-force-h2c"),
    )
    if not settings.scheme:
        findings.warn(
            f"--upstream={shown}: no http or https URL; every forwarded request answers 502"
        )
        return settings
    has_pair = settings.client_certificate_file and settings.client_key_file
    if not settings.is_tls and (settings.ca_file or has_pair):
        why = "with --upstream-force-h2c" if settings.is_h2c else "without https://"
        findings.warn(f"--upstream-ca-file and --upstream-client-* have no effect {why}")
    if settings.is_h2c or settings.socket_path:
        if settings.scheme == "https":
            findings.warn(f"--upstream={shown}: --upstream-force-h2c goes there without TLS")
        return settings
    proxy = proxy_for(proxies, settings.scheme, settings.host, settings.port)
    return replace(settings, proxy=proxy)


def _check_files(options: Options, findings: Findings) -> None:
    """Half a pair is a problem (D4), and so is each file that OpenSSL cannot read."""
    authority = options.text("upstream-ca-file")
    certificate = NamedFile(_CERTIFICATE, options.text("upstream-client-cert-file"))
    key = NamedFile(_KEY, options.text("upstream-client-key-file"))
    if authority:
        try:
            upstream_context(authority, "", "")
        except TlsFileError as error:
            findings.problem(f"{_CA}: {error}")
    if certificate.path and key.path:
        # With the system's roots: a bad authority was reported already.
        for problem in pair_problems(
            certificate, key, lambda _pair: upstream_context("", certificate.path, key.path)
        ):
            findings.problem(problem)
    elif certificate.path or key.path:
        there, missing = (certificate, key) if certificate.path else (key, certificate)
        if missing.flag.removeprefix("--") not in options.doubtful:
            findings.problem(f"{there.flag}={there.path}: {missing.flag} must be given as well")


# --- starting -------------------------------------------------------------------------
# The start-up gate's flags → `GateSettings`.

_WAITS = ("wait-for-absent", "wait-for-port", "wait-for-serving-cert")


def gate_settings(options: Options, findings: Findings) -> GateSettings:
    """What the secure listener waits for; nothing by default."""
    settings = GateSettings(
        absent_paths=options.texts("wait-for-absent"),
        waits_for_port=options.is_on("wait-for-port"),
        waits_for_pair=options.is_on("wait-for-serving-cert"),
        timeout_seconds=options.number("startup-timeout"),
        is_ready_meanwhile=options.is_on("ready-while-waiting"),
    )
    if settings.timeout_seconds < 0:
        words = options.duration_words("startup-timeout")
        findings.problem(f"{words}: must not be negative")
    for path in settings.absent_paths:
        if not path.startswith("/"):
            findings.problem(f"--wait-for-absent={path}: must be an absolute path")
    if settings.has_waits:
        _check_listeners(options, findings)
    else:
        _warn_of_idle_gate_flags(options, findings)
    return settings


def _check_listeners(options: Options, findings: Findings) -> None:
    """Only the secure listener waits; one that opens early beside it would be no hand-over."""
    given = ", ".join(f"--{flag}" for flag in _WAITS if options.is_changed(flag))
    # Without any address, the missing one is the mistake.
    if options.text("insecure-listen-address"):
        findings.problem(f"{given}: only --secure-listen-address alone can wait")
    # Half a pair is reported as such.
    has_pair = options.may_be_given("tls-cert-file", "tls-private-key-file")
    if options.is_on("wait-for-serving-cert") and not has_pair:
        findings.problem("--wait-for-serving-cert needs --tls-cert-file and --tls-private-key-file")
    has_pages = options.may_be_given("proxy-endpoints-port")
    if options.is_changed("ready-while-waiting") and not has_pages:
        findings.warn("--ready-while-waiting has no effect without --proxy-endpoints-port")


def _warn_of_idle_gate_flags(options: Options, findings: Findings) -> None:
    if not options.doubtful.isdisjoint(_WAITS):
        return
    for flag in ("startup-timeout", "ready-while-waiting"):
        if options.is_changed(flag):
            findings.warn(f"--{flag} has no effect without a --wait-for-... flag")


# --- oidc -----------------------------------------------------------------------------
# The `--oidc-*` flags → `OidcSettings`, or None: no issuer is needed.

_OF_ISSUER = (
    *("oidc-clientID", "oidc-groups-claim", "oidc-username-claim", "oidc-username-prefix"),
    *("oidc-groups-prefix", "oidc-sign-alg", "oidc-ca-file"),
)
# What Go's url.Parse refuses and urlsplit() lets pass or takes out.
_NO_URL = re.compile(r"[\x00-\x1f\x7f]|%(?![0-9a-f]{2})|^ |^[^/]*//[^/]* ", re.IGNORECASE)
# What OIDC mode replaces (reference 3.4).
_REPLACED = ("client-ca-file", "auth-token-audiences", "token-cache-ttl")


def oidc_settings(
    options: Options, proxies: EgressProxies, findings: Findings
) -> OidcSettings | None:
    """The issuer and what its tokens mean; the CA file is read, the issuer is not asked."""
    issuer = options.text("oidc-issuer")
    if not issuer:
        if "oidc-issuer" not in options.doubtful:
            _warn(options, _OF_ISSUER, "without --oidc-issuer", findings)
        return None
    _warn(options, _REPLACED, "with --oidc-issuer", findings)
    settings = OidcSettings(
        issuer=issuer,
        client_id=options.text("oidc-clientID"),
        username_claim=options.text("oidc-username-claim"),
        groups_claim=options.text("oidc-groups-claim"),
        username_prefix=options.text("oidc-username-prefix"),
        groups_prefix=options.text("oidc-groups-prefix"),
        algorithms=frozenset(options.texts("oidc-sign-alg")),
        ca_file=options.text("oidc-ca-file"),
        proxies=proxies,
    )
    if not settings.client_id and "oidc-clientID" not in options.doubtful:
        findings.problem("--oidc-clientID: must be set when --oidc-issuer is")
    _check(settings, findings)
    return settings


def _warn(options: Options, flags: tuple[str, ...], when: str, findings: Findings) -> None:
    for flag in flags:
        if options.is_changed(flag):
            findings.warn(f"--{flag} has no effect {when}")


def _check(settings: OidcSettings, findings: Findings) -> None:
    if not settings.username_claim:
        findings.problem("--oidc-username-claim: must not be empty when --oidc-issuer is set")
    for algorithm in sorted(settings.algorithms - ALGORITHMS):
        known = ", ".join(sorted(ALGORITHMS))
        findings.problem(
            f"--oidc-sign-alg={algorithm}: must be one of {known}; repeat the flag for more"
        )
    if not _is_issuer(settings.issuer):
        findings.problem(
            "--oidc-issuer: must be an https URL without user, password, query or fragment"
        )
    if settings.ca_file:
        try:
            upstream_context(settings.ca_file, "", "")
        except TlsFileError as error:
            findings.problem(f"--oidc-ca-file: {error}")


def _is_issuer(text: str) -> bool:
    if _NO_URL.search(text):
        return False
    try:
        url = urlsplit(text)
        has_place = bool(url.hostname) and (url.port is None or url.port > 0)
    except ValueError:
        return False
    # An empty query or fragment is one as well.
    has_more = "?" in text or "#" in text or "@" in url.netloc
    return url.scheme == "https" and has_place and not has_more


# --- pages ----------------------------------------------------------------------------
# The flags about the pages → `PageSettings`: who may see them, and what they show.

_STATUSZ = "ComponentStatusz"
_FLAGZ = "ComponentFlagz"


def page_settings(options: Options, environ: Mapping[str, str], findings: Findings) -> PageSettings:
    """The settings; adds what is wrong with the flags."""
    gates = {_STATUSZ: True, _FLAGZ: True}
    for name, value in options.pairs("feature-gates"):
        if name not in gates:
            findings.problem(f"--feature-gates: unknown gate {quoted(name)}")
        gates[name] = bool(value)
    return PageSettings(
        node_name=_node_name(options, environ, findings),
        version=reported(options.text("version")),
        flags=tuple(sorted(shown_values(options, FLAGS.values()))),
        has_statusz=gates[_STATUSZ],
        has_flagz=gates[_FLAGZ],
    )


def _node_name(options: Options, environ: Mapping[str, str], findings: Findings) -> str:
    """The node whose subresources guard the pages; "" in component mode."""
    given = options.text("node-name")
    if options.text("zpages-authorization") != "node":
        if given and "zpages-authorization" not in options.doubtful:
            findings.warn("--node-name has no effect without --zpages-authorization=node")
        return ""
    name = given or environ.get("NODE_NAME", "")
    if not name and "node-name" not in options.doubtful:
        findings.problem(
            "--zpages-authorization=node: --node-name is missing, and NODE_NAME is not set"
        )
    return name


# --- complete -------------------------------------------------------------------------
#
# `Options` and the files they name → `Settings`, or every problem at once.
#
# Nothing behind this module parses, defaults or validates. No network is used; files are read.

# RFC 9110 section 5.6.2.
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_LONGEST_STALE_SECONDS = 3600.0

# Names that say how a message is framed, routed or authenticated, or belong to one connection: an
# identity under one of them breaks the request or is dropped on the way.
_TAKEN_NAMES = frozenset(
    {
        *("connection", "proxy-connection", "keep-alive", "te", "trailer", "upgrade"),
        *("proxy-authenticate", "proxy-authorization", "authorization", "http2-settings"),
        *("transfer-encoding", "content-length", "content-encoding", "content-type"),
        *("expect", "host", "x-forwarded-for"),
    }
)


class Problems(Frozen):
    """Why there are no settings; one of the warnings gathered on the way may tell the cause."""

    lines: tuple[str, ...]
    warnings: tuple[str, ...] = ()


def complete(options: Options, environ: Mapping[str, str]) -> Settings | Problems:
    """The settings that the options mean, all defaults filled in, or all problems."""
    findings = Findings()
    _check_choices(options, findings)
    _warn_of_idle_flags(options, findings)
    proxies = _proxies(environ, findings)
    secure = listen_address(options, "secure-listen-address", findings)
    insecure = listen_address(options, "insecure-listen-address", findings)
    check_listeners(options, findings)
    file = _authorization_file(options, findings)
    settings = Settings(
        secure=secure,
        insecure=insecure,
        endpoints=endpoints_settings(options, secure, findings),
        tls=tls_settings(options, findings),
        upstream=upstream_settings(options, proxies, findings),
        access=_access(options, file, findings),
        attributes=file.attributes,
        static_rules=file.static_rules,
        audiences=options.texts("auth-token-audiences"),
        oidc=oidc_settings(options, proxies, findings),
        kube=_kube(options, environ, file, proxies, findings),
        limits=_limits(options, findings),
        http2=http2_limits(options, findings),
        gate=gate_settings(options, findings),
        pages=page_settings(options, environ, findings),
        access_log=options.text("access-log"),
        warnings=tuple(findings.warnings),
    )
    if findings.problems:
        return Problems(tuple(findings.problems), tuple(findings.warnings))
    return settings


def _warn_of_idle_flags(options: Options, findings: Findings) -> None:
    for flag in FLAGS.values():
        if flag.name in options.given and flag.fate in (Fate.DEAD, Fate.WITHOUT_EFFECT):
            findings.warn(f"--{flag.name} is accepted and has no effect")


def _proxies(environ: Mapping[str, str], findings: Findings) -> EgressProxies:
    try:
        return from_environment(environ)
    except ValueError as error:
        findings.problem(str(error))
        return EgressProxies()


def _access(options: Options, file: AuthorizationFile, findings: Findings) -> AccessSettings:
    allowed, ignored = options.texts("allow-paths"), options.texts("ignore-paths")
    if allowed and ignored:
        findings.problem("--allow-paths and --ignore-paths exclude each other")
    for flag, patterns in (("allow-paths", allowed), ("ignore-paths", ignored)):
        for pattern in patterns:
            try:
                compile_pattern(pattern)
            except PatternError as error:
                findings.problem(f"--{flag}: {error}")
    if not findings.problems:
        _check_rule_paths(options, file, findings)
    rewrites = file.attributes.rewrites
    has_query_rewrite = bool(file.attributes.resources and rewrites and rewrites.query_parameter)
    if (
        options.is_on("reject-form-bodies")
        and not has_query_rewrite
        and file.is_whole
        and "config-file" not in options.doubtful
    ):
        findings.warn("--reject-form-bodies has no effect without a query rewrite")
    return AccessSettings(
        allow_paths=allowed,
        ignore_paths=ignored,
        identity=_identity(options, findings),
        keeps_bearer_on_ignored_paths=options.is_on("ignore-paths-keep-bearer"),
        rejects_form_bodies=options.is_on("reject-form-bodies") and has_query_rewrite,
    )


def _check_rule_paths(options: Options, file: AuthorizationFile, findings: Findings) -> None:
    """A static rule is never asked about a path that these flags decide; but for the pages, which
    they do not concern.
    """
    allowed, ignored = options.texts("allow-paths"), options.texts("ignore-paths")
    is_page_open = _page_checks(options) is PageChecks.PATH
    for number, rule in enumerate(file.static_rules):
        if not rule.path or (is_page_open and (rule.user_name or rule.groups)):
            continue
        place = f"--config-file {options.text('config-file')}: authorization.static[{number}]"
        if allowed and not PathPatterns(allowed).match(rule.path):
            findings.warn(f"{place}: never matches: --allow-paths lacks {quoted(rule.path)}")
        if ignored and PathPatterns(ignored).match(rule.path):
            findings.warn(
                f"{place}: never matches: --ignore-paths serves {quoted(rule.path)} to everybody"
            )


def _page_checks(options: Options) -> PageChecks:
    if not options.integer("proxy-endpoints-port") or not options.text("secure-listen-address"):
        return PageChecks.NONE
    is_node = options.text("zpages-authorization") == "node"
    return PageChecks.RESOURCE if is_node else PageChecks.PATH


def _identity(options: Options, findings: Findings) -> IdentitySettings:
    identity = IdentitySettings(
        is_enabled=options.is_on("auth-header-fields-enabled"),
        user_header=options.text("auth-header-user-field-name"),
        groups_header=options.text("auth-header-groups-field-name"),
        groups_separator=options.text("auth-header-groups-field-separator"),
    )
    if not identity.is_enabled:
        return identity
    for flag, name in (("user", identity.user_header), ("groups", identity.groups_header)):
        if not _TOKEN.fullmatch(name):
            findings.problem(f"--auth-header-{flag}-field-name: {quoted(name)} names no header")
        elif _folded(name) in _TAKEN_NAMES:
            findings.problem(
                f"--auth-header-{flag}-field-name: {quoted(name)} has another meaning in HTTP"
            )
    if _folded(identity.user_header) == _folded(identity.groups_header):
        findings.problem(
            "--auth-header-user-field-name and --auth-header-groups-field-name: both are "
            f"{quoted(identity.user_header)}; the upstream could not tell a user from a group"
        )
    separator = identity.groups_separator
    if not separator or _CONTROL.search(separator):
        # Without a separator any group could pass for two others (D6).
        findings.problem(
            f"--auth-header-groups-field-separator: {quoted(separator)} separates nothing"
        )
    return identity


def _folded(name: str) -> str:
    """What an upstream may take the header name for: CGI and WSGI read `_` and `-` as one."""
    return name.lower().replace("_", "-")


def _authorization_file(options: Options, findings: Findings) -> AuthorizationFile:
    path = options.text("config-file")
    if not path:
        return AuthorizationFile()
    try:
        content = read_regular(path)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        findings.problem(f"--config-file {path}: cannot be read: {reason}")
        return authorization_file.UNREADABLE
    return authorization_file.read_authorization_file(
        content,
        path,
        findings,
        is_strict=options.is_on("strict-config"),
        page_checks=_page_checks(options),
    )


def _kube(
    options: Options,
    environ: Mapping[str, str],
    file: AuthorizationFile,
    proxies: EgressProxies,
    findings: Findings,
) -> KubeSettings | None:
    settings = _rated(options, KubeSettings(proxies=proxies), findings)
    path = options.text("kubeconfig")
    server = kubeconfig.in_cluster_server(environ)
    if path:
        for problem in kubeconfig.problems(path):
            findings.problem(f"--kubeconfig: {problem}")
        return replace(settings, kubeconfig=path)
    if server is not None:
        folder = settings.service_account_folder
        for problem in kubeconfig.in_cluster_problems(server, folder):
            findings.problem(f"in-cluster configuration: {problem}")
        return replace(settings, server=server)
    has_certificates = options.may_be_given("client-ca-file") and not options.text("oidc-issuer")
    is_whole = file.is_whole and "config-file" not in options.doubtful
    is_complete = has_certificates and (file.static_rules or not is_whole)
    if "kubeconfig" in options.doubtful:
        return None
    if is_complete and not options.texts("auth-token-audiences"):
        if is_whole:
            findings.warn(
                "neither --kubeconfig nor an in-cluster configuration: only client certificates "
                "and static rules work; a token gets 401, and what no static rule allows 403"
            )
        return None
    findings.problem(
        "no API server: --kubeconfig is not set and this is no pod "
        "(KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are missing); "
        "only a client CA and static rules can do without"
    )
    return None


def _rated(options: Options, settings: KubeSettings, findings: Findings) -> KubeSettings:
    """The settings with rate and cache times."""
    qps, burst = options.number("kube-api-qps"), options.integer("kube-api-burst")
    if qps > 0 >= burst and "kube-api-burst" not in options.doubtful - options.given:
        findings.problem(f"--kube-api-burst={burst}: must be positive when --kube-api-qps is")
    return replace(
        settings,
        qps=qps if qps > 0 else settings.qps,
        burst=burst if burst > 0 else settings.burst,
        is_rate_shared=qps > 0,
        token_seconds=_not_negative(options, "token-cache-ttl", findings),
        authorized_seconds=_not_negative(options, "authorized-ttl", findings),
        unauthorized_seconds=_not_negative(options, "unauthorized-ttl", findings),
        stale_seconds=_stale_seconds(options, findings),
    )


def _stale_seconds(options: Options, findings: Findings) -> float:
    """Bounded (D15): so much longer may a right be used that was taken away."""
    flag = "stale-review-period"
    seconds = _not_negative(options, flag, findings)
    if seconds > _LONGEST_STALE_SECONDS:
        findings.problem(f"{options.duration_words(flag)}: must be at most 1h")
    return seconds


def _limits(options: Options, findings: Findings) -> Limits:
    return Limits(
        handshake_seconds=_positive(options, "tls-handshake-timeout", findings),
        read_header_seconds=_positive(options, "read-header-timeout", findings),
        idle_seconds=_positive(options, "idle-timeout", findings),
        write_stall_seconds=_positive(options, "write-stall-timeout", findings),
        shutdown_grace_seconds=_not_negative(options, "shutdown-grace-period", findings),
        shutdown_delay_seconds=_not_negative(options, "shutdown-delay-duration", findings),
        max_header_bytes=_positive_integer(options, "max-header-bytes", findings),
        max_connections=_positive_integer(options, "max-connections", findings),
    )


def _check_choices(options: Options, findings: Findings) -> None:
    for flag in FLAGS.values():
        if flag.choices and options.text(flag.name) not in flag.choices:
            known = ", ".join(flag.choices)
            findings.problem(f"--{flag.name}={options.text(flag.name)}: must be one of {known}")


def _positive(options: Options, flag: str, findings: Findings) -> float:
    seconds = options.number(flag)
    if seconds <= 0:
        findings.problem(f"{options.duration_words(flag)}: must be greater than 0")
    return seconds


def _not_negative(options: Options, flag: str, findings: Findings) -> float:
    seconds = options.number(flag)
    if seconds < 0:
        findings.problem(f"{options.duration_words(flag)}: must not be negative")
    return seconds


def _positive_integer(options: Options, flag: str, findings: Findings) -> int:
    number = options.integer(flag)
    if number <= 0:
        findings.problem(f"--{flag}={number}: must be greater than 0")
    return number
