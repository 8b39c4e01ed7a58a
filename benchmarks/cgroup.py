"""Control groups of versions 1 and 2: memory and CPU limits for a program, and what it took.

Version 1 has a hierarchy for each controller; a group is made below this process's own. Version 2
lets no group with processes have limited children, so there it is made beside: below the nearest
ancestor that hands memory and CPU on to its children.
"""

import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

CONTROLLERS = ("memory", "cpu")
_PERIOD_US = 100_000  # as the kubelet sets it
_ABSENT_WITHOUT_SWAP = ("memory.memsw.limit_in_bytes", "memory.swap.max")
_REMOVAL_SECONDS = 5.0


class NoGroupsError(Exception):
    """Why this process cannot make groups."""


@dataclass(frozen=True, slots=True)
class Own:
    """This process's groups: the version, and the folder of each controller."""

    version: int
    folders: Mapping[str, Path]


@dataclass(frozen=True, slots=True)
class Limits:
    """As a pod's `resources.limits`: MiB of memory and thousandths of a CPU. 0 is no limit."""

    memory_mib: int = 0
    milli_cpu: int = 0


class Group:
    """A group for one program."""

    def __init__(self, version: int, folders: list[Path]) -> None:
        self._version = version
        # The folder of the memory controller comes first.
        self._folders = folders

    def entered(self, command: list[str]) -> list[str]:
        """The command that enters the group and then becomes `command`."""
        numbers = range(1, len(self._folders) + 1)
        enter = "".join(f'echo $$ > "${number}"; ' for number in numbers)
        script = f'{enter}shift {len(self._folders)}; exec "$@"'
        files = [str(folder / "cgroup.procs") for folder in self._folders]
        return ["sh", "-ec", script, "sh", *files, *command]

    def peak_mib(self) -> float | None:
        """The most memory that was ever charged; None where the kernel doesn't keep it."""
        name = "memory.max_usage_in_bytes" if self._version == 1 else "memory.peak"
        file = self._folders[0] / name
        return int(file.read_text()) / 2**20 if file.exists() else None

    def out_of_memory_kills(self) -> int:
        """How many processes the kernel killed for the memory limit."""
        name = "memory.oom_control" if self._version == 1 else "memory.events"
        return out_of_memory_kills((self._folders[0] / name).read_text())


@contextmanager
def group(limits: Limits) -> Iterator[Group]:
    """A group with these limits; killed with all that is in it and removed at the end.

    Raises NoGroupsError.
    """
    name = f"benchmark-{os.getpid()}-{time.monotonic_ns()}"
    with ExitStack() as cleanup:
        try:
            own = own_groups(
                Path("/proc/self/cgroup").read_text(), Path("/proc/self/mountinfo").read_text()
            )
            parents = [own.folders[controller] for controller in CONTROLLERS]
            if own.version == 2:
                parents = [cleanup.enter_context(_handing_on(parents[0]))] * 2
            # One folder where both controllers share a hierarchy.
            folders = list(dict.fromkeys(parent / name for parent in parents))
            for folder in folders:
                folder.mkdir()
                cleanup.callback(_removed, folder)
            for controller, parent in zip(CONTROLLERS, parents, strict=True):
                for file, value in settings(own.version, controller, limits):
                    path = parent / name / file
                    if file not in _ABSENT_WITHOUT_SWAP or path.exists():
                        path.write_text(value)
        except OSError as error:
            raise NoGroupsError(f"{error.filename}: {error.strerror}") from error
        yield Group(own.version, folders)


def own_groups(cgroup_text: str, mountinfo_text: str) -> Own:
    """What /proc/self/cgroup and /proc/self/mountinfo say; see cgroups(7) and proc(5).

    Raises NoGroupsError when no hierarchy with these controllers is mounted.
    """
    paths: dict[str, str] = {}
    for line in cgroup_text.splitlines():
        _, controllers, path = line.split(":", 2)
        paths |= dict.fromkeys(controllers.split(","), path)
    if all(controller in paths for controller in CONTROLLERS):
        folders = {
            controller: _mounted(paths[controller], mountinfo_text, "cgroup", controller)
            for controller in CONTROLLERS
        }
        return Own(1, folders)
    if "" not in paths:
        raise NoGroupsError("/proc/self/cgroup names neither memory nor cpu")
    folder = _mounted(paths[""], mountinfo_text, "cgroup2", "")
    return Own(2, dict.fromkeys(CONTROLLERS, folder))


def settings(version: int, controller: str, limits: Limits) -> Iterator[tuple[str, str]]:
    """The files to write, in order, and their contents. No swap, as in a pod."""
    memory = limits.memory_mib * 2**20
    quota = limits.milli_cpu * _PERIOD_US // 1000
    if controller == "memory" and memory:
        if version == 1:
            yield "memory.limit_in_bytes", str(memory)
            yield "memory.memsw.limit_in_bytes", str(memory)
        else:
            yield "memory.max", str(memory)
            yield "memory.swap.max", "0"
    if controller == "cpu" and quota:
        if version == 1:
            yield "cpu.cfs_period_us", str(_PERIOD_US)
            yield "cpu.cfs_quota_us", str(quota)
        else:
            yield "cpu.max", f"{quota} {_PERIOD_US}"


def out_of_memory_kills(text: str) -> int:
    """The count in `memory.oom_control` of version 1 and `memory.events` of version 2."""
    fields = dict(line.split() for line in text.splitlines())
    return int(fields.get("oom_kill", 0))


def _mounted(path: str, mountinfo_text: str, kind: str, controller: str) -> Path:
    """Where the group `path` of a hierarchy is to be seen."""
    for line in mountinfo_text.splitlines():
        place, _, source = line.partition(" - ")
        root, mount_point = place.split()[3:5]
        found, _, options = source.split()
        if found == kind and (not controller or controller in options.split(",")):
            # In a container only a part of the hierarchy may be mounted, `root`.
            is_inside = root in ("/", path) or path.startswith(f"{root}/")
            inside = path.removeprefix(root) if is_inside else ""
            return Path(mount_point) / inside.strip("/")
    raise NoGroupsError(f"no {kind} hierarchy {controller}".rstrip() + " is mounted")


@contextmanager
def _handing_on(folder: Path) -> Iterator[Path]:
    """The nearest group whose children have both controllers. What it is told, is taken back."""
    why = OSError(0, "hands memory and cpu on to no child", str(folder))
    while (control := folder / "cgroup.subtree_control").exists():
        missing = set(CONTROLLERS) - set(control.read_text().split())
        if not missing:
            yield folder
            return
        try:
            control.write_text(" ".join(f"+{name}" for name in sorted(missing)))
        except OSError as error:  # it has processes, or not these controllers
            why = error
            folder = folder.parent
            continue
        try:
            yield folder
        finally:
            control.write_text(" ".join(f"-{name}" for name in sorted(missing)))
        return
    raise why


def _removed(folder: Path) -> None:
    """Kill what is in the group and remove it; raises OSError when the kernel keeps it."""
    deadline = time.monotonic() + _REMOVAL_SECONDS
    while True:
        for pid in (folder / "cgroup.procs").read_text().split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        try:
            folder.rmdir()
        except OSError:
            # Killed processes stay until the kernel has cleared them away.
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return
