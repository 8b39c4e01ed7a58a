"""Merges a KubeletConfig into the template's defaults, as the machine-config operator does."""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum

from pyrbacproxy.node.documents import Document, DocumentError, Json, shown
from pyrbacproxy.node.facts import STATIC_POD_PATH
from pyrbacproxy.values import Frozen, field

# --- kubelet fields -------------------------------------------------------------------
#
# The fields of a KubeletConfiguration: their kinds, and which of them know unset from zero.
#
# From kubelet.config.k8s.io/v1beta1 (k8s.io/kubelet, 1.35). A field that its Go type keeps behind a
# pointer can be set to zero; for every other field zero and unset are one.


class Kind(Enum):
    """What a field holds; the value is the word for it in a message."""

    TEXT = "text"
    TRUTH = "true or false"
    INTEGER = "a whole number"
    NUMBER = "a number"
    DURATION = 'a duration like "10s"'
    PERIOD = 'a duration like "10s" or whole nanoseconds'
    TEXTS = "a list of texts"
    INTEGERS = "a list of whole numbers"
    MAPPINGS = "a list of mappings"
    TEXT_MAP = "a mapping of texts"
    TRUTH_MAP = "a mapping of true or false"
    LIST_MAP = "a mapping of lists"
    STRUCT = "a mapping"


class Field(Frozen):
    """One field; `fields` are those of a struct."""

    kind: Kind
    is_pointer: bool = False
    fields: "Mapping[str, Field]" = field(default_factory=dict)


_DURATIONS = (Kind.DURATION, Kind.PERIOD)
_DURATION = re.compile(r"[+-]?(0|((\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)")

_PLAIN = {
    Kind.TEXT: "kind apiVersion staticPodPath podLogsDir staticPodURL address tlsCertFile "
    "tlsPrivateKeyFile tlsMinVersion imagePullCredentialsVerificationPolicy healthzBindAddress "
    "clusterDomain kubeletCgroups systemCgroups cgroupRoot cgroupDriver cpuManagerPolicy "
    "memoryManagerPolicy topologyManagerPolicy topologyManagerScope hairpinMode podCIDR "
    "contentType containerLogMaxSize configMapAndSecretChangeDetectionStrategy "
    "reservedSystemCPUs showHiddenMetricsForVersion systemReservedCgroup kubeReservedCgroup "
    "volumePluginDir providerID memoryReservationPolicy containerRuntimeEndpoint "
    "imageServiceEndpoint",
    Kind.TRUTH: "rotateCertificates serverTLSBootstrap enableContentionProfiling runOnce "
    "protectKernelDefaults kernelMemcgNotification",
    Kind.INTEGER: "port readOnlyPort registryBurst eventBurst nodeLeaseDurationSeconds maxPods "
    "maxOpenFiles kubeAPIBurst evictionMaxPodGracePeriod podsPerCore",
    Kind.DURATION: "syncFrequency fileCheckFrequency httpCheckFrequency "
    "streamingConnectionIdleTimeout nodeStatusUpdateFrequency nodeStatusReportFrequency "
    "imageMinimumGCAge imageMaximumGCAge volumeStatsAggPeriod cpuManagerReconcilePeriod "
    "runtimeRequestTimeout evictionPressureTransitionPeriod shutdownGracePeriod "
    "shutdownGracePeriodCriticalPods",
    Kind.TEXTS: "tlsCipherSuites preloadedImagesVerificationAllowlist clusterDNS "
    "enforceNodeAllocatable allowedUnsafeSysctls",
    Kind.INTEGERS: "tlsCurvePreferences",
    Kind.MAPPINGS: "shutdownGracePeriodByPodPriority reservedMemory registerWithTaints",
    Kind.TEXT_MAP: "cpuManagerPolicyOptions topologyManagerPolicyOptions qosReserved evictionHard "
    "evictionSoft evictionSoftGracePeriod evictionMinimumReclaim systemReserved kubeReserved",
    Kind.TRUTH_MAP: "featureGates",
    Kind.LIST_MAP: "staticPodURLHeader",
}
_POINTERS = {
    Kind.TEXT: "resolvConf",
    Kind.TRUTH: "enableServer enableDebuggingHandlers cgroupsPerQOS singleProcessOOMKill "
    "cpuCFSQuota serializeImagePulls mergeDefaultEvictionSettings enableControllerAttachDetach "
    "makeIPTablesUtilChains failSwapOn enableSystemLogHandler enableSystemLogQuery "
    "enableProfilingHandler enableDebugFlagsHandler seccompDefault registerNode "
    "localStorageCapacityIsolation failCgroupV1",
    Kind.INTEGER: "registryPullQPS eventRecordQPS healthzPort oomScoreAdj "
    "imageGCHighThresholdPercent imageGCLowThresholdPercent podPidsLimit nodeStatusMaxImages "
    "kubeAPIQPS maxParallelImagePulls iptablesMasqueradeBit iptablesDropBit containerLogMaxFiles "
    "containerLogMaxWorkers",
    Kind.NUMBER: "memoryThrottlingFactor",
    Kind.DURATION: "cpuCFSQuotaPeriod containerLogMonitorInterval",
}


