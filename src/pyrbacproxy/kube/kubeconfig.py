"""kubeconfig or in-cluster service account → API server address, CA, credential source."""

from dataclasses import dataclass

from pyrbacproxy.egress_proxy import EgressProxies


@dataclass(frozen=True, slots=True)
class KubeSettings:
    """How the API server is reached and how often.

    `kubeconfig` is a path, "" for the in-cluster service account (`server` is then its https URL and `service_account_folder` holds
    token and ca.crt). `qps` and `burst` are per API group when `is_rate_shared` is false (D14: 50/s, 100), one shared bucket otherwise.
    Times are seconds.
    """

    kubeconfig: str = ""
    server: str = ""
    service_account_folder: str = "/var/run/secrets/kubernetes.io/serviceaccount"
    qps: float = 50.0
    burst: int = 100
    is_rate_shared: bool = False
    token_seconds: float = 120.0
    authorized_seconds: float = 300.0
    unauthorized_seconds: float = 30.0
    proxies: EgressProxies = EgressProxies()
