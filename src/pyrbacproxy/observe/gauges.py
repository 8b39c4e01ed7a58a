"""What `/metrics` shows that nobody counts: looked up at the moment when somebody asks."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Connections:
    """A listener's connections: open now, and accepted since the start."""

    open: int
    accepted: int


@dataclass(frozen=True, slots=True)
class Files:
    """Watched files: how often they were replaced or found bad since the start, and if they are."""

    reloads: int
    failures: int
    is_bad: bool


@dataclass(frozen=True, slots=True)
class Task:
    """Something beside the requests: its unexpected failures since the start; if it works now."""

    failures: int
    is_failing: bool


@dataclass(frozen=True, slots=True)
class Gauges:
    """What is looked up at the moment.

    `started_at`, `certificate_begins_at` and `certificate_expires_at` are seconds since the epoch,
    the last two None without a pair.
    `access_log_dropped` counts lines since the start.
    `build` has the keys of Kubernetes' version.Info; `checks` are those of /readyz.
    """

    connections: Mapping[str, Connections]
    connections_limit: int
    files: Mapping[str, Files]
    certificate_begins_at: float | None
    certificate_expires_at: float | None
    is_gate_open: bool
    background: Mapping[str, Task]
    checks: Mapping[str, bool]
    features: Mapping[str, bool]
    build: Mapping[str, str]
    access_log_dropped: int
    component: str
    started_at: float
