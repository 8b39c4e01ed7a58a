"""The API server of the end-to-end tests: embedded, or a real kube-apiserver with its etcd.

`KUBEBUILDER_ASSETS` names a folder with the programs `etcd` and `kube-apiserver`; they are started
as envtest starts them. Both hold the same users and RBAC, and count the reviews asked of them.
"""

import json
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

import aiohttp

from pyrbacproxy.demo.api_server import ApiServer
from pyrbacproxy.demo.manifests import objects, read_policy
from pyrbacproxy.demo.pki import Authority, Pair, client_context, server_context
from pyrbacproxy.demo.tokens import API_AUDIENCE, TokenEntry, TokenTable, service_account
from tests.e2e.programs import Programs, free_port

NAMESPACE = "monitoring"
# The proxy's identity, a certificate user with the role, and the service accounts.
PROXY_USER = "pyrbacproxy"
READER_USER = "reader"
# Another identity of it, and a user who may act as it.
PROXY_ACCOUNT = "pyrbacproxy"
OPERATOR_USER = "operator"
READER_ACCOUNT = "prometheus"
STRANGER_ACCOUNT = "stranger"
# OpenShift's Prometheus, whom no RBAC here lets in.
OPENSHIFT_NAMESPACE = "openshift-monitoring"
OPENSHIFT_ACCOUNT = "prometheus-k8s"
_ACCOUNTS = {
    NAMESPACE: (PROXY_ACCOUNT, READER_ACCOUNT, STRANGER_ACCOUNT),
    OPENSHIFT_NAMESPACE: (OPENSHIFT_ACCOUNT,),
}

RBAC = f"""
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {{name: reviewer}}
rules:
  - {{apiGroups: [authentication.k8s.io], resources: [tokenreviews], verbs: [create]}}
  - {{apiGroups: [authorization.k8s.io], resources: [subjectaccessreviews], verbs: [create]}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {{name: proxy-reviews}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reviewer}}
subjects:
  - {{apiGroup: rbac.authorization.k8s.io, kind: User, name: {PROXY_USER}}}
  - {{kind: ServiceAccount, name: {PROXY_ACCOUNT}, namespace: {NAMESPACE}}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {{name: acts-as-proxy}}
rules:
  - apiGroups: [""]
    resources: [users]
    verbs: [impersonate]
    resourceNames: [{PROXY_USER}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {{name: operators}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: acts-as-proxy}}
subjects: [{{apiGroup: rbac.authorization.k8s.io, kind: User, name: {OPERATOR_USER}}}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {{name: metrics-reader}}
rules:
  - {{nonResourceURLs: [/metrics], verbs: [get]}}
  - {{nonResourceURLs: ["/test.Echo/*", /posted], verbs: [create]}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {{name: readers}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: metrics-reader}}
subjects:
  - {{kind: ServiceAccount, name: {READER_ACCOUNT}, namespace: {NAMESPACE}}}
  - {{apiGroup: rbac.authorization.k8s.io, kind: User, name: {READER_USER}}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {{name: service-metrics, namespace: {NAMESPACE}}}
rules: [{{apiGroups: [""], resources: [services/proxy], verbs: [get]}}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: service-metrics, namespace: {NAMESPACE}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: service-metrics}}
subjects: [{{kind: ServiceAccount, name: {READER_ACCOUNT}, namespace: {NAMESPACE}}}]
"""

