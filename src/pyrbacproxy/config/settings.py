"""`Settings`: the frozen whole, made of each part's own settings type."""

from pyrbacproxy.access import AccessSettings
from pyrbacproxy.authz.attributes import AttributeSettings
from pyrbacproxy.authz.authorizers import StaticRule
from pyrbacproxy.http2.limits import Http2Limits
from pyrbacproxy.kube.kubeconfig import KubeSettings
from pyrbacproxy.oidc.settings import OidcSettings
from pyrbacproxy.pages.status import PageSettings
from pyrbacproxy.proxy.connector import UpstreamSettings
from pyrbacproxy.proxy.exchange import Limits
from pyrbacproxy.startup.gate import GateSettings
from pyrbacproxy.tls.server_context import TlsSettings
from pyrbacproxy.values import Frozen


class Address(Frozen):
    """Where to bind. `host` has no brackets and "" means every address of every family.

    `text` is as the operator wrote it, `flags` are the flags that say so, with their values.
    """

    host: str
    port: int
    text: str
    flags: str = ""


class Settings(Frozen):
    """All that the program needs, complete and valid.

    `kube` is None when no API server is needed (D20), `oidc` when there is no issuer, `http2` when
    that is turned off. `access_log` is a path, `-` for stdout, or "" for none. `warnings` are lines
    for the log at start: deprecations, what was accepted without effect, unknown keys outside the
    strict places (D2).
    """

    secure: Address | None
    insecure: Address | None
    endpoints: Address | None
    tls: TlsSettings
    upstream: UpstreamSettings
    access: AccessSettings
    attributes: AttributeSettings
    static_rules: tuple[StaticRule, ...]
    audiences: tuple[str, ...]
    oidc: OidcSettings | None
    kube: KubeSettings | None
    limits: Limits
    http2: Http2Limits | None
    gate: GateSettings
    pages: PageSettings
    access_log: str
    warnings: tuple[str, ...] = ()

    @property
    def needs_reviews(self) -> bool:
        """Whether it is certain that the API server will be asked: who is let in by certificate or
        ID token and by static rule never needs it.
        """
        is_known_without = self.tls.client_ca_file or self.oidc is not None
        return self.kube is not None and not (is_known_without and self.static_rules)
