"""The proxy beside any Deployment: what deploy/sidecar/README.md promises."""

from pathlib import Path

import pytest
import yaml

from pyrbacproxy.config.complete import Problems
from pyrbacproxy.config.settings import Settings
from pyrbacproxy.demo.manifests import read_policy
from pyrbacproxy.demo.pki import Authority
from pyrbacproxy.model import ResourceAttributes, UserInfo
from tests.deploy import rendering
from tests.deploy.rendering import DEPLOY, Host, Object, flags, one, rendered, volumes_by_path

FOLDER = "sidecar"
GRANT = """
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: app-reader}
subjects: [{kind: ServiceAccount, name: prometheus, namespace: monitoring}]
"""


@pytest.fixture
def objects() -> list[Object]:
    return rendered(FOLDER)


@pytest.fixture
def sidecar(objects: list[Object]) -> Object:
    return rendering.sidecar(objects, "Deployment")


def test_the_deployment_is_otherwise_as_it_was(objects: list[Object]) -> None:
    target = yaml.safe_load((DEPLOY / FOLDER / "deployment.yaml").read_text())
    patched = one(objects, "Deployment")
    assert patched["metadata"].pop("namespace") == "default"
    spec = patched["spec"]["template"]["spec"]
    del spec["initContainers"], spec["volumes"]
    assert patched == target


def test_it_needs_nothing_of_the_host(objects: list[Object], sidecar: Object) -> None:
    spec = rendering.pod(objects, "Deployment")
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
    for mount, volume in volumes_by_path(spec, sidecar).values():
        assert mount["readOnly"]
        assert {"configMap", "secret"} & set(volume)
    assert sidecar["securityContext"] == {
        "runAsNonRoot": True,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def test_it_is_a_native_sidecar_without_limits(sidecar: Object) -> None:
    assert sidecar["restartPolicy"] == "Always"
    assert sidecar["resources"] == {"requests": {"cpu": "20m", "memory": "50Mi"}}


def test_probes_ask_the_pods_own_address(sidecar: Object) -> None:
    given = flags(sidecar)
    assert "proxy-endpoints-address" not in given
    for probe, path in (("livenessProbe", "/livez"), ("readinessProbe", "/readyz")):
        port = int(given["proxy-endpoints-port"])
        assert sidecar[probe]["httpGet"] == {"port": port, "path": path, "scheme": "HTTPS"}


def test_the_program_accepts_the_arguments_in_a_pod(
    objects: list[Object], authority: Authority, tmp_path: Path
) -> None:
    host = Host(tmp_path / "host", objects, "Deployment")
    host.fill_secret(authority)
    # In a pod of which only the account's files are missing.
    found = host.settings(KUBERNETES_SERVICE_HOST="10.0.0.1", KUBERNETES_SERVICE_PORT="443")
    assert not isinstance(found, Settings)
    assert isinstance(found, Problems)
    assert {line.partition(":")[0] for line in found.lines} == {"in-cluster configuration"}
    assert found.warnings == ()


def test_the_service_leads_to_the_secure_port(objects: list[Object], sidecar: Object) -> None:
    service = one(objects, "Service")
    labels = one(objects, "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    (port,), (declared,) = service["spec"]["ports"], sidecar["ports"]
    assert port["targetPort"] == declared["name"]
    assert flags(sidecar)["secure-listen-address"] == f":{declared['containerPort']}"


def app(verb: str, name: str = "app") -> ResourceAttributes:
    """What the ConfigMap has the proxy ask."""
    return ResourceAttributes(verb, "default", "", "v1", "services", "proxy", name)


ALLOWED = [
    (
        "default:app",
        ResourceAttributes("create", "", "authentication.k8s.io", "v1", "tokenreviews"),
    ),
    (
        "default:app",
        ResourceAttributes("create", "", "authorization.k8s.io", "v1", "subjectaccessreviews"),
    ),
    ("monitoring:prometheus", app("get")),
]
REFUSED = [
    ("default:app", app("get")),
    ("default:app", ResourceAttributes("get", "default", "", "v1", "secrets")),
    ("monitoring:prometheus", app("create")),
    ("monitoring:prometheus", app("get", "other")),
    ("monitoring:default", app("get")),
]


def is_allowed(account: str, action: ResourceAttributes) -> bool:
    policy = read_policy(rendering.rendered_text(FOLDER) + GRANT)
    return policy.authorize(UserInfo(f"system:serviceaccount:{account}"), action).is_allowed


@pytest.mark.parametrize(("account", "action"), ALLOWED, ids=str)
def test_rbac_allows(account: str, action: ResourceAttributes) -> None:
    assert is_allowed(account, action)


@pytest.mark.parametrize(("account", "action"), REFUSED, ids=str)
def test_rbac_refuses(account: str, action: ResourceAttributes) -> None:
    assert not is_allowed(account, action)


def test_the_rules_ask_for_what_the_role_grants(objects: list[Object]) -> None:
    file = yaml.safe_load(one(objects, "ConfigMap")["data"]["config-file.yaml"])
    assert file["authorization"]["resourceAttributes"] == {
        "namespace": "default",
        "apiVersion": "v1",
        "resource": "services",
        "subresource": "proxy",
        "name": "app",
    }
