"""On nodes the ServiceMonitor finds the Service, and the endpoints port is in reach."""

import pytest

from pyrbacproxy.config.flag_parsing import parse
from tests.deploy.rendering import Object, one, rendered, sidecar

FOLDER = "machine-config-daemon/with-monitoring"
JOB = "monitoring/crio-job"


def arguments(folder: str) -> list[str]:
    found = sidecar(rendered(folder), "DaemonSet")["args"]
    assert isinstance(found, list)
    return found


def endpoints(folder: str, job: str) -> list[Object]:
    """The ServiceMonitors' endpoints that make this job."""
    return [
        each
        for monitor in rendered(folder)
        if monitor["kind"] == "ServiceMonitor"
        for each in monitor["spec"]["endpoints"]
        if {"targetLabel": "job", "replacement": job} in each["relabelings"]
    ]


# FR86


@pytest.mark.parametrize("folder", [FOLDER, "monitoring"])
def test_fr86_the_platforms_target_of_crio_stays_the_only_one_of_a_node(folder: str) -> None:
    # OpenShift's own kubelet ServiceMonitor makes it.
    assert endpoints(folder, "crio") == []
    assert len(endpoints(folder, "kube-rbac-proxy-crio")) == 1
    ports = {
        relabeling["replacement"].rpartition(":")[2]
        for monitor in rendered(folder)
        if monitor["kind"] == "ServiceMonitor"
        for each in monitor["spec"]["endpoints"]
        for relabeling in each["relabelings"]
        if relabeling["targetLabel"] == "__address__"
    }
    assert ports == {"9638"}


def test_fr86_where_nobody_scrapes_crio_one_target_is_added() -> None:
    (added,) = endpoints("monitoring/crio-job", "crio")
    service = one(rendered(FOLDER), "Service")
    assert added["port"] in {port["name"] for port in service["spec"]["ports"]}
    ours = {one(rendered(each), "ServiceMonitor")["metadata"]["name"] for each in (FOLDER, JOB)}
    assert len(ours) == 2
    selected = one(rendered(JOB), "ServiceMonitor")["spec"]["selector"]["matchLabels"]
    assert selected.items() <= service["metadata"]["labels"].items()


def test_the_service_monitor_finds_the_service_and_its_port() -> None:
    objects = rendered(FOLDER)
    service, monitor = one(objects, "Service"), one(objects, "ServiceMonitor")
    assert service["metadata"]["namespace"] == monitor["metadata"]["namespace"]
    labels = service["metadata"]["labels"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
    (own,) = endpoints(FOLDER, "kube-rbac-proxy-crio")
    assert own["port"] in {port["name"] for port in service["spec"]["ports"]}


def test_our_own_metrics_are_where_prometheus_looks() -> None:
    base = parse(arguments("machine-config-daemon")).options
    assert base.text("proxy-endpoints-address") == "127.0.0.1"
    options = parse(arguments(FOLDER)).options
    # That of the secure port: every address of the node.
    assert options.text("proxy-endpoints-address") == ""
    assert options.text("secure-listen-address") == ":9637"
    port = str(options.integer("proxy-endpoints-port"))
    address = {"targetLabel": "__address__", "replacement": f"$1:{port}"}
    (own,) = endpoints(FOLDER, "kube-rbac-proxy-crio")
    assert [each for each in own["relabelings"] if address.items() <= each.items()]


def test_the_dashboard_comes_whole() -> None:
    boards = [
        each["data"]["dashboard.json"]
        for each in rendered(FOLDER)
        if each["kind"] == "ConfigMap" and "dashboard.json" in each["data"]
    ]
    assert boards
    assert boards == [
        each["data"]["dashboard.json"] for each in rendered("monitoring") if "data" in each
    ]
