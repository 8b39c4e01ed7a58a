"""What TCP is asked to do for a connection, beyond carrying its bytes."""

import asyncio
import fcntl
import socket
import struct
import sys
import termios

# SO_LINGER with no time: close by a reset.
_RESET = struct.pack("ii", 1, 0)
# Go's defaults, so the original's: a peer that vanished is noticed after two and a half minutes.
_PROBES = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 9),
)


def reset_on_close(transport: asyncio.BaseTransport) -> None:
    """End by a reset: where nothing else can say so, it shows that the end is missing."""
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)


def probe_when_quiet(transport: asyncio.BaseTransport) -> None:
    """Have TCP look whether the peer is still there, for a connection without a time limit."""
    handle = transport.get_extra_info("socket")
    if handle.family == socket.AF_UNIX:
        return  # The kernel knows at once when that peer is gone.
    for option in _PROBES:
        handle.setsockopt(*option)


def unread_bytes(transport: asyncio.BaseTransport) -> int:
    """How many bytes the kernel holds that were not read yet; 0 for a socket that is gone."""
    number = transport.get_extra_info("socket").fileno()
    if number < 0:
        return 0
    found = fcntl.ioctl(number, termios.FIONREAD, bytes(4))
    return int.from_bytes(found, sys.byteorder)
