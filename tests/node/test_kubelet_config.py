import pytest

from pyrbacproxy.node.documents import Document, Json
from pyrbacproxy.node.kubelet_config import Lost, Merged, Pool, merge

TYPE: Document = {
    "kind": "KubeletConfiguration",
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
}
DEFAULTS: Document = {
    **TYPE,
    "authentication": {
        "x509": {"clientCAFile": "/etc/kubernetes/kubelet-ca.crt"},
        "anonymous": {"enabled": False},
    },
    "enableSystemLogQuery": True,
    "serializeImagePulls": False,
    "maxPods": 250,
    "podPidsLimit": 4096,
    "protectKernelDefaults": True,
    "rotateCertificates": True,
    "staticPodPath": "/etc/kubernetes/manifests",
    "nodeStatusUpdateFrequency": "10s",
    "nodeStatusReportFrequency": "0s",
    "tlsCipherSuites": ["A", "B"],
    "evictionHard": {"memory.available": "100Mi", "nodefs.available": "10%"},
}
WORKER = Pool("worker", is_control_plane=False)
MASTER = Pool("master", is_control_plane=True)


def merged(user: Document, defaults: Document = DEFAULTS, pool: Pool = WORKER) -> Merged:
    return merge(defaults, user, pool, defaults_file="d", file="u")


def test_nothing_asked_for_changes_nothing() -> None:
    assert merged({}) == Merged(DEFAULTS)
    assert DEFAULTS["maxPods"] == 250


def test_the_type_is_the_operators() -> None:
    assert merged({"kind": "KubeletConfiguration", "apiVersion": "v9"}, {}).document == TYPE


@pytest.mark.parametrize(
    ("name", "value", "result"),
    [
        pytest.param("maxPods", 500, 500, id="another value"),
        pytest.param("syncFrequency", "1m", "1m", id="a new field"),
        pytest.param("tlsCipherSuites", ["C"], ["C"], id="a list replaces a list"),
        pytest.param(
            "evictionHard",
            {"memory.available": "", "pid.available": "5%"},
            {"memory.available": "", "nodefs.available": "10%", "pid.available": "5%"},
            id="a map's entries win, empty ones included",
        ),
        pytest.param("evictionSoft", {"a": ""}, {"a": ""}, id="a new map"),
        pytest.param(
            "authentication",
            {"anonymous": {"enabled": True}, "webhook": {"cacheTTL": "2m"}},
            {
                "x509": {"clientCAFile": "/etc/kubernetes/kubelet-ca.crt"},
                "anonymous": {"enabled": True},
                "webhook": {"cacheTTL": "2m"},
            },
            id="a struct is merged field by field",
        ),
        pytest.param("registryPullQPS", 0, 0, id="zero behind a pointer, without a default"),
        pytest.param("enableServer", False, False, id="false behind a pointer, without a default"),
        pytest.param("tracing", {"endpoint": ""}, {"endpoint": ""}, id="a struct behind a pointer"),
        pytest.param("userNamespaces", {}, {}, id="an empty struct behind a pointer"),
        pytest.param("serializeImagePulls", False, False, id="the default's own zero"),
        pytest.param("registryBurst", None, None, id="null where nothing is"),
    ],
)
def test_what_is_asked_for_comes_out(name: str, value: Json, result: Json) -> None:
    found = merged({name: value})
    assert found.document.get(name) == result
    assert (found.lost, found.problems, found.notes) == ([], [], [])


