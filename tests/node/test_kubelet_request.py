import pytest

from pyrbacproxy.node.documents import Document, DocumentError, Json
from pyrbacproxy.node.kubelet_config import KubeletRequest, TlsProfile, request

CONFIGURATION: Document = {"maxPods": 1}


def kubelet_config(**spec: Json) -> Document:
    return {"kind": "KubeletConfig", "spec": spec}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        pytest.param(CONFIGURATION, CONFIGURATION, id="spec.kubeletConfig as it is"),
        pytest.param(
            {"kind": "KubeletConfiguration", "maxPods": 1},
            {"kind": "KubeletConfiguration", "maxPods": 1},
            id="a KubeletConfiguration",
        ),
        pytest.param(kubelet_config(kubeletConfig=CONFIGURATION), CONFIGURATION, id="an object"),
        pytest.param({"kind": "KubeletConfig"}, {}, id="an object that asks for nothing"),
    ],
)
def test_three_forms_are_taken(document: Document, expected: Document) -> None:
    assert request(document, "f") == KubeletRequest(expected)


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        ({"type": "Old", "old": {}}, TlsProfile("Old")),
        ({}, TlsProfile("")),
        ({"type": "Custom"}, TlsProfile("Custom")),
        ({"type": "Old", "custom": {"ciphers": ["A"]}}, TlsProfile("Old")),
        ({"type": "Custom", "custom": {}}, TlsProfile("Custom", ("", ()))),
        (
            {"type": "Custom", "custom": {"ciphers": ["A"], "minTLSVersion": "VersionTLS11"}},
            TlsProfile("Custom", ("VersionTLS11", ("A",))),
        ),
    ],
)
def test_its_tls_profile_is_read(profile: Document, expected: TlsProfile) -> None:
    assert request(kubelet_config(tlsSecurityProfile=profile), "f").tls_profile == expected


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        (
            {"kind": "List"},
            'kind: must be KubeletConfiguration or KubeletConfig, not "List"',
        ),
        ({"kind": "KubeletConfig", "spec": 1}, "spec: must be a mapping, not 1"),
        (kubelet_config(kubeletConfig="x"), 'spec.kubeletConfig: must be a mapping, not "x"'),
        (kubelet_config(tlsSecurityProfile=[]), "spec.tlsSecurityProfile: must be a mapping"),
        (
            kubelet_config(tlsSecurityProfile={"type": 1}),
            "spec.tlsSecurityProfile.type: must be text, not 1",
        ),
        (
            kubelet_config(tlsSecurityProfile={"type": "Custom", "custom": {"ciphers": "A"}}),
            'spec.tlsSecurityProfile.custom.ciphers: must be a list, not "A"',
        ),
        (
            kubelet_config(tlsSecurityProfile={"type": "Custom", "custom": {"ciphers": ["A", 1]}}),
            "spec.tlsSecurityProfile.custom.ciphers[1]: must be text, not 1",
        ),
    ],
)
def test_another_shape_is_named(document: Document, complaint: str) -> None:
    with pytest.raises(DocumentError) as caught:
        request(document, "f")
    assert str(caught.value).startswith(f"f: {complaint}")


# FR85


@pytest.mark.parametrize(
    ("document", "key", "nearest"),
    [
        (kubelet_config(kubeletconfig=CONFIGURATION), "spec.kubeletconfig", "spec.kubeletConfig"),
        (kubelet_config(KubeletConfig=CONFIGURATION), "spec.KubeletConfig", "spec.kubeletConfig"),
        (
            kubelet_config(kubeletConfiguration=CONFIGURATION),
            "spec.kubeletConfiguration",
            "spec.kubeletConfig",
        ),
        (kubelet_config(maxPods=1), "spec.maxPods", "spec.kubeletConfig.maxPods"),
        (
            {"kind": "KubeletConfig", "kubeletConfig": CONFIGURATION},
            "kubeletConfig",
            "spec.kubeletConfig",
        ),
        ({"kind": "KubeletConfig", "Spec": {}}, "Spec", "spec"),
        ({"kind": "KubeletConfig", "spek": {}}, "spek", "spec"),
        (
            kubelet_config(tlsSecurityProfile={"type": "Custom", "custom": {"cipher": ["A"]}}),
            "spec.tlsSecurityProfile.custom.cipher",
            "spec.tlsSecurityProfile.custom.ciphers",
        ),
        (
            kubelet_config(machineConfigPoolSelector={"matchLabel": {}}),
            "spec.machineConfigPoolSelector.matchLabel",
            "spec.machineConfigPoolSelector.matchLabels",
        ),
    ],
)
def test_fr85_a_misspelt_place_is_named_with_the_nearest(
    document: Document, key: str, nearest: str
) -> None:
    ignored = "unknown field, which is ignored; the nearest known one is"
    assert request(document, "f").unknown == (f"f: {key}: {ignored} {nearest}",)


def test_fr85_what_the_object_may_hold_is_known() -> None:
    document = kubelet_config(
        kubeletConfig={"maxPod": 1},
        logLevel=2,
        autoSizingReserved=False,
        machineConfigPoolSelector={"matchLabels": {"a": "b"}, "matchExpressions": []},
        tlsSecurityProfile={"type": "Custom", "custom": {"ciphers": [], "minTLSVersion": ""}},
    )
    whole: Document = {**document, "apiVersion": "v1", "metadata": {"x": 1}, "status": {"y": 1}}
    assert request(whole, "f").unknown == ()


@pytest.mark.parametrize(
    ("spec", "problems"),
    [
        ({"logLevel": 0, "autoSizingReserved": True}, []),
        ({"logLevel": 11}, ["spec.logLevel: must be a whole number from 0 to 10, not 11"]),
        ({"logLevel": "5"}, ['spec.logLevel: must be a whole number from 0 to 10, not "5"']),
        ({"logLevel": True}, ["spec.logLevel: must be a whole number from 0 to 10, not true"]),
        (
            {"autoSizingReserved": "yes"},
            ['spec.autoSizingReserved: must be true or false, not "yes"'],
        ),
        (
            {"autoSizingReserved": True, "kubeletConfig": {"systemReserved": {"cpu": "1"}}},
            ["spec.autoSizingReserved: true excludes spec.kubeletConfig.systemReserved"],
        ),
    ],
)
def test_what_the_operator_refuses_around_it(spec: Document, problems: list[str]) -> None:
    found = request(kubelet_config(**spec), "f").problems
    assert found == tuple(f"f: {problem}" for problem in problems)
