"""TCP keep-alive: the kernel finds peers that vanished without a word, so idle watches and tunnels need no timeout of their own."""

from __future__ import annotations

import socket
from typing import Any

IDLE = 30
INTERVAL = 10


def keep_tcp_alive(opened: Any) -> None:
    """Ask a silent peer after IDLE seconds; sockets accepted from a listening one inherit this. What is no TCP socket is let be."""
    if opened is None or opened.family not in (socket.AF_INET, socket.AF_INET6):
        return
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, IDLE)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, INTERVAL)
