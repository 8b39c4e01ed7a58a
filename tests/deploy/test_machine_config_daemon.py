"""The sidecar beside the machine-config daemon: what its README argues, line by line."""

import json
import subprocess
from pathlib import Path, PurePosixPath

import pytest
import yaml

from pyrbacproxy.authz.authorizers import StaticRule
from pyrbacproxy.config import authorization_file as authz_file
from pyrbacproxy.config.findings import Findings
from pyrbacproxy.config.settings import Address, Settings
from pyrbacproxy.demo.manifests import read_policy
from pyrbacproxy.demo.pki import Authority
from pyrbacproxy.model import ResourceAttributes, UserInfo
from pyrbacproxy.node.audit import CONTAINER, DAEMONSET, MANIFEST, MANIFESTS, NAMESPACE, sidecars
from pyrbacproxy.tls import names as profiles
from tests.deploy import rendering
from tests.deploy.rendering import (
    DEPLOY,
    KUBECTL,
    Host,
    Object,
    flags,
    one,
    rendered,
    volumes_by_path,
)
from tests.e2e.test_tls_profiles import check_arguments

FOLDERS = ["machine-config-daemon", "machine-config-daemon/with-limits"]
PLAIN = "machine-config-daemon/plain-container"
CONFIG = DEPLOY.parent / "config" / "crio-metrics.good.yaml"


@pytest.fixture(params=FOLDERS)
def objects(request: pytest.FixtureRequest) -> list[Object]:
    return rendered(request.param)


@pytest.fixture
def pod(objects: list[Object]) -> Object:
    return rendering.pod(objects, "DaemonSet")


@pytest.fixture
def sidecar(objects: list[Object]) -> Object:
    return rendering.sidecar(objects, "DaemonSet")


def test_the_daemonset_is_otherwise_as_it_was(objects: list[Object]) -> None:
    target = yaml.safe_load((DEPLOY / FOLDERS[0] / "base" / "daemonset.yaml").read_text())
    patched = one(objects, "DaemonSet")
    assert patched["metadata"].pop("namespace") == NAMESPACE
    spec = patched["spec"]["template"]["spec"]
    del spec["initContainers"]
    added = {"kube-rbac-proxy-crio", "kubelet-pki", "etc-kubernetes"}
    spec["volumes"] = [volume for volume in spec["volumes"] if volume["name"] not in added]
    assert patched == target
    assert spec["terminationGracePeriodSeconds"] == 600
    assert spec["hostNetwork"]


def test_kubectl_patch_makes_the_same(objects: list[Object], sidecar: Object) -> None:
    """The README's other way, on a DaemonSet that is there already."""
    base = DEPLOY / FOLDERS[0] / "base"
    files = (f"--filename={base / 'daemonset.yaml'}", f"--patch-file={base / 'sidecar.yaml'}")
    done = subprocess.run(
        [KUBECTL, "patch", "--local", "--output=json", *files], capture_output=True, check=True
    )
    patched = json.loads(done.stdout)
    del sidecar["resources"]
    (added,) = patched["spec"]["template"]["spec"]["initContainers"]
    del added["resources"]
    assert patched["spec"] == one(objects, "DaemonSet")["spec"]


def test_it_is_a_native_sidecar_that_the_daemon_does_not_wait_for(sidecar: Object) -> None:
    assert sidecar["name"] == CONTAINER
    assert sidecar["restartPolicy"] == "Always"
    # With one, the daemon would start only after it succeeded.
    assert "startupProbe" not in sidecar


def test_the_programs_own_search_finds_it(objects: list[Object]) -> None:
    (found,) = sidecars(objects)
    assert found.owner == f"DaemonSet {DAEMONSET}"


def test_it_declares_no_port(pod: Object, sidecar: Object) -> None:
    # On the host's network each would be a hostPort, which the kubelet refuses while the legacy
    # static pod declares it.
    assert "ports" not in sidecar
    assert "9637" not in str(pod["containers"])


def test_its_privileges(sidecar: Object) -> None:
    assert sidecar["securityContext"] == {
        "runAsUser": 0,
        "runAsGroup": 0,
        "privileged": False,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
        "seLinuxOptions": {"type": "spc_t"},
    }


def test_its_mounts_are_the_smallest_folders(pod: Object, sidecar: Object) -> None:
    folders = {
        str(PurePosixPath(value).parent)
        for value in flags(sidecar).values()
        if value.startswith("/")
    }
    mounts = volumes_by_path(pod, sidecar)
    # None but those that hold a file which a flag names; the manifest's is inside the CA's.
    assert set(mounts) == folders - {MANIFESTS}
    for path, (mount, volume) in mounts.items():
        assert mount["readOnly"]
        assert not {"subPath", "subPathExpr"} & set(mount)
        if "configMap" not in volume:
            assert volume["hostPath"] == {"path": path, "type": "Directory"}
            assert mount["mountPropagation"] == "HostToContainer"


def test_probes_ask_where_the_endpoints_port_binds(sidecar: Object) -> None:
    given = flags(sidecar)
    for probe, path in (("livenessProbe", "/livez"), ("readinessProbe", "/readyz")):
        assert sidecar[probe]["httpGet"] == {
            "host": given["proxy-endpoints-address"],
            "port": int(given["proxy-endpoints-port"]),
            "path": path,
            "scheme": "HTTPS",
        }
    assert "ready-while-waiting" not in given


# FR86: without the coupling of the daemon's start to the image.


