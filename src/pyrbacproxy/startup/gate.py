"""The start-up gate: whether the secure port may be taken yet; a state machine over facts and time.

It waits for paths to be gone (a static pod's manifest), for the serving pair, for a client CA that
is missing, and last for the port. Until the port was taken a path that comes back closes it again;
afterwards nothing does.
"""

from enum import Enum

from pyrbacproxy.values import Frozen

_PORT_SECONDS = 0.01
_PATIENT_PORT_SECONDS = 0.1
# An old listener ends within seconds of its manifest; one that hangs longer is worth less.
_EAGER_SECONDS = 120.0
_REMINDER_SECONDS = 60.0
_FILES_SECONDS = 1.0
# Where the kernel tells nothing.
_UNTOLD_FILES_SECONDS = 0.25


class GateSettings(Frozen):
    """What the secure listener waits for. `timeout_seconds` 0 means for ever.

    `is_ready_meanwhile` is what `/readyz` says during the wait.
    """

    absent_paths: tuple[str, ...] = ()
    waits_for_port: bool = False
    waits_for_pair: bool = False
    timeout_seconds: float = 0.0
    is_ready_meanwhile: bool = True

    @property
    def has_waits(self) -> bool:
        """Whether there is anything to wait for."""
        return bool(self.absent_paths) or self.waits_for_port or self.waits_for_pair


class Reason(Enum):
    """What the gate waits for, as everybody may read it."""

    MANIFEST = "manifest"
    PAIR = "serving certificate"
    CLIENT_CA = "client CA"
    PORT = "port"


class Obstacle(Frozen):
    """One thing that keeps the gate closed; `text` names it, for the log and for who may know."""

    reason: Reason
    text: str


class Found(Frozen):
    """A path that should be gone and isn't; `error` says why that is not certain, "" if it is."""

    path: str
    error: str = ""


class Gate:
    """Told facts and the time (seconds on any one clock); says what is due, and what to log."""

    __slots__ = (
        "_cleared_at",
        "_is_open",
        "_lines",
        "_obstacles",
        "_settings",
        "_started_at",
        "_told",
        "_told_at",
    )

    def __init__(self, settings: GateSettings, now: float) -> None:
        self._settings = settings
        self._started_at = now
        self._obstacles: tuple[Obstacle, ...] = ()
        # Since when nothing but the port is left.
        self._cleared_at: float | None = None
        self._is_open = False
        self._told = ""
        self._told_at = now
        self._lines: list[str] = []

    @property
    def is_open(self) -> bool:
        """Whether the port is ours: for good."""
        return self._is_open

    @property
    def may_bind(self) -> bool:
        """Whether the port is all that is left."""
        return self._cleared_at is not None

    @property
    def obstacles(self) -> tuple[Obstacle, ...]:
        """What it waits for now."""
        return self._obstacles

    def see_files(
        self, found: tuple[Found, ...], pair_fault: str, client_ca_fault: str, now: float
    ) -> None:
        """The paths that are still there, and what is wrong with the serving pair and with the
        client CA ("": nothing).
        """
        obstacles = [Obstacle(Reason.MANIFEST, _presence(path)) for path in found]
        if pair_fault:
            obstacles.append(Obstacle(Reason.PAIR, f"the serving certificate: {pair_fault}"))
        if client_ca_fault:
            obstacles.append(Obstacle(Reason.CLIENT_CA, f"the client CA: {client_ca_fault}"))
        if obstacles:
            self._cleared_at = None
            self._wait_for(tuple(obstacles), now)
        elif self._cleared_at is None:
            self._cleared_at = now

    def see_port_taken(self, fault: str, now: float) -> None:
        """The port cannot be had yet, and why."""
        self._wait_for((Obstacle(Reason.PORT, f"the port: {fault}"),), now)

    def open(self, now: float) -> None:
        """The port was taken."""
        self._obstacles = ()
        self._is_open = True
        self._lines.append(f"Start-up gate: open after {now - self._started_at:.3f}s")

    def pause_seconds(self, now: float, *, has_events: bool) -> float:
        """How long until the facts are to be gathered again, unless an event comes first."""
        if self._cleared_at is None:
            pause = _FILES_SECONDS if has_events else _UNTOLD_FILES_SECONDS
        elif now - self._cleared_at < _EAGER_SECONDS:
            pause = _PORT_SECONDS
        else:
            pause = _PATIENT_PORT_SECONDS
        if not self._settings.timeout_seconds:
            return pause
        return max(0.0, min(pause, self._started_at + self._settings.timeout_seconds - now))

    def has_given_up(self, now: float) -> bool:
        """Whether it has waited for too long."""
        timeout = self._settings.timeout_seconds
        return not self._is_open and 0 < timeout <= now - self._started_at

    def take_lines(self) -> tuple[str, ...]:
        """What is to be logged since the last call."""
        lines = tuple(self._lines)
        self._lines.clear()
        return lines

    def summary(self, now: float) -> str:
        """In a few words that betray nothing: `waiting: manifest, 132s`; "" when it is open."""
        if self._is_open:
            return ""
        names = dict.fromkeys(obstacle.reason.value for obstacle in self._obstacles)
        return "waiting: " + ", ".join((*names, self._waited(now)))

    def detail(self) -> str:
        """What it waits for, with paths and causes; "" when there is nothing."""
        return "; ".join(obstacle.text for obstacle in self._obstacles)

    def _wait_for(self, obstacles: tuple[Obstacle, ...], now: float) -> None:
        self._obstacles = obstacles
        text = self.detail()
        if text != self._told:
            self._lines.append(f"Start-up gate: waiting for {text}")
        elif now - self._told_at >= _REMINDER_SECONDS:
            self._lines.append(f"Start-up gate: still waiting after {self._waited(now)} for {text}")
        else:
            return
        self._told, self._told_at = text, now

    def _waited(self, now: float) -> str:
        return f"{int(now - self._started_at)}s"


def _presence(found: Found) -> str:
    if found.error:
        return f"{found.path}: whether it is gone cannot be seen ({found.error}), so it is not"
    return f"{found.path}: it is still there"
