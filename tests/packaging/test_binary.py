"""The standalone binary on a node that is older than the machine that built it, without Python."""

import json
import re
import signal
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pyrbacproxy.config.flag_parsing import help_text
from pyrbacproxy.demo.api_server import ApiServer
from pyrbacproxy.demo.manifests import read_policy
from pyrbacproxy.demo.pki import server_context
from pyrbacproxy.demo.scene import RBAC, Scene
from pyrbacproxy.demo.tokens import TokenTable
from tests.e2e.programs import Programs, free_port
from tests.e2e.proxy import Proxy
from tests.packaging.old_node import OldNode

pytestmark = pytest.mark.e2e
ROOT = Path(__file__).resolve().parents[2]
BUILD_SECONDS = 500.0
SETTING = "PYRBACPROXY_UNPACK_FOLDER"


@pytest.fixture(scope="session")
def binary() -> Path:
    """build/pyrbacproxy, built when it is not that of these sources."""
    python = Path(sys.prefix, "binary", "bin", "python")
    assert python.exists(), f"{python} is missing: `make setup` brings it"
    built = subprocess.run(
        [python, ROOT / "packaging" / "binary" / "build.py"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return ROOT / "build" / "pyrbacproxy"


@pytest.fixture(scope="session")
def node(binary: Path, tmp_path_factory: pytest.TempPathFactory) -> OldNode:
    return OldNode(tmp_path_factory.mktemp("node") / "root", binary)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    folder = tmp_path / "scene"
    folder.mkdir()
    return Scene(folder)


@pytest.fixture
async def api_server(scene: Scene) -> AsyncIterator[ApiServer]:
    tls = server_context(scene.api_server, scene.authority)
    server = ApiServer(policy=read_policy(RBAC), tokens=TokenTable(scene.tokens), tls=tls)
    await server.start()
    yield server
    await server.close()


def test_the_node_is_old_and_has_no_python(node: OldNode) -> None:
    assert list(node.root.rglob("libc-2.31.so"))
    assert not list(node.root.rglob("*python*"))


def test_it_explains_itself(node: OldNode) -> None:
    result = node.run("/pyrbacproxy", "--help")
    assert (result.returncode, result.stdout, result.stderr) == (0, help_text(), "")


async def test_it_serves_by_certificate_and_by_token(
    node: OldNode, scene: Scene, api_server: ApiServer, programs: Programs
) -> None:
    crio = programs.start("crio", sys.executable, "-m", "pyrbacproxy.demo.crio", "--port=0")
    upstream = f"http://{await crio.logged(r'([0-9.]+:[0-9]+)')}/"
    proxy = await started(node, scene, api_server.url, upstream, programs)
    status, text = await proxy.get(pair=scene.prometheus)
    assert (status, "container_runtime_crio_" in text) == (200, True)
    # The kubeconfig is read by a child: the same file run with the words of a Python interpreter.
    assert (await proxy.get(token=token(scene, "scraper")))[0] == 200
    assert (await proxy.get(token=token(scene, "visitor")))[0] == 403
    assert (await proxy.get())[0] == 401


async def test_it_is_one_process_that_a_signal_ends(
    node: OldNode, scene: Scene, programs: Programs
) -> None:
    proxy = await started(node, scene, "https://127.0.0.1:1", "http://127.0.0.1:1/", programs)
    pid = str(proxy.program.pid)
    assert told(pid, "comm") == "pyrbacproxy\n"
    assert told(pid, "task", pid, "children") == ""
    # The node's own C library is not among them.
    libraries = re.findall(r"/\S+\.so\S*", told(pid, "maps"))
    assert {path for path in libraries if "/pyrbacproxy-" not in path} == set()
    proxy.program.signal(signal.SIGTERM)
    assert await proxy.program.ended() == 0


def test_it_audits(node: OldNode, tmp_path: Path) -> None:
    crictl, paths = tmp_path / "crictl", tmp_path / "paths"
    crictl.write_text(f'#!/bin/sh\necho "${{LD_LIBRARY_PATH-none}}" >>{paths}\necho "{{}}"\n')
    crictl.chmod(0o755)
    words = ("audit", "--output=json", f"--crictl={crictl}", f"--port={free_port()}")
    result = node.run("/pyrbacproxy", *words, shared=tmp_path)
    assert (result.returncode, result.stderr) == (1, "")
    checks = {check["check"]: check for check in json.loads(result.stdout)["checks"]}
    assert checks["legacy-pod"]["status"] == "ok"
    # Programs of the node run with the node's libraries.
    assert set(paths.read_text().split()) == {"none"}


async def test_the_demo_starts_its_parts(node: OldNode, programs: Programs) -> None:
    demo = programs.start("demo", *node.command("/pyrbacproxy", "demo", "--port=0"))
    assert await demo.logged(r"(Ctrl-C ends everything)")
    demo.signal(signal.SIGTERM)
    assert await demo.ended() == 0
    assert "The demo is over." in demo.output()


@pytest.mark.parametrize(
    ("mounts", "why"),
    [
        pytest.param("-o ro", "Read-only file system", id="read-only"),
        pytest.param("-o noexec", "it is mounted noexec", id="noexec"),
        pytest.param("-o size=20m", "No space left on device", id="full"),
    ],
)
def test_a_folder_that_is_no_good_is_named_with_the_setting(
    node: OldNode, mounts: str, why: str
) -> None:
    mount = f'mkdir -p "$1/unpack"; mount -t tmpfs {mounts} none "$1/unpack"'
    run = '/pyrbacproxy --version; echo "$?"; ls -A /unpack'
    result = node.run("/bin/sh", "-c", run, mounts=mount, variables={SETTING: "/unpack"})
    assert result.stdout == "1\n"
    first, second = result.stderr.splitlines()
    assert first == f"pyrbacproxy: cannot unpack into /unpack: {why}"
    assert re.fullmatch(
        rf"Set {SETTING} to a folder that can be written, has \d+ MB free"
        r" and is not mounted noexec\.",
        second,
    )


def test_without_proc_it_says_so(node: OldNode) -> None:
    result = node.run("/pyrbacproxy", "--version", mounts='umount "$1/proc"')
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith("pyrbacproxy: /proc is not mounted")


class TestTheUnpackedFolder:
    @pytest.fixture
    def folder(self, node: OldNode, tmp_path: Path) -> Path:
        """Where it was unpacked to, by the setting, which goes before TMPDIR."""
        self.is_run(node, tmp_path)
        (folder,) = tmp_path.iterdir()
        return folder

    def is_run(self, node: OldNode, place: Path) -> None:
        variables = {SETTING: str(place), "TMPDIR": "/nonesuch"}
        result = node.run("/pyrbacproxy", "--version", shared=place, variables=variables)
        assert (result.returncode, result.stderr) == (0, "")

    def test_is_for_its_owner_alone_and_used_again(self, node: OldNode, folder: Path) -> None:
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        made = {path: path.lstat().st_ino for path in folder.rglob("*")}
        self.is_run(node, folder.parent)
        assert {path: path.lstat().st_ino for path in folder.rglob("*")} == made

    def test_is_made_anew_when_it_was_tidied(self, node: OldNode, folder: Path) -> None:
        next(folder.rglob("libssl.so*")).unlink()
        self.is_run(node, folder.parent)
        assert list(folder.rglob("libssl.so*"))
        assert list(folder.parent.iterdir()) == [folder]

    def test_may_not_be_another_folder_than_ours(self, node: OldNode, folder: Path) -> None:
        folder.chmod(0o777)
        result = node.run(
            "/pyrbacproxy",
            "--version",
            shared=folder.parent,
            variables={SETTING: str(folder.parent)},
        )
        assert (result.returncode, result.stdout) == (1, "")
        assert f"{folder} is there and is not ours alone; remove it" in result.stderr

    def test_is_whole_for_all_who_start_at_once(self, node: OldNode, tmp_path: Path) -> None:
        command = node.command("/pyrbacproxy", "--version", shared=tmp_path)
        words = ("env", f"{SETTING}={tmp_path}", *command)
        running = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(3)]
        assert {one.communicate(timeout=60)[0][:12] for one in running} == {"pyrbacproxy "}
        assert len([path for path in tmp_path.iterdir() if "pyrbacproxy-" in path.name]) == 1


async def started(
    node: OldNode, scene: Scene, api_server: str, upstream: str, programs: Programs
) -> Proxy:
    """The binary on the node, serving with the scene's certificates and rules."""
    port = free_port()
    flags = scene.proxy_flags(port=port, upstream=upstream, api_server=api_server)
    program = programs.start("proxy", *node.command("/pyrbacproxy", *flags, shared=scene.folder))
    await program.listens(port)
    return Proxy(f"127.0.0.1:{port}", program, scene.authority)


def told(*names: str) -> str:
    """What the kernel tells of a process."""
    return Path("/proc", *names).read_text()


def token(scene: Scene, name: str) -> str:
    return scene.token_file(name).read_text()
