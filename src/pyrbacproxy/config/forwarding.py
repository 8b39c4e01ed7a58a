"""The upstream's flags → `UpstreamSettings`: URL, authorities, client pair, egress proxy."""

from dataclasses import replace

from pyrbacproxy.config import upstream_url
from pyrbacproxy.config.findings import Findings
from pyrbacproxy.config.options import Options
from pyrbacproxy.config.values import without_password
from pyrbacproxy.dataplane.upstream import UpstreamSettings
from pyrbacproxy.egress_proxy import EgressProxies, proxy_for
from pyrbacproxy.tls.contexts import NamedFile, pair_problems
from pyrbacproxy.tls.upstream_context import upstream_context
from pyrbacproxy.tls.watched_files import TlsFileError

_CA = "--upstream-ca-file"
_CERTIFICATE = "--upstream-client-cert-file"
_KEY = "--upstream-client-key-file"


def upstream(options: Options, proxies: EgressProxies, findings: Findings) -> UpstreamSettings:
    """Where requests are forwarded; problems and warnings go to `findings`."""
    _check_files(options, findings)
    text = options.text("upstream")
    if not text and "upstream" in options.doubtful:
        return UpstreamSettings()
    shown = without_password(text)
    try:
        settings = upstream_url.parse(text)
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
        # With the system's roots: whether the authority will do is told already.
        for problem in pair_problems(
            certificate, key, lambda _pair: upstream_context("", certificate.path, key.path)
        ):
            findings.problem(problem)
    elif certificate.path or key.path:
        there, missing = (certificate, key) if certificate.path else (key, certificate)
        if missing.flag.removeprefix("--") not in options.doubtful:
            findings.problem(f"{there.flag}={there.path}: {missing.flag} must be given as well")
