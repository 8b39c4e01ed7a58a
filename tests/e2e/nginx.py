"""Debian's nginx as an upstream that answers everything with the protocol it was asked in."""

from pyrbacproxy.demo.pki import Pair
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
    listen 127.0.0.1:{port} {words};
    {more}
    location / {{ return 200 "$server_protocol $request_uri\\n"; }}
  }}
}}
"""


async def start_nginx(programs: Programs, *words: str, pair: Pair | None = None) -> str:
    """Start one; the URL of its root. A pair makes it serve HTTPS.

    With the word `http2` it speaks that by prior knowledge, and over TLS by ALPN.
    """
    port = free_port()
    config = programs.folder / f"nginx-{port}.conf"
    scheme, more = "http", ""
    if pair:
        scheme, words = "https", ("ssl", *words)
        more = f"ssl_certificate {pair.combined_file}; ssl_certificate_key {pair.combined_file};"
    text = _CONFIG.format(folder=programs.folder, port=port, words=" ".join(words), more=more)
    config.write_text(text)
    command = (debian("nginx"), "-p", str(programs.folder), "-c", str(config), "-e", "stderr")
    program = programs.start("nginx", *command)
    await program.listens(port)
    return f"{scheme}://127.0.0.1:{port}/"
