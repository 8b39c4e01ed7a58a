"""The `asyncio.Protocol` towards the upstream, and the connector over the pool."""

from dataclasses import dataclass

from pyrbacproxy.egress_proxy import ProxyAddress


@dataclass(frozen=True, slots=True)
class UpstreamSettings:
    """Where requests go. `scheme` is "http", "https" or "" (unusable: every forwarded request answers 502, reference 1.2).

    `base_path` and `raw_query` are joined to each request's (reference 4.1.3). `host` has no brackets. `ca_file` "" means the
    system's roots; the client pair is both or neither. `proxy` is the egress proxy that applies to this upstream.
    """

    scheme: str = ""
    host: str = ""
    port: int = 0
    base_path: bytes = b""
    raw_query: bytes = b""
    ca_file: str = ""
    client_certificate_file: str = ""
    client_key_file: str = ""
    proxy: ProxyAddress | None = None
