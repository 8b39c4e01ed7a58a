"""The image: built from the Dockerfile, it serves on a read-only root without any capability."""

import os
import platform
import re
import shutil
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pyrbacproxy.demo.pki import Authority, Pair
from pyrbacproxy.demo.scene import kubeconfig_text
from tests.e2e.cluster import PROXY_USER, READER_ACCOUNT, embedded
from tests.e2e.programs import Programs, free_port
from tests.e2e.proxy import Proxy
from tests.packaging.image import Image, Mounts, Runner, built, download

pytestmark = pytest.mark.e2e

SCRAPER = "system:serviceaccount:openshift-monitoring:prometheus-k8s"
RULES = f"""
authorization:
  static:
    - {{user: {{name: "{SCRAPER}"}}, verb: get, path: /metrics}}
"""
MACHINES = ["x86_64", "aarch64"]
DEFAULT_USER = "65532:65532"
ROOT_USER = "0:0"
USERS = [DEFAULT_USER, ROOT_USER]
# Where the legacy static pod and the sidecar have them.
PKI, KUBERNETES, CONFIG = "/var/lib/kubelet/pki", "/etc/kubernetes", "/etc/kube-rbac-proxy"
PAIR = "kubelet-server-current.pem"
NO_SHELLS = {"/bin/bash": Path("/dev/null"), "/bin/sh": Path("/dev/null")}
# The packages, ours and the bytecode of both and of the standard library; a compiler left behind
# or a second copy shows.
MOST_MIB = 150
# What an init container does that waits for the kubelet's certificate.
INIT = 'for try in 1 2 3; do test -e "$0" && exit 0; sleep 0.1; done; echo "no $0"; exit 1'


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """What pip installs, for each kind of processor."""
    folders = {machine: tmp_path_factory.mktemp(machine) for machine in MACHINES}
    for machine, folder in folders.items():
        download(folder, machine)
    return folders


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory, packages: dict[str, Path]) -> Iterator[Image]:
    with built(tmp_path_factory.mktemp("image"), packages[platform.machine()]) as image:
        yield image


@pytest.fixture
def runner(image: Image, programs: Programs) -> Runner:
    return Runner(image, programs)


@dataclass(frozen=True, slots=True)
class Node:
    """What a container finds around itself: a node's files, an upstream, who asks."""

    mounts: Mounts
    authority: Authority
    scraper: Pair
    token: str
    upstream: str

    def belongs_to(self, user: str) -> None:
        """Give the files to a user: root's are the kubelet's own, others come as a volume."""
        uid, gid = map(int, user.split(":"))
        for folder in self.mounts.values():
            for path in (folder, *folder.iterdir()):
                os.chown(path, uid, gid)


@pytest.fixture
async def node(tmp_path: Path, programs: Programs) -> AsyncIterator[Node]:
    mounts = {inside: tmp_path / inside.replace("/", "-") for inside in (PKI, KUBERNETES, CONFIG)}
    for folder in (tmp_path / "authority", *mounts.values()):
        folder.mkdir()
    authority = Authority(tmp_path / "authority")
    proxy = authority.client("proxy", PROXY_USER)
    shutil.copy(authority.serving("kubelet").combined_file, mounts[PKI] / PAIR)
    shutil.copy(authority.certificate_file, mounts[KUBERNETES] / "kubelet-ca.crt")
    shutil.copy(proxy.combined_file, mounts[CONFIG] / "client.pem")
    (mounts[CONFIG] / "config-file.yaml").write_text(RULES)
    crio = programs.start(
        "crio", sys.executable, "-m", "pyrbacproxy.demo.crio", "--port=0", "--size=100000"
    )
    upstream = await crio.logged(r"^(127\S+)")
    async with embedded(authority) as cluster:
        client = Path(CONFIG, "client.pem")
        kubeconfig = kubeconfig_text(
            cluster.url, Path(KUBERNETES, "kubelet-ca.crt"), Pair(client, client, client)
        )
        (mounts[CONFIG] / "kubeconfig").write_text(kubeconfig)
        scraper = authority.client("scraper", SCRAPER)
        token = await cluster.token(READER_ACCOUNT)
        yield Node(mounts, authority, scraper, token, f"http://{upstream}/")


async def started(
    runner: Runner, node: Node, user: str, *environment: str, mounts: Mounts | None = None
) -> tuple[Proxy, str]:
    """The image's own entrypoint with flags as the sidecar's, once its port is open."""
    port = free_port()
    program, name = runner.start(
        f"--secure-listen-address=127.0.0.1:{port}",
        f"--upstream={node.upstream}",
        f"--config-file={CONFIG}/config-file.yaml",
        f"--kubeconfig={CONFIG}/kubeconfig",
        f"--client-ca-file={KUBERNETES}/kubelet-ca.crt",
        f"--tls-cert-file={PKI}/{PAIR}",
        f"--tls-private-key-file={PKI}/{PAIR}",
        user=user,
        mounts=node.mounts | (mounts or {}),
        environment=environment,
    )
    await program.logged("(Listening securely)")
    return Proxy(f"127.0.0.1:{port}", program, node.authority), name


