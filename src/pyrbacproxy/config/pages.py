"""The flags about the pages → `PageSettings`: who may see them, and what they show."""

from collections.abc import Mapping

from pyrbacproxy.admin.status import PageSettings
from pyrbacproxy.config.findings import Findings
from pyrbacproxy.config.flag_table import FLAGS
from pyrbacproxy.config.flag_text import shown_values
from pyrbacproxy.config.options import Options
from pyrbacproxy.config.values import quoted
from pyrbacproxy.config.version import reported

_STATUSZ = "ComponentStatusz"
_FLAGZ = "ComponentFlagz"


def pages(options: Options, environ: Mapping[str, str], findings: Findings) -> PageSettings:
    """The settings; adds what is wrong with the flags."""
    gates = {_STATUSZ: True, _FLAGZ: True}
    for name, value in options.pairs("feature-gates"):
        if name not in gates:
            findings.problem(f"--feature-gates: unknown gate {quoted(name)}")
        gates[name] = bool(value)
    return PageSettings(
        node_name=_node_name(options, environ, findings),
        version=reported(options.text("version")),
        flags=tuple(sorted(shown_values(options, FLAGS.values()))),
        has_statusz=gates[_STATUSZ],
        has_flagz=gates[_FLAGZ],
    )


def _node_name(options: Options, environ: Mapping[str, str], findings: Findings) -> str:
    """The node whose subresources guard the pages; "" in component mode."""
    given = options.text("node-name")
    if options.text("zpages-authorization") != "node":
        if given and "zpages-authorization" not in options.doubtful:
            findings.warn("--node-name has no effect without --zpages-authorization=node")
        return ""
    name = given or environ.get("NODE_NAME", "")
    if not name and "node-name" not in options.doubtful:
        findings.problem(
            "--zpages-authorization=node: --node-name is missing, and NODE_NAME is not set"
        )
    return name
