"""The fields of a KubeletConfiguration: their kinds, and which of them know unset from zero.

From kubelet.config.k8s.io/v1beta1 (k8s.io/kubelet, 1.35). A field that its Go type keeps behind a
pointer can be set to zero; for every other field zero and unset are one.
"""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from pyrbacproxy.node.documents import Document, Json, shown


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


@dataclass(frozen=True, slots=True)
class Field:
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


@dataclass(frozen=True, slots=True)
class Complaints:
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
