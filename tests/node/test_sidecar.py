import pytest

from pyrbacproxy.node.audit import NoSidecarError, Sidecar, sidecars, what_follows
from pyrbacproxy.node.documents import Document, Json
from pyrbacproxy.node.facts import StaticPodPath

SIDECAR: Document = {"name": "kube-rbac-proxy-crio", "args": ["--a", "--b=c"]}
OTHER: Document = {"name": "kube-rbac-proxy"}


def workload(
    *containers: Json, field: str = "containers", kind: str = "DaemonSet", name: str = "mcd"
) -> Document:
    template: Document = {"spec": {field: list(containers)}}
    return {"kind": kind, "metadata": {"name": name}, "spec": {"template": template}}


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        pytest.param(
            [{"kind": "Service"}, workload(OTHER, SIDECAR)],
            [Sidecar("DaemonSet mcd", ("--a", "--b=c"))],
            id="beside others",
        ),
        pytest.param(
            [workload({**SIDECAR, "command": ["run", 1]}, field="initContainers")],
            [Sidecar("DaemonSet mcd", ("run", "1", "--a", "--b=c"))],
            id="a native sidecar with a command",
        ),
        pytest.param(
            [{"kind": "List", "items": [workload({"name": SIDECAR["name"]}), 7]}],
            [Sidecar("DaemonSet mcd", ())],
            id="in a list",
        ),
        pytest.param(
            [workload(SIDECAR), workload(SIDECAR, kind="Deployment", name="other")],
            [
                Sidecar("DaemonSet mcd", ("--a", "--b=c")),
                Sidecar("Deployment other", ("--a", "--b=c")),
            ],
            id="in two",
        ),
    ],
)
def test_it_is_found(objects: list[Document], expected: list[Sidecar]) -> None:
    assert sidecars(objects) == expected


@pytest.mark.parametrize(
    ("objects", "looked_at"),
    [
        pytest.param([], "nothing at all", id="no object"),
        pytest.param([{"kind": "List", "items": []}], "nothing at all", id="an empty list"),
        pytest.param([workload(OTHER)], "DaemonSet mcd", id="another container"),
        pytest.param(
            [workload("x"), workload()], "DaemonSet mcd, DaemonSet mcd", id="no container"
        ),
        pytest.param(
            [
                {
                    "kind": "Pod",
                    "metadata": {"name": "kube-rbac-proxy-crio-node1"},
                    "spec": {"containers": [SIDECAR]},
                }
            ],
            "Pod kube-rbac-proxy-crio-node1",
            id="the legacy static pod is none",
        ),
    ],
)
def test_finding_none_is_an_error_that_says_what_was_seen(
    objects: list[Document], looked_at: str
) -> None:
    with pytest.raises(NoSidecarError) as caught:
        sidecars(objects)
    assert str(caught.value) == (
        f"no pod template has a container kube-rbac-proxy-crio; looked at: {looked_at}"
    )


@pytest.mark.parametrize(
    ("before", "after", "beginnings"),
    [
        pytest.param("/m", "/m", ["the kubelet goes on watching /m:"], id="as before"),
        pytest.param(None, None, ["no folder of manifests is watched"], id="never watched"),
        pytest.param(
            "/m",
            None,
            ["/m is no longer watched:", "node:9637", "the file /m/criometricsproxy.yaml", "an op"],
            id="turned off",
        ),
    ],
)
def test_what_follows_for_the_proxy_is_said(
    before: str | None, after: str | None, beginnings: list[str]
) -> None:
    lines = what_follows(StaticPodPath(before), StaticPodPath(after))
    assert len(lines) == len(beginnings)
    assert all(map(str.startswith, lines, beginnings))
