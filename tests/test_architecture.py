"""The house's rules, executable: who may import whom, what pure means, mirrored tests, small rooms.

Every rule is a function from source texts to complaints, so that the rules are tested themselves,
with planted violations. ARCHITECTURE.md says why they are there; a new module needs a row in
`ALLOWED`.
"""

import ast
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "pyrbacproxy"
PREFIX = "pyrbacproxy."

# module → every module of ours that it may import; a star stands for a whole package.
ALLOWED: dict[str, str] = {
    # floors 7 and 6: those who know the others
    "__main__": "cli",
    "cli": "app commands.* config.* observe.log_text observe.logs",
    "app": "assembly certificates config.settings dataplane.listener observe.line_outlet "
    "observe.logs opening tls.watched_files",
    "opening": "admin.health config.settings dataplane.listener node.sockets startup.gate "
    "startup.watch tls.contexts",
    "endpoints": "admin.* authn.authenticator authz.authorizer authz.static "
    "authz.subject_access_review handler kube.reviewer measuring observe.metrics "
    "observe.process_start record reviews",
    "measuring": "admin.health admin.status admin.version dataplane.listener handler http1.head "
    "http1.response observe.exposition observe.gauges observe.metrics tls.watched_files",
    "certificates": "config.settings tls.*",
    "assembly": "access admin.* certificates client_protocol endpoints authn.* authz.* "
    "config.settings dataplane.* egress_proxy handler http1.* http2.* kube.* measuring observe.* "
    "oidc.* peer record reviews tls.* user",
    "client_protocol": "dataplane.client_transport dataplane.downstream dataplane.peer_source "
    "dataplane.secure_transport dataplane.services dataplane.sinks http2.connection http2.errors "
    "http2.limits http2.prior_knowledge peer tls.client_chain tls.names",
    "commands.demo": "commands.arguments demo.*",
    "commands.arguments": "",
    "commands.terminal": "",
    "commands.audit": "commands.arguments commands.audit_report node.*",
    "commands.audit_report": "commands.terminal node.*",
    "commands.kubelet_config": "commands.arguments commands.kubelet_report commands.terminal "
    "node.* tls.profiles",
    "commands.kubelet_report": "commands.terminal node.*",
    # floor 5
    "config.values": "",
    "config.version": "config.values",
    "config.flag": "config.values",
    "config.flag_table": "config.flag",
    "config.options": "config.flag config.flag_table config.values",
    "config.flag_text": "config.flag config.flag_table config.options config.values",
    "config.findings": "",
    "config.address": "config.settings config.values",
    "config.listening": "config.address config.findings config.options config.settings "
    "http2.limits tls.contexts tls.names",
    "config.starting": "config.findings config.options startup.gate",
    "config.oidc": "config.findings config.options egress_proxy oidc.settings tls.upstream_context "
    "tls.watched_files",
    "config.upstream_url": "dataplane.upstream",
    "config.forwarding": "config.findings config.options config.upstream_url config.values "
    "dataplane.upstream egress_proxy tls.contexts tls.upstream_context tls.watched_files",
    "config.yaml_tree": "config.findings",
    "config.authz_file": "authz.attributes authz.static authz.template authz.template_parser "
    "authz.template_tokens config.findings config.yaml_tree",
    "config.pages": "admin.status config.findings config.flag_table config.flag_text "
    "config.options config.values config.version",
    "config.settings": "access admin.status authn.identity_headers authz.attributes authz.static "
    "dataplane.limits dataplane.upstream http2.limits kube.kubeconfig oidc.settings startup.gate "
    "tls.contexts",
    "config.complete": "access authn.identity_headers authz.paths config.* dataplane.limits "
    "egress_proxy kube.kubeconfig regular_file",
    "access": "authn.authenticator authn.identity_headers authz.attributes authz.authorizer "
    "authz.paths handler http1.forwarding http1.head http1.response http1.target record "
    "refusals reviews user",
    "refusals": "authn.authenticator authz.attributes authz.authorizer handler http1.response "
    "record reviews",
    # floor 4
    "dataplane.limits": "",
    "dataplane.flow_control": "",
    "dataplane.pool": "",
    "dataplane.exchange": "dataplane.malformed dataplane.request_side dataplane.response_state "
    "dataplane.services dataplane.sinks dataplane.tunnel handler http1.* record",
    "dataplane.upstream": "dataplane.dial dataplane.heads dataplane.limits dataplane.pool "
    "dataplane.sinks dataplane.upstream_connection egress_proxy http1.parser",
    "dataplane.connection": "dataplane.deadline dataplane.limits",
    "dataplane.upstream_connection": "dataplane.connection dataplane.deadline dataplane.limits "
    "dataplane.sinks dataplane.switched_upstream "
    "http1.errors http1.framing http1.head http1.parser http1.writer",
    "dataplane.secure_transport": "dataplane.client_transport dataplane.deadline dataplane.limits "
    "dataplane.sinks tls.engine",
    "dataplane.malformed": "http1.response record",
    "dataplane.persistence": "dataplane.deadline dataplane.limits dataplane.request_queue "
    "dataplane.sinks",
    "dataplane.downstream": "dataplane.decisions dataplane.exchange dataplane.flow_control "
    "dataplane.half_closed dataplane.malformed dataplane.persistence dataplane.request_queue "
    "dataplane.response_side dataplane.services dataplane.sinks http1.errors http1.head "
    "http1.parser http1.writer peer record",
    "dataplane.listener": "dataplane.client_transport dataplane.deadline dataplane.limits heap",
    "dataplane.deadline": "",
    "dataplane.dial": "dataplane.limits egress_dial egress_proxy",
    "dataplane.half_closed": "dataplane.exchange dataplane.limits dataplane.response_state "
    "dataplane.sinks http1.writer",
    "dataplane.heads": "http1.forwarding http1.framing http1.head http1.parser http1.writer",
    "dataplane.request_side": "dataplane.flow_control dataplane.heads dataplane.services "
    "dataplane.sinks http1.forwarding http1.framing http1.head record",
    "dataplane.response_side": "dataplane.heads dataplane.response_state dataplane.services "
    "dataplane.sinks http1.forwarding http1.head http1.parser http1.response http1.writer record",
    "dataplane.decision_memory": "handler http1.head http1.parser peer record",
    "dataplane.services": "dataplane.decision_memory dataplane.heads dataplane.limits "
    "dataplane.sinks handler http1.head "
    "record",
    "dataplane.response_state": "",
    "dataplane.socket_options": "",
    "dataplane.switched_upstream": "dataplane.connection dataplane.limits dataplane.sinks "
    "dataplane.socket_options",
    "dataplane.tunnel": "dataplane.services dataplane.sinks record",
    "dataplane.sinks": "dataplane.flow_control dataplane.response_state http1.framing http1.head "
    "http1.parser http1.response record",
    "dataplane.client_transport": "dataplane.connection dataplane.limits dataplane.sinks "
    "dataplane.socket_options",
    "dataplane.decisions": "dataplane.decision_memory dataplane.exchange dataplane.services "
    "dataplane.sinks handler http1.errors http1.parser http1.response peer record reviews",
    "dataplane.peer_source": "peer tls.client_chain",
    "dataplane.request_queue": "http1.errors http1.parser",
    "http2.upstream_heads": "http1.errors http1.head http1.head_bytes http1.parser",
    "http2.upstream_greeting": "",
    "http2.upstream_stream": "dataplane.deadline dataplane.limits dataplane.sinks http1.errors "
    "http1.framing http1.head http1.parser http2.upstream_heads",
    "http2.upstream_decoder": "http2.errors http2.head_block",
    "http2.upstream_connection": "dataplane.connection dataplane.deadline dataplane.limits "
    "http2.errors http2.frames http2.h2_library http2.upstream_decoder http2.upstream_heads "
    "http2.upstream_stream",
    "http2.upstream_connector": "dataplane.dial dataplane.limits dataplane.sinks "
    "dataplane.upstream dataplane.upstream_connection http2.upstream_connection "
    "http2.upstream_greeting http2.upstream_heads",
    "http2.limits": "",
    "http2.errors": "",
    "http2.frames": "http2.errors",
    "http2.head_block": "http2.errors",
    "http2.budget": "",
    "http2.outbox": "dataplane.sinks",
    "http2.h2_library": "http2.head_block",
    "http2.engine": "http2.errors http2.frames http2.head_block http2.h2_library http2.limits",
    "http2.request_head": "http1.errors http1.head http1.head_bytes http1.parser http1.response "
    "http2.errors http2.head_block",
    "http2.response_head": "dataplane.heads http1.errors http1.forwarding http1.framing "
    "http1.head http1.parser http1.response http2.head_block",
    "http2.response": "dataplane.heads dataplane.response_state dataplane.sinks http1.head "
    "http1.parser http1.response http2.head_block http2.response_head record",
    "http2.stream": "dataplane.deadline dataplane.exchange dataplane.flow_control "
    "dataplane.services dataplane.sinks http1.errors http1.framing http1.head http2.errors "
    "http2.head_block http2.outbox http2.response record",
    "http2.streams": "dataplane.sinks http2.budget http2.engine http2.errors http2.head_block "
    "http2.stream",
    "http2.requests": "dataplane.decisions dataplane.malformed dataplane.services http1.errors "
    "http1.parser http1.response http2.errors http2.head_block http2.request_head "
    "http2.response http2.stream peer",
    "http2.patience": "dataplane.deadline dataplane.limits",
    "http2.connection": "dataplane.services dataplane.sinks "
    "http2.budget http2.engine http2.errors http2.frames http2.intake http2.limits http2.patience "
    "http2.requests http2.streams peer",
    "http2.intake": "http2.budget http2.engine http2.errors http2.frames http2.request_head "
    "http2.requests http2.stream http2.streams",
    "http2.prior_knowledge": "dataplane.deadline dataplane.limits dataplane.sinks http2.frames",
    "admin.pages": "admin.access admin.flagz admin.health admin.status admin.statusz "
    "admin.negotiation admin.version handler http1.head http1.response record refusals reviews",
    "admin.access": "admin.attributes authn.authenticator authz.attributes authz.authorizer "
    "authz.static handler record refusals reviews",
    "admin.status": "",
    "admin.structured": "",
    "admin.negotiation": "admin.structured handler http1.head http1.response http1.target",
    "admin.statusz": "admin.negotiation admin.status admin.structured handler http1.response",
    "admin.flagz": "admin.negotiation admin.status admin.statusz admin.structured handler "
    "http1.response",
    "admin.health": "handler http1.response http1.target",
    "admin.version": "admin.status admin.structured http1.head http1.response",
    "admin.attributes": "authz.attributes http1.head http1.target reviews user",
    "authn.authenticator": "handler http1.head reviews user",
    "authn.client_certificate": "authn.authenticator handler peer reviews user",
    "authn.bearer_token": "authn.authenticator handler http1.head reviews user",
    "authn.identity_headers": "http1.forwarding http1.head user",
    # floor 3
    "handler": "http1.head http1.response http1.target peer record reviews user",
    "authz.attributes": "authz.template http1.head http1.target reviews user",
    "authz.authorizer": "authz.attributes reviews",
    "authz.static": "authz.attributes authz.authorizer reviews",
    "authz.subject_access_review": "authz.attributes authz.authorizer reviews",
    "authz.paths": "",
    "authz.template": "",
    "authz.template_tokens": "",
    "authz.template_literals": "",
    "authz.template_parts": "authz.template",
    "authz.template_functions": "authz.template authz.template_parts",
    "authz.template_format": "authz.template authz.template_parts",
    "authz.template_parser": "authz.template authz.template_*",
    "oidc.settings": "egress_proxy",
    "oidc.claims": "oidc.settings user",
    "oidc.key_set": "oidc.claims oidc.settings",
    "oidc.token": "oidc.claims oidc.key_set oidc.settings user",
    "oidc.discovery": "http1.head oidc.claims",
    "oidc.verifier": "oidc.claims oidc.key_set oidc.settings oidc.token reviews user",
    # its own client, as kube has one: it speaks to a stranger's server, by the same proxies
    "oidc.fetch": "egress_dial egress_proxy http1.errors http1.head http1.parser http1.writer",
    "oidc.issuer": "oidc.discovery oidc.fetch oidc.key_set oidc.settings",
    "kube.ttl_cache": "",
    "kube.review_codec": "reviews user",
    "kube.attempt": "reviews",
    "kube.token_expiry": "",
    "kube.lifetimes": "kube.token_expiry reviews",
    "kube.stale_reviews": "kube.attempt kube.token_expiry kube.ttl_cache reviews",
    "kube.fair_bucket": "",
    "kube.tls_context": "",
    "kube.credential_files": "regular_file",
    "kube.impersonation": "",
    "kube.kubeconfig_document": "kube.credential_files",
    "kube.exec_plugin": "kube.credential_files kube.kubeconfig_document kube.tls_context",
    "kube.kubeconfig_user": "kube.credential_files kube.exec_plugin kube.impersonation "
    "kube.tls_context",
    "kube.kubeconfig": "egress_proxy kube.credential_files kube.kubeconfig_document "
    "kube.kubeconfig_user kube.tls_context regular_file",
    "kube.resolve_kubeconfig": "kube.credential_files kube.exec_plugin kube.impersonation "
    "kube.kubeconfig_document kube.tls_context regular_file",
    "kube.credentials": "egress_proxy kube.credential_files kube.kubeconfig kube.tls_context "
    "regular_file",
    "kube.turns": "kube.fair_bucket",
    "kube.post": "egress_proxy http1.writer kube.review_codec reviews",
    "kube.reply": "http1.head http1.parser",
    "kube.connection": "http1.errors kube.reply",
    "kube.pool": "kube.connection",
    "kube.link": "egress_dial egress_proxy http1.errors kube.attempt kube.connection "
    "kube.kubeconfig kube.pool kube.post kube.reply kube.review_codec kube.tls_context "
    "lookup reviews",
    "kube.api_client": "kube.attempt kube.credentials kube.kubeconfig kube.link "
    "kube.review_codec kube.turns reviews",
    "kube.no_api_server": "reviews",
    "kube.reviewer": "kube.attempt kube.kubeconfig kube.lifetimes kube.stale_reviews "
    "kube.ttl_cache reviews",
    # floors 2 and 1
    "node.facts": "node.kubelet_settings",
    "node.findings": "",
    "node.pods": "",
    "node.host_files": "",
    "node.sockets": "node.facts node.pods",
    "node.manifests": "node.documents node.facts node.host_files",
    "node.certificates": "node.facts tls.certificate tls.pem",
    "node.legacy": "node.documents node.facts node.host_files node.pods node.static_pods",
    "node.scrape": "node.certificates node.facts",
    "node.survey": "node.*",
    "node.static_pods": "node.facts node.findings node.sidecar",
    "node.serving": "node.facts node.findings node.sidecar node.static_pods",
    "node.lifetimes": "node.facts node.findings",
    "node.audit": "node.facts node.findings node.lifetimes node.serving node.static_pods",
    "node.documents": "",
    "node.kubelet_settings": "node.documents",
    "node.kubelet_fields": "node.documents",
    "node.kubelet_request": "node.documents",
    "node.kubelet_config": "node.documents node.kubelet_fields node.kubelet_settings",
    "node.sidecar": "node.documents node.kubelet_settings",
    "startup.gate": "",
    "startup.inotify": "",
    "startup.watch": "startup.gate startup.inotify",
    "tls.names": "",
    "tls.profiles": "tls.names",
    "tls.certificate": "",
    "tls.contexts": "tls.certificate tls.client_chain tls.names tls.pem tls.watched_files",
    "tls.engine": "",
    "tls.client_chain": "peer tls.certificate tls.pem",
    "tls.reloader": "tls.client_chain tls.contexts tls.watched_files",
    "tls.upstream_context": "tls.certificate tls.contexts tls.pem tls.watched_files",
    "tls.pem": "",
    "tls.watched_files": "regular_file",
    "observe.process_start": "",
    "observe.decision_log": "observe.flood observe.logs record",
    "observe.logs": "observe.flood observe.log_text observe.patient_stream",
    "observe.patient_stream": "",
    "observe.log_text": "",
    "observe.access_log": "observe.log_text observe.metrics record",
    "observe.access_log_writer": "observe.access_log observe.flood observe.line_outlet "
    "observe.logs record",
    "observe.line_outlet": "observe.logs observe.patient_stream regular_file",
    "observe.flood": "",
    "observe.metrics": "record",
    "observe.gauges": "",
    "observe.families": "observe.gauges observe.metrics record",
    "observe.exposition": "observe.families observe.gauges observe.metrics",
    "observe.loop_lag": "observe.metrics record",
    "reviews": "user",
    "http1.errors": "",
    "http1.head": "http1.errors",
    "http1.target": "http1.errors",
    "http1.framing": "http1.errors http1.head",
    "http1.parser": "http1.body http1.errors http1.framing http1.head http1.head_bytes "
    "http1.target",
    "http1.head_bytes": "http1.errors http1.forwarding http1.framing http1.head http1.llhttp "
    "http1.target",
    "http1.writer": "http1.errors http1.framing http1.head http1.response",
    "http1.forwarding": "http1.head",
    "http1.response": "http1.head",
    "http1.body": "http1.errors http1.framing http1.head http1.llhttp",
    "http1.llhttp": "http1.errors http1.head",
    "record": "",
    "peer": "",
    "user": "",
    "egress_proxy": "",
    "egress_dial": "egress_proxy lookup",
    "regular_file": "",
    "heap": "",
    "lookup": "",
    # the demo stands apart
    "demo.pki": "",
    "demo.label_selector": "",
    "demo.rbac": "demo.label_selector reviews user",
    "demo.documents": "",
    "demo.impersonation": "demo.tokens reviews user",
    "demo.manifests": "demo.documents demo.label_selector demo.rbac",
    "demo.tokens": "reviews user",
    "demo.api_server": "demo.documents demo.impersonation demo.rbac demo.tokens reviews user",
    "demo.crio_metrics": "",
    "demo.crio": "demo.crio_metrics",
    "demo.scene": "demo.pki demo.tokens",
}

