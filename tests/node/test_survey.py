"""What a survey sees of made-up roots; ports and answers are real ones on loopback."""

import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from pyrbacproxy.demo.pki import Authority
from pyrbacproxy.node.facts import (
    CertificateFile,
    Leftovers,
    LegacyPod,
    Manifest,
    NoAnswer,
    NodeFacts,
    NotSeen,
    Role,
    StaticPodPath,
)
from pyrbacproxy.node.scrape import Credential, CredentialError
from pyrbacproxy.node.survey import Scope, survey
from pyrbacproxy.values import replace

NOW = 1.8e9
KUBELET = "etc/kubernetes/kubelet.conf"
CA = "etc/kubernetes/kubelet-ca.crt"
SERVING = "var/lib/kubelet/pki/kubelet-server-current.pem"
OUT_OF_SIGHT = "not in sight, for /etc/machine-config-daemon is not"
POD = "kind: Pod\nmetadata: {name: x, namespace: ns}\n"
Put = Callable[[str, str], None]
Look = Callable[..., NodeFacts]


@pytest.fixture(name="put")
def fixture_put(tmp_path: Path) -> Put:
    def put(path: str, text: str) -> None:
        file = tmp_path / "root" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    return put


@pytest.fixture(name="scope")
def fixture_scope(tmp_path: Path) -> Scope:
    """Nothing to see, and nobody who listens."""
    root, proc = tmp_path / "root", tmp_path / "proc"
    root.mkdir()
    (proc / "net").mkdir(parents=True)
    (proc / "net" / "tcp").write_text("header\n")
    return Scope(root, proc, 9637, 9537, "crictl-that-is-nowhere")


def test_in_an_empty_root_nothing_shows_and_nothing_is_absent(scope: Scope) -> None:
    facts = survey(scope, NOW)
    unseen = [
        facts.static_pod_path,
        facts.manifests,
        facts.legacy_pod,
        facts.serving,
        facts.client_ca,
        facts.anonymous,
        facts.scrape,
    ]
    assert [one for one in unseen if not isinstance(one, NotSeen)] == []
    assert (facts.leftovers.paths, len(facts.leftovers.unseen)) == ((), 3)
    assert (facts.listeners, facts.upstream) == ((), ())
    assert facts.anonymous == NotSeen("nobody listens")
    assert (facts.now, facts.role, facts.port, facts.upstream_port) == (NOW, None, 9637, 9537)


def test_with_the_kubelets_file_absence_shows(scope: Scope, put: Put) -> None:
    put(KUBELET, "kind: KubeletConfiguration\n")
    put("var/lib/kubelet/pki/other", "")
    put("etc/machine-config-daemon/currentconfig", "")
    (scope.host_root / "var/log/pods").mkdir(parents=True)
    facts = survey(replace(scope, role=Role.WORKER), NOW)
    assert facts.static_pod_path == StaticPodPath(None)
    assert (facts.manifests, facts.leftovers, facts.role) == ((), Leftovers(), Role.WORKER)
    assert isinstance(facts.legacy_pod, LegacyPod)
    problems = [one.problem for one in (facts.serving, facts.client_ca) if hasattr(one, "problem")]
    assert problems == ["is not there", "is not there"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('staticPodPath: ""', StaticPodPath("")),
        ("staticPodPath: /other", StaticPodPath("/other")),
        ("staticPodPath: 7", "/etc/kubernetes/kubelet.conf: staticPodPath: must be text, not 7"),
        ("[", "/etc/kubernetes/kubelet.conf: "),
    ],
)
def test_the_kubelets_setting(
    scope: Scope, put: Put, text: str, expected: StaticPodPath | str
) -> None:
    put(KUBELET, text)
    found = survey(scope, NOW).static_pod_path
    if isinstance(expected, str):
        assert isinstance(found, NotSeen)
        assert found.why.startswith(expected)
    else:
        assert found == expected


def test_manifests_come_from_both_folders(scope: Scope, put: Put) -> None:
    put(KUBELET, "staticPodPath: /other/")
    put("etc/kubernetes/manifests/a.yaml", POD)
    put("other/b.yaml", POD)
    assert survey(scope, NOW).manifests == NotSeen(f"/other: {OUT_OF_SIGHT}")
    put("etc/machine-config-daemon/currentconfig", "")
    found = survey(scope, NOW).manifests
    assert found == (
        Manifest("/etc/kubernetes/manifests/a.yaml", "ns/x"),
        Manifest("/other/b.yaml", "ns/x"),
    )


