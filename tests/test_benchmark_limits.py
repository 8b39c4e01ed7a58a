"""What `benchmarks.cgroup` reads of and writes to control groups, on texts of both versions; and
that what `benchmarks.limits` starts is gone afterwards, on what this machine has.
"""

import os
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from benchmarks import cgroup
from benchmarks.cgroup import Limits, NoGroupsError, Own

V1_MOUNTS = """\
24 18 0:21 / /sys/fs/cgroup ro,nosuid - tmpfs tmpfs ro,mode=755
25 24 0:22 / /sys/fs/cgroup/unified rw,nosuid shared:5 - cgroup2 cgroup2 rw
26 24 0:23 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct
27 24 0:24 / /sys/fs/cgroup/memory rw,nosuid shared:10 - cgroup cgroup rw,memory
"""
V2_MOUNTS = """\
22 28 0:20 / /proc rw,nosuid shared:13 - proc proc rw
30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot
"""
# A container whose own group alone is mounted, and whose /proc shows the host's paths.
CONTAINER_MOUNTS = """\
40 39 0:23 /docker/4f1c /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu,cpuacct
41 39 0:24 /docker/4f1c /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory
"""


@pytest.mark.parametrize(
    ("groups", "mounts", "version", "memory", "cpu"),
    [
        (
            "9:memory:/user.slice/session-2.scope\n5:cpu,cpuacct:/user.slice\n0::/user.slice\n",
            V1_MOUNTS,
            1,
            "/sys/fs/cgroup/memory/user.slice/session-2.scope",
            "/sys/fs/cgroup/cpu,cpuacct/user.slice",
        ),
        (
            "2:memory:/\n1:cpu:/\n",
            V1_MOUNTS,
            1,
            "/sys/fs/cgroup/memory",
            "/sys/fs/cgroup/cpu,cpuacct",
        ),
        (
            "0::/user.slice/user-0.slice/session-2.scope\n",
            V2_MOUNTS,
            2,
            "/sys/fs/cgroup/user.slice/user-0.slice/session-2.scope",
            "/sys/fs/cgroup/user.slice/user-0.slice/session-2.scope",
        ),
        (
            "2:memory:/docker/4f1c/inner\n1:cpu,cpuacct:/docker/4f1c\n",
            CONTAINER_MOUNTS,
            1,
            "/sys/fs/cgroup/memory/inner",
            "/sys/fs/cgroup/cpu",
        ),
        (
            "2:memory:/docker/4f1c9\n1:cpu,cpuacct:/docker\n",
            CONTAINER_MOUNTS,
            1,
            "/sys/fs/cgroup/memory",
            "/sys/fs/cgroup/cpu",
        ),
    ],
    ids=["version 1", "version 1, root", "version 2", "container", "another's path"],
)
def test_this_process_groups_are_found(
    groups: str, mounts: str, version: int, memory: str, cpu: str
) -> None:
    expected = Own(version, {"memory": Path(memory), "cpu": Path(cpu)})
    assert cgroup.own_groups(groups, mounts) == expected


@pytest.mark.parametrize(
    ("groups", "mounts"),
    [("0::/\n", V1_MOUNTS.replace("cgroup2", "other")), ("3:pids:/\n", V1_MOUNTS), ("", "")],
    ids=["not mounted", "other controllers", "none"],
)
def test_without_a_hierarchy_there_are_no_groups(groups: str, mounts: str) -> None:
    with pytest.raises(NoGroupsError):
        cgroup.own_groups(groups, mounts)