def _named(table: Mapping[Kind, str], *, is_pointer: bool) -> dict[str, Field]:
    return {
        name: Field(kind, is_pointer) for kind, names in table.items() for name in names.split()
    }


def _struct(*, is_pointer: bool = False, **fields: Field) -> Field:
    return Field(Kind.STRUCT, is_pointer, fields)


_OUTPUT = _struct(splitStream=Field(Kind.TRUTH), infoBufferSize=Field(Kind.TEXT))

FIELDS: Mapping[str, Field] = {
    **_named(_PLAIN, is_pointer=False),
    **_named(_POINTERS, is_pointer=True),
    "authentication": _struct(
        x509=_struct(clientCAFile=Field(Kind.TEXT)),
        webhook=_struct(enabled=Field(Kind.TRUTH, is_pointer=True), cacheTTL=Field(Kind.DURATION)),
        anonymous=_struct(enabled=Field(Kind.TRUTH, is_pointer=True)),
    ),
    "authorization": _struct(
        mode=Field(Kind.TEXT),
        webhook=_struct(
            cacheAuthorizedTTL=Field(Kind.DURATION), cacheUnauthorizedTTL=Field(Kind.DURATION)
        ),
    ),
    "memorySwap": _struct(swapBehavior=Field(Kind.TEXT)),
    "logging": _struct(
        format=Field(Kind.TEXT),
        flushFrequency=Field(Kind.PERIOD),
        verbosity=Field(Kind.INTEGER),
        vmodule=Field(Kind.MAPPINGS),
        options=_struct(text=_OUTPUT, json=_OUTPUT),
    ),
    "crashLoopBackOff": _struct(
        maxContainerRestartPeriod=Field(Kind.DURATION, is_pointer=True),
    ),
    "tracing": _struct(
        is_pointer=True,
        endpoint=Field(Kind.TEXT, is_pointer=True),
        samplingRatePerMillion=Field(Kind.INTEGER, is_pointer=True),
    ),
    "userNamespaces": _struct(is_pointer=True, idsPerPod=Field(Kind.INTEGER, is_pointer=True)),
}


# What the entries of lists of mappings hold; of whose values nothing is said here.
_ENTRIES = {
    "reservedMemory": ("numaNode", "limits"),
    "registerWithTaints": ("key", "value", "effect", "timeAdded"),
    "shutdownGracePeriodByPodPriority": ("priority", "shutdownGracePeriodSeconds"),
    "vmodule": ("filePattern", "verbosity"),
}
# A KubeletConfig's own, which a KubeletConfiguration has not.
_WRAPPING = ("spec", "kubeletconfig")


