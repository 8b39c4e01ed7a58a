"""`/healthz`, `/livez`, `/readyz`: what they check, as Kubernetes' components answer.

`/healthz` and `/livez` check that we answer at all. `/readyz` shows every check, but only some
decide: an API server or an upstream that is away must not take the pod out of its Service, for the
proxy answers as it should without them, and a restart would mend neither. The exact paths are for
everybody and name no cause; a single check (`/readyz/upstream`) does, to who may read it.
"""

import json
from collections.abc import Callable, Iterable
from typing import TypeAlias

from pyrbacproxy.handler import Request
from pyrbacproxy.http1.head import Response, text
from pyrbacproxy.http1.target import parse_query
from pyrbacproxy.values import Frozen


class Check(Frozen):
    """What one check found just now.

    `detail` is for who is authorized: the cause of a failure, or more about a success. `progress`
    is for everybody, fixed words of ours (`waiting: manifest, 132s`). Without
    `counts_for_readiness` a failure is shown and does not decide.
    """

    name: str
    is_ok: bool = True
    detail: str = ""
    counts_for_readiness: bool = True
    progress: str = ""


Look: TypeAlias = Callable[[], Check]


class Report(Frozen):
    """The answer, and the causes for the log, "" when all is well."""

    response: Response
    causes: str = ""


class Health:
    """One health page and its checks."""

    __slots__ = ("_checks", "_name", "paths")

    def __init__(self, name: str, checks: Iterable[Look]) -> None:
        self._name = name
        self._checks = tuple(checks)
        self.paths = {f"/{name}/{look().name}".encode(): look for look in self._checks}

    def report(self, request: Request) -> Report:
        """All checks at once; `?verbose` lists them, `?exclude=<check>` leaves one out."""
        pairs = parse_query(request.target.raw_query).pairs
        excluded = {value for name, value in pairs if name == "exclude"}
        checks = [look() for look in self._checks]
        failed = [
            check
            for check in checks
            if not check.is_ok and check.counts_for_readiness and check.name not in excluded
        ]
        if not failed and all(name != "verbose" for name, _ in pairs):
            return Report(text(200, "ok"))
        lines = [_line(check, is_excluded=check.name in excluded) for check in checks]
        unknown = sorted(excluded.difference(check.name for check in checks))
        if unknown:
            names = ",".join(json.dumps(name) for name in unknown)
            lines.append(f"warn: some health checks cannot be excluded: no matches for {names}")
        lines.append(f"{self._name} check {'failed' if failed else 'passed'}")
        causes = "; ".join(f"{check.name}: {check.detail}" for check in failed)
        return Report(text(500 if failed else 200, "\n".join((*lines, ""))), causes)


def single(check: Check) -> Response:
    """One check, with its cause."""
    if not check.is_ok:
        return text(500, f"internal server error: {check.detail}\n")
    return text(200, f"ok: {check.detail}\n" if check.detail else "ok")


def _line(check: Check, *, is_excluded: bool) -> str:
    if is_excluded:
        return f"[+]{check.name} excluded: ok"
    if not check.is_ok:
        uncounted = "" if check.counts_for_readiness else " (does not count)"
        return f"[-]{check.name} failed: reason withheld{uncounted}"
    return f"[+]{check.name} ok" + (f" ({check.progress})" if check.progress else "")
