"""Limits of an HTTP/2 connection, and the errors for violations of the protocol."""

from __future__ import annotations

from dataclasses import dataclass

from muster.http.http2 import frames
from muster.http.http2.frames import ErrorCode


@dataclass(frozen=True, kw_only=True)
class Http2Limits:
    """Times are in seconds, sizes in bytes."""

    max_streams: int = 1000
    """The maximum of concurrent streams of the peer."""
    max_fields: int = 64 * 1024
    """The maximum of one head, as RFC 9113 counts it."""
    max_unsent: int = 16 * 1024 * 1024
    """Unsent data of all streams of a connection."""
    stream_window: int = frames.DEFAULT_WINDOW
    """The initial window of a stream, before its head is processed."""
    connection_window: int = frames.DEFAULT_WINDOW
    ping_interval: float = 30.0
    """Seconds of silence before a ping."""
    ping_timeout: float = 10.0
    send_timeout: float = 60.0
    """For a connection whose peer reads nothing."""
    nuisance_burst: float = 1000.0
    """The burst of resets, pings, settings and similar frames, and their rate per second."""
    nuisance_rate: float = 100.0


class ConnectionFailure(Exception):
    """The peer violated the protocol; the connection ends."""

    def __init__(self, code: ErrorCode, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class StreamFailure(Exception):
    """The peer violated the rules of one stream."""

    def __init__(self, stream: int, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.stream = stream
        self.code = code