class Complaints(Frozen):
    """What is wrong with a document (`problems`), which keys are `unknown`, and other `notes`."""

    file: str
    problems: list[str]
    unknown: list[str]
    notes: list[str]


def known(document: Document, complaints: Complaints) -> Document:
    """The document with known fields alone, each of its kind and under its own name.

    As the operator decodes it: a key matches whatever its case, and an unknown one is ignored.
    """
    return _known(document, FIELDS, "", complaints)


def unknown_field(file: str, key: str, nearest: str) -> str:
    """The message about a key that nothing reads."""
    return f"{file}: {key}: unknown field, which is ignored; the nearest known one is {nearest}"


def nearest_name(name: str, names: Iterable[str]) -> str:
    """The one of the names, at least one, that is spelt most like it."""
    folded = {known.casefold(): known for known in names}
    return folded[difflib.get_close_matches(name.casefold(), folded, 1, 0.0)[0]]


def place_of(name: str, fields: Mapping[str, Field] | None = None, above: str = "") -> str:
    """The dotted key of the field that is called so in any case, wherever it is; "" for none."""
    fields = FIELDS if fields is None else fields
    for known_name in fields:
        if known_name.casefold() == name.casefold():
            return f"{above}{known_name}"
    places = (place_of(name, one.fields, f"{above}{key}.") for key, one in fields.items())
    return next(filter(None, places), "")


def is_zero(value: Json, kind: Kind) -> bool:
    """Whether Go cannot tell the value from an unset one, without a pointer before it."""
    if kind in _DURATIONS and isinstance(value, str):
        return not re.search(r"[1-9]", value)
    return not value


def _known(
    document: Document, fields: Mapping[str, Field], above: str, complaints: Complaints
) -> Document:
    names = {name.casefold(): name for name in fields}
    found: Document = {}
    for spelling, value in document.items():
        name = names.get(spelling.casefold())
        key = f"{above}{name or spelling}"
        if name is None:
            complaints.unknown.append(_unknown(complaints.file, key, above, fields))
            continue
        if name != spelling:
            complaints.notes.append(f"{complaints.file}: {above}{spelling}: read as {name}")
        complaints.unknown.extend(_unknown_entries(value, name, key, complaints.file))
        wrong = list(_wrong(value, fields[name].kind, key))
        complaints.problems.extend(f"{complaints.file}: {text}" for text in wrong)
        if fields[name].kind is Kind.STRUCT and isinstance(value, dict):
            found[name] = _known(value, fields[name].fields, f"{key}.", complaints)
        elif not wrong:
            found[name] = value
    return found


def _unknown(file: str, key: str, above: str, fields: Mapping[str, Field]) -> str:
    name = key.removeprefix(above)
    if not above and name.casefold() in _WRAPPING:
        nearest = "spec.kubeletConfig of an object with `kind: KubeletConfig`"
    else:
        nearest = place_of(name) or f"{above}{nearest_name(name, fields)}"
    return unknown_field(file, key, nearest)


def _unknown_entries(value: Json, name: str, key: str, file: str) -> Iterator[str]:
    entries = value if name in _ENTRIES and isinstance(value, list) else []
    for at, entry in enumerate(entries):
        for spelling in entry if isinstance(entry, dict) else ():
            if spelling.casefold() not in map(str.casefold, _ENTRIES[name]):
                nearest = f"{key}[{at}].{nearest_name(spelling, _ENTRIES[name])}"
                yield unknown_field(file, f"{key}[{at}].{spelling}", nearest)


