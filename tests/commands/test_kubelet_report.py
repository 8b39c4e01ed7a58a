import json

import pytest

from pyrbacproxy.commands.kubelet_config import Answer, Inputs, as_json, as_text
from pyrbacproxy.node.documents import Document
from pyrbacproxy.node.facts import StaticPodPath
from pyrbacproxy.node.kubelet_config import KubeletRequest, Lost, Merged, Pool
from pyrbacproxy.values import replace

DEFAULTS: Document = {"maxPods": 250, "staticPodPath": "/m"}
WANTED: Document = {"kind": "KubeletConfiguration", "maxPods": 0, "staticPodPath": "", "port": 0}
MERGED = Merged(
    {"maxPods": 250}, lost=[Lost("maxPods", 0, 250), Lost("port", 0, None)], notes=["a note"]
)
ANSWER = Answer(
    pool=Pool("worker", is_control_plane=False),
    inputs=Inputs(DEFAULTS, KubeletRequest(WANTED), None),
    merged=MERGED,
    before=StaticPodPath("/m"),
    after=StaticPodPath(None),
    sidecars=None,
    missing="",
)
REFUSED = replace(ANSWER, merged=Merged({}, problems=["no"]))


def test_people_get_a_table_and_what_is_to_be_said() -> None:
    text = as_text(ANSWER)
    assert text.startswith(
        "Pool worker\n"
        "\n"
        "FIELD          DEFAULT  ASKED FOR  RESULT\n"
        "maxPods        250      0          250\n"
        'staticPodPath  "/m"     ""         absent\n'
        "port           absent   0          absent\n"
        "\n"
        "The kubelet's configuration:\n"
        "\n"
        "    maxPods: 250\n"
        "\n"
        "Dropped by the operator's merge:\n"
        "\n"
        "  - maxPods: 0 is lost; the default 250 stays\n"
        "  - port: 0 is left out; the kubelet takes its own default\n"
        "\n"
        "Notes:\n"
        "\n"
        "  - a note\n"
        "\n"
        "What follows for the proxy:\n"
        "\n"
        "  - /m is no longer watched:"
    )
    assert text.endswith("  - whether the sidecar is there was not looked at: give --manifests\n")


def test_empty_sections_are_left_out() -> None:
    text = as_text(replace(ANSWER, merged=Merged({"maxPods": 250})))
    assert "Dropped" not in text
    assert "Notes" not in text


@pytest.mark.parametrize(
    ("owners", "line"),
    [
        (["DaemonSet mcd"], "  - the sidecar kube-rbac-proxy-crio is in DaemonSet mcd\n"),
        ([], "  - the sidecar kube-rbac-proxy-crio is missing\n"),
    ],
)
def test_people_learn_of_the_sidecar(owners: list[str], line: str) -> None:
    assert as_text(replace(ANSWER, sidecars=owners)).endswith(line)


def test_people_see_no_configuration_that_is_refused() -> None:
    expected = "Pool worker: the operator refuses this and renders nothing.\n"
    assert as_text(REFUSED) == expected


def test_programs_get_everything() -> None:
    told = json.loads(as_json(ANSWER))
    assert len(told.pop("follows")) == 4
    assert told == {
        "pool": "worker",
        "isControlPlane": False,
        "isAsAsked": False,
        "problems": [],
        "kubeletConfiguration": {"maxPods": 250},
        "staticPodPath": {"default": "/m", "result": None},
        "dropped": [
            {"key": "maxPods", "asked": 0, "stays": 250},
            {"key": "port", "asked": 0, "stays": None},
        ],
        "unknown": [],
        "notes": ["a note"],
        "sidecars": None,
    }


def test_programs_get_no_configuration_that_is_refused() -> None:
    told = json.loads(as_json(REFUSED))
    assert told["kubeletConfiguration"] is None
    assert told["problems"] == ["no"]
    assert told["follows"] == []


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(replace(ANSWER, merged=Merged({})), True, id="all as asked"),
        pytest.param(
            replace(ANSWER, merged=Merged({}, lost=[Lost("port", 0, None)])),
            True,
            id="a zero that means the kubelet's own default",
        ),
        pytest.param(ANSWER, False, id="a default stays"),
        pytest.param(REFUSED, False, id="refused"),
        pytest.param(
            replace(ANSWER, merged=Merged({}), missing="none"), False, id="no sidecar found"
        ),
    ],
)
def test_whether_the_nodes_get_what_was_asked_for(answer: Answer, *, expected: bool) -> None:
    assert answer.is_as_asked is expected
