"""What `kubelet-config` shows: an `Answer` → text for people, JSON for programs."""

import json
import textwrap
from dataclasses import dataclass

import yaml

from pyrbacproxy.commands.terminal import printable
from pyrbacproxy.node.documents import Document, Json, shown
from pyrbacproxy.node.kubelet_config import Lost, Merged, Pool
from pyrbacproxy.node.kubelet_request import KubeletRequest
from pyrbacproxy.node.kubelet_settings import StaticPodPath
from pyrbacproxy.node.sidecar import CONTAINER, what_follows


@dataclass(frozen=True, slots=True)
class Inputs:
    """What the files say; `manifests` is None when there is none to look into."""

    defaults: Document
    wanted: KubeletRequest
    manifests: list[Document] | None


@dataclass(frozen=True, slots=True)
class Answer:
    """All that is to be shown; `sidecars` names their owners, None when nobody looked."""

    pool: Pool
    inputs: Inputs
    merged: Merged
    before: StaticPodPath
    after: StaticPodPath
    sidecars: list[str] | None
    missing: str

    @property
    def is_as_asked(self) -> bool:
        """Whether the nodes get what was asked for, and the sidecar is where it was looked for."""
        is_kept = any(lost.stays is not None for lost in self.merged.lost)
        return not (self.merged.problems or self.merged.unknown or is_kept or self.missing)


def as_json(answer: Answer) -> str:
    """One JSON object; `kubeletConfiguration` is null where the operator renders nothing."""
    merged = answer.merged
    lost = [{"key": one.key, "asked": one.asked, "stays": one.stays} for one in merged.lost]
    told = {
        "pool": answer.pool.name,
        "isControlPlane": answer.pool.is_control_plane,
        "isAsAsked": answer.is_as_asked,
        "problems": merged.problems,
        "kubeletConfiguration": None if merged.problems else merged.document,
        "staticPodPath": {"default": answer.before.written, "result": answer.after.written},
        "dropped": lost,
        "unknown": merged.unknown,
        "notes": merged.notes,
        "sidecars": answer.sidecars,
        "follows": [] if merged.problems else what_follows(answer.before, answer.after),
    }
    return json.dumps(told, indent=2) + "\n"


def as_text(answer: Answer) -> str:
    """A table of the user's fields, the whole configuration, and what is to be said about it."""
    merged = answer.merged
    if merged.problems:
        return f"Pool {answer.pool.name}: the operator refuses this and renders nothing.\n"
    dropped = [_dropped_line(lost) for lost in merged.lost]
    follows = what_follows(answer.before, answer.after)
    document = yaml.safe_dump(merged.document, sort_keys=False)
    parts = [
        f"Pool {answer.pool.name}",
        _table(answer),
        f"The kubelet's configuration:\n\n{textwrap.indent(document, '    ').rstrip()}",
        _section("Dropped by the operator's merge", dropped),
        _section("Ignored", merged.unknown),
        _section("Notes", merged.notes),
        _section("What follows for the proxy", [*follows, _sidecar_line(answer.sidecars)]),
    ]
    # Keys and values come from files; what YAML needs escaped is escaped by now.
    return "".join(f"{printable(line)}\n" for line in "\n\n".join(filter(None, parts)).split("\n"))


def _table(answer: Answer) -> str:
    """One row for each field that the user names."""
    rows = [("FIELD", "DEFAULT", "ASKED FOR", "RESULT")]
    rows += [
        (
            key,
            _cell(answer.inputs.defaults.get(key)),
            shown(value),
            _cell(answer.merged.document.get(key)),
        )
        for key, value in answer.inputs.wanted.configuration.items()
        if key not in ("kind", "apiVersion")
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def _cell(value: Json) -> str:
    return "absent" if value is None else shown(value)


def _section(title: str, lines: list[str]) -> str:
    return "\n".join([f"{title}:", "", *(f"  - {line}" for line in lines)]) if lines else ""


def _dropped_line(lost: Lost) -> str:
    if lost.stays is None:
        return f"{lost.key}: {shown(lost.asked)} is left out; the kubelet takes its own default"
    return f"{lost.key}: {shown(lost.asked)} is lost; the default {shown(lost.stays)} stays"


def _sidecar_line(owners: list[str] | None) -> str:
    if owners is None:
        return "whether the sidecar is there was not looked at: give --manifests"
    if not owners:
        return f"the sidecar {CONTAINER} is missing"
    return f"the sidecar {CONTAINER} is in {', '.join(owners)}"
