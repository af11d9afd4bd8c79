"""TCP keepalive: the kernel detects vanished peers, so idle watches and tunnels need no timeout of their own."""

from __future__ import annotations

import socket
from typing import Any

IDLE = 30
INTERVAL = 10


def keep_tcp_alive(opened: Any) -> None:
    """Probe a silent peer after IDLE seconds; accepted sockets inherit this from the listening one. Other sockets are ignored."""
    if opened is None or opened.family not in (socket.AF_INET, socket.AF_INET6):
        return
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, IDLE)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, INTERVAL)
