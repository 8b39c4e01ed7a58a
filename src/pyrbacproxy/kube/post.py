"""A review → the bytes of the request that posts it."""

from urllib.parse import quote, urlsplit

from pyrbacproxy.egress_proxy import ProxyAddress
from pyrbacproxy.http1 import writer
from pyrbacproxy.kube import review_codec
from pyrbacproxy.reviews import Review

# RFC 3986 §3.3: what may stand in a path as it is.
_PATH_CHARACTERS = "/%:@!$&'()*+,;=~"


def post_of(
    review: Review,
    *,
    url: str,
    authorization: str,
    proxy: ProxyAddress | None,
    impersonation: tuple[tuple[str, str], ...] = (),
) -> bytes:
    """The request for the API server at `url`, whose path comes before the review's.

    For a plain server behind a proxy the target is in absolute-form and the proxy gets its
    credentials; with TLS the proxy has seen them in CONNECT. The credential is in it: never log it.
    Raises UnicodeError when DNS can't spell the host and LocalProtocolError when HTTP can't.
    """
    parts = urlsplit(url)
    authority = parts.netloc.encode("idna")
    target = quote(parts.path + review_codec.api_path(review), safe=_PATH_CHARACTERS).encode()
    body = review_codec.encode(review)
    lines = [
        (b"Content-Type", b"application/json"),
        (b"Content-Length", b"%d" % len(body)),
    ]
    if authorization:
        lines.append((b"Authorization", authorization.encode()))
    lines += [(name.encode(), value.encode()) for name, value in impersonation]
    if proxy is not None and parts.scheme == "http":
        target = b"http://" + authority + target
        if proxy.authorization:
            lines.append((b"Proxy-Authorization", proxy.authorization.encode()))
    return writer.own_request(b"POST", target, authority, *lines) + body