# Pure modules take values and return values; a package's name stands for all its modules.
PURE = (
    "user peer record reviews handler access refusals egress_proxy http1.* authn.* authz.* "
    "admin.* kube.ttl_cache kube.review_codec kube.attempt kube.token_expiry kube.fair_bucket "
    "kube.lifetimes kube.post kube.reply kube.stale_reviews node.audit "
    "node.documents node.facts node.findings node.kubelet_* "
    "node.lifetimes node.serving node.sidecar node.static_pods tls.profiles "
    "tls.certificate tls.names tls.pem tls.engine tls.client_chain "
    "dataplane.limits dataplane.flow_control "
    "dataplane.pool dataplane.decision_memory dataplane.exchange dataplane.half_closed "
    "dataplane.heads dataplane.malformed dataplane.request_side dataplane.response_side "
    "dataplane.response_state dataplane.services dataplane.sinks dataplane.tunnel "
    "dataplane.peer_source dataplane.request_queue http2.budget http2.engine http2.errors "
    "http2.frames http2.head_block http2.h2_library http2.limits http2.outbox http2.request_head "
    "http2.response http2.response_head http2.upstream_decoder http2.upstream_heads "
    "observe.access_log observe.gauges observe.log_text observe.metrics startup.gate "
    "demo.documents demo.label_selector demo.rbac demo.tokens "
    "oidc.settings oidc.claims oidc.key_set oidc.token oidc.discovery oidc.verifier"
)

