"""Facts about a node → findings: whether the old proxy is gone, the new one serves and guards."""

from pyrbacproxy.node import lifetimes, serving, static_pods
from pyrbacproxy.node.facts import NodeFacts
from pyrbacproxy.node.findings import Outcome, Passed, Unseen


def audit(facts: NodeFacts) -> list[Outcome]:
    """What each check came to, in the order in which one reads them."""
    role, how = static_pods.role_of(facts)
    return [
        Passed("role", f"{role.value}: {how}") if role else Unseen("role", how),
        *static_pods.kubelet_setting(facts, role),
        *static_pods.manifest_folder(facts, role),
        *static_pods.legacy_pod(facts),
        *static_pods.leftovers(facts),
        *serving.listener(facts),
        *serving.upstream(facts),
        *serving.anonymous(facts),
        *serving.scrape(facts),
        *lifetimes.serving_pair(facts),
        *lifetimes.client_ca(facts),
    ]
