"""The rules of ARCHITECTURE.md, executable: which package may import which, and what pure means.

Every rule is a function from source texts to complaints, so that the rules are tested themselves,
with planted violations.
"""

import ast
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "pyrbacproxy"
PREFIX = "pyrbacproxy."

# package, or module outside one → the packages and modules outside one that it may import
ALLOWED: dict[str, str] = {
    "__main__": "cli signals",
    "cli": "commands config observe serve signals",
    "serve": "certificates config observe opening proxy signals tls wiring",
    "wiring": "access authn authz background certificates client_protocol config handler "
    "http1 http2 kube model observe oidc pages proxy tls",
    "certificates": "config tls",
    "opening": "background config node pages proxy startup tls",
    "client_protocol": "http2 model proxy tls",
    "config": "access authn authz egress http2 kube oidc pages proxy regular_file startup tls "
    "values",
    "http2": "http1 model proxy values",
    "pages": "access authn authz handler http1 model values",
    "access": "authn authz handler http1 model values",
    "commands": "demo node tls values",
    "kube": "background dialing egress http1 model regular_file tls values",
    "oidc": "background dialing egress http1 model values",
    "proxy": "background dialing egress handler http1 model tls values",
    "authn": "handler http1 model values",
    "dialing": "egress tls values",
    "node": "tls values",
    "authz": "http1 model values",
    "demo": "model values",
    "handler": "http1 model values",
    "observe": "background model regular_file values",
    "tls": "background model regular_file values",
    "egress": "values",
    "http1": "values",
    "model": "values",
    "startup": "background values",
    "background": "",
    "regular_file": "",
    "signals": "",
    "values": "",
}

# Pure modules take values and return values; a package's name stands for all its modules.
PURE = (
    "access egress handler model authn.* authz.* demo.documents demo.rbac demo.tokens http1.* "
    "http2.codec http2.fields http2.frames http2.limits http2.upstream_fields kube.memory "
    "kube.review_codec node.audit node.documents node.facts node.kubelet_config "
    "observe.exposition observe.metrics oidc.settings oidc.tokens pages.* proxy.exchange "
    "proxy.heads startup.gate tls.certificate tls.client_chain tls.engine tls.names tls.pem"
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
# What runs in a task of its own or is called by the loop later, by module, and why no fault of it
# is lost. Anything else is to be an `Activity` of `background`, which tries again.
TASKS: dict[str, tuple[str, ...]] = {
    # Each an `Activity.repeat` or `attempt`; and the drains, which are waited for.
    "serve": ("part.run()", "listener.drain(ends_at - clock())"),
    # Waited for, all but the search, an `attempt`.
    "opening": (
        "self._watch.opened()",
        "stopped.wait()",
        "self.activity.attempt(self._find_holders)",
    ),
    # One review or connection each: what they raise is told to those who wait, and to the loop.
    "kube.reviewer": ("self._fly(flight)",),
    "proxy.listener": ("self._connect(transport, connection)",),
    "proxy.connector": ("dial",),
    "http2.upstream_connector": ("self._dial()",),
    "commands.demo": ("child.wait()",),
}
CALLS_LATER: dict[str, tuple[str, ...]] = {
    # They try again by themselves.
    "observe.logs": ("self._look",),
    "observe.access_log": ("self._flush",),
    "proxy.transport": ("self._fire",),
    "proxy.listener": ("self._try_again",),
    # A connection that fails is cut.
    "proxy.client_http1": ("self._advance_later",),
    "http2.server": ("self._go_on_later", "self._turn"),
    # Each request that waits is told apart from the others.
    "oidc.issuer": ("self._answer",),
    # Nothing is left undone: the next one to come has them called again.
    "kube.rate": ("self._give_turns",),
    "observe.process": ("self._called",),
    # They cannot fail.
    "startup.watch": ("self._settled", "self._woken.set"),
    "kube.api_client": ("connection.close",),
    # A program of its own.
    "demo.crio": ("_keep_fresh",),
}
# Coroutines that go on for ever beside `Activity.repeat`; each step of theirs is an `attempt`, or
# in doubt keeps the gate closed.
MAY_LOOP = "background oidc.issuer startup.watch"
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "base", "manager", "misc"}

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


