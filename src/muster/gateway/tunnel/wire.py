"""The protocol between both ends of a tunnel."""

from __future__ import annotations

from typing import Final

from muster.http.http2.client import KeepAlive
from muster.http.http2.joint import WINDOW
from muster.http.http2.limits import Http2Limits
from muster.http.http2.server import ServerLimits

PROTOCOL: Final = "v1.tunnel.cluster-gateway.muster"
"""Subprotocol of the WebSocket; ends with different protocols do not connect."""
HOST: Final = "kubernetes.default.svc"
PORT: Final = 443
AUTHORITY: Final = f"{HOST}:{PORT}"
"""The only address that an agent accepts. The certificate of its API server is for this name."""

REPLICA_FIELD: Final = "X-Gateway-Replica"
"""In the answer: the id of the gateway's replica."""
ATTACHED_FIELD: Final = "X-Gateway-Attached"
"""In the request: replicas to which the agent already has a tunnel, separated by commas."""
BASE_PATH_FIELD: Final = "X-Cluster-Base-Path"
"""In the request: the base path of the cluster's API, if it has one."""

REFUSED: Final = 403
UNREACHABLE: Final = 502
TIMED_OUT: Final = 504

PING_INTERVAL: Final = 20.0
PING_TIMEOUT: Final = 40.0
"""After an unanswered ping: a peer is considered lost within a minute of its last data."""
MAX_STREAMS: Final = 512
MAX_UNSENT: Final = 64 * 1024 * 1024
"""For all streams; one stream has at most what is read from its socket at once."""
CONNECTION_WINDOW: Final = 4 * 1024 * 1024
KEEPALIVE: Final = KeepAlive(time=PING_INTERVAL, timeout=PING_TIMEOUT, permit_without_stream=True)
GATEWAY_LIMITS: Final = Http2Limits(
    stream_window=WINDOW, connection_window=CONNECTION_WINDOW, max_fields=16 * 1024, max_unsent=MAX_UNSENT
)
AGENT_LIMITS: Final = ServerLimits(
    stream_window=WINDOW,
    connection_window=CONNECTION_WINDOW,
    max_fields=16 * 1024,
    max_unsent=MAX_UNSENT,
    max_streams=MAX_STREAMS,
    ping_interval=PING_INTERVAL,
    ping_timeout=PING_TIMEOUT,
    permit_ping_without_stream=True,
)
