"""The whole audit: a node that is well, one that nobody can see, and one where all is wrong."""

from pyrbacproxy.node.audit import audit
from pyrbacproxy.node.facts import (
    Answer,
    Finding,
    Leftovers,
    LegacyPod,
    Manifest,
    NotSeen,
    Passed,
    Role,
    StaticPodPath,
    Unseen,
)
from pyrbacproxy.values import replace
from tests.node.well import BLIND, WELL

CHECKS = [
    *("role", "kubelet", "legacy-manifest", "manifests", "legacy-pod", "legacy-files"),
    *("listener", "listener-pod", "upstream", "anonymous", "scrape", "serving-certificate"),
    *("served-certificate", "client-ca"),
]


def test_a_node_that_is_well_passes_every_check() -> None:
    outcomes = audit(WELL)
    assert [one.check for one in outcomes] == CHECKS
    assert [one for one in outcomes if not isinstance(one, Passed)] == []


def test_what_nobody_sees_is_never_well() -> None:
    blind = replace(
        WELL,
        static_pod_path=BLIND,
        manifests=BLIND,
        legacy_pod=BLIND,
        leftovers=Leftovers((), (BLIND.why,)),
        listeners=BLIND,
        upstream=BLIND,
        serving=BLIND,
        client_ca=BLIND,
        anonymous=BLIND,
        scrape=BLIND,
    )
    seen = {"now", "role", "expects_no_static_pods", "port", "upstream_port", "leftovers"}
    still_seen = [name for name, fact in vars(blind).items() if not isinstance(fact, NotSeen)]
    assert set(still_seen) == seen
    assert [one for one in audit(blind) if not isinstance(one, Unseen)] == []


def test_every_finding_says_why_and_what_to_do() -> None:
    outcomes = audit(
        replace(
            WELL,
            role=Role.MASTER,
            static_pod_path=StaticPodPath(""),
            manifests=(Manifest("/m/criometricsproxy.yaml", ""), Manifest("/m/x", "ns/x")),
            legacy_pod=LegacyPod(("sandbox",), "crictl"),
            leftovers=Leftovers(("/x", "/etc/machine-config-daemon/orig/x")),
            listeners=(),
            upstream=(),
            anonymous=Answer(200, ""),
            scrape=Answer(500, ""),
            now=WELL.now * 2,
        )
    )
    found = [one for one in outcomes if isinstance(one, Finding)]
    assert {one.check for one in found} == set(CHECKS) - {"role", "listener-pod"}
    assert all(one.what and one.why and one.to_do for one in found)