@cache
def nodes(source: str) -> tuple[ast.AST, ...]:
    """The nodes of the source's tree; read once, for many rules look at them."""
    return tuple(ast.walk(ast.parse(source)))


@cache
def imported(source: str) -> tuple[str, ...]:
    """Every dotted name that the source imports, `from a import b` as `a.b`."""
    names: list[str] = []
    for node in nodes(source):
        if isinstance(node, ast.Import):
            names += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = "." * node.level + (node.module or "")
            names += (f"{start}.{alias.name}" for alias in node.names)
    return tuple(names)


def our_imports(source: str, modules: Modules) -> set[str]:
    """The modules of ours that the source imports, by their name in `modules`."""
    ours = {name.removeprefix(PREFIX) for name in imported(source) if name.startswith(PREFIX)}
    return {name if name in modules else name.rpartition(".")[0] for name in ours}


def called(node: ast.Call) -> str:
    """The name that is called, its last two parts at most: `b.c` for `a.b.c()`."""
    return ".".join(ast.unparse(node.func).split(".")[-2:])


# --- rules ----------------------------------------------------------------------------


def edges_outside_the_table(modules: Modules) -> Iterator[str]:
    for name, source in modules.items():
        package = name.partition(".")[0]
        if package not in ALLOWED:
            yield f"{package} has no row in ALLOWED"
            continue
        if any(found.startswith(".") for found in imported(source)):
            yield f"{name} imports relatively"
        allowed = {package, *ALLOWED[package].split()}
        for used in sorted(our_imports(source, modules)):
            if used.partition(".")[0] not in allowed:
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
        if any(found in {"typing.Any", "typing.cast"} for found in imported(source)):
            yield f"{name} is pure and uses Any or cast"
        for node in nodes(source):
            if isinstance(node, ast.Call) and called(node) in WORLDLY_CALLS:
                yield f"{name} is pure but calls {called(node)} in line {node.lineno}"


@cache
def rim_imports(source: str) -> set[str]:
    return {
        rim
        for found in imported(source)
        for rim in RIM
        if found == rim or found.startswith(f"{rim}.")
    }


def stray_tasks(modules: Modules) -> Iterator[str]:
    """Tasks outside TASKS: no fault of what goes on beside the requests may end it (D38)."""
    for name, source in modules.items():
        direct = {"asyncio.create_task", "asyncio.ensure_future"}
        if direct & set(imported(source)):
            yield f"{name} imports create_task"
        for node in nodes(source):
            if isinstance(node, ast.Call) and method(node) in {"create_task", "ensure_future"}:
                started = ast.unparse(node.args[0]) if node.args else ""
                if started not in TASKS.get(name, ()):
                    yield f"{name} starts a task with {started} in line {node.lineno}"


def stray_timers(modules: Modules) -> Iterator[str]:
    """What the loop is to call later, outside CALLS_LATER (D38)."""
    for name, source in modules.items():
        for node in nodes(source):
            place = {"call_soon": 0, "call_later": 1, "call_at": 1}.get(
                method(node) if isinstance(node, ast.Call) else ""
            )
            if isinstance(node, ast.Call) and place is not None:
                called_later = ast.unparse(node.args[place]) if len(node.args) > place else ""
                if called_later not in CALLS_LATER.get(name, ()):
                    yield f"{name} has {called_later} called later in line {node.lineno}"


def stray_loops(modules: Modules) -> Iterator[str]:
    """Coroutines that go on for ever without `Activity.repeat` (D38)."""
    for name, source in modules.items():
        if matches(name, MAY_LOOP):
            continue
        for node in nodes(source):
            if isinstance(node, ast.AsyncFunctionDef):
                for inner in ast.walk(node):
                    if isinstance(inner, ast.While) and isinstance(inner.test, ast.Constant):
                        yield f"{name} loops for ever in line {inner.lineno}"


def method(node: ast.Call) -> str:
    """The last part of the name that is called."""
    return called(node).rpartition(".")[2]


def bare_excepts(modules: Modules) -> Iterator[str]:
    for name, source in modules.items():
        for node in nodes(source):
            if isinstance(node, ast.ExceptHandler) and node.type is None:
                yield f"{name} has a bare except in line {node.lineno}"


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
        for node in nodes(source)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    }
    for name, source in modules.items():
        for node in nodes(source):
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
    stray_timers,
    stray_loops,
    bare_excepts,
    vague_names,
    unread_settings,
]


