"""What stands around the proxies (certificates, upstream, API server), and their commands."""

import random
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks import api
from benchmarks.process import Program
from pyrbacproxy.demo.pki import Authority, Pair, server_context

SIZES = {"160 B": 160, "100 KB": 100_000, "10 MB": 10_000_000}

_NGINX = """
daemon off; worker_processes 1; pid {folder}/nginx-{port}.pid; error_log stderr error;
events {{ worker_connections 4096; }}
http {{
  access_log off; keepalive_requests 1000000000; sendfile on; tcp_nopush on;
  client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
  uwsgi_temp_path {folder}; scgi_temp_path {folder};
  {body}
}}
"""
_FILES = "server {{ listen 127.0.0.1:{port}; root {folder}/files; default_type text/plain; }}"
_TLS_PROXY = """
  upstream files {{ server 127.0.0.1:{upstream}; keepalive 32; keepalive_requests 1000000000; }}
  server {{
    listen 127.0.0.1:{port} ssl; ssl_protocols TLSv1.3;
    ssl_session_cache off; ssl_session_tickets off;
    ssl_certificate {certificate}; ssl_certificate_key {key};
    location / {{
      proxy_pass http://files; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_max_temp_file_size 0;
    }}
  }}
"""
_RULES = """authorization:
  static:
"""
_RULE = "  - {{user: {{name: {user}}}, path: /{size}, verb: get}}\n"


@dataclass(frozen=True, slots=True)
class World:
    """Files and ports that every proxy is given."""

    folder: Path
    authority: Authority
    serving: Pair
    client: Pair
    upstream_port: int
    api_port: int


def build(folder: Path) -> tuple[World, Program]:
    """Write all files, start the API server and the upstream."""
    files = folder / "files"
    files.mkdir()
    for size in SIZES.values():
        (files / str(size)).write_bytes(b"x" * size)
    # nginx' worker gives up root: it must be able to read what it serves.
    for path in (folder, files):
        path.chmod(0o755)
    authority = Authority(folder)
    serving = authority.serving("serving")
    world = World(
        folder,
        authority,
        serving,
        authority.client("client", api.USER),
        free_port(),
        api.start(server_context(serving, authority)),
    )
    rules = "".join(_RULE.format(user=api.USER, size=size) for size in SIZES.values())
    (folder / "authorization.yaml").write_text(_RULES + rules)
    (folder / "kubeconfig").write_text(_kubeconfig(world))
    upstream = Program(_nginx(world, world.upstream_port, _FILES), folder / "upstream.log")
    return world, upstream


def nginx(world: World, port: int) -> list[str]:
    """An nginx TLS proxy: the same work without asking who it is for."""
    return _nginx(world, port, _TLS_PROXY)


def ours_with_reviews(world: World, port: int, *options: str) -> list[str]:
    """Ours with an API server, for bearer tokens. `options` are Python's."""
    return [*ours_with_certificates(world, port, *options), *_api_flags(world)]


def ours_with_certificates(world: World, port: int, *options: str) -> list[str]:
    """Ours as the CRI-O sidecar runs: client certificates, static rules, no API server."""
    return [sys.executable, *options, "-m", "pyrbacproxy", *_flags(world, port)]


def peer(binary: Path, world: World, port: int) -> list[str]:
    """A kube-rbac-proxy, which always wants an API server."""
    return [str(binary), *_flags(world, port), *_api_flags(world)]


def free_port() -> int:
    """A port of loopback that was free a moment ago."""
    while True:
        # Below those that Linux gives to outgoing connections, of which the loads make thousands.
        port = random.randrange(16_384, 32_768)  # noqa: S311 - no secret
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def _flags(world: World, port: int) -> list[str]:
    return [
        f"--secure-listen-address=127.0.0.1:{port}",
        f"--upstream=http://127.0.0.1:{world.upstream_port}/",
        f"--tls-cert-file={world.serving.certificate_file}",
        f"--tls-private-key-file={world.serving.key_file}",
        f"--client-ca-file={world.authority.certificate_file}",
        f"--config-file={world.folder / 'authorization.yaml'}",
    ]


def _api_flags(world: World) -> list[str]:
    return [f"--kubeconfig={world.folder / 'kubeconfig'}"]


def _nginx(world: World, port: int, body: str) -> list[str]:
    places = {"folder": world.folder, "port": port, "upstream": world.upstream_port}
    places |= {"certificate": world.serving.certificate_file, "key": world.serving.key_file}
    path = world.folder / f"nginx-{port}.conf"
    path.write_text(_NGINX.format(**places, body=body.format(**places)))
    return ["nginx", "-p", str(world.folder), "-c", str(path), "-e", "stderr"]


def _kubeconfig(world: World) -> str:
    server = f"https://127.0.0.1:{world.api_port}"
    authority = world.authority.certificate_file
    return f"""{{apiVersion: v1, kind: Config, current-context: benchmark,
clusters: [{{name: benchmark,
  cluster: {{server: "{server}", certificate-authority: "{authority}"}}}}],
users: [{{name: benchmark, user: {{token: {api.PROXYS_TOKEN}}}}}],
contexts: [{{name: benchmark, context: {{cluster: benchmark, user: benchmark}}}}]}}
"""