@pytest.mark.parametrize(
    ("version", "controller", "limits", "files"),
    [
        (
            1,
            "memory",
            Limits(40, 20),
            [
                ("memory.limit_in_bytes", "41943040"),
                # Behind the other: it may not be below it.
                ("memory.memsw.limit_in_bytes", "41943040"),
            ],
        ),
        (
            1,
            "cpu",
            Limits(40, 20),
            [("cpu.cfs_period_us", "100000"), ("cpu.cfs_quota_us", "2000")],
        ),
        (
            2,
            "memory",
            Limits(40, 20),
            [("memory.max", "41943040"), ("memory.swap.max", "0")],
        ),
        (2, "cpu", Limits(40, 100), [("cpu.max", "10000 100000")]),
        (1, "memory", Limits(), []),
        (2, "cpu", Limits(), []),
    ],
)
def test_limits_are_written_as_the_kubelet_writes_them(
    version: int, controller: str, limits: Limits, files: list[tuple[str, str]]
) -> None:
    assert list(cgroup.settings(version, controller, limits)) == files


@pytest.mark.parametrize(
    ("text", "kills"),
    [
        ("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n", 2),
        ("oom_kill_disable 0\nunder_oom 0\n", 0),
        ("low 0\nhigh 0\nmax 117\noom 1\noom_kill 1\noom_group_kill 0\n", 1),
    ],
    ids=["version 1", "version 1, before Linux 4.13", "version 2"],
)
def test_processes_killed_for_memory_are_counted(text: str, kills: int) -> None:
    assert cgroup.out_of_memory_kills(text) == kills


@pytest.mark.parametrize(
    ("version", "file"), [(1, "memory.max_usage_in_bytes"), (2, "memory.peak")]
)
def test_the_peak_is_read_where_the_kernel_keeps_one(
    tmp_path: Path, version: int, file: str
) -> None:
    group = cgroup.Group(version, [tmp_path])
    assert group.peak_mib() is None
    (tmp_path / file).write_text("27262976\n")
    assert group.peak_mib() == 26


def test_a_program_is_in_all_folders_of_its_group_before_it_begins(tmp_path: Path) -> None:
    folders = [tmp_path / "memory", tmp_path / "cpu"]
    for folder in folders:
        folder.mkdir()
    command = cgroup.Group(1, folders).entered(["sh", "-c", 'echo "$$ $*"', "name", "a b", "c"])
    pid, words = subprocess.check_output(command, text=True).split(maxsplit=1)
    assert words == "a b c\n"
    assert [(folder / "cgroup.procs").read_text() for folder in folders] == [f"{pid}\n"] * 2


def test_where_no_folder_can_be_made_the_reason_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "absent"
    own = Own(1, dict.fromkeys(cgroup.CONTROLLERS, folder))
    monkeypatch.setattr(cgroup, "own_groups", lambda *_texts: own)
    with pytest.raises(NoGroupsError, match=rf"^{folder}/benchmark-\S+: No such file"):
        cgroup.group(Limits()).__enter__()


@pytest.mark.parametrize(
    ("before", "during", "after"),
    [("cpu memory pids", "cpu memory pids", "cpu memory pids"), ("memory", "+cpu", "-cpu")],
    ids=["already", "taken back"],
)
def test_version_2_hands_controllers_on_for_as_long_as_needed(
    tmp_path: Path, before: str, during: str, after: str
) -> None:
    control = tmp_path / "cgroup.subtree_control"
    control.write_text(before)
    with cgroup._handing_on(tmp_path) as folder:
        assert (folder, control.read_text()) == (tmp_path, during)
    assert control.read_text() == after


def test_a_group_goes_with_what_is_in_it() -> None:
    """Where the kernel lets this process make one; elsewhere nothing is left either."""
    begun: list[subprocess.Popen[bytes]] = []
    with suppress(NoGroupsError, ZeroDivisionError), cgroup.group(Limits(40, 20)) as group:
        begun.append(subprocess.Popen(group.entered(["sleep", "60"])))
        raise ZeroDivisionError
    # Killed, or the group was gone before the program could enter it.
    for process in begun:
        assert process.wait(10) != 0
    texts = Path("/proc/self/cgroup").read_text(), Path("/proc/self/mountinfo").read_text()
    with suppress(NoGroupsError):
        for folder in cgroup.own_groups(*texts).folders.values():
            assert list(folder.glob(f"benchmark-{os.getpid()}-*")) == []
