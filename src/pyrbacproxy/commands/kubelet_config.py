"""`pyrbacproxy kubelet-config`: the kubelet configuration that the nodes of a pool would get.

Template defaults and a user's KubeletConfig are merged as the machine-config operator merges them.
Shown are the result, what of the user's values the merge would drop, and what a changed
staticPodPath means for the proxy on the nodes. Nothing is asked of a cluster.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from pyrbacproxy.commands.arguments import FAILED, Arguments
from pyrbacproxy.commands.kubelet_report import Answer, Inputs, as_json, as_text
from pyrbacproxy.commands.terminal import printable
from pyrbacproxy.node.documents import Document, DocumentError, read_all, read_one, shown
from pyrbacproxy.node.kubelet_config import CONTROL_PLANE_POOLS, Pool, merge
from pyrbacproxy.node.kubelet_request import KIND, KubeletRequest, TlsProfile, request
from pyrbacproxy.node.kubelet_settings import static_pod_path
from pyrbacproxy.node.sidecar import DAEMONSET, NAMESPACE, NoSidecarError, sidecars
from pyrbacproxy.tls.profiles import Profile, rendered

T = TypeVar("T")
_EXIT_CODES = """exit status: 0 when the nodes get what was asked for; 1 when the operator
refuses it, when a default stays where another value was asked for, when a key
is unknown, when the sidecar is missing, and when a file or a flag is wrong"""


class _Files:
    """Reads files; what is wrong with them is gathered, so that all is told at once."""

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
    parser = Arguments("kubelet-config", __doc__, _EXIT_CODES)
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
