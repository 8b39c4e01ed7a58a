"""`Options` and the files they name → `Settings`, or every problem at once.

Nothing behind this module parses, defaults or validates. No network is used; files are read.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyrbacproxy.access import AccessSettings
from pyrbacproxy.authn.identity_headers import IdentitySettings
from pyrbacproxy.authz.paths import PathPatterns, PatternError, compile_pattern
from pyrbacproxy.authz.static import PageChecks
from pyrbacproxy.config import authz_file, forwarding, listening, oidc, pages, starting
from pyrbacproxy.config.authz_file import AuthorizationFile
from pyrbacproxy.config.findings import Findings
from pyrbacproxy.config.flag import Fate
from pyrbacproxy.config.flag_table import FLAGS
from pyrbacproxy.config.options import Options
from pyrbacproxy.config.settings import Settings
from pyrbacproxy.config.values import quoted
from pyrbacproxy.dataplane.limits import Limits
from pyrbacproxy.egress_proxy import EgressProxies, from_environment
from pyrbacproxy.kube import kubeconfig
from pyrbacproxy.kube.kubeconfig import KubeSettings
from pyrbacproxy.regular_file import read_regular

# RFC 9110 section 5.6.2.
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_LONGEST_STALE_SECONDS = 3600.0
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
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


@dataclass(frozen=True, slots=True)
class Problems:
    """Why there are no settings; one of the warnings gathered on the way may tell the cause."""

    lines: tuple[str, ...]
    warnings: tuple[str, ...] = ()


def complete(options: Options, environ: Mapping[str, str]) -> Settings | Problems:
    """The settings that the options mean, all defaults filled in, or all problems."""
    findings = Findings()
    _check_choices(options, findings)
    _warn_of_idle_flags(options, findings)
    proxies = _proxies(environ, findings)
    secure = listening.listen_address(options, "secure-listen-address", findings)
    insecure = listening.listen_address(options, "insecure-listen-address", findings)
    listening.check_listeners(options, findings)
    file = _authorization_file(options, findings)
    settings = Settings(
        secure=secure,
        insecure=insecure,
        endpoints=listening.endpoints(options, secure, findings),
        tls=listening.tls(options, findings),
        upstream=forwarding.upstream(options, proxies, findings),
        access=_access(options, file, findings),
        attributes=file.attributes,
        static_rules=file.static_rules,
        audiences=options.texts("auth-token-audiences"),
        oidc=oidc.oidc(options, proxies, findings),
        kube=_kube(options, environ, file, proxies, findings),
        limits=_limits(options, findings),
        http2=listening.http2(options, findings),
        gate=starting.gate(options, findings),
        pages=pages.pages(options, environ, findings),
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
        return authz_file.UNREADABLE
    return authz_file.read(
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
