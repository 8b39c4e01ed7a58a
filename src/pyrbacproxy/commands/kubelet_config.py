"""`pyrbacproxy kubelet-config`: the kubelet configuration that the nodes of a pool would get."""

import argparse
import json
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import yaml

from pyrbacproxy.commands.terminal import FAILED, Arguments, printable
from pyrbacproxy.node.audit import (
    CONTAINER,
    DAEMONSET,
    NAMESPACE,
    NoSidecarError,
    sidecars,
    what_follows,
)
from pyrbacproxy.node.documents import Document, DocumentError, Json, read_all, read_one, shown
from pyrbacproxy.node.facts import StaticPodPath, static_pod_path
from pyrbacproxy.node.kubelet_config import (
    CONTROL_PLANE_POOLS,
    KIND,
    KubeletRequest,
    Lost,
    Merged,
    Pool,
    TlsProfile,
    merge,
    request,
)
from pyrbacproxy.tls.names import Profile, rendered
from pyrbacproxy.values import Frozen

# --- kubelet report -------------------------------------------------------------------
# What `kubelet-config` shows: an `Answer` → text for people, JSON for programs.


class Inputs(Frozen):
    """What the files say; `manifests` is None when there is none to look into."""

    defaults: Document
    wanted: KubeletRequest
    manifests: list[Document] | None


class Answer(Frozen):
    """All that is to be shown; `sidecars` names their owners, None when not looked for."""

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


# --- kubelet config -------------------------------------------------------------------
#
# `pyrbacproxy kubelet-config`: the kubelet configuration that the nodes of a pool would get.
#
# Template defaults and a user's KubeletConfig are merged as the machine-config operator merges
# them. Shown are the result, what of the user's values the merge would drop, and what a changed
# staticPodPath means for the proxy on the nodes. Nothing is asked of a cluster.

T = TypeVar("T")
# Not the docstring: -OO drops it.
_DESCRIPTION = (
    "`pyrbacproxy kubelet-config`: the kubelet configuration that the nodes of a pool would get."
)
_EXIT_CODES = """exit status: 0 when the nodes get what was asked for; 1 when the operator
refuses it, when a default stays where another value was asked for, when a key
is unknown, when the sidecar is missing, and when a file or a flag is wrong"""


class _Files:
    """Reads files; what is wrong with them is gathered, so that all is reported at once."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def read(self, file: str, use: Callable[[bytes, str], T]) -> T | None:
        """What `use` makes of the file ("-" is standard input); None after a problem."""
        try:
            content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
            return use(content, file)
        except OSError as error:
            self.problems.append(f"{file}: {error.strerror}")
        except DocumentError as error:
            self.problems.append(str(error))
        return None


def run(argv: list[str]) -> int:
    """Show the merged configuration; 0 or 1, as the help says."""
    options = _parser().parse_args(argv)
    files = _Files()
    defaults = files.read(options.defaults, _defaults)
    wanted = files.read(options.file, lambda content, file: request(read_one(content, file), file))
    manifests = files.read(options.manifests, read_all) if options.manifests else None
    pool = Pool(options.pool, options.control_plane or options.pool in CONTROL_PLANE_POOLS)
    # Merged even without a file that can't be read, for the other one's problems.
    inputs = Inputs(defaults or {}, wanted or KubeletRequest({}), manifests)
    answer = _answer(pool, inputs, options.defaults, options.file)
    merged = answer.merged
    problems = [*files.problems, *merged.problems, *merged.unknown, *filter(None, [answer.missing])]
    sys.stderr.writelines(f"Error: {printable(problem)}\n" for problem in problems)
    if files.problems:
        return FAILED
    sys.stdout.write(as_json(answer) if options.output == "json" else as_text(answer))
    return 0 if answer.is_as_asked else FAILED


def _parser() -> argparse.ArgumentParser:
    parser = Arguments("kubelet-config", _DESCRIPTION, _EXIT_CODES)
    parser.add_argument(
        "file",
        metavar="FILE",
        help="a KubeletConfig, its spec.kubeletConfig or a KubeletConfiguration, YAML or JSON; "
        "- reads standard input",
    )
    parser.add_argument(
        "--defaults",
        required=True,
        metavar="FILE",
        help="the template's KubeletConfiguration, as /etc/kubernetes/kubelet.conf of a node "
        "without a KubeletConfig",
    )
    parser.add_argument("--pool", default="worker", help="machine-config pool (default: worker)")
    parser.add_argument(
        "--control-plane",
        action="store_true",
        help="the pool selects control-plane nodes; master and arbiter always do",
    )
    parser.add_argument(
        "--manifests",
        metavar="FILE",
        help=f"rendered objects in which the sidecar must be, as "
        f"`kubectl -n {NAMESPACE} get daemonset {DAEMONSET} -o yaml` prints them",
    )
    parser.add_argument("--output", choices=("text", "json"), default="text")
    return parser


def _defaults(content: bytes, file: str) -> Document:
    document = read_one(content, file)
    if document.get("kind") != KIND:
        raise DocumentError(f"{file}: kind: must be {KIND}, not {shown(document.get('kind'))}")
    static_pod_path(document, file)
    return document


def _answer(pool: Pool, inputs: Inputs, defaults_file: str, file: str) -> Answer:
    defaults, notes = _with_tls(inputs.defaults, inputs.wanted.tls_profile)
    asked = inputs.wanted.configuration
    merged = merge(defaults, asked, pool, defaults_file=defaults_file, file=file)
    merged.problems.extend(inputs.wanted.problems)
    merged.unknown.extend(inputs.wanted.unknown)
    merged.notes.extend(notes)
    owners, missing = None, ""
    if inputs.manifests is not None:
        try:
            owners = [sidecar.owner for sidecar in sidecars(inputs.manifests)]
        except NoSidecarError as error:
            owners, missing = [], str(error)
    before = static_pod_path(inputs.defaults, defaults_file)
    after = static_pod_path(merged.document, file)
    return Answer(pool, inputs, merged, before, after, owners, missing)


def _with_tls(defaults: Document, profile: TlsProfile | None) -> tuple[Document, list[str]]:
    """The defaults with a KubeletConfig's own TLS profile, and what is to be said about it."""
    if profile is None:
        return defaults, []
    custom = None if profile.custom is None else Profile(*profile.custom)
    tls = rendered(profile.type, custom)
    fields: Document = {"tlsMinVersion": tls.minimum, "tlsCipherSuites": list(tls.suites)}
    rest = {name: value for name, value in defaults.items() if name not in fields}
    notes = [f"{cipher}: dropped from the TLS profile, for Go lacks it" for cipher in tls.dropped]
    notes.append("the proxy's TLS flags follow the cluster's TLS profile, not this KubeletConfig's")
    return {**rest, **{name: value for name, value in fields.items() if value}}, notes
