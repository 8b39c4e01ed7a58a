"""Who is who in the demo: writes certificates, tokens, RBAC, kubeconfig, authorization file.

The proxy stands as beside CRI-O on a node: a node's identity towards the API server, one combined
PEM for serving, and a static rule for the Prometheus that shows its client certificate.
"""

import secrets
from pathlib import Path

import yaml

from pyrbacproxy.demo.pki import Authority, Pair, write_secret
from pyrbacproxy.demo.tokens import TokenEntry, service_account

PROMETHEUS = "system:serviceaccount:openshift-monitoring:prometheus-k8s"

RBAC = """\
# What the proxy itself needs: to ask who a user is and what they may do.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reviewer}
rules:
  - {apiGroups: [authentication.k8s.io], resources: [tokenreviews], verbs: [create]}
  - {apiGroups: [authorization.k8s.io], resources: [subjectaccessreviews], verbs: [create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: nodes-review}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reviewer}
subjects:
  - {apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:nodes"}
---
# Who may read metrics, and the pages about the proxy. The service account default/visitor is not
# among them.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: metrics-reader}
rules:
  - {nonResourceURLs: [/metrics, /statusz, /flagz, /version], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: scraper-reads-metrics}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: metrics-reader}
subjects:
  - {kind: ServiceAccount, name: scraper, namespace: monitoring}
"""

_AUTHORIZATION = f"""\
authorization:
  static:
    - user: {{name: "{PROMETHEUS}"}}
      verb: get
      path: /metrics
      resourceRequest: false
"""


class Scene:
    """The demo's files in `folder`, as attributes; `tokens` is for the API server."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority(folder)
        self.api_server = self.authority.serving("api-server")
        self.proxy = self.authority.serving("proxy")
        self.node = self.authority.client("node", "system:node:demo", ("system:nodes",))
        self.prometheus = self.authority.client("prometheus", PROMETHEUS)
        self.tokens = {
            self._token("scraper"): TokenEntry(service_account("monitoring", "scraper")),
            self._token("visitor"): TokenEntry(service_account("default", "visitor")),
        }
        self._write("rbac.yaml", RBAC)
        self.authorization_file = self._write("authorization.yaml", _AUTHORIZATION)

    def token_file(self, name: str) -> Path:
        """Where the token of `scraper` or `visitor` stands."""
        return self.folder / f"{name}.token"

    def proxy_flags(
        self, *, port: int, pages_port: int = 0, upstream: str, api_server: str
    ) -> list[str]:
        """The CRI-O sidecar's flags; writes the kubeconfig for `api_server`, its URL.

        `pages_port` 0 is for none.
        """
        kubeconfig = kubeconfig_text(api_server, self.authority.certificate_file, self.node)
        return [
            f"--secure-listen-address=127.0.0.1:{port}",
            f"--proxy-endpoints-port={pages_port}",
            f"--upstream={upstream}",
            f"--config-file={self.authorization_file}",
            f"--client-ca-file={self.authority.certificate_file}",
            f"--kubeconfig={self._write('kubeconfig', kubeconfig)}",
            f"--tls-cert-file={self.proxy.combined_file}",
            f"--tls-private-key-file={self.proxy.combined_file}",
        ]

    def _token(self, name: str) -> str:
        token = secrets.token_urlsafe(32)
        write_secret(self.token_file(name), token.encode())
        return token

    def _write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        return path


def kubeconfig_text(server: str, authority_file: Path, client: Pair) -> str:
    """A kubeconfig that knows one server and one client certificate, by file."""
    user = {"client-certificate": str(client.certificate_file), "client-key": str(client.key_file)}
    cluster = {"server": server, "certificate-authority": str(authority_file)}
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "demo", "cluster": cluster}],
            "users": [{"name": "proxy", "user": user}],
            "contexts": [{"name": "demo", "context": {"cluster": "demo", "user": "proxy"}}],
            "current-context": "demo",
        }
    )
