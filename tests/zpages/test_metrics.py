"""/metrics of the proxy itself: who gets in, and what it counts (sections 6.1, 6.5-6.7)."""

import gzip
import json
import re
import shutil
import subprocess

import pytest

from tests.field_reports.harness import Answer, bearer, get
from tests.field_reports.servers import user
from tests.zpages.pages import NODE_MODE, PageLab, Pages, shipped

STATUSZ = "Accept: application/json;v=v1beta1;g=config.k8s.io;as=Statusz"
DEPRECATED = STATUSZ.replace("v1beta1", "v1alpha1")


def samples(answer: Answer) -> dict[str, float]:
    """The series of the text form, their labels in the order of their names."""
    assert answer.status == 200
    lines = answer.body.decode().splitlines()
    pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {series: float(number) for series, _, number in pairs}


def shown(served: Pages, who: str = "mon") -> dict[str, float]:
    return samples(served.ask(who, "/metrics"))


def zpage(resource: str, code: int, group: str = "", version: str = "") -> str:
    return (
        f'kube_rbac_proxy_zpage_requests_total{{code="{code}",component="kube-rbac-proxy",'
        f'dry_run="",group="{group}",resource="{resource}",scope="",subresource="",verb="GET",'
        f'version="{version}"}}'
    )


@pytest.mark.parametrize(("who", "status"), [("none", 401), ("bad", 401), ("plain", 403)])
def test_z_e1_e2_e4_metrics_are_not_for_everybody(who: str, status: int, pages: PageLab) -> None:
    answer = pages.start().ask(who, "/metrics")
    assert answer.status == status
    assert b"kube_rbac_proxy" not in answer.body


@pytest.mark.parametrize("who", ["mon", "sa", "admin"])
def test_z_e3_the_built_in_role_suffices_for_metrics(who: str, pages: PageLab) -> None:
    assert "kube_rbac_proxy_startup_gate_open" in shown(pages.start(), who)
    (spec,) = pages.access_reviews
    assert spec["nonResourceAttributes"] == {"path": "/metrics", "verb": "get"}


def test_z_e3_a_certificate_in_the_group_suffices_for_metrics(pages: PageLab) -> None:
    answer = pages.start().ask("none", "/metrics", certificate=pages.certificate)
    assert "kube_rbac_proxy_startup_gate_open" in samples(answer)


def test_z_f4_node_mode_asks_for_the_nodes_metrics(pages: PageLab) -> None:
    served = pages.start(*NODE_MODE)
    assert served.status("mon", "/metrics") == 200
    (spec,) = pages.access_reviews
    attributes = spec["resourceAttributes"]
    assert isinstance(attributes, dict)
    assert (attributes["subresource"], attributes["name"]) == ("metrics", "node-1")
    assert served.status("px", "/metrics") == 403


@pytest.mark.parametrize(
    ("path", "status"), [("/statusz", 200), ("/flagz", 200), ("/metrics", 403), ("/version", 403)]
)
def test_fr86_the_shipped_role_opens_the_two_pages_alone(
    pages: PageLab, path: str, status: int
) -> None:
    pages.rbac = shipped()
    assert pages.start().status("mon", path) == status


def test_z_a9_metrics_are_among_the_paths(pages: PageLab) -> None:
    paths = json.loads(pages.start().ask("mon", "/statusz", STATUSZ).body)["paths"]
    assert paths == ["/flagz", "/healthz", "/livez", "/metrics", "/readyz", "/statusz", "/version"]


def test_z_g2_metrics_are_read_only(pages: PageLab) -> None:
    served = pages.start()
    assert served.status("admin", "/metrics", method="POST") == 405
    assert served.ask("mon", "/metrics", method="HEAD").body == b""