_SCALARS: dict[Kind, tuple[type, ...]] = {
    Kind.TEXT: (str,),
    Kind.DURATION: (str,),
    Kind.PERIOD: (str, int),
    Kind.TRUTH: (bool,),
    Kind.INTEGER: (int,),
    Kind.NUMBER: (int, float),
}
_MEMBERS = {
    Kind.TEXTS: Kind.TEXT,
    Kind.INTEGERS: Kind.INTEGER,
    Kind.MAPPINGS: Kind.STRUCT,
    Kind.TEXT_MAP: Kind.TEXT,
    Kind.TRUTH_MAP: Kind.TRUTH,
    Kind.LIST_MAP: Kind.TEXTS,
}
_LISTS = (Kind.TEXTS, Kind.INTEGERS, Kind.MAPPINGS)


def _wrong(value: Json, kind: Kind, key: str) -> Iterator[str]:
    """What is wrong with the value's type; null is right everywhere."""
    if value is None:
        return
    members = [] if kind in _SCALARS else _members(value, kind, key)
    if members is None or (kind in _SCALARS and not _is_scalar(value, kind)):
        yield f"{key}: must be {kind.value}, not {shown(value)}"
        return
    for place, member in members if kind in _MEMBERS else ():
        yield from _wrong(member, _MEMBERS[kind], place)


def _is_scalar(value: Json, kind: Kind) -> bool:
    if isinstance(value, bool):
        return kind is Kind.TRUTH
    if kind in _DURATIONS and isinstance(value, str):
        return _DURATION.fullmatch(value) is not None
    return isinstance(value, _SCALARS[kind])


def _members(value: Json, kind: Kind, key: str) -> list[tuple[str, Json]] | None:
    """A list's or mapping's members with their places; None when it is not what `kind` wants."""
    if isinstance(value, list) and kind in _LISTS:
        return [(f"{key}[{at}]", item) for at, item in enumerate(value)]
    if isinstance(value, dict) and kind not in _LISTS:
        return [(f"{key}.{name}", item) for name, item in value.items()]
    return None


# --- kubelet request ------------------------------------------------------------------
# KubeletConfig object, its raw `spec.kubeletConfig` or KubeletConfiguration → what a user asks.

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


class TlsProfile(Frozen):
    """`spec.tlsSecurityProfile`, which overrides the cluster's for the kubelet alone.

    `custom` is the lowest version and the suites by OpenSSL's names, None unless it is there.
    """

    type: str
    custom: tuple[str, tuple[str, ...]] | None = None


class KubeletRequest(Frozen):
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
        tuple(f"{file}: {text}" for text in _refused_request(spec, configuration)),
        tuple(
            unknown_field(file, key, nearest) for key, nearest in _unknown_keys(document, above="")
        ),
    )


def _unknown_keys(document: Document, *, above: str) -> Iterator[tuple[str, str]]:
    """Keys that the API server drops, each with the nearest that it would have kept."""
    names = _KNOWN[above]
    for name, value in document.items():
        key = f"{above}.{name}".lstrip(".")
        if name not in names:
            yield key, _nearest(name, above)
        elif key in _KNOWN and isinstance(value, dict):
            yield from _unknown_keys(value, above=key)


def _nearest(name: str, above: str) -> str:
    """The same name in another place, else the one in this place that is spelt most like it."""
    for place in (above, *_KNOWN):
        for known in _KNOWN[place]:
            if known.casefold() == name.casefold():
                return f"{place}.{known}".lstrip(".")
    if field_of_kubelet := place_of(name):
        return f"{_CONFIGURATION}.{field_of_kubelet}"
    return f"{above}.{nearest_name(name, _KNOWN[above])}".lstrip(".")


def _refused_request(spec: Document, configuration: Document) -> Iterator[str]:
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


# --- kubelet config -------------------------------------------------------------------
#
# Template defaults + a user's KubeletConfiguration → what the machine-config operator renders.
#
# The operator lays the user's values over the defaults field by field, and its merge cannot tell an
# explicit zero from an unset field: `kubeAPIQPS: 0` or an empty list is dropped without a word. A
# few fields are exceptions, `staticPodPath` among them. Whatever a user wrote in vain is reported
# here.

