"""What the pages show: the settings of the pages, the program that runs, and its status now.

Text and structured forms of a page are made from one of these values, so that they cannot drift.
Nothing secret fits in: a flag's value arrives here as it may be shown.
"""

from collections.abc import Iterable, Mapping

from pyrbacproxy.values import Frozen, field

# The name under which monitoring knows the program that we stand in for; it is also
# `metadata.name` and the metrics' label `component`.
COMPONENT = "kube-rbac-proxy"

# Folders that no component lists (Kubernetes' statusz registry).
_NEVER_LISTED = frozenset(("/apis", "/api", "/openid", "/openapi", "/.well-known"))


class PageSettings(Frozen):
    """How the pages are guarded and what they say.

    `node_name` "" means component mode, else the kubelet's model with that node. `version` has no
    leading v. `flags` holds name and shown value of every flag, passwords masked, sorted by name.
    """

    node_name: str = ""
    version: str = ""
    flags: tuple[tuple[str, str], ...] = ()
    has_statusz: bool = True
    has_flagz: bool = True


class Program(Frozen):
    """The running program. `language` is `python3.12.3`, `implementation` `cpython`, `platform`
    `linux/amd64`; `started_at` is the process's start in seconds since the epoch.

    `emulation` is `major.minor`, "" for none. `build` holds those of `gitCommit`, `gitTreeState`
    and `buildDate` that are known, in this order.
    """

    version: str
    language: str
    implementation: str
    platform: str
    started_at: float
    emulation: str = ""
    build: Mapping[str, str] = field(default_factory=dict)


class Status(Frozen):
    """The program at one instant; both times are whole seconds."""

    program: Program
    started_at: int
    uptime_seconds: int
    paths: tuple[str, ...]


def status_at(program: Program, paths: Iterable[str], now: float) -> Status:
    """The status at `now` (seconds since the epoch). A clock that was set back shows no uptime
    below zero.
    """
    uptime_seconds = max(0, int(now - program.started_at))
    return Status(program, int(program.started_at), uptime_seconds, top_folders(paths))


def top_folders(paths: Iterable[str]) -> tuple[str, ...]:
    """The first segment of each path, once, sorted bytewise; what has none is dropped."""
    folders = {"/" + path.split("/")[1] for path in paths if path.startswith("/")}
    return tuple(sorted(folders - {"/"} - _NEVER_LISTED))