def test_z_g3_metrics_are_not_kept(pages: PageLab) -> None:
    answer = pages.start().ask("mon", "/metrics", "Accept-Encoding: gzip")
    assert answer.value("cache-control") == "no-cache, private"
    assert answer.value("content-encoding") == "gzip"
    assert gzip.decompress(answer.body).startswith(b"# HELP ")


@pytest.mark.parametrize("gate", ["ComponentStatusz", "ComponentFlagz"])
def test_z_g5_g6_metrics_say_which_gates_are_on(gate: str, pages: PageLab) -> None:
    series = f'kubernetes_feature_enabled{{name="{gate}",stage="BETA"}}'
    assert shown(pages.start())[series] == 1
    assert shown(pages.start(f"--feature-gates={gate}=false"))[series] == 0


def test_z_g8_requests_for_pages_are_counted(pages: PageLab) -> None:
    served = pages.start(is_own=True)
    for line in ("Accept: text/plain", DEPRECATED, "Accept: application/xml"):
        served.ask("mon", "/statusz", line)
    served.ask("none", "/flagz")
    served.ask("plain", "/flagz", method="HEAD")
    found = {name: n for name, n in shown(served).items() if "zpage_requests_total" in name}
    assert found == {
        zpage("statusz", 200): 1,
        zpage("statusz", 200, "config.k8s.io", "v1alpha1"): 1,
        zpage("statusz", 406): 1,
        zpage("flagz", 401): 1,
        zpage("flagz", 403): 1,
    }


def test_z_g9_both_pages_agree_on_the_start(pages: PageLab) -> None:
    served = pages.start()
    started_at = json.loads(served.ask("mon", "/statusz", STATUSZ).body)["startTime"]
    seconds = int(shown(served)["process_start_time_seconds"])
    at = subprocess.run(["date", "-ud", started_at, "+%s"], capture_output=True, check=True)
    assert int(at.stdout) == seconds


def test_z_g16_metrics_are_there_without_upstream_and_api_server(pages: PageLab) -> None:
    served = pages.start("--upstream=http://127.0.0.1:9/", is_own=True)
    with served.proxy.connect() as client:
        client.send(b"GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n")
        assert client.answer().status == 401
    numbers = shown(served)
    refusals = 'kube_rbac_proxy_requests_total{code="4xx",outcome="unauthenticated"}'
    assert numbers[refusals] == 1
    assert numbers['kube_rbac_proxy_connections_accepted_total{listener="secure"}'] >= 1


def test_metrics_say_whether_an_answer_was_remembered(pages: PageLab) -> None:
    served = pages.start(is_own=True)
    asked = get("/metrics", bearer(pages.lab.token(user("mon", "system:monitoring"))))
    for _ in range(2):
        with served.proxy.connect() as client:
            # The second is remembered by the connection itself.
            for _ in range(2):
                client.send(asked)
                assert client.answer().status == 200
    numbers = shown(served)
    name = "kube_rbac_proxy_authentications_total"
    assert numbers[f'{name}{{source="token_review"}}'] == 1
    assert numbers[f'{name}{{source="token_cache"}}'] == 3
    name = "kube_rbac_proxy_authorizations_total"
    assert numbers[f'{name}{{source="subject_access_review"}}'] == 1
    assert numbers[f'{name}{{source="cache"}}'] == 3
    assert numbers['kube_rbac_proxy_tls_handshakes_total{version="TLSv1.3"}'] >= 2


def test_metrics_name_no_client(pages: PageLab) -> None:
    body = pages.start().ask("mon", "/metrics").body
    assert not re.search(rb'="(mon|/metrics|127\.0\.0\.1)', body)


@pytest.mark.e2e
def test_metrics_pass_promtool(pages: PageLab) -> None:
    body = pages.start().ask("mon", "/metrics").body
    promtool = shutil.which("promtool")
    assert promtool, "promtool is missing: `make setup` (as root) brings Debian's prometheus"
    checked = subprocess.run([promtool, "check", "metrics"], input=body, check=False)
    assert checked.returncode == 0
