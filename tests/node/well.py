"""A worker as it is after the hand-over, from which each test takes its fault."""

from pyrbacproxy.node.facts import (
    Answer,
    Certificate,
    CertificateFile,
    Finding,
    Leftovers,
    LegacyPod,
    ListeningSocket,
    NodeFacts,
    NotSeen,
    Outcome,
    Passed,
    Process,
    StaticPodPath,
)

NOW = 1_800_000_000.0
DAY = 86400.0
NAMESPACE = "openshift-machine-config-operator"
LEGACY = f"{NAMESPACE}/kube-rbac-proxy-crio-worker-0"
SIDECAR = Process(
    42,
    "pyrbacproxy",
    "ab" * 32,
    f"{NAMESPACE}/machine-config-daemon-x2x4x",
    container_name="kube-rbac-proxy-crio",
)
CRIO = Process(7, "crio", cgroup="/system.slice/crio.service")
SOCKET = ListeningSocket("::", 9637, (SIDECAR,))
BLIND = NotSeen("too dark")
LEAF = Certificate("CN=system:node:worker-0", NOW - 3 * DAY, NOW + 27 * DAY, "f00d")
SIGNER = Certificate("CN=signer@1790000000", NOW - 90 * DAY, NOW + 275 * DAY, "beef")
SERVING = CertificateFile("/serving.pem", (LEAF,), has_key=True)
CLIENT_CA = CertificateFile("/ca.crt", (SIGNER,))

WELL = NodeFacts(
    now=NOW,
    role=None,
    expects_no_static_pods=False,
    port=9637,
    upstream_port=9537,
    static_pod_path=StaticPodPath(None),
    manifests=(),
    legacy_pod=LegacyPod((), "the container runtime"),
    leftovers=Leftovers(),
    listeners=(SOCKET,),
    upstream=(ListeningSocket("127.0.0.1", 9537, (CRIO,)),),
    serving=SERVING,
    client_ca=CLIENT_CA,
    anonymous=Answer(401, LEAF.fingerprint),
    scrape=Answer(200, LEAF.fingerprint, 900),
)


def told(outcomes: list[Outcome]) -> list[tuple[str, str, str]]:
    """Check, status and text of each, as far as tests compare them."""
    return [
        (one.check, one.severity.value, one.what)
        if isinstance(one, Finding)
        else (one.check, "ok", one.what)
        if isinstance(one, Passed)
        else (one.check, "not seen", one.why)
        for one in outcomes
    ]