def test_leftovers_show_also_where_the_rest_does_not(scope: Scope, put: Put) -> None:
    put("etc/kubernetes/crio-metrics-proxy.cfg", "")
    left = survey(scope, NOW).leftovers
    assert left.paths == ("/etc/kubernetes/crio-metrics-proxy.cfg",)
    assert len(left.unseen) == 2


def test_in_the_sidecar_what_is_not_mounted_is_not_absent(scope: Scope, put: Put) -> None:
    put(KUBELET, "kind: KubeletConfiguration\n")
    facts = survey(scope, NOW)
    assert facts.manifests == ()
    originals = "/etc/machine-config-daemon/orig/etc/kubernetes"
    assert facts.leftovers == Leftovers(
        (),
        (
            f"{originals}/crio-metrics-proxy.cfg.mcdorig: {OUT_OF_SIGHT}",
            f"{originals}/manifests/criometricsproxy.yaml.mcdorig: {OUT_OF_SIGHT}",
        ),
    )
    assert isinstance(facts.serving, NotSeen)


def test_the_folder_of_manifests_is_the_nodes_wherever_it_is_seen(scope: Scope, put: Put) -> None:
    put("etc/kubernetes/manifests/a.yaml", POD)
    assert survey(scope, NOW).manifests == (Manifest("/etc/kubernetes/manifests/a.yaml", "ns/x"),)


def test_what_cannot_be_looked_at_says_why(scope: Scope, put: Put, tmp_path: Path) -> None:
    put("etc/kubernetes", "no folder")
    put("var/lib/kubelet/pki", "no folder")
    facts = survey(replace(scope, proc=tmp_path / "gone"), NOW)
    assert facts.listeners == NotSeen(f"{tmp_path}/gone/net: No such file or directory")
    for one in (facts.static_pod_path, facts.manifests, facts.serving, facts.client_ca):
        assert isinstance(one, NotSeen)
        assert one.why.endswith(": Not a directory")
    assert facts.leftovers.unseen[0].endswith("/crio-metrics-proxy.cfg: Not a directory")


def test_a_folder_in_a_circle_hides_the_manifests(scope: Scope) -> None:
    kubernetes = scope.host_root / "etc" / "kubernetes"
    kubernetes.mkdir(parents=True)
    (kubernetes / "manifests").symlink_to("manifests")
    found = survey(scope, NOW).manifests
    assert isinstance(found, NotSeen)
    assert found.why.endswith("manifests: Too many levels of symbolic links")


def test_certificates_are_read_through_the_kubelets_absolute_link(
    scope: Scope, put: Put, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    put(CA, authority.certificate_file.read_text())
    put("var/lib/kubelet/pki/1.pem", authority.serving("node").combined_file.read_text())
    (scope.host_root / SERVING).symlink_to("/var/lib/kubelet/pki/1.pem")
    facts = survey(scope, NOW)
    assert isinstance(facts.serving, CertificateFile)
    assert isinstance(facts.client_ca, CertificateFile)
    subjects = [one.subject for one in (*facts.serving.certificates, *facts.client_ca.certificates)]
    assert subjects == ["CN=node", "CN=demo-ca"]


@pytest.mark.parametrize(
    ("address", "family"), [("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)]
)
def test_a_listener_is_asked_twice_with_a_credential(
    scope: Scope, tmp_path: Path, address: str, family: socket.AddressFamily
) -> None:
    pair = Authority(tmp_path).client("scraper", "prometheus")
    credential = Credential("", str(pair.combined_file))
    with socket.create_server((address, 0), family=family) as listener:
        asked: list[bytes] = []
        thread = threading.Thread(target=_hang_up, args=(listener, asked))
        thread.start()
        port = listener.getsockname()[1]
        facts = survey(replace(scope, proc=Path("/proc"), port=port, credential=credential), NOW)
        thread.join()
    assert isinstance(facts.anonymous, NoAnswer)
    assert isinstance(facts.scrape, NoAnswer)
    assert len(asked) == 2


def _hang_up(listener: socket.socket, asked: list[bytes]) -> None:
    for _ in range(2):
        client, _address = listener.accept()
        with client:
            asked.append(client.recv(65536))


def test_where_no_listener_shows_loopback_is_asked(scope: Scope, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    facts = survey(replace(scope, proc=tmp_path / "gone", port=port), NOW)
    assert facts.anonymous == NoAnswer("Connection refused")


def test_bad_files_of_credentials_are_told_though_nobody_listens(
    scope: Scope, tmp_path: Path
) -> None:
    credential = Credential("t", "")
    assert survey(replace(scope, credential=credential), NOW).scrape == NotSeen("nobody listens")
    with pytest.raises(CredentialError, match="gone: No such file"):
        survey(replace(scope, credential=credential, ca_file=str(tmp_path / "gone")), NOW)
