"""The endpoints port's handler put together: the pages, who may see them, and the checks.

The checks only look at what is known anyway: none connects to anything, so that a page answers
whatever is down.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from OpenSSL import SSL

from pyrbacproxy.admin.health import Check, Look
from pyrbacproxy.admin.status import PageSettings, Program
from pyrbacproxy.authn.authenticator import Authenticator
from pyrbacproxy.authz.static import StaticRule
from pyrbacproxy.authz.subject_access_review import rules_then_review
from pyrbacproxy.background import Activity
from pyrbacproxy.handler import Handler
from pyrbacproxy.kube.reviewer import Client
from pyrbacproxy.measuring import validity
from pyrbacproxy.observe.metrics import Metrics
from pyrbacproxy.observe.process_start import process_started_at
from pyrbacproxy.record import ExchangeRecord
from pyrbacproxy.reviews import Answer, Review, ReviewFailed

if TYPE_CHECKING:
    from pyrbacproxy.admin.pages import Page

# What a build knew of itself: a JSON object that setup.py writes beside this module.
BUILD_FILE = Path(__file__).with_name("build.json")
_BUILD_KEYS = ("gitCommit", "gitTreeState", "buildDate")
# GOARCH, where it differs from the kernel's name for the machine.
_GO_MACHINES = {
    "x86_64": "amd64",
    "aarch64": "arm64",
    "armv6l": "arm",
    "armv7l": "arm",
    "i386": "386",
    "i686": "386",
    "loongarch64": "loong64",
}


def endpoints_handler(
    settings: PageSettings,
    program: Program,
    authenticator: Authenticator,
    rules: tuple[StaticRule, ...],
    *,
    has_api_server: bool,
    checks: tuple[Look, ...],
    others: "dict[bytes, Page]",
) -> Handler:
    """Answers on the endpoints port. `checks` come in the order in which they are listed, `ping`
    first; `others` are pages beyond status, flags, health and version.
    """
    # Imported by those who serve pages: to the others it would only be memory.
    import random  # noqa: PLC0415

    from pyrbacproxy.admin.access import PageAccess, rules_for_pages  # noqa: PLC0415
    from pyrbacproxy.admin.attributes import (  # noqa: PLC0415
        component_attributes,
        node_attributes,
    )
    from pyrbacproxy.admin.pages import Pages, health_pages, page_table  # noqa: PLC0415
    from pyrbacproxy.admin.statusz import DELIMITERS  # noqa: PLC0415

    attributes = node_attributes(settings.node_name) if settings.node_name else component_attributes
    authorizer = rules_then_review(rules_for_pages(rules), has_api_server=has_api_server)
    health = health_pages(checks)
    table = page_table(
        settings,
        program,
        delimiter=partial(random.choice, DELIMITERS),
        health=health,
        others=others,
    )
    return Pages(PageAccess(authenticator, attributes, authorizer), health, table).handle


def serving_certificate(context: SSL.Context | None, reload_fault: str) -> Check:
    """Counts once it has expired, for then no client can verify us. While the old pair serves on
    after a bad reload (D10) it does not.
    """
    name = "serving-certificate"
    if context is None:
        return Check(name, is_ok=False, detail="not there yet", counts_for_readiness=False)
    valid = validity(context)
    if valid is None or valid[1] < time.time():
        return Check(name, is_ok=False, detail="expired")
    if reload_fault:
        return Check(name, is_ok=False, detail=reload_fault, counts_for_readiness=False)
    return Check(name)


def uncounted(name: str, fault: str) -> Check:
    """A check that is shown and never decides."""
    return Check(name, is_ok=not fault, detail=fault, counts_for_readiness=False)


def background(activities: Iterable[Activity]) -> Check:
    """What goes on beside the requests; a failure is tried again and never decides."""
    faults = (f"{one.name} {one.fault}" for one in activities if one.fault)
    return uncounted("background", "; ".join(faults))


def shutdown(*, is_stopping: bool) -> Check:
    """Fails from the signal on, so that no new client is sent to us."""
    return Check("shutdown", is_ok=not is_stopping, detail="shutting down" if is_stopping else "")


class WatchedClient:
    """A client of the API server whose last failure is known; "" after a success or none yet.

    Each call is counted in `metrics`, which `clock` (seconds) tells how long it took.
    """

    def __init__(
        self, client: Client, metrics: Metrics, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._client = client
        self._metrics = metrics
        self._clock = clock
        self.fault = ""

    async def review(
        self, review: Review, asker: str, *, is_preferred: bool, within_seconds: float
    ) -> Answer:
        """The client's answer."""
        begun_at = self._clock()
        answer = await self._client.review(
            review, asker, is_preferred=is_preferred, within_seconds=within_seconds
        )
        self.fault = answer.reason if isinstance(answer, ReviewFailed) else ""
        seconds = self._clock() - begun_at
        self._metrics.reviewed(type(review).__name__, seconds, is_answered=not self.fault)
        return answer


class UpstreamWatch:
    """What the last exchange that reached for the upstream says of it; "" when it answered."""

    def __init__(self) -> None:
        self.fault = ""

    def observe(self, record: ExchangeRecord) -> None:
        """Look at one exchange."""
        if record.upstream_answered_at:
            self.fault = ""
        elif record.failure is not None and record.failure.reason:
            cause = f" ({record.cause})" if record.cause else ""
            self.fault = f"{record.failure}{cause}, at the last request"


def running_program(settings: PageSettings) -> Program:
    """This process, as the pages describe it."""
    return Program(
        version=settings.version,
        language="python" + ".".join(map(str, sys.version_info[:3])),
        implementation=sys.implementation.name,
        platform=go_platform(sys.platform, os.uname().machine),
        started_at=process_started_at(),
        build=build_facts(BUILD_FILE),
    )


def go_platform(system: str, machine: str) -> str:
    """`GOOS/GOARCH`, as Kubernetes' components name where they run."""
    return f"{system}/{_GO_MACHINES.get(machine, machine)}"


def build_facts(path: Path) -> dict[str, str]:
    """The facts in a build's file that are there, in the order of version.Info.

    A page about ourselves is no reason not to start: a file that is missing or odd says nothing.
    """
    try:
        facts = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    if not isinstance(facts, dict):
        return {}
    known = {key: facts.get(key) for key in _BUILD_KEYS}
    return {key: value for key, value in known.items() if isinstance(value, str) and value}
