"""On nodes the ServiceMonitor finds the Service, and the endpoints port is in reach."""

from pyrbacproxy.config.options import parse
from tests.deploy.rendering import Object, one, rendered, sidecar

FOLDER = "machine-config-daemon/with-monitoring"


def arguments(folder: str) -> list[str]:
    found = sidecar(rendered(folder), "DaemonSet")["args"]
    assert isinstance(found, list)
    return found


def endpoint(job: str) -> Object:
    """The ServiceMonitor's endpoint that makes this job."""
    monitor = one(rendered(FOLDER), "ServiceMonitor")
    (found,) = [
        each
        for each in monitor["spec"]["endpoints"]
        if {"targetLabel": "job", "replacement": job} in each["relabelings"]
    ]
    assert isinstance(found, dict)
    return found


def test_the_service_monitor_finds_the_service_and_its_port() -> None:
    objects = rendered(FOLDER)
    service, monitor = one(objects, "Service"), one(objects, "ServiceMonitor")
    assert service["metadata"]["namespace"] == monitor["metadata"]["namespace"]
    labels = service["metadata"]["labels"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert endpoint("crio")["port"] in {port["name"] for port in service["spec"]["ports"]}


def test_our_own_metrics_are_where_prometheus_looks() -> None:
    base = parse(arguments("machine-config-daemon")).options
    assert base.text("proxy-endpoints-address") == "127.0.0.1"
    options = parse(arguments(FOLDER)).options
    # That of the secure port: every address of the node.
    assert options.text("proxy-endpoints-address") == ""
    assert options.text("secure-listen-address") == ":9637"
    port = str(options.integer("proxy-endpoints-port"))
    address = {"targetLabel": "__address__", "replacement": f"$1:{port}"}
    relabelings = endpoint("kube-rbac-proxy-crio")["relabelings"]
    assert [each for each in relabelings if address.items() <= each.items()]


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