# What the operator writes, whatever stands in either file.
_TYPE = {"kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1"}
# Their nodes run the control plane from the folder of manifests.
CONTROL_PLANE_POOLS = ("master", "arbiter")
# Unset and false are one to the kubelet, so a user's false can be let through.
_KERNEL_DEFAULTS = "protectKernelDefaults"
# The operator puts these into the environment of the kubelet's service instead.
_SIZING = ("memory", "cpu", "ephemeral-storage")
_SIZING_FILE = "/etc/node-sizing-enabled.env"
_CGROUP = "systemReservedCgroup"
_ENFORCED = "enforceNodeAllocatable"
_SYSTEM_ENFORCEMENT = ("system-reserved", "system-reserved-compressible")
_OWNED = ("cgroupDriver", "clusterDNS", "clusterDomain", "featureGates", "failSwapOn")


class Pool(Frozen):
    """A machine-config pool; `is_control_plane` also for one that selects control-plane nodes."""

    name: str
    is_control_plane: bool


class Lost(Frozen):
    """A value that the merge drops.

    `stays` is the default that wins. None: the field is left out, and the kubelet, which cannot
    tell its zero from unset either, takes its own default.
    """

    key: str
    asked: Json
    stays: Json


class Merged(Frozen):
    """The kubelet's configuration of a pool, and what is to be said about it.

    The operator refuses a configuration with `problems` and renders nothing. It ignores a user's
    `unknown` keys, of which the nodes get nothing. What its encoding adds
    without a meaning (`syncFrequency: 0s`, `authorization: {}`) is not in `document`.
    """

    document: Document = field(default_factory=dict)
    lost: list[Lost] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def merge(
    defaults: Document, user: Document, pool: Pool, *, defaults_file: str, file: str
) -> Merged:
    """Lay `user` over `defaults`; the names of the files are for the messages."""
    result = Merged()
    # An unknown key of the template was not asked for by the user.
    base = known(defaults, Complaints(defaults_file, result.problems, result.notes, result.notes))
    asked = known(user, Complaints(file, result.problems, result.unknown, result.notes))
    result.problems.extend(f"{file}: {text}" for text in _refused(asked, pool))
    asked = _without_sizing(asked, result)
    if asked.get(STATIC_POD_PATH) == "":
        # Its presence is looked for before the merge: else no user could turn the folder off.
        base.pop(STATIC_POD_PATH, None)
        del asked[STATIC_POD_PATH]
    if asked.get(_KERNEL_DEFAULTS) is False:
        base.pop(_KERNEL_DEFAULTS, None)
        del asked[_KERNEL_DEFAULTS]
    for name in _TYPE:
        base.pop(name, None)
        asked.pop(name, None)
    result.document.update(_TYPE)
    result.document.update(_over(FIELDS, base, asked, "", result.lost))
    _settle_enforcement(asked, result)
    _settle_reserved_cpus(result)
    result.problems.extend(f"{file}: {text}" for text in _unequal_cgroups(result.document))
    return result


def _refused(asked: Document, pool: Pool) -> list[str]:
    """What the operator takes from no user, each with the reason."""
    swap = asked.get("memorySwap")
    owned = {name: asked.get(name) for name in _OWNED}
    owned["memorySwap.swapBehavior"] = swap.get("swapBehavior") if isinstance(swap, dict) else None
    found = [
        f"{key}: the operator sets it itself and takes no value, not {shown(value)}"
        for key, value in owned.items()
        # Even `failSwapOn: false` is refused, for the operator can tell it from unset.
        if value or value is False
    ]
    return [*found, *_refused_path(asked, pool), *_unequal_cgroups(asked)]