# The rim: what touches the world. Pure modules import none of it, directly or through others.
RIM = {
    *("asyncio", "ssl", "socket", "selectors", "threading", "os", "pathlib", "subprocess", "time"),
    *("random", "logging", "concurrent", "multiprocessing", "signal", "tempfile", "shutil", "io"),
    *(
        "http.client",
        "http.server",
        "urllib.request",
        "aiohttp",
        "requests",
        "uvloop",
        "kubernetes_asyncio",
    ),
}

# Calls that reach the world without an import of the rim.
WORLDLY_CALLS = {
    *("open", "print", "input", "datetime.now", "datetime.utcnow", "datetime.today", "date.today"),
}
MAY_CREATE_TASKS = "app opening kube.reviewer dataplane.* http2.*"
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "base", "manager", "misc"}

MODULE_LINES = 400
CLASS_LINES = 250
FUNCTION_LINES = 50
NESTING = 3

Modules = Mapping[str, str]  # name without the prefix → source text


# --- reading --------------------------------------------------------------------------


def on_disk() -> dict[str, str]:
    """The program's modules, `__init__` files left out."""
    found = sorted(path for path in SOURCE.rglob("*.py") if path.name != "__init__.py")
    return {
        ".".join(path.relative_to(SOURCE).with_suffix("").parts): path.read_text() for path in found
    }