@pytest.mark.parametrize("user", USERS)
async def test_it_serves_a_scrape_on_a_read_only_root_without_shell_or_capabilities(
    runner: Runner, node: Node, user: str, capsys: pytest.CaptureFixture[str]
) -> None:
    node.belongs_to(user)
    begun = time.monotonic()
    proxy, name = await started(runner, node, user, mounts=NO_SHELLS)
    status, by_certificate = await proxy.get(pair=node.scraper)
    seconds = time.monotonic() - begun
    assert status == 200
    assert len(by_certificate) > 50_000
    resident_mib = runner.resident_mib(name)
    assert await proxy.get(token=node.token) == (200, by_certificate)
    assert (await proxy.get())[0] == 401
    assert (await proxy.get("/other", token=node.token))[0] == 403
    report(
        capsys,
        f"as {user}: first answer {seconds:.2f} s after `runc run`, then {resident_mib:.1f} MiB"
        f" resident, {runner.resident_mib(name):.1f} MiB after a review by token",
    )
    proxy.program.signal(signal.SIGTERM)
    assert await proxy.program.ended() == 0


async def test_every_module_comes_with_its_bytecode(runner: Runner, node: Node) -> None:
    node.belongs_to(DEFAULT_USER)
    proxy, _ = await started(runner, node, DEFAULT_USER, "PYTHONVERBOSE=1")
    assert (await proxy.get(token=node.token))[0] == 200
    proxy.program.signal(signal.SIGTERM)
    assert await proxy.program.ended() == 0
    loaded = re.findall(r"^# code object from '?([^'\n]+)", proxy.program.output(), re.MULTILINE)
    assert any("/pyrbacproxy/kube/" in path for path in loaded)
    assert any("/asyncio/" in path for path in loaded)
    assert [path for path in loaded if not path.endswith(".pyc")] == []


@pytest.mark.parametrize("user", USERS)
async def test_a_key_of_another_user_ends_the_start_with_a_word(
    runner: Runner, node: Node, user: str
) -> None:
    """Root without capabilities is no exception: its files only, like everybody."""
    (other,) = set(USERS) - {user}
    node.belongs_to(other)
    program, _ = runner.start(
        "--secure-listen-address=127.0.0.1:0",
        f"--upstream={node.upstream}",
        f"--tls-cert-file={PKI}/{PAIR}",
        f"--tls-private-key-file={PKI}/{PAIR}",
        user=user,
        mounts=node.mounts,
    )
    assert await program.ended() == 1
    assert re.search(rf"{PAIR}.*Permission denied", program.output())


async def test_what_those_users_may_is_nothing(runner: Runner) -> None:
    """The tests above mean something: no folder to write to, and not one capability."""
    code = (
        "import os; print(open('/proc/self/status').read());"
        "print([p for p in ('/', '/tmp', '/opt') if os.access(p, os.W_OK)])"
    )
    for user in USERS:
        program, _ = runner.start(code, user=user, entrypoint=("python", "-c"))
        assert await program.ended() == 0
        uid = user.partition(":")[0]
        assert re.search(rf"^Uid:\t{uid}\t{uid}\t", program.output(), re.MULTILINE)
        assert set(re.findall(r"^Cap\w+:\t(\w+)", program.output(), re.MULTILINE)) == {"0" * 16}
        assert program.output().rstrip().endswith("[]")


async def test_it_is_called_by_both_names(image: Image, runner: Runner) -> None:
    assert image.user == DEFAULT_USER
    version = await runner.output(*image.entrypoint, "--version")
    assert version.startswith("pyrbacproxy v")
    assert await runner.output("kube-rbac-proxy", "--version") == version
    assert await runner.output("pyrbacproxy", "--version") == version


async def test_the_legacy_pods_init_container_runs_from_it(runner: Runner, node: Node) -> None:
    node.belongs_to(ROOT_USER)
    for name, status in ((PAIR, 0), ("late.pem", 1)):
        program, _ = runner.start(
            INIT,
            f"{PKI}/{name}",
            user=ROOT_USER,
            mounts=node.mounts,
            entrypoint=("/bin/bash", "-c"),
        )
        assert await program.ended() == status, program.output()


def test_it_holds_what_it_needs_and_not_what_built_it(
    image: Image, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not (image.root / "build").exists()
    assert not list((image.root / "etc").glob("pip*"))
    assert not list((image.root / "root").glob(".*cache*"))
    added_mib = image.size_mib - image.base_mib
    report(capsys, f"{image.size_mib:.0f} MiB, of which {added_mib:.0f} MiB are not the base's")
    assert added_mib < MOST_MIB


@pytest.mark.parametrize("machine", MACHINES)
def test_it_builds_without_a_compiler_on(machine: str, packages: dict[str, Path]) -> None:
    names = [path.name for path in packages[machine].iterdir()]
    assert [name for name in names if name.startswith("cryptography-") and machine in name]
    assert [name for name in names if "none-any" not in name and machine not in name] == []


def report(capsys: pytest.CaptureFixture[str], text: str) -> None:
    """Show a measurement also when nothing fails."""
    with capsys.disabled():
        sys.stdout.write(f"\nimage: {text}\n")