def _refused_path(asked: Document, pool: Pool) -> list[str]:
    if STATIC_POD_PATH not in asked:
        return []
    value = shown(asked[STATIC_POD_PATH])
    if pool.is_control_plane:
        reason = "its nodes run the control plane from that folder"
        allowed = f"not allowed for the control-plane pool {pool.name}, whatever the value"
        return [f"{STATIC_POD_PATH}: {allowed}, here {value}: {reason}"]
    if asked[STATIC_POD_PATH]:
        reason = "the folder can be turned off but not moved, for manifests go to the default one"
        return [f'{STATIC_POD_PATH}: must be "" for the pool {pool.name}, not {value}: {reason}']
    return []


def _unequal_cgroups(document: Document) -> list[str]:
    cgroup, system = document.get(_CGROUP), document.get("systemCgroups")
    if cgroup and system and cgroup != system:
        return [f"{_CGROUP}: must match systemCgroups {shown(system)}, not {shown(cgroup)}"]
    return []


def _without_sizing(asked: Document, result: Merged) -> Document:
    """The user's values without what the operator takes out of systemReserved."""
    reserved = asked.get("systemReserved")
    if not isinstance(reserved, dict) or not reserved:
        return asked
    for name in _SIZING:
        if name in reserved:
            value = shown(reserved[name])
            result.notes.append(f"systemReserved.{name}: {value} goes to {_SIZING_FILE} instead")
    rest: Document = {name: value for name, value in reserved.items() if name not in _SIZING}
    others = {name: value for name, value in asked.items() if name != "systemReserved"}
    return {**others, "systemReserved": rest} if rest else others


def _over(
    fields: Mapping[str, Field], base: Document, asked: Document, above: str, lost: list[Lost]
) -> Document:
    """One mapping over another; what the merge takes for unset leaves the default."""
    merged = dict(base)
    for name, value in asked.items():
        one, default = fields[name], base.get(name)
        if _is_dropped(one, value, default):
            if value != default:
                stays = default if one.is_pointer or not is_zero(default, one.kind) else None
                lost.append(Lost(f"{above}{name}", value, stays))
        elif one.kind is Kind.STRUCT and isinstance(value, dict):
            below = default if isinstance(default, dict) else {}
            merged[name] = _over(one.fields, below, value, f"{above}{name}.", lost)
        elif isinstance(value, dict) and isinstance(default, dict):
            # A map's entries win whatever they hold; a list is replaced as a whole.
            merged[name] = {**default, **value}
        else:
            merged[name] = value
    return merged


def _is_dropped(one: Field, value: Json, default: Json) -> bool:
    """A zero gets through only behind a pointer, and only where the default has none."""
    if value is None:
        return True
    return is_zero(value, one.kind) and not (one.is_pointer and default is None)


def _settle_enforcement(asked: Document, result: Merged) -> None:
    """A user's list that does not enforce the system's share takes the default's cgroup away."""
    enforced = asked.get(_ENFORCED)
    if not isinstance(enforced, list) or not enforced or asked.get(_CGROUP):
        return
    if not any(name in enforced for name in _SYSTEM_ENFORCEMENT):
        _drop_cgroup(result, f"{_ENFORCED} does not enforce it")


def _settle_reserved_cpus(result: Merged) -> None:
    """Reserved CPUs exclude the enforcement of the system's share."""
    if not result.document.get("reservedSystemCPUs"):
        return
    _drop_cgroup(result, "reservedSystemCPUs is set")
    before = result.document.get(_ENFORCED)
    listed = before if isinstance(before, list) else []
    kept = [name for name in listed if name not in _SYSTEM_ENFORCEMENT]
    result.document[_ENFORCED] = kept if "pods" in kept else ["pods", *kept]


def _drop_cgroup(result: Merged, reason: str) -> None:
    before = result.document.pop(_CGROUP, None)
    # An explicit "" is kept.
    result.lost[:] = [lost for lost in result.lost if lost.key != _CGROUP]
    if before:
        result.notes.append(f"{_CGROUP}: {shown(before)} is left out, for {reason}")
