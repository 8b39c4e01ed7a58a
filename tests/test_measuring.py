"""/metrics gathers what the parts know, in the form that is asked for."""

import gzip
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pyrbacproxy.http1.head import Response
from pyrbacproxy.observe.metrics import Metrics
from pyrbacproxy.pages.health import Check
from pyrbacproxy.pages.status import PageSettings, Program
from pyrbacproxy.proxy.exchange import Limits
from pyrbacproxy.proxy.listener import Listener
from pyrbacproxy.tls.files import WatchedFiles
from pyrbacproxy.tls.server_context import TlsSettings, self_signed_pair, server_context
from pyrbacproxy.wiring import MetricsPage, validity
from tests.fakes import ManualLoop, request

CONTEXT = server_context(self_signed_pair("here"), TlsSettings())
PROGRAM = Program("0.1.0", "python3.12.3", "cpython", "linux/x86_64", 1234.5)


def page(gate: Check, folder: Path) -> MetricsPage:
    path = folder / "ca.crt"
    path.write_bytes(b"1")
    files = WatchedFiles("client CA", (str(path),), lambda _: None)
    files.load()
    path.unlink()
    files.check()
    made = MetricsPage(
        Metrics(),
        PageSettings(has_flagz=False),
        PROGRAM,
        checks=(lambda: Check("ping"), lambda: gate),
        gate=lambda: gate,
        serving=lambda: CONTEXT,
        watched=lambda: (files,),
        max_connections=7,
        dropped_lines=lambda: 4,
    )
    loop = ManualLoop().as_loop()
    made.listeners["secure"] = Listener((), NotImplemented, Limits(), loop=loop)
    made.listeners["secure"].accepted = 3
    return made


def header(response: Response, name: bytes) -> bytes | None:
    return response.headers.get(name)


@pytest.mark.parametrize("is_waiting", [False, True])
def test_every_part_is_asked(tmp_path: Path, *, is_waiting: bool) -> None:
    gate = Check("startup-gate", progress="waiting: manifest, 3s" if is_waiting else "")
    response = page(gate, tmp_path)(request(b"/metrics"))
    assert header(response, b"content-type") == b"text/plain; version=0.0.4; charset=utf-8"
    assert header(response, b"content-encoding") is None
    lines = response.body.decode().splitlines()
    valid = validity(CONTEXT)
    assert valid is not None
    for line in (
        f"kube_rbac_proxy_startup_gate_open {0.0 if is_waiting else 1.0}",
        'kube_rbac_proxy_connections{listener="secure"} 0.0',
        'kube_rbac_proxy_connections_accepted_total{listener="secure"} 3.0',
        "kube_rbac_proxy_connections_limit 7.0",
        "kube_rbac_proxy_access_log_dropped_lines_total 4.0",
        'kube_rbac_proxy_files_bad{files="client CA"} 1.0',
        'kube_rbac_proxy_reloads_total{files="client CA",result="failure"} 1.0',
        'kubernetes_feature_enabled{name="ComponentFlagz",stage="BETA"} 0.0',
        'kubernetes_healthcheck{name="ping",type="readyz"} 1.0',
        "process_start_time_seconds 1234.5",
    ):
        assert line in lines
    shown = re.findall(
        r"serving_certificate_\w+_timestamp_seconds ([0-9.e+]+)\n", response.body.decode()
    )
    assert [float(number) for number in shown] == [*valid]


def test_it_is_packed_for_who_asks(tmp_path: Path) -> None:
    lines = ((b"Accept-Encoding", b"gzip"), (b"Accept", b"application/openmetrics-text"))
    response = page(Check("g"), tmp_path)(request(b"/metrics", *lines))
    assert header(response, b"content-encoding") == b"gzip"
    assert gzip.decompress(response.body).endswith(b"# EOF\n")


def test_without_a_pair_nothing_expires() -> None:
    assert validity(None) is None


def test_who_is_not_asked_does_not_load_the_library() -> None:
    """It would cost every proxy on a node 3 MiB."""
    program = "import sys, pyrbacproxy.serve;sys.exit('prometheus_client' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
