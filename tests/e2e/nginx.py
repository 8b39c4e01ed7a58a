"""Debian's nginx as an upstream that answers everything with the protocol it was asked in."""

from tests.e2e.programs import Programs, debian, free_port

_CONFIG = """
daemon off;
worker_processes 1;
pid {folder}/nginx-{port}.pid;
error_log stderr error;
events {{}}
http {{
  access_log off;
  server {{
    listen 127.0.0.1:{port} {protocol};
    location / {{ return 200 "$server_protocol $request_uri\\n"; }}
  }}
}}
"""


async def start_nginx(programs: Programs, protocol: str = "") -> str:
    """Start one; the URL of its root. `http2` speaks HTTP/2 by prior knowledge, without TLS."""
    port = free_port()
    config = programs.folder / f"nginx-{port}.conf"
    config.write_text(_CONFIG.format(folder=programs.folder, port=port, protocol=protocol))
    words = ("-p", str(programs.folder), "-c", str(config), "-e", "stderr")
    program = programs.start("nginx", debian("nginx"), *words)
    await program.listens(port)
    return f"http://127.0.0.1:{port}/"