@pytest.mark.parametrize(
    ("user", "key", "asked", "stays"),
    [
        pytest.param({"maxPods": 0}, "maxPods", 0, 250, id="a number"),
        pytest.param({"rotateCertificates": False}, "rotateCertificates", False, True, id="truth"),
        pytest.param(
            {"enableSystemLogQuery": False},
            "enableSystemLogQuery",
            False,
            True,
            id="behind a pointer, with a default",
        ),
        pytest.param({"podPidsLimit": 0}, "podPidsLimit", 0, 4096, id="a number behind a pointer"),
        pytest.param(
            {"serializeImagePulls": None}, "serializeImagePulls", None, False, id="null, by pointer"
        ),
        pytest.param(
            {"nodeStatusUpdateFrequency": "0s"},
            "nodeStatusUpdateFrequency",
            "0s",
            "10s",
            id="a duration",
        ),
        pytest.param(
            {"nodeStatusReportFrequency": "0"},
            "nodeStatusReportFrequency",
            "0",
            None,
            id="over a default that means nothing",
        ),
        pytest.param({"tlsCipherSuites": []}, "tlsCipherSuites", [], ["A", "B"], id="a list"),
        pytest.param(
            {"evictionHard": {}}, "evictionHard", {}, DEFAULTS["evictionHard"], id="a map"
        ),
        pytest.param({"maxPods": None}, "maxPods", None, 250, id="null"),
        pytest.param({"staticPodPath": None}, "staticPodPath", None, "/etc/kubernetes/manifests"),
        pytest.param({"eventBurst": 0}, "eventBurst", 0, None, id="without a default"),
        pytest.param(
            {"authentication": {"x509": {"clientCAFile": ""}}},
            "authentication.x509.clientCAFile",
            "",
            "/etc/kubernetes/kubelet-ca.crt",
            id="inside a struct",
        ),
        pytest.param({"systemReserved": {}}, "systemReserved", {}, None, id="no share at all"),
    ],
)
def test_a_zero_that_the_merge_drops_is_reported(
    user: Document, key: str, asked: Json, stays: Json
) -> None:
    found = merged(user)
    assert found.lost == [Lost(key, asked, stays)]
    assert found.document == DEFAULTS
    assert found.problems == []


def without(*names: str) -> Document:
    return {name: value for name, value in DEFAULTS.items() if name not in names}


@pytest.mark.parametrize("defaults", [DEFAULTS, without("staticPodPath", "protectKernelDefaults")])
@pytest.mark.parametrize(
    ("name", "value"), [("staticPodPath", ""), ("protectKernelDefaults", False)]
)
def test_the_exceptions_win_and_come_out_absent(name: str, value: Json, defaults: Document) -> None:
    found = merged({name: value}, defaults)
    assert found.document == {key: kept for key, kept in defaults.items() if key != name}
    assert (found.lost, found.problems) == ([], [])


def test_a_folder_is_refused_for_every_pool_and_any_value_for_the_control_plane() -> None:
    other = Pool("infra", is_control_plane=False)
    derived = Pool("big-masters", is_control_plane=True)
    for pool in (WORKER, other):
        (problem,) = merged({"staticPodPath": "/x"}, pool=pool).problems
        assert problem == (
            f'u: staticPodPath: must be "" for the pool {pool.name}, not "/x": the folder can be '
            "turned off but not moved, for manifests go to the default one"
        )
    for pool in (MASTER, derived):
        for value, text in (("", '""'), ("/x", '"/x"'), (None, "null")):
            (problem,) = merged({"staticPodPath": value}, pool=pool).problems
            assert problem == (
                f"u: staticPodPath: not allowed for the control-plane pool {pool.name}, whatever "
                f"the value, here {text}: its nodes run the control plane from that folder"
            )
        assert merged({"maxPods": 1}, pool=pool).problems == []


@pytest.mark.parametrize(
    ("user", "key"),
    [
        ({"cgroupDriver": "systemd"}, "cgroupDriver"),
        ({"clusterDNS": ["10.0.0.1"]}, "clusterDNS"),
        ({"clusterDomain": "x"}, "clusterDomain"),
        ({"featureGates": {"A": False}}, "featureGates"),
        ({"failSwapOn": False}, "failSwapOn"),
        ({"memorySwap": {"swapBehavior": "LimitedSwap"}}, "memorySwap.swapBehavior"),
    ],
)
def test_what_the_operator_owns_is_refused(user: Document, key: str) -> None:
    (problem,) = merged(user).problems
    assert problem.startswith(f"u: {key}: the operator sets it itself and takes no value, not ")


def test_every_problem_is_told_under_its_files_name() -> None:
    found = merged({"maxPods": "x", "clusterDomain": "y", "staticPodPath": "/z"}, {"port": "p"})
    assert [problem.partition(": must")[0][:20] for problem in found.problems] == [
        "d: port",
        "u: maxPods",
        "u: clusterDomain: th",
        "u: staticPodPath",
    ]


