"""The listeners' flags → addresses and `TlsSettings`."""

import os
from dataclasses import replace

from pyrbacproxy.config import address
from pyrbacproxy.config.findings import Findings
from pyrbacproxy.config.options import Options
from pyrbacproxy.config.settings import Address
from pyrbacproxy.http2.limits import Http2Limits, limits_of
from pyrbacproxy.tls import contexts
from pyrbacproxy.tls.contexts import TlsSettings
from pyrbacproxy.tls.names import CipherList, cipher_list, minimum_version

_LARGEST_PORT = 65_535
_EVERYWHERE = frozenset(("", "::", "0.0.0.0"))  # noqa: S104 - compared, not bound
_TLS13 = 0x0304
_USUAL_RELOAD_SECONDS = 60.0


def listen_address(options: Options, flag: str, findings: Findings) -> Address | None:
    """The address in a flag; None when it is empty or wrong."""
    text = options.text(flag)
    if not text:
        return None
    try:
        return replace(address.parse(text), flags=f"--{flag}={text}")
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


def endpoints(options: Options, secure: Address | None, findings: Findings) -> Address | None:
    """Where /healthz is served, next to the secure address."""
    port = options.integer("proxy-endpoints-port")
    host_text = options.text("proxy-endpoints-address")
    try:
        host = address.parse_host(host_text)
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


def tls(options: Options, findings: Findings) -> TlsSettings:
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
    for problem in contexts.problems(_present(options, settings)):
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


def http2(options: Options, findings: Findings) -> Http2Limits | None:
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
        return (contexts.HTTP1,)
    if not suites.has_http2_suite and minimum < _TLS13:
        findings.warn(
            "--tls-cipher-suites: HTTP/2 is not offered, for the list lacks "
            "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 and TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
        )
        return (contexts.HTTP1,)
    both = (contexts.HTTP1, contexts.HTTP2)
    return both[::-1] if options.is_on("http2-prefer") else both