def matches(name: str, patterns: str) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns.split())


def imported(source: str) -> Iterator[str]:
    """Every dotted name that the source imports, `from a import b` as `a.b`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = "." * node.level + (node.module or "")
            yield from (f"{start}.{alias.name}" for alias in node.names)


def our_imports(source: str, modules: Modules) -> set[str]:
    """The modules of ours that the source imports, by their name in `modules`."""
    ours = {name.removeprefix(PREFIX) for name in imported(source) if name.startswith(PREFIX)}
    return {name if name in modules else name.rpartition(".")[0] for name in ours}


def called(node: ast.Call) -> str:
    """The name that is called, its last two parts at most: `b.c` for `a.b.c()`."""
    return ".".join(ast.unparse(node.func).split(".")[-2:])


def lines(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


# --- rules ----------------------------------------------------------------------------


def edges_outside_the_table(modules: Modules) -> Iterator[str]:
    for name, source in modules.items():
        if name not in ALLOWED:
            yield f"{name} has no row in ALLOWED"
            continue
        if any(found.startswith(".") for found in imported(source)):
            yield f"{name} imports relatively"
        for used in sorted(our_imports(source, modules)):
            if not matches(used, ALLOWED[name]):
                yield f"{name} must not import {used}"


def circles(modules: Modules) -> Iterator[str]:
    """Modules that reach themselves."""
    graph = {name: our_imports(source, modules) for name, source in modules.items()}
    for name in graph:
        if name in reached(graph, name):
            yield f"{name} reaches itself"


def package_circles(modules: Modules) -> Iterator[str]:
    """Packages that reach themselves; edges inside a package don't count."""
    graph: dict[str, set[str]] = {}
    for name, source in modules.items():
        package = name.partition(".")[0]
        used = {other.partition(".")[0] for other in our_imports(source, modules)}
        graph.setdefault(package, set()).update(used - {package})
    for package in graph:
        if package in reached(graph, package):
            yield f"the package {package} reaches itself"


