"""The users of the acceptance table, what they are granted, and requests to the endpoints port."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pyrbacproxy.demo.documents import document
from pyrbacproxy.demo.manifests import read_policy
from pyrbacproxy.model import NonResourceAttributes, ResourceAttributes, UserInfo
from tests.conformance import pki
from tests.conformance.wire import free_port
from tests.field_reports.harness import Answer, Lab, Proxy, accepts, bearer, get
from tests.field_reports.servers import ALLOWED, DENIED, Asked, Document, Reply, user

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
NODE_MODE = ("--zpages-authorization=node", "--node-name=node-1")

# The built-in role with the gates of Kubernetes 1.36, as the API server prints it, and who has it.
BUILT_IN = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "system:monitoring"}
rules:
- nonResourceURLs: [/flagz, /healthz, /healthz/*, /livez, /livez/*, /metrics, /metrics/slis,
    /readyz, /readyz/*, /statusz]
  verbs: [get]
- {apiGroups: [""], resources: [nodes/metrics], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "system:monitoring"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:monitoring"}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:monitoring"}
- {kind: ServiceAccount, name: hello, namespace: default}
---
"""
_GRANT = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {{name: {name}}}
rules: [{rule}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {{name: {name}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {name}}}
subjects: [{{apiGroup: rbac.authorization.k8s.io, kind: User, name: {name}}}]
---
"""
_NODES = '{{apiGroups: [""], resources: [nodes/{name}], verbs: {verbs}}}'
GRANTS = {
    "st": _NODES.format(name="statusz", verbs="[get]"),
    "cz": _NODES.format(name="configz", verbs="[get]"),
    "px": _NODES.format(name="proxy", verbs="[get, create]"),
    "admin": '{apiGroups: ["*"], resources: ["*"], verbs: ["*"]},'
    ' {nonResourceURLs: ["*"], verbs: ["*"]}',
}
RBAC = BUILT_IN + "".join(_GRANT.format(name=name, rule=rule) for name, rule in GRANTS.items())
USERS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "mon": ("mon", ("system:monitoring", "system:authenticated")),
    "sa": (
        "system:serviceaccount:default:hello",
        ("system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"),
    ),
    **{name: (name, ("system:authenticated",)) for name in ("plain", *GRANTS)},
}


def shipped(folder: str = "zpages") -> str:
    """The RBAC that a folder of deploy/ applies."""
    files = ("role.yaml", "binding.yaml")
    return "\n---\n".join((DEPLOY / folder / name).read_text() for name in files)


def shipped_for_nodes() -> str:
    """What deploy/zpages/node adds."""
    return shipped("zpages/node")


def granted(rbac: str, spec: Document) -> bool:
    """What an API server with these roles and bindings says to a SubjectAccessReview."""
    asked = document(spec)
    who = UserInfo(asked.text("user"), groups=asked.texts("groups"))
    action: ResourceAttributes | NonResourceAttributes
    if asked.has("nonResourceAttributes"):
        fields = asked.child("nonResourceAttributes")
        action = NonResourceAttributes(fields.text("verb"), fields.text("path"))
    else:
        fields = asked.child("resourceAttributes")
        action = ResourceAttributes(
            verb=fields.text("verb"),
            group=fields.text("group"),
            version=fields.text("version"),
            resource=fields.text("resource"),
            subresource=fields.text("subresource"),
            name=fields.text("name"),
        )
    return read_policy(rbac).authorize(who, action).is_allowed


@dataclass(frozen=True)
class Pages:
    """A running proxy's endpoints port."""

    lab: Lab
    proxy: Proxy
    port: int

    def ask(
        self,
        who: str,
        path: str = "/statusz",
        *lines: str,
        method: str = "GET",
        certificate: Path | None = None,
    ) -> Answer:
        """One request as a user of `USERS`, as `none`, or with a token that is `bad`."""
        own = () if who == "none" else (bearer(self.token(who)),)
        with self.proxy.connect(certificate, port=self.port) as client:
            client.send(get(path, *own, *lines, method=method))
            return client.answer(to_head=method == "HEAD")

    def status(self, who: str, path: str = "/statusz", *, method: str = "GET") -> int:
        """The status of one request."""
        return self.ask(who, path, method=method).status

    def token(self, who: str) -> str:
        """A new token of a user of `USERS`, or a bad one."""
        if who == "bad":
            return self.lab.token()
        name, groups = USERS[who]
        return self.lab.token(user(name, *groups))


class PageLab:
    """One test's proxies and API server. `rbac` may be changed.

    `ports` has the endpoints port of each proxy that the module's tests share.
    """

    def __init__(self, lab: Lab, ports: dict[str, int]) -> None:
        self.lab = lab
        self._ports = ports
        self.rbac = RBAC
        lab.api.on_access = self._judged
        self.certificate = lab.world.folder / "own" / "mon-cert"
        if not self.certificate.parent.exists():
            self.certificate.parent.mkdir()
            pki.build(
                {
                    "client-ca": {"cn": ["client-ca"], "ca": True},
                    "mon-cert": {
                        "cn": ["mon-cert"],
                        "o": ["system:monitoring"],
                        "issuer": "client-ca",
                        "eku": ["client"],
                    },
                },
                self.certificate.parent,
            )

    @property
    def access_reviews(self) -> list[Document]:
        """The SubjectAccessReviews so far."""
        return self.lab.api.access_reviews()

    def start(
        self,
        *flags: str,
        config: Mapping[str, object] | str | None = None,
        env: Mapping[str, str] | None = None,
        is_own: bool = False,
    ) -> Pages:
        """A proxy with an endpoints port, `port`."""
        key = f"{flags} {config} {env}"
        port = free_port() if is_own else self._ports.setdefault(key, free_port())
        proxy = self.lab.start(
            f"--proxy-endpoints-port={port}",
            f"--client-ca-file={self.certificate.parent / 'client-ca.crt'}",
            *flags,
            config=config,
            env=env,
            is_own=is_own,
        )
        assert accepts(proxy.process, "127.0.0.1", port)
        return Pages(self.lab, proxy, port)

    def _judged(self, call: Asked) -> Reply:
        return ALLOWED if granted(self.rbac, call.spec) else DENIED
