import asyncio
import socket

from pyrbacproxy.proxy.transport import probe_when_quiet, reset_on_close


def on(handle: socket.socket) -> asyncio.BaseTransport:
    return asyncio.BaseTransport({"socket": handle})


def test_a_quiet_peer_is_asked_whether_it_is_there() -> None:
    with socket.socket() as handle:
        probe_when_quiet(on(handle))
        assert handle.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert handle.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 15
        assert handle.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL) == 15
        assert handle.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT) == 9


def test_a_close_may_be_a_reset() -> None:
    with socket.socket() as handle:
        reset_on_close(on(handle))
        lingering = handle.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8)
        assert lingering == b"\1\0\0\0\0\0\0\0"


def test_a_unix_socket_s_peer_is_not_asked() -> None:
    handle, peer = socket.socketpair(socket.AF_UNIX)
    with handle, peer:
        probe_when_quiet(on(handle))
        assert handle.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 0