# What every API server makes at its start (bootstrap policy), as far as the tests lean on it.
_STOCK_RBAC = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "system:discovery"}
rules:
  - nonResourceURLs:
      - /api
      - /api/*
      - /apis
      - /apis/*
      - /healthz
      - /livez
      - /openapi
      - /openapi/*
      - /readyz
      - /version
      - /version/
    verbs: [get]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "system:discovery"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:discovery"}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:authenticated"}]
"""

_AUDIT_POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
    resources:
      - {group: authentication.k8s.io, resources: [tokenreviews]}
      - {group: authorization.k8s.io, resources: [subjectaccessreviews]}
  - level: None
"""
_PLURALS = {
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "Role": "roles",
    "RoleBinding": "rolebindings",
}


class Cluster(Protocol):
    """What the tests need of either API server."""

    url: str

    async def token(self, account: str, *audiences: str, namespace: str = NAMESPACE) -> str:
        """A token of a service account; without audiences, for the API server's own."""
        ...

    def calls(self) -> Mapping[str, int]:
        """The reviews that the proxy asked for in this test, by their plural."""
        ...


class EmbeddedCluster:
    """The demo's API server in this process."""

    def __init__(self, authority: Authority) -> None:
        self._tokens: dict[str, TokenEntry] = {}
        self._server = ApiServer(
            policy=read_policy(f"{_STOCK_RBAC}---{RBAC}"),
            tokens=TokenTable(self._tokens),
            tls=server_context(authority.serving("api-server"), authority),
        )
        self.url = ""

    async def start(self) -> None:
        await self._server.start()
        self.url = self._server.url

    async def close(self) -> None:
        await self._server.close()

    async def token(self, account: str, *audiences: str, namespace: str = NAMESPACE) -> str:
        token = secrets.token_urlsafe(32)
        user = service_account(namespace, account)
        self._tokens[token] = TokenEntry(user, audiences or (API_AUDIENCE,))
        return token

    def calls(self) -> Mapping[str, int]:
        return self._server.counts


class RealCluster:
    """kube-apiserver; the reviews are counted in its audit log."""

    def __init__(self, url: str, authority: Authority, admin: Pair, audit_log: Path) -> None:
        self.url = url
        self._trust = client_context(authority, admin)
        self._audit_log = audit_log
        self._seen_before: Counter[str] = Counter()

    def begin(self) -> None:
        """Count from here."""
        self._seen_before = self._seen()

    async def token(self, account: str, *audiences: str, namespace: str = NAMESPACE) -> str:
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        spec: dict[str, object] = {"audiences": list(audiences), "expirationSeconds": 3600}
        kind = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
        answer = await self.create(path, {**kind, "spec": spec})
        status = answer["status"]
        assert isinstance(status, dict)
        return str(status["token"])

    def calls(self) -> Mapping[str, int]:
        return self._seen() - self._seen_before

    async def is_ready(self) -> bool | None:
        """True, or None while it is not."""
        try:
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"{self.url}/readyz", ssl=self._trust) as response,
            ):
                return response.ok or None
        except aiohttp.ClientConnectionError:
            return None

    async def create(self, path: str, body: Mapping[str, object]) -> dict[str, object]:
        """POST one object as the administrator."""
        async with (
            aiohttp.ClientSession() as session,
            session.post(self.url + path, json=body, ssl=self._trust) as response,
        ):
            answer = await response.json()
        assert response.status == 201, answer
        assert isinstance(answer, dict)
        return answer

    async def fill(self) -> None:
        """Create namespaces, service accounts and RBAC."""
        for namespace, accounts in _ACCOUNTS.items():
            await self.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
            for account in accounts:
                path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
                await self.create(path, {"metadata": {"name": account}})
        for item in objects(RBAC):
            plural = _PLURALS[item.text("kind")]
            namespace = item.child("metadata").text("namespace")
            place = f"namespaces/{namespace}/{plural}" if namespace else plural
            await self.create(f"/apis/rbac.authorization.k8s.io/v1/{place}", item.fields)

    def _seen(self) -> Counter[str]:
        if not self._audit_log.exists():
            return Counter()
        events = [json.loads(line) for line in self._audit_log.read_text().splitlines()]
        return Counter(
            event["objectRef"]["resource"]
            for event in events
            if event["stage"] == "ResponseComplete" and event["user"]["username"] == PROXY_USER
        )


@asynccontextmanager
async def embedded(authority: Authority) -> AsyncIterator[EmbeddedCluster]:
    """Serve the embedded one."""
    cluster = EmbeddedCluster(authority)
    await cluster.start()
    try:
        yield cluster
    finally:
        await cluster.close()


async def start_real(assets: Path, authority: Authority, programs: Programs) -> RealCluster:
    """Start etcd and kube-apiserver on loopback, wait until it is ready, fill it."""
    for name in ("etcd", "kube-apiserver"):
        assert (assets / name).exists(), f"KUBEBUILDER_ASSETS={assets} has no {name}"
    etcd_url = f"http://127.0.0.1:{free_port()}"
    programs.start(
        "etcd",
        str(assets / "etcd"),
        f"--data-dir={programs.folder / 'etcd'}",
        f"--listen-client-urls={etcd_url}",
        f"--advertise-client-urls={etcd_url}",
        "--listen-peer-urls=http://127.0.0.1:0",
        "--unsafe-no-fsync=true",
    )
    port, audit_log = free_port(), programs.folder / "audit.log"
    policy_file = programs.folder / "audit-policy.yaml"
    policy_file.write_text(_AUDIT_POLICY)
    serving = authority.serving("kube-apiserver")
    accounts = authority.client("service-accounts", "service-accounts")
    admin = authority.client("admin", "admin", ["system:masters"])
    program = programs.start(
        "kube-apiserver",
        str(assets / "kube-apiserver"),
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",
        f"--secure-port={port}",
        f"--etcd-servers={etcd_url}",
        f"--cert-dir={programs.folder}",
        f"--tls-cert-file={serving.certificate_file}",
        f"--tls-private-key-file={serving.key_file}",
        f"--client-ca-file={authority.certificate_file}",
        f"--service-account-key-file={accounts.certificate_file}",
        f"--service-account-signing-key-file={accounts.key_file}",
        f"--service-account-issuer={API_AUDIENCE}",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--disable-admission-plugins=ServiceAccount",
        "--authorization-mode=RBAC",
        # As every cluster has it: the machine-config-daemon's own container is privileged.
        "--allow-privileged=true",
        f"--audit-policy-file={policy_file}",
        f"--audit-log-path={audit_log}",
    )
    cluster = RealCluster(f"https://127.0.0.1:{port}", authority, admin, audit_log)
    await program.until(cluster.is_ready, "ready answer")
    await cluster.fill()
    return cluster
