"""FR91, FR92: a signal ends the process in order at whichever moment it comes, and quietly."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

KUBECONFIG = """
current-context: here
contexts: [{name: here, context: {cluster: c}}]
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
"""
# The program with a hook of the interpreter's that is called at its every step of some weight, and
# sends us the signal at one of them; a moment that never comes is an error.
PROGRAM = """
import os, sys, weakref
moment, count, is_in_callback = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "yes"
number = sys.argv[4]
del sys.argv[1:5]

class Referent:
    pass

def send(_reference=None):
    os.kill(os.getpid(), int(number))
    [None for _ in range(10)]

def hook(event, args):
    global count
    # Only of texts: any look into a module that is to be imported when used would import it.
    name = args[0] if args and type(args[0]) is str else str()
    if not f"{event} {name}".startswith(moment):
        return
    count -= 1
    if count:
        return
    if is_in_callback:
        # What is raised in such a callback reaches nobody.
        referent = Referent()
        reference = weakref.ref(referent, send)
        del referent
    else:
        send()

from pyrbacproxy.__main__ import main
sys.addaudithook(hook)
sys.exit(main())
"""
PATIENCE_SECONDS = 60


@pytest.fixture(name="flags")
def fixture_flags(tmp_path: Path) -> list[str]:
    path = tmp_path / "kubeconfig"
    path.write_text(KUBECONFIG)
    return [
        "--secure-listen-address=127.0.0.1:0",
        "--upstream=http://127.0.0.1:1",
        f"--kubeconfig={path}",
    ]


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param(("import pyrbacproxy.cli", 1), id="the first import"),
        pytest.param(("import pyrbacproxy.config.complete", 1), id="a later import"),
        pytest.param(("open ", 3), id="a file that is read"),
        pytest.param(("import uvloop", 1), id="the event loop's import"),
        pytest.param(("socket.bind", 1), id="binding"),
        pytest.param(("socket.__new__", 2), id="the event loop's pair of sockets"),
        pytest.param(("socket.__new__", 3), id="its other end"),
    ],
)
@pytest.mark.parametrize("is_in_callback", [False, True], ids=["plain", "in a weakref callback"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_fr92_a_signal_during_the_start_exits_0(
    flags: list[str],
    moment: tuple[str, int],
    is_in_callback: bool,  # noqa: FBT001
    number: signal.Signals,
) -> None:
    event, count = moment
    callback = "yes" if is_in_callback else "no"
    command = [sys.executable, "-c", PROGRAM, event, str(count), callback, str(int(number))]
    ended = subprocess.run(
        [*command, *flags], capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS
    )
    assert ended.returncode == 0, ended.stderr
    assert "Traceback" not in ended.stderr
    assert "internal error" not in ended.stderr
    assert ended.stdout == ""


@pytest.mark.parametrize("step", range(12))
def test_fr91_a_signal_soon_after_the_first_line_exits_0(flags: list[str], step: int) -> None:
    with started(flags) as process:
        assert process.stderr is not None
        process.stderr.readline()
        time.sleep(step * 0.02)
        process.terminate()
        _, told = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0, told
    assert "Traceback" not in told


def test_a_second_signal_exits_at_once(flags: list[str]) -> None:
    with started([*flags, "--shutdown-delay-duration=10m"]) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "Listening" in line:
                break
        process.send_signal(signal.SIGINT)
        for line in process.stderr:
            if "shutting down" in line:
                break
        process.terminate()
        _, told = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 1
    assert "Second signal: exiting at once" in told


def started(flags: list[str]) -> subprocess.Popen[str]:
    """The proxy, which writes its first line before it is half begun."""
    return subprocess.Popen(
        [sys.executable, "-m", "pyrbacproxy", "--logtostderr=true", *flags],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
