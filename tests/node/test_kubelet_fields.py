import pytest

from pyrbacproxy.node.documents import Document, Json
from pyrbacproxy.node.kubelet_fields import FIELDS, Complaints, Kind, is_zero, known


def read(document: Document) -> tuple[Document, list[str], list[str]]:
    complaints = Complaints("f", [], [])
    return known(document, complaints), complaints.problems, complaints.notes


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


def test_an_unknown_field_is_ignored_aloud() -> None:
    found, _, notes = read({"staticPodPaths": "", "authentication": {"x510": {}}})
    assert found == {"authentication": {}}
    assert notes == [
        "f: staticPodPaths: unknown field, which is ignored",
        "f: authentication.x510: unknown field, which is ignored",
    ]


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