def test_fr85_only_the_users_unknown_keys_count() -> None:
    found = merged({"maxPod": 1}, {"portt": 2})
    ignored = "unknown field, which is ignored; the nearest known one is"
    assert found.unknown == [f"u: maxPod: {ignored} maxPods"]
    assert found.notes == [f"d: portt: {ignored} port"]


def test_some_of_system_reserved_goes_elsewhere() -> None:
    moved: Document = {"memory": "2Gi", "cpu": "1", "ephemeral-storage": ""}
    found = merged({"systemReserved": moved})
    assert "systemReserved" not in found.document
    assert found.notes == [
        'systemReserved.memory: "2Gi" goes to /etc/node-sizing-enabled.env instead',
        'systemReserved.cpu: "1" goes to /etc/node-sizing-enabled.env instead',
        'systemReserved.ephemeral-storage: "" goes to /etc/node-sizing-enabled.env instead',
    ]
    found = merged({"systemReserved": {"memory": "2Gi", "pid": "100"}})
    assert found.document["systemReserved"] == {"pid": "100"}


SYSTEM: Document = {
    "systemCgroups": "/system.slice",
    "systemReservedCgroup": "/system.slice",
    "enforceNodeAllocatable": ["pods", "system-reserved-compressible"],
}


@pytest.mark.parametrize(
    ("user", "cgroup", "enforced", "why"),
    [
        pytest.param({}, "/system.slice", SYSTEM["enforceNodeAllocatable"], "", id="as before"),
        pytest.param(
            {"enforceNodeAllocatable": ["pods"]},
            None,
            ["pods"],
            "enforceNodeAllocatable does not enforce it",
            id="not enforced",
        ),
        pytest.param(
            {"enforceNodeAllocatable": ["pods"], "systemReservedCgroup": ""},
            None,
            ["pods"],
            "enforceNodeAllocatable does not enforce it",
            id="not enforced, and cleared",
        ),
        pytest.param(
            {"enforceNodeAllocatable": ["system-reserved"]},
            "/system.slice",
            ["system-reserved"],
            "",
            id="enforced",
        ),
        pytest.param(
            {"enforceNodeAllocatable": ["pods"], "systemReservedCgroup": "/system.slice"},
            "/system.slice",
            ["pods"],
            "",
            id="named",
        ),
        pytest.param(
            {"reservedSystemCPUs": "0-1"}, None, ["pods"], "reservedSystemCPUs is set", id="CPUs"
        ),
        pytest.param(
            {"reservedSystemCPUs": "0", "enforceNodeAllocatable": ["system-reserved", "x"]},
            None,
            ["pods", "x"],
            "reservedSystemCPUs is set",
            id="CPUs, without pods",
        ),
    ],
)
def test_the_systems_cgroup_fits_what_is_enforced(
    user: Document, cgroup: Json, enforced: Json, why: str
) -> None:
    found = merged(user, SYSTEM)
    assert found.document.get("systemReservedCgroup") == cgroup
    assert found.document["enforceNodeAllocatable"] == enforced
    notes = [f'systemReservedCgroup: "/system.slice" is left out, for {why}'] if why else []
    assert (found.notes, found.lost, found.problems) == (notes, [], [])


def test_cleared_alone_the_systems_cgroup_stays() -> None:
    found = merged({"systemReservedCgroup": ""}, SYSTEM)
    assert found.lost == [Lost("systemReservedCgroup", "", "/system.slice")]


def test_reserved_cpus_enforce_pods_alone_where_nothing_was_said() -> None:
    found = merged({"reservedSystemCPUs": "0"}, {})
    assert found.document["enforceNodeAllocatable"] == ["pods"]
    assert found.notes == []


@pytest.mark.parametrize(
    "user",
    [
        {"systemReservedCgroup": "/a", "systemCgroups": "/a.slice"},
        {"systemReservedCgroup": "/a"},
    ],
)
def test_unequal_cgroups_are_refused(user: Document) -> None:
    problem = merged(user, {"systemCgroups": "/system.slice"}).problems[0]
    assert problem.startswith("u: systemReservedCgroup: must match systemCgroups ")
