import pytest

from pyrbacproxy.node.documents import Document, Json
from pyrbacproxy.node.kubelet_config import FIELDS, Complaints, Kind, is_zero, known


def read(document: Document) -> tuple[Document, list[str], list[str]]:
    complaints = Complaints("f", [], [], [])
    found = known(document, complaints)
    return found, complaints.problems, complaints.unknown + complaints.notes


GOOD: Document = {
    "staticPodPath": "",
    "serializeImagePulls": False,
    "maxPods": 250,
    "memoryThrottlingFactor": 1,
    "syncFrequency": "1h2m3.5s",
    "tlsCipherSuites": ["A"],
    "tlsCurvePreferences": [29],
    "reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi"}}],
    "evictionHard": {"memory.available": "100Mi"},
    "featureGates": {"A": True},
    "staticPodURLHeader": {"X": ["y"]},
    "authentication": {"webhook": {"enabled": True, "cacheTTL": "0"}},
    "logging": {"flushFrequency": 5000000000, "options": {"json": {"infoBufferSize": "0"}}},
    "tracing": None,
}


def test_every_kind_of_field_is_known() -> None:
    assert {FIELDS[name].kind for name in GOOD} == set(Kind) - {Kind.PERIOD}
    assert read(GOOD) == (GOOD, [], [])


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("staticPodPath", 1, "staticPodPath: must be text, not 1"),
        ("maxPods", "250", 'maxPods: must be a whole number, not "250"'),
        ("maxPods", 1.5, "maxPods: must be a whole number, not 1.5"),
        ("maxPods", True, "maxPods: must be a whole number, not true"),
        ("runOnce", "true", 'runOnce: must be true or false, not "true"'),
        ("runOnce", 1, "runOnce: must be true or false, not 1"),
        ("memoryThrottlingFactor", "1", 'memoryThrottlingFactor: must be a number, not "1"'),
        ("syncFrequency", 10, 'syncFrequency: must be a duration like "10s", not 10'),
        ("syncFrequency", "10", 'syncFrequency: must be a duration like "10s", not "10"'),
        ("clusterDNS", "10.0.0.1", 'clusterDNS: must be a list of texts, not "10.0.0.1"'),
        ("clusterDNS", {"a": "b"}, 'clusterDNS: must be a list of texts, not {"a": "b"}'),
        ("clusterDNS", ["a", 1], "clusterDNS[1]: must be text, not 1"),
        ("reservedMemory", [1], "reservedMemory[0]: must be a mapping, not 1"),
        ("evictionHard", ["a"], 'evictionHard: must be a mapping of texts, not ["a"]'),
        ("evictionHard", {"a": 1}, "evictionHard.a: must be text, not 1"),
        ("staticPodURLHeader", {"a": [1]}, "staticPodURLHeader.a[0]: must be text, not 1"),
        ("featureGates", {"A": "x"}, 'featureGates.A: must be true or false, not "x"'),
        ("authentication", [], "authentication: must be a mapping, not []"),
    ],
)
def test_a_value_of_another_kind_is_named_and_left_out(
    name: str, value: Json, complaint: str
) -> None:
    assert read({name: value}) == ({}, [f"f: {complaint}"], [])


def test_every_problem_is_told_with_its_place() -> None:
    document: Document = {
        "authentication": {"x509": {"clientCAFile": 1}, "anonymous": {"enabled": "no"}},
        "maxPods": "x",
    }
    found, problems, _ = read(document)
    assert found == {"authentication": {"x509": {}, "anonymous": {}}}
    assert problems == [
        "f: authentication.x509.clientCAFile: must be text, not 1",
        'f: authentication.anonymous.enabled: must be true or false, not "no"',
        'f: maxPods: must be a whole number, not "x"',
    ]


# FR85


@pytest.mark.parametrize(
    ("document", "key", "nearest"),
    [
        ({"maxpod": 1}, "maxpod", "maxPods"),
        ({"staticPodPaths": ""}, "staticPodPaths", "staticPodPath"),
        ({"static_pod_path": ""}, "static_pod_path", "staticPodPath"),
        ({"authentication": {"x510": {}}}, "authentication.x510", "authentication.x509"),
        ({"cacheTTL": "1s"}, "cacheTTL", "authentication.webhook.cacheTTL"),
        ({"logging": {"maxPods": 1}}, "logging.maxPods", "maxPods"),
        (
            {"registerWithTaints": [{"key": "a"}, {"efect": "NoSchedule"}]},
            "registerWithTaints[1].efect",
            "registerWithTaints[1].effect",
        ),
        (
            {"reservedMemory": [{"limit": {}}]},
            "reservedMemory[0].limit",
            "reservedMemory[0].limits",
        ),
        (
            {"logging": {"vmodule": [{"verbose": 1}]}},
            "logging.vmodule[0].verbose",
            "logging.vmodule[0].verbosity",
        ),
        (
            {"spec": {"kubeletConfig": {"maxPods": 1}}},
            "spec",
            "spec.kubeletConfig of an object with `kind: KubeletConfig`",
        ),
        (
            {"kubeletConfig": {"maxPods": 1}},
            "kubeletConfig",
            "spec.kubeletConfig of an object with `kind: KubeletConfig`",
        ),
    ],
)
def test_fr85_an_unknown_field_is_named_with_the_nearest_known_one(
    document: Document, key: str, nearest: str
) -> None:
    _, problems, told = read(document)
    assert problems == []
    ignored = "unknown field, which is ignored; the nearest known one is"
    assert told == [f"f: {key}: {ignored} {nearest}"]


def test_fr85_what_is_not_known_is_left_out_and_the_rest_is_kept() -> None:
    found, _, _ = read({"maxpod": 1, "podPidsLimit": 2, "authentication": {"x510": {}}})
    assert found == {"podPidsLimit": 2, "authentication": {}}


def test_a_field_is_known_whatever_its_case() -> None:
    found, _, notes = read({"maxpods": 1})
    assert found == {"maxPods": 1}
    assert notes == ["f: maxpods: read as maxPods"]


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        ("", Kind.TEXT, True),
        ("0", Kind.TEXT, False),
        (0, Kind.INTEGER, True),
        (False, Kind.TRUTH, True),
        ("0s", Kind.DURATION, True),
        ("0.0h0m", Kind.DURATION, True),
        ("100ms", Kind.DURATION, False),
        (0, Kind.PERIOD, True),
        ([], Kind.TEXTS, True),
        ({}, Kind.STRUCT, True),
        (None, Kind.TEXT, True),
    ],
)
def test_zero_is_what_go_takes_for_unset(value: Json, kind: Kind, *, expected: bool) -> None:
    assert is_zero(value, kind) is expected
