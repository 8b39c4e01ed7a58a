"""What is put together answers; the rest is tested by serving (tests/test_app.py, e2e)."""

import asyncio
import subprocess
import sys
from pathlib import Path

from pyrbacproxy.certificates import Certificates
from pyrbacproxy.config.complete import complete
from pyrbacproxy.config.flag_parsing import parse
from pyrbacproxy.config.settings import Settings
from pyrbacproxy.demo.pki import Authority
from pyrbacproxy.proxy.listener import bind
from pyrbacproxy.wiring import Assembly


async def answer_to(request: bytes, settings: Settings) -> bytes:
    assembly = Assembly(settings, Certificates(settings), lambda: False)
    assembly.warm()
    sockets = bind("127.0.0.1", 0)
    listener = assembly.insecure_listener(sockets)
    listener.start()
    host, port = sockets[0].getsockname()
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    await listener.drain(0.0)
    await assembly.close()
    return answer


def test_who_says_nothing_about_themselves_is_unauthorized(tmp_path: Path) -> None:
    rule = tmp_path / "rule.yaml"
    rule.write_text("authorization: {static: [{path: /metrics, user: {name: alice}}]}")
    Authority(tmp_path)
    words = (
        "--insecure-listen-address=127.0.0.1:0",
        "--upstream=http://127.0.0.1:1/",
        f"--client-ca-file={tmp_path / 'demo-ca.crt'}",
        f"--config-file={rule}",
    )
    settings = complete(parse(words).options, {})
    assert isinstance(settings, Settings), settings
    request = b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    answer = asyncio.run(answer_to(request, settings))
    assert answer.startswith(b"HTTP/1.1 401 "), answer


def test_a_proxy_without_an_issuer_loads_nothing_of_oidc() -> None:
    """What a token library and a client cost would be every proxy's."""
    code = (
        "import sys; from pyrbacproxy import serve, cli; from pyrbacproxy.config import complete; "
        "print({'jwt', 'pyrbacproxy.oidc.issuer', 'pyrbacproxy.oidc.tokens'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_a_sidecar_with_certificates_and_static_rules_loads_nothing_that_it_never_needs() -> None:
    """A megabyte of 45: the API client, parsed templates, HTTP without TLS, the page of numbers."""
    unneeded = (
        "kube.api_client kube.credentials kube.review_codec authz.template_parser "
        "http2.prior_knowledge http2.frames observe.exposition"
    )
    code = (
        "import sys; from pyrbacproxy import serve, cli; from pyrbacproxy.config import complete; "
        f"names = {{'pyrbacproxy.' + name for name in {unneeded.split()}}} | {{'platform'}}; "
        "print(names & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_a_proxy_with_a_pair_of_files_never_loads_what_pyopenssl_imports_for_other_uses() -> None:
    """cryptography.x509 is 0.8 MiB and 7 ms of the start, for what serving never calls."""
    code = (
        "import sys; from pyrbacproxy import __main__; "
        "sys.argv[1:] = ['--version=true']; "
        "__main__.main(); from pyrbacproxy import serve; from pyrbacproxy.config import complete; "
        "print([name for name in sys.modules if name.startswith('cryptography.x509.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_proxy_without_an_access_log_loads_nothing_of_it() -> None:
    code = (
        "import sys; from pyrbacproxy import serve, cli; from pyrbacproxy.config import complete; "
        "print([name for name in sys.modules if 'access_log' in name or 'line_outlet' in name])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
