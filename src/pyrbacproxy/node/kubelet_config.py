"""Template defaults + a user's KubeletConfiguration → what the machine-config operator renders.

The operator lays the user's values over the defaults field by field, and its merge cannot tell an
explicit zero from an unset field: `kubeAPIQPS: 0` or an empty list is dropped without a word. A few
fields are exceptions, `staticPodPath` among them. Whatever a user wrote in vain is reported here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyrbacproxy.node.documents import Document, Json, shown
from pyrbacproxy.node.kubelet_fields import FIELDS, Complaints, Field, Kind, is_zero, known
from pyrbacproxy.node.kubelet_settings import STATIC_POD_PATH

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


@dataclass(frozen=True, slots=True)
class Pool:
    """A machine-config pool; `is_control_plane` also for one that selects control-plane nodes."""

    name: str
    is_control_plane: bool


@dataclass(frozen=True, slots=True)
class Lost:
    """A value that the merge drops.

    `stays` is the default that wins. None: the field is left out, and the kubelet, which cannot
    tell its zero from unset either, takes its own default.
    """

    key: str
    asked: Json
    stays: Json


@dataclass(frozen=True, slots=True)
class Merged:
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
    # Whoever asked for "" gets it.
    result.lost[:] = [lost for lost in result.lost if lost.key != _CGROUP]
    if before:
        result.notes.append(f"{_CGROUP}: {shown(before)} is left out, for {reason}")
