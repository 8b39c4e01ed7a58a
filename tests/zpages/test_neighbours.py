"""Methods, headers, gates and the pages around (acceptance table, section 6.7)."""

import json
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from pyrbacproxy.config.flag_parsing import VERSION
from tests.conformance.wire import free_port
from tests.field_reports.harness import get
from tests.field_reports.servers import Arrived
from tests.zpages.pages import PageLab

STATUSZ = "Accept: application/json;v=v1beta1;g=config.k8s.io;as=Statusz"


def test_z_g1_head_is_get_without_the_body(pages: PageLab) -> None:
    answer = pages.start().ask("mon", method="HEAD")
    assert (answer.status, answer.body) == (200, b"")
    assert answer.value("content-type") == "text/plain; charset=utf-8"
    assert int(answer.value("content-length")) > 0
    (spec,) = pages.access_reviews
    assert spec["nonResourceAttributes"] == {"path": "/statusz", "verb": "get"}


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_z_g2_pages_are_read_only(method: str, pages: PageLab) -> None:
    served = pages.start()
    answer = served.ask("admin", method=method)
    assert (answer.status, answer.value("allow")) == (405, "GET, HEAD")
    assert b"statusz" not in answer.body
    assert [served.status(who, method=method) for who in ("plain", "none")] == [403, 401]


def test_z_g5_g6_a_gate_that_is_off_takes_its_page(pages: PageLab) -> None:
    served = pages.start("--feature-gates=ComponentStatusz=false")
    assert (served.status("mon"), served.status("admin")) == (404, 404)
    served = pages.start("--feature-gates=ComponentFlagz=false")
    assert served.status("mon", "/flagz") == 404
    assert "/flagz" not in json.loads(served.ask("mon", "/statusz", STATUSZ).body)["paths"]


def test_z_g7_an_unknown_gate_ends_the_start(pages: PageLab) -> None:
    ended = pages.lab.run("--feature-gates=Nosuch=true")
    assert ended.code == 1
    assert 'unknown gate \\"Nosuch\\"' in ended.err


def test_z_g10_readyz_lists_every_check_to_everybody(pages: PageLab) -> None:
    assert pages.start().ask("none", "/readyz?verbose").body.decode().splitlines() == [
        "[+]ping ok",
        "[+]serving-certificate ok",
        "[+]client-ca ok",
        "[+]startup-gate ok",
        "[+]upstream ok",
        "[+]apiserver ok",
        "[+]background ok",
        "[+]shutdown ok",
        "readyz check passed",
    ]


def test_z_g11_g13_a_stopping_proxy_is_not_ready_but_alive(pages: PageLab) -> None:
    """The failing check of G11 is G13's, `shutdown`; G12's exclusion is shown by it as well."""
    served = pages.start("--shutdown-delay-duration=60s", "-v=2", is_own=True)
    assert served.status("none", "/readyz") == 200
    served.proxy.process.send_signal(signal.SIGTERM)
    while "received interrupt, shutting down" not in served.proxy.text():
        assert served.proxy.process.poll() is None
        time.sleep(0.01)
    answer = served.ask("none", "/readyz")
    assert answer.status == 500
    lines = answer.body.decode().splitlines()
    assert "[-]shutdown failed: reason withheld" in lines
    assert lines[-1] == "readyz check failed"
    assert b"shutting down" not in answer.body
    served.proxy.wait_for("readyz check failed: shutdown: shutting down")
    assert served.status("none", "/livez") == 200
    assert served.ask("none", "/readyz?exclude=shutdown").body == b"ok"
    verbose = served.ask("none", "/readyz?verbose&exclude=shutdown&exclude=nope").body.decode()
    assert "[+]shutdown excluded: ok\n" in verbose
    assert 'warn: some health checks cannot be excluded: no matches for "nope"\n' in verbose
    answer = served.ask("mon", "/readyz/shutdown")
    assert (answer.status, answer.body) == (500, b"internal server error: shutting down\n")
    served.proxy.process.kill()


def test_z_g13_the_endpoints_port_is_closed_last(pages: PageLab) -> None:
    arrived: list[Arrived] = []
    pages.lab.upstream.script = arrived.append
    served = pages.start("--ignore-paths=/slow", is_own=True)
    with served.proxy.connect() as client:
        client.send(get("/slow"))
        while not arrived:
            time.sleep(0.01)
        served.proxy.process.send_signal(signal.SIGTERM)
        while "received interrupt, shutting down" not in served.proxy.text():
            time.sleep(0.01)
        assert served.status("none", "/readyz") == 500
        assert served.status("none", "/livez") == 200
        arrived[0].send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        assert client.answer().status == 200
    assert served.proxy.process.wait(20) == 0


def test_z_g14_version(pages: PageLab) -> None:
    served = pages.start()
    answer = served.ask("admin", "/version")
    assert (answer.status, answer.value("content-type")) == (200, "application/json")
    assert answer.body.startswith(b'{\n  "major"')
    value = json.loads(answer.body)
    assert {"gitVersion", "goVersion", "compiler", "platform"} <= set(value)
    binary = json.loads(served.ask("mon", "/statusz", STATUSZ).body)["binaryVersion"]
    assert value["gitVersion"] == f"v{binary}" == f"v{VERSION}"
    assert served.status("admin", "/version", method="POST") == 405


def test_the_version_is_the_name_we_run_under(pages: PageLab) -> None:
    served = pages.start(f"--version=v{VERSION}-node5")
    assert f"{VERSION}-node5\n".encode() in served.ask("mon").body
    assert json.loads(served.ask("admin", "/version").body)["gitVersion"] == f"v{VERSION}-node5"


def test_z_g15_many_at_once(pages: PageLab) -> None:
    served = pages.start()
    forms = [(), (STATUSZ,), (STATUSZ.replace("json", "yaml"),), ("Accept: text/html",)]
    with ThreadPoolExecutor(50) as pool:
        asking = [pool.submit(served.ask, "mon", "/statusz", *forms[n % 4]) for n in range(50)]
        statuses = [each.result().status for each in asking]
    assert statuses == [406 if n % 4 == 3 else 200 for n in range(50)]
    assert pages.lab.upstream.requests == []


def test_z_g16_pages_answer_while_upstream_and_api_server_are_down(pages: PageLab) -> None:
    config = {
        "authorization": {
            "static": [
                {"user": {"name": "mon-cert"}, "verb": "get", "path": path}
                for path in ("/statusz", "/flagz", "/version", "/x", "/readyz/upstream")
            ]
        }
    }
    served = pages.start(f"--upstream=http://127.0.0.1:{free_port()}", config=config)

    def status(path: str) -> int:
        return served.ask("none", path, certificate=pages.certificate).status

    assert served.proxy.ask(get("/x"), pages.certificate).status == 502
    assert [status(path) for path in ("/statusz", "/flagz", "/version", "/readyz")] == [200] * 4
    listed = served.ask("none", "/readyz?verbose").body.decode()
    assert "[-]upstream failed: reason withheld (does not count)\n" in listed
    answer = served.ask("none", "/readyz/upstream", certificate=pages.certificate)
    assert answer.status == 500
    assert b"upstream refused the connection" in answer.body


def test_an_api_server_that_is_away_does_not_unready(pages: PageLab) -> None:
    served = pages.start(
        f"--kubeconfig={pages.lab.world.write_kubeconfig('away', f'http://127.0.0.1:{free_port()}')}"
    )
    assert served.status("mon") == 401
    answer = served.ask("none", "/readyz?verbose")
    assert answer.status == 200
    assert b"[-]apiserver failed: reason withheld (does not count)\n" in answer.body
