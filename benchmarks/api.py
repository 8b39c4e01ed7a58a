"""An API server that knows one token and allows everything, in a thread of the benchmark."""

import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOKEN = "benchmark-token"  # noqa: S105 - made up
PROXYS_TOKEN = "token-of-the-proxy"  # noqa: S105 - made up
USER = "system:serviceaccount:monitoring:prometheus"


class Reviews(BaseHTTPRequestHandler):
    """Answers TokenReview and SubjectAccessReview."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Answer one review."""
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if review["kind"] == "TokenReview":
            is_known = review["spec"]["token"] == TOKEN
            review["status"] = {"authenticated": is_known, "user": {"username": USER}}
        else:
            review["status"] = {"allowed": True}
        body = json.dumps(review).encode()
        self.send_response(201)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Say nothing: requests are not what is measured here."""


def start(context: ssl.SSLContext) -> int:
    """Start the API server, over TLS, and return its port; it ends with the process."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Reviews)
    # The handshake is the connection's own thread's: no slow one holds up the next.
    server.socket = context.wrap_socket(
        server.socket, server_side=True, do_handshake_on_connect=False
    )
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return int(server.server_address[1])
