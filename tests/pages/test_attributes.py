"""A page's attributes: its path, or the kubelet's subresources."""

import pytest

from pyrbacproxy.authz.attributes import Attributes
from pyrbacproxy.model import NonResourceAttributes, ResourceAttributes, UserInfo
from pyrbacproxy.pages.pages import component_attributes, node_attributes
from tests.fakes import request

ALICE = UserInfo("alice")


@pytest.mark.parametrize(
    ("method", "verb"),
    [(b"GET", "get"), (b"HEAD", "get"), (b"POST", "post"), (b"OPTIONS", "options")],
)
def test_component_mode_asks_for_the_path(method: bytes, verb: str) -> None:
    asked = request(b"/stat%75sz?x=1", method=method)
    found = component_attributes(asked.head, asked.target, ALICE)
    assert found == (Attributes(ALICE, NonResourceAttributes(verb, "/statusz")),)


def test_an_encoded_separator_is_not_exact() -> None:
    asked = request(b"/a%2fb")
    assert not component_attributes(asked.head, asked.target, ALICE)[0].is_path_exact


SUBRESOURCES = {
    b"/statusz": "statusz",
    b"/statusz/": "statusz",
    b"/statusz/x": "statusz",
    b"/flagz": "configz",
    b"/flagz/x": "configz",
    b"/configz": "configz proxy",
    b"/configz/x": "configz proxy",
    b"/healthz": "healthz proxy",
    b"/healthz/ping": "healthz proxy",
    b"/healthz/log": "healthz proxy",
    b"/healthz/syncloop": "healthz proxy",
    b"/pods": "pods proxy",
    b"/pods/": "pods proxy",
    b"/runningpods": "pods proxy",
    b"/runningpods/": "pods proxy",
    b"/metrics": "metrics",
    b"/metrics/cadvisor": "metrics",
    b"/metrics/probes": "metrics",
    b"/metrics/resource": "metrics",
    b"/metrics/slis": "metrics",
    b"/stats": "stats",
    b"/stats/summary": "stats",
    b"/logs": "log",
    b"/logs/x": "log",
    b"/checkpoint": "checkpoint",
    b"/checkpoint/ns/pod/c": "checkpoint",
    b"/exec/ns/pod/c": "proxy",
    b"/attach/ns/pod/c": "proxy",
    b"/run/ns/pod/c": "proxy",
    b"/portForward/ns/pod": "proxy",
    b"/containerLogs/ns/pod/c": "proxy",
    b"/debug/pprof/heap": "proxy",
    b"/debug/flags/v": "proxy",
    b"/spec/": "proxy",
    b"/": "proxy",
    b"/else": "proxy",
    b"/statuszz": "proxy",
    b"//statusz": "proxy",
    b"/healthzz": "proxy",
    b"/metricsx": "proxy",
    b"/podsx": "proxy",
    b"/STATUSZ": "proxy",
    b"/runningPods": "proxy",
    b"*": "proxy",
    # Not the kubelet's.
    b"/livez/ping": "healthz proxy",
    b"/readyz/upstream": "healthz proxy",
    b"/version": "statusz",
    b"/version/": "statusz",
}
VERBS = {
    b"GET": "get",
    b"HEAD": "get",
    b"POST": "create",
    b"PUT": "update",
    b"PATCH": "patch",
    b"DELETE": "delete",
    b"OPTIONS": "",
}


@pytest.mark.parametrize("method", VERBS)
@pytest.mark.parametrize("path", SUBRESOURCES)
def test_z_f9_node_mode_asks_for_subresources_in_order(path: bytes, method: bytes) -> None:
    asked = request(path, method=method)
    found = node_attributes("node-1")(asked.head, asked.target, ALICE)
    assert found == tuple(
        Attributes(
            ALICE,
            ResourceAttributes(
                VERBS[method], version="v1", resource="nodes", subresource=name, name="node-1"
            ),
        )
        for name in SUBRESOURCES[path].split()
    )