def reached(graph: Mapping[str, set[str]], start: str) -> set[str]:
    """What can be reached from `start` by one step or more."""
    seen: set[str] = set()
    waiting = list(graph.get(start, ()))
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting.extend(graph.get(name, ()))
    return seen


def impurities(modules: Modules) -> Iterator[str]:
    """The rim in pure modules, directly or through others, and what else pure excludes."""
    graph = {name: our_imports(source, modules) for name, source in modules.items()}
    for name, source in modules.items():
        if not matches(name, PURE):
            continue
        for behind in sorted({name, *reached(graph, name)}):
            for rim in sorted(rim_imports(modules.get(behind, ""))):
                yield f"{name} is pure but reaches {rim}" + f" through {behind}" * (behind != name)
        tree = ast.parse(source)
        if any(found in {"typing.Any", "typing.cast"} for found in imported(source)):
            yield f"{name} is pure and uses Any or cast"
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and called(node) in WORLDLY_CALLS:
                yield f"{name} is pure but calls {called(node)} in line {node.lineno}"


def rim_imports(source: str) -> set[str]:
    return {
        rim
        for found in imported(source)
        for rim in RIM
        if found == rim or found.startswith(f"{rim}.")
    }


def stray_tasks(modules: Modules) -> Iterator[str]:
    """`asyncio.create_task` where nobody waits for the task's end; a TaskGroup's own is fine."""
    for name, source in modules.items():
        if matches(name, MAY_CREATE_TASKS):
            continue
        direct = {"asyncio.create_task", "asyncio.ensure_future"}
        if direct & set(imported(source)):
            yield f"{name} imports create_task"
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Attribute) and ast.unparse(node) in direct:
                yield f"{name} uses {ast.unparse(node)} in line {node.lineno}"


