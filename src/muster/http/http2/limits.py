"""How much a connection may hold and how long it may take, and what becomes of one that breaks the rules."""

from __future__ import annotations

from dataclasses import dataclass

from muster.http.http2 import frames
from muster.http.http2.frames import ErrorCode


@dataclass(frozen=True, kw_only=True)
class Http2Limits:
    """Times are seconds, sizes bytes."""

    max_streams: int = 1000
    """That the other side may have open at once."""
    max_fields: int = 64 * 1024
    """Of one head, as RFC 9113 counts it."""
    max_unsent: int = 16 * 1024 * 1024
    """Of all streams of a connection."""
    stream_window: int = frames.DEFAULT_WINDOW
    """Bytes that may come on a stream before anybody has looked at its head."""
    connection_window: int = frames.DEFAULT_WINDOW
    ping_interval: float = 30.0
    """Of silence, after which the other side is asked for a sign of life."""
    ping_timeout: float = 10.0
    send_timeout: float = 60.0
    """For a connection that takes nothing of what was written."""
    nuisance_burst: float = 1000.0
    """How many resets, pings, settings and the like may come at once, and per second from then on."""
    nuisance_rate: float = 100.0


class ConnectionFailure(Exception):
    """The other side broke the protocol; the connection ends."""

    def __init__(self, code: ErrorCode, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class StreamFailure(Exception):
    """The other side broke the rules of one stream."""

    def __init__(self, stream: int, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.stream = stream
        self.code = code