# --- the program ----------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_program_keeps_the_rule(rule: Callable[[Modules], Iterator[str]]) -> None:
    assert list(rule(on_disk())) == []


def test_package_files_are_empty() -> None:
    assert [path for path in SOURCE.rglob("__init__.py") if path.read_bytes()] == []


def test_the_tables_name_nothing_that_is_gone() -> None:
    modules = on_disk()
    packages = {name.partition(".")[0] for name in modules}
    assert sorted({*ALLOWED, *" ".join(ALLOWED.values()).split()} - packages) == []
    patterns = [*f"{PURE} {MAY_LOOP}".split(), *TASKS, *CALLS_LATER]
    assert [one for one in patterns if not any(fnmatch(name, one) for name in modules)] == []


# --- the rules themselves -------------------------------------------------------------

PLANTED: dict[str, tuple[Callable[[Modules], Iterator[str]], dict[str, str], str]] = {
    "an edge that the table lacks": (
        edges_outside_the_table,
        {"kube.reviewer": "from pyrbacproxy.access import Access", "access": ""},
        "kube.reviewer must not import access",
    ),
    "an edge by plain import": (
        edges_outside_the_table,
        {"model": "import pyrbacproxy.handler", "handler": ""},
        "model must not import handler",
    ),
    "a module as a member of its package": (
        edges_outside_the_table,
        {"model": "from pyrbacproxy.http1 import head", "http1.head": ""},
        "model must not import http1.head",
    ),
    "an edge inside a function": (
        edges_outside_the_table,
        {"model": "def f() -> None:\n    from pyrbacproxy import handler", "handler": ""},
        "model must not import handler",
    ),
    "a relative import": (
        edges_outside_the_table,
        {"http1.head": "from .errors import ProtocolError"},
        "http1.head imports relatively",
    ),
    "a package without a row": (
        edges_outside_the_table,
        {"extra.module": ""},
        "extra has no row in ALLOWED",
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
        {"handler": "from pyrbacproxy.model import U", "model": "import asyncio.events"},
        "handler is pure but reaches asyncio through model",
    ),
    "a clock in a pure module": (
        impurities,
        {"handler": "import datetime\ndatetime.datetime.now()"},
        "handler is pure but calls datetime.now in line 2",
    ),
    "Any in a pure module": (
        impurities,
        {"handler": "from typing import Any"},
        "handler is pure and uses Any or cast",
    ),
    "a stray task": (
        stray_tasks,
        {"tls.reloader": "import asyncio\nasyncio.create_task(x())"},
        "tls.reloader starts a task with x() in line 2",
    ),
    "a stray task of a group, where others are allowed": (
        stray_tasks,
        {"app": "tasks.create_task(part.run())\ntasks.create_task(renew())"},
        "app starts a task with renew() in line 2",
    ),
    "a stray timer": (
        stray_timers,
        {"kube.turns": "loop.call_later(1, self._give_turns)\nloop.call_later(1, self._renew)"},
        "kube.turns has self._renew called later in line 2",
    ),
    "a stray call": (
        stray_timers,
        {"admin.pages": "loop.call_soon(renew, 1)"},
        "admin.pages has renew called later in line 1",
    ),
    "a stray loop": (
        stray_loops,
        {"tls.reloader": "async def run():\n    while True:\n        await sleep(1)"},
        "tls.reloader loops for ever in line 2",
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
    "an allowed edge": {"handler": "from pyrbacproxy.model import UserInfo", "model": ""},
    "the rim where it belongs": {
        "proxy.connector": "import asyncio, socket\nasyncio.create_task(dial)"
    },
    "a pure module with pure libraries": {
        "http1.head": "import re, enum\nfrom hashlib import sha256"
    },
    "a setting that is read": {
        "kube.kubeconfig": "class KubeSettings:\n    qps: float = 1.0",
        "kube.api_client": "bucket(settings.qps)",
    },
}


@pytest.mark.parametrize("case", CLEAN)
def test_what_is_allowed_is_no_violation(case: str) -> None:
    assert [complaint for rule in RULES for complaint in rule(CLEAN[case])] == []