def test_fr86_a_plain_container_is_the_same_container_beside_the_daemon() -> None:
    native, plain = rendered(FOLDERS[0]), rendered(PLAIN)
    spec = rendering.pod(plain, "DaemonSet")
    assert "initContainers" not in spec
    # The kubelet pulls and starts them in this order.
    assert [each["name"] for each in spec["containers"]] == [DAEMONSET, CONTAINER]
    expected = rendering.sidecar(native, "DaemonSet")
    assert expected.pop("restartPolicy") == "Always"
    assert rendering.sidecar(plain, "DaemonSet") == expected


def test_fr86_nothing_of_a_plain_container_keeps_the_daemon_from_its_start() -> None:
    native, plain = rendered(FOLDERS[0]), rendered(PLAIN)
    volumes = {each["name"]: each for each in rendering.pod(plain, "DaemonSet")["volumes"]}
    assert volumes[CONTAINER]["configMap"].pop("optional")
    before = {each["name"]: each for each in rendering.pod(native, "DaemonSet")["volumes"]}
    assert volumes == before
    others = [each for each in plain if each["kind"] != "DaemonSet"]
    assert others == [each for each in native if each["kind"] != "DaemonSet"]
    assert one(plain, "DaemonSet")["metadata"] == one(native, "DaemonSet")["metadata"]


def test_fr86_the_programs_own_search_finds_a_plain_container() -> None:
    (found,) = sidecars(rendered(PLAIN))
    assert found.owner == f"DaemonSet {DAEMONSET}"


@pytest.mark.parametrize(
    ("folder", "limits"), [(FOLDERS[0], None), (FOLDERS[1], {"memory": "128Mi"})]
)
def test_requests_and_limits(folder: str, limits: dict[str, str] | None) -> None:
    resources = rendering.sidecar(rendered(folder), "DaemonSet")["resources"]
    assert resources.pop("requests") == {"cpu": "20m", "memory": "50Mi"}
    assert resources.pop("limits", None) == limits
    assert not resources


def test_the_program_accepts_the_arguments(
    objects: list[Object], authority: Authority, tmp_path: Path
) -> None:
    host = Host(tmp_path / "host", objects, "DaemonSet")
    host.fill_node(authority)
    settings = host.settings()
    assert isinstance(settings, Settings), settings
    assert settings.secure == Address("", 9637, ":9637", "--secure-listen-address=:9637")
    pages = "--proxy-endpoints-address=127.0.0.1 --proxy-endpoints-port=9638"
    assert settings.endpoints == Address("127.0.0.1", 9638, "127.0.0.1:9638", pages)
    assert settings.gate.absent_paths == (str(host.at(f"{MANIFESTS}/{MANIFEST}")),)
    assert settings.gate.waits_for_port
    assert settings.gate.waits_for_pair
    assert settings.gate.is_ready_meanwhile
    assert settings.gate.timeout_seconds == 0
    assert settings.static_rules == rules(CONFIG.read_text())
    # Here is no pod; nothing else is to be warned of.
    assert [line.partition(":")[0] for line in settings.warnings] == [
        "neither --kubeconfig nor an in-cluster configuration"
    ]
    # A scrape by Prometheus' certificate asks nothing of the API server.
    assert not settings.needs_reviews


def rules(text: str) -> tuple[StaticRule, ...]:
    findings = Findings()
    file = authz_file.read_authorization_file(text.encode(), "rules", findings, is_strict=True)
    assert findings == Findings()
    return file.static_rules


def test_the_api_server_is_reached_as_the_pods_account(
    objects: list[Object], sidecar: Object
) -> None:
    assert "kubeconfig" not in flags(sidecar)
    assert "env" not in sidecar
    binding = one(objects, "ClusterRoleBinding")
    account = rendering.pod(objects, "DaemonSet")["serviceAccountName"]
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}
    ]


REVIEWS = [
    ResourceAttributes("create", "", "authentication.k8s.io", "v1", "tokenreviews"),
    ResourceAttributes("create", "", "authorization.k8s.io", "v1", "subjectaccessreviews"),
]
OTHERS = [
    ResourceAttributes("get", "", "authentication.k8s.io", "v1", "tokenreviews"),
    ResourceAttributes("create", "", "authentication.k8s.io", "v1", "selfsubjectreviews"),
    ResourceAttributes("create", NAMESPACE, "", "v1", "serviceaccounts", "token"),
    ResourceAttributes("get", NAMESPACE, "", "v1", "secrets"),
    ResourceAttributes("get", "", "", "v1", "nodes", "proxy"),
]


def is_allowed(folder: str, account: str, action: ResourceAttributes) -> bool:
    who = UserInfo(f"system:serviceaccount:{NAMESPACE}:{account}")
    return read_policy(rendering.rendered_text(folder)).authorize(who, action).is_allowed


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("action", REVIEWS, ids=str)
def test_rbac_allows_the_reviews(folder: str, action: ResourceAttributes) -> None:
    assert is_allowed(folder, DAEMONSET, action)
    assert not is_allowed(folder, "default", action)


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("action", OTHERS, ids=str)
def test_rbac_allows_nothing_else(folder: str, action: ResourceAttributes) -> None:
    assert not is_allowed(folder, DAEMONSET, action)


def test_the_service_selects_the_daemons_pods(objects: list[Object], sidecar: Object) -> None:
    service = one(objects, "Service")
    assert service["metadata"]["name"] == CONTAINER
    labels = one(objects, "DaemonSet")["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    (port,) = service["spec"]["ports"]
    # By number: the container declares no port that could have a name.
    assert port["targetPort"] == port["port"] == 9637
    assert flags(sidecar)["secure-listen-address"] == ":9637"


def test_the_tls_profile_is_intermediate(objects: list[Object]) -> None:
    check_arguments(objects, profiles.rendered("Intermediate"))
