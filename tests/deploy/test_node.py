"""The DaemonSet for nodes without a machine-config daemon: what deploy/node/README.md promises."""

from pathlib import Path

import pytest

from pyrbacproxy.config.settings import Settings
from pyrbacproxy.demo.manifests import read_policy
from pyrbacproxy.demo.pki import Authority
from pyrbacproxy.model import ResourceAttributes, UserInfo
from tests.deploy import rendering
from tests.deploy.rendering import Host, Object, flags, one, rendered, volumes_by_path

FOLDER = "node"
NAMESPACE = "crio-metrics"
NAME = "kube-rbac-proxy-crio"
MACHINE_CONFIG_DAEMON = "machine-config-daemon"


@pytest.fixture
def objects() -> list[Object]:
    return rendered(FOLDER)


@pytest.fixture
def container(objects: list[Object]) -> Object:
    return rendering.sidecar(objects, "DaemonSet")


def test_the_container_is_the_sidecars(objects: list[Object], container: Object) -> None:
    beside = rendered(MACHINE_CONFIG_DAEMON)
    expected = rendering.sidecar(beside, "DaemonSet")
    assert expected.pop("restartPolicy") == "Always"
    assert container == expected
    spec, expected_spec = (rendering.pod(each, "DaemonSet") for each in (objects, beside))
    assert volumes_by_path(spec, container) == volumes_by_path(expected_spec, container)
    assert one(objects, "ConfigMap")["data"] == one(beside, "ConfigMap")["data"]


def test_the_pod_has_no_more_of_the_host_than_its_network(objects: list[Object]) -> None:
    spec = rendering.pod(objects, "DaemonSet")
    assert [each["name"] for each in spec["containers"]] == [NAME]
    assert spec["hostNetwork"]
    assert not {"hostPID", "hostIPC", "initContainers"} & set(spec)


def test_it_runs_on_every_linux_node(objects: list[Object]) -> None:
    spec = rendering.pod(objects, "DaemonSet")
    assert spec["tolerations"] == [{"operator": "Exists"}]
    assert spec["nodeSelector"] == {"kubernetes.io/os": "linux"}
    assert one(objects, "Namespace")["metadata"]["annotations"] == {
        "openshift.io/node-selector": ""
    }


def test_everything_is_in_one_namespace_that_admits_it(objects: list[Object]) -> None:
    namespace = one(objects, "Namespace")["metadata"]
    assert namespace["name"] == NAMESPACE
    assert namespace["labels"]["pod-security.kubernetes.io/enforce"] == "privileged"
    placed = {each["metadata"].get("namespace") for each in objects}
    assert placed == {None, NAMESPACE}


def test_beside_a_machine_config_daemon_no_object_is_both_ones(objects: list[Object]) -> None:
    def names(folder: str) -> set[tuple[str, str, str]]:
        return {
            (each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"])
            for each in rendered(folder)
        }

    assert names(FOLDER) & names(MACHINE_CONFIG_DAEMON) == set()
    assert len(names(FOLDER)) == len(objects)


def test_the_program_accepts_the_arguments(
    objects: list[Object], authority: Authority, tmp_path: Path
) -> None:
    host = Host(tmp_path / "host", objects, "DaemonSet")
    host.fill_node(authority)
    settings = host.settings()
    assert isinstance(settings, Settings), settings
    # A scrape by Prometheus' certificate asks nothing of the API server.
    assert not settings.needs_reviews


def test_the_service_selects_the_pods(objects: list[Object], container: Object) -> None:
    service = one(objects, "Service")
    labels = one(objects, "DaemonSet")["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    (port,) = service["spec"]["ports"]
    assert flags(container)["secure-listen-address"] == f":{port['targetPort']}"
    monitor = one(rendered("monitoring/crio-job"), "ServiceMonitor")["spec"]
    assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert [each["port"] for each in monitor["endpoints"]] == [port["name"]]


def test_rbac_allows_the_reviews_and_nothing_else() -> None:
    policy = read_policy(rendering.rendered_text(FOLDER))
    account = UserInfo(f"system:serviceaccount:{NAMESPACE}:{NAME}")
    reviews = [
        ResourceAttributes("create", "", "authentication.k8s.io", "v1", "tokenreviews"),
        ResourceAttributes("create", "", "authorization.k8s.io", "v1", "subjectaccessreviews"),
    ]
    others = [
        ResourceAttributes("get", NAMESPACE, "", "v1", "secrets"),
        ResourceAttributes("get", "", "", "v1", "nodes", "proxy"),
    ]
    assert [policy.authorize(account, each).is_allowed for each in reviews] == [True, True]
    assert [policy.authorize(account, each).is_allowed for each in others] == [False, False]
    stranger = UserInfo(f"system:serviceaccount:{NAMESPACE}:default")
    assert not policy.authorize(stranger, reviews[0]).is_allowed
