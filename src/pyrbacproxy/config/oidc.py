"""The `--oidc-*` flags → `OidcSettings`, or None: then nobody needs an issuer."""

import re
from urllib.parse import urlsplit

from pyrbacproxy.config.findings import Findings
from pyrbacproxy.config.options import Options
from pyrbacproxy.egress_proxy import EgressProxies
from pyrbacproxy.oidc.settings import ALGORITHMS, OidcSettings
from pyrbacproxy.tls.upstream_context import upstream_context
from pyrbacproxy.tls.watched_files import TlsFileError

_OF_ISSUER = (
    *("oidc-clientID", "oidc-groups-claim", "oidc-username-claim", "oidc-username-prefix"),
    *("oidc-groups-prefix", "oidc-sign-alg", "oidc-ca-file"),
)
# What Go's url.Parse refuses and urlsplit() lets pass or takes out.
_NO_URL = re.compile(r"[\x00-\x1f\x7f]|%(?![0-9a-f]{2})|^ |^[^/]*//[^/]* ", re.IGNORECASE)
# What OIDC mode replaces (reference 3.4).
_REPLACED = ("client-ca-file", "auth-token-audiences", "token-cache-ttl")


def oidc(options: Options, proxies: EgressProxies, findings: Findings) -> OidcSettings | None:
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
