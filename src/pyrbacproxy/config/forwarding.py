"""The upstream's flags → `UpstreamSettings`: URL, authorities, client pair, egress proxy."""

from dataclasses import replace

from pyrbacproxy.config import upstream_url
from pyrbacproxy.config.findings import Findings
from pyrbacproxy.config.options import Options
from pyrbacproxy.config.values import without_password
from pyrbacproxy.dataplane.upstream import UpstreamSettings
from pyrbacproxy.egress_proxy import EgressProxies, proxy_for
from pyrbacproxy.tls.upstream_context import upstream_context
from pyrbacproxy.tls.watched_files import TlsFileError

_CA = "--upstream-ca-file"
_CERTIFICATE = "--upstream-client-cert-file"
_KEY = "--upstream-client-key-file"


def upstream(options: Options, proxies: EgressProxies, findings: Findings) -> UpstreamSettings:
    """Where requests are forwarded; problems and warnings go to `findings`."""
    text = options.text("upstream")
    shown = without_password(text)
    if text.lower().startswith("unix:"):
        findings.problem(f"not supported yet: --upstream={shown}")
        return UpstreamSettings()
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
    )
    _check_files(settings, findings)
    if not settings.scheme:
        findings.warn(
            f"--upstream={shown}: no http or https URL; every forwarded request answers 502"
        )
        return settings
    has_pair = settings.client_certificate_file and settings.client_key_file
    if settings.scheme == "http" and (settings.ca_file or has_pair):
        findings.warn("--upstream-ca-file and --upstream-client-* have no effect for http://")
    proxy = proxy_for(proxies, settings.scheme, settings.host, settings.port)
    return replace(settings, proxy=proxy)


def _check_files(settings: UpstreamSettings, findings: Findings) -> None:
    """Half a pair is a problem (D4), and so is what OpenSSL cannot read."""
    certificate, key = settings.client_certificate_file, settings.client_key_file
    if bool(certificate) != bool(key):
        there, missing = (_CERTIFICATE, _KEY) if certificate else (_KEY, _CERTIFICATE)
        findings.problem(f"{there}={certificate or key}: {missing} must be given as well")
        certificate = key = ""
    if not settings.ca_file and not certificate:
        return  # the system's roots need no check, and an http upstream not even them
    try:
        upstream_context(settings.ca_file, certificate, key)
    except TlsFileError as error:
        flags = {settings.ca_file: _CA, key: _KEY, certificate: _CERTIFICATE}
        findings.problem(f"{flags.get(error.path, _CA)}: {error}")
