"""KubeletConfig object, its raw `spec.kubeletConfig` or KubeletConfiguration → what a user asks."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pyrbacproxy.node.documents import Document, DocumentError, Json, shown
from pyrbacproxy.node.kubelet_fields import nearest_name, place_of, unknown_field

KIND = "KubeletConfiguration"
_WRAPPER = "KubeletConfig"
_LOG_LEVELS = range(11)
_CONFIGURATION = "spec.kubeletConfig"
# Each mapping's keys, by its own. The API server keeps these alone, and takes case for difference;
# what is below other keys is not looked at here.
_KNOWN: Mapping[str, tuple[str, ...]] = {
    "": ("apiVersion", "kind", "metadata", "spec", "status"),
    "spec": (
        "autoSizingReserved",
        "kubeletConfig",
        "logLevel",
        "machineConfigPoolSelector",
        "tlsSecurityProfile",
    ),
    "spec.machineConfigPoolSelector": ("matchExpressions", "matchLabels"),
    "spec.tlsSecurityProfile": ("custom", "intermediate", "modern", "old", "type"),
    "spec.tlsSecurityProfile.custom": ("ciphers", "minTLSVersion"),
}


@dataclass(frozen=True, slots=True)
class TlsProfile:
    """`spec.tlsSecurityProfile`, which overrides the cluster's for the kubelet alone.

    `custom` is the lowest version and the suites by OpenSSL's names, None unless it is there.
    """

    type: str
    custom: tuple[str, tuple[str, ...]] | None = None


@dataclass(frozen=True, slots=True)
class KubeletRequest:
    """The KubeletConfiguration that a user gives, and what a KubeletConfig says around it.

    The operator refuses a request with `problems`; of its `unknown` keys the nodes get nothing.
    """

    configuration: Document
    tls_profile: TlsProfile | None = None
    problems: tuple[str, ...] = field(default=())
    unknown: tuple[str, ...] = field(default=())


def request(document: Document, file: str) -> KubeletRequest:
    """What the document asks for. Raises DocumentError when it is of another kind."""
    kind = document.get("kind")
    if kind in (None, KIND):
        return KubeletRequest(document)
    if kind != _WRAPPER:
        raise DocumentError(f"{file}: kind: must be {KIND} or {_WRAPPER}, not {shown(kind)}")
    spec = _mapping(document.get("spec"), "spec", file)
    configuration = _mapping(spec.get("kubeletConfig"), _CONFIGURATION, file)
    return KubeletRequest(
        configuration,
        _tls_profile(spec.get("tlsSecurityProfile"), file),
        tuple(f"{file}: {text}" for text in _refused(spec, configuration)),
        tuple(unknown_field(file, key, nearest) for key, nearest in _unknown(document, above="")),
    )


def _unknown(document: Document, *, above: str) -> Iterator[tuple[str, str]]:
    """Keys that the API server drops, each with the nearest that it would have kept."""
    names = _KNOWN[above]
    for name, value in document.items():
        key = f"{above}.{name}".lstrip(".")
        if name not in names:
            yield key, _nearest(name, above)
        elif key in _KNOWN and isinstance(value, dict):
            yield from _unknown(value, above=key)


def _nearest(name: str, above: str) -> str:
    """The same name in another place, else the one in this place that is spelt most like it."""
    for place in (above, *_KNOWN):
        for known in _KNOWN[place]:
            if known.casefold() == name.casefold():
                return f"{place}.{known}".lstrip(".")
    if field_of_kubelet := place_of(name):
        return f"{_CONFIGURATION}.{field_of_kubelet}"
    return f"{above}.{nearest_name(name, _KNOWN[above])}".lstrip(".")


def _refused(spec: Document, configuration: Document) -> Iterator[str]:
    level = spec.get("logLevel")
    if level is not None and (isinstance(level, bool) or level not in _LOG_LEVELS):
        yield f"spec.logLevel: must be a whole number from 0 to 10, not {shown(level)}"
    is_automatic = spec.get("autoSizingReserved")
    if is_automatic is not None and not isinstance(is_automatic, bool):
        yield f"spec.autoSizingReserved: must be true or false, not {shown(is_automatic)}"
    elif is_automatic and configuration.get("systemReserved"):
        yield "spec.autoSizingReserved: true excludes spec.kubeletConfig.systemReserved"


def _tls_profile(value: Json, file: str) -> TlsProfile | None:
    if value is None:
        return None
    key = "spec.tlsSecurityProfile"
    profile = _mapping(value, key, file)
    kind = _text(profile.get("type"), f"{key}.type", file)
    if kind != "Custom" or profile.get("custom") is None:
        return TlsProfile(kind)
    custom = _mapping(profile["custom"], f"{key}.custom", file)
    ciphers = custom.get("ciphers")
    if ciphers is not None and not isinstance(ciphers, list):
        raise DocumentError(f"{file}: {key}.custom.ciphers: must be a list, not {shown(ciphers)}")
    minimum = _text(custom.get("minTLSVersion"), f"{key}.custom.minTLSVersion", file)
    places = ((f"{key}.custom.ciphers[{at}]", name) for at, name in enumerate(ciphers or ()))
    return TlsProfile(kind, (minimum, tuple(_text(name, place, file) for place, name in places)))


def _mapping(value: Json, key: str, file: str) -> Document:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise DocumentError(f"{file}: {key}: must be a mapping, not {shown(value)}")
    return value


def _text(value: Json, key: str, file: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise DocumentError(f"{file}: {key}: must be text, not {shown(value)}")
    return value