def bare_excepts(modules: Modules) -> Iterator[str]:
    for name, source in modules.items():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ExceptHandler) and node.type is None:
                yield f"{name} has a bare except in line {node.lineno}"


def big_rooms(modules: Modules) -> Iterator[str]:
    for name, source in modules.items():
        if (count := len(source.splitlines())) > MODULE_LINES:
            yield f"{name} has {count} lines"
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ClassDef) and lines(node) > CLASS_LINES:
                yield f"{name}.{node.name} has {lines(node)} lines"
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                if lines(node) > FUNCTION_LINES:
                    yield f"{name}.{node.name} has {lines(node)} lines"
                if (depth := nesting(node.body)) > NESTING:
                    yield f"{name}.{node.name} is nested {depth} deep"


def nesting(body: list[ast.stmt]) -> int:
    """How deep choices and loops stand in each other; `with` is neither, nor is elif in its if."""
    deepest = 0
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        step = not isinstance(statement, ast.With | ast.AsyncWith)
        inner = [nesting(block) + step for block in blocks(statement)]
        deepest = max([deepest, *inner])
    return deepest


def blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The blocks of a compound statement, those of its elif parts included."""
    for field in ("body", "orelse", "finalbody"):
        block = getattr(statement, field, [])
        is_elif = field == "orelse" and len(block) == 1 and isinstance(block[0], ast.If)
        if is_elif and isinstance(statement, ast.If):
            yield from blocks(block[0])
        elif block:
            yield block
    for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield part.body


def vague_names(modules: Modules) -> Iterator[str]:
    for name, source in modules.items():
        last = name.rpartition(".")[2]
        if last in VAGUE_NAMES or (last.startswith("_") and last != "__main__"):
            yield f"{name} has a name that says nothing"
        if "__all__" in source:
            yield f"{name} re-exports"


def unread_settings(modules: Modules) -> Iterator[str]:
    """Fields of settings that nobody outside config reads: a setting without effect is a bug."""
    read = {
        node.attr
        for name, source in modules.items()
        if not name.startswith("config.")
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    }
    for name, source in modules.items():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ClassDef) and node.name.endswith(("Settings", "Limits")):
                fields = (item.target for item in node.body if isinstance(item, ast.AnnAssign))
                for field in fields:
                    if isinstance(field, ast.Name) and field.id not in read:
                        yield f"{name}.{node.name}.{field.id} is read by nobody"


RULES: list[Callable[[Modules], Iterator[str]]] = [
    edges_outside_the_table,
    circles,
    package_circles,
    impurities,
    stray_tasks,
    bare_excepts,
    big_rooms,
    vague_names,
    unread_settings,
]


# --- the program ----------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_program_keeps_the_rule(rule: Callable[[Modules], Iterator[str]]) -> None:
    assert list(rule(on_disk())) == []


def test_package_files_are_empty() -> None:
    assert [path for path in SOURCE.rglob("__init__.py") if path.read_bytes()] == []


def test_each_module_has_its_mirror() -> None:
    """`a/b.py` is tested by `tests/a/test_b.py`, which imports it; `__main__` by conformance."""
    missing = []
    for name in on_disk():
        if name == "__main__":
            continue
        package, _, last = name.rpartition(".")
        mirror = ROOT / "tests" / package.replace(".", "/") / f"test_{last}.py"
        uses = set(imported(mirror.read_text())) if mirror.exists() else set()
        if not any(f"{found}.".startswith(f"{PREFIX}{name}.") for found in uses):
            missing.append(str(mirror.relative_to(ROOT)))
    assert missing == []


def test_the_table_names_nothing_that_is_gone() -> None:
    modules = on_disk()
    assert [name for name in ALLOWED if name not in modules] == []
    used = {
        pattern for row in (*ALLOWED.values(), PURE, MAY_CREATE_TASKS) for pattern in row.split()
    }
    assert [name for name in sorted(used) if not any(fnmatch(m, name) for m in modules)] == []


# --- the rules themselves -------------------------------------------------------------

PLANTED: dict[str, tuple[Callable[[Modules], Iterator[str]], dict[str, str], str]] = {
    "an edge that the table lacks": (
        edges_outside_the_table,
        {"kube.reviewer": "from pyrbacproxy.access import Access", "access": ""},
        "kube.reviewer must not import access",
    ),
    "an edge by plain import": (
        edges_outside_the_table,
        {"user": "import pyrbacproxy.peer", "peer": ""},
        "user must not import peer",
    ),
    "a module as a member of its package": (
        edges_outside_the_table,
        {"user": "from pyrbacproxy.http1 import head", "http1.head": ""},
        "user must not import http1.head",
    ),
    "an edge inside a function": (
        edges_outside_the_table,
        {"user": "def f() -> None:\n    from pyrbacproxy import peer", "peer": ""},
        "user must not import peer",
    ),
    "a relative import": (
        edges_outside_the_table,
        {"http1.head": "from .errors import ProtocolError"},
        "http1.head imports relatively",
    ),
    "a module without a row": (
        edges_outside_the_table,
        {"http1.extra": ""},
        "http1.extra has no row in ALLOWED",
    ),
    "a circle of modules": (
        circles,
        {"a": "from pyrbacproxy.b import x", "b": "from pyrbacproxy.a import y"},
        "a reaches itself",
    ),
    "a circle of packages": (
        package_circles,
        {
            "p.a": "from pyrbacproxy.q.b import x",
            "q.b": "",
            "q.c": "from pyrbacproxy.p.d import x",
            "p.d": "",
        },
        "the package p reaches itself",
    ),
    "the rim in a pure module": (
        impurities,
        {"http1.head": "from os import path"},
        "http1.head is pure but reaches os",
    ),
    "the rim behind a pure module": (
        impurities,
        {"handler": "from pyrbacproxy.user import U", "user": "import asyncio.events"},
        "handler is pure but reaches asyncio through user",
    ),
    "a clock in a pure module": (
        impurities,
        {"peer": "import datetime\ndatetime.datetime.now()"},
        "peer is pure but calls datetime.now in line 2",
    ),
    "Any in a pure module": (
        impurities,
        {"peer": "from typing import Any"},
        "peer is pure and uses Any or cast",
    ),
    "a stray task": (
        stray_tasks,
        {"tls.reloader": "import asyncio\nasyncio.create_task(x())"},
        "tls.reloader uses asyncio.create_task in line 2",
    ),
    "a stray task by name": (
        stray_tasks,
        {"tls.reloader": "from asyncio import create_task"},
        "tls.reloader imports create_task",
    ),
    "a bare except": (
        bare_excepts,
        {"cli": "try:\n    pass\nexcept:\n    pass"},
        "cli has a bare except in line 3",
    ),
    "a long module": (big_rooms, {"cli": "\n" * 401}, "cli has 401 lines"),
    "a long class": (
        big_rooms,
        {"cli": "class C:\n" + "    x = 1\n" * 250},
        "cli.C has 251 lines",
    ),
    "a long function": (
        big_rooms,
        {"cli": "def f():\n" + "    x = 1\n" * 50},
        "cli.f has 51 lines",
    ),
    "a deep function": (
        big_rooms,
        {"cli": "def f():\n for a in b:\n  if a:\n   while a:\n    try: pass\n    finally: pass"},
        "cli.f is nested 4 deep",
    ),
    "a vague name": (vague_names, {"kube.utils": ""}, "kube.utils has a name that says nothing"),
    "a re-export": (vague_names, {"kube.reviewer": "__all__ = ['x']"}, "kube.reviewer re-exports"),
    "a setting without effect": (
        unread_settings,
        {
            "kube.kubeconfig": "class KubeSettings:\n    qps: float = 1.0",
            "config.complete": "settings.qps",
            "app": "settings.qps = 2",
        },
        "kube.kubeconfig.KubeSettings.qps is read by nobody",
    ),
}


@pytest.mark.parametrize("case", PLANTED)
def test_a_planted_violation_is_found(case: str) -> None:
    rule, modules, complaint = PLANTED[case]
    assert complaint in list(rule(modules))


CLEAN = {
    "an allowed edge": {"reviews": "from pyrbacproxy.user import UserInfo", "user": ""},
    "the rim where it belongs": {
        "dataplane.listener": "import asyncio, socket\nasyncio.create_task"
    },
    "a pure module with pure libraries": {
        "http1.head": "import re, enum\nfrom hashlib import sha256"
    },
    "a full function": {"cli": "def f():\n" + "    x = 1\n" * 49},
    "elif is no deeper": {
        "cli": "def f():\n for a in b:\n  for c in a:\n   if a: x\n   elif b: y\n   else: z"
    },
    "a setting that is read": {
        "kube.kubeconfig": "class KubeSettings:\n    qps: float = 1.0",
        "kube.api_client": "bucket(settings.qps)",
    },
}


@pytest.mark.parametrize("case", CLEAN)
def test_what_is_allowed_is_no_violation(case: str) -> None:
    assert [complaint for rule in RULES for complaint in rule(CLEAN[case])] == []
