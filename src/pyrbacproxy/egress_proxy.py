"""Which HTTP proxy an outgoing connection takes: `HTTP(S)_PROXY` and `NO_PROXY` as Go reads them (D34). Pure."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ProxyAddress:
    """A proxy to go through. `authorization` is the value of `Proxy-Authorization`, "" without credentials."""

    scheme: str
    host: str
    port: int
    authorization: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class EgressProxies:
    """The environment's settings, read once at start."""

    http: ProxyAddress | None = None
    https: ProxyAddress | None = None
    no_proxy: tuple[str, ...] = ()
