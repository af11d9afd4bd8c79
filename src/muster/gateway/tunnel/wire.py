"""What the two ends of a tunnel have to agree upon."""

from __future__ import annotations

from typing import Final

from muster.http.http2.client import KeepAlive
from muster.http.http2.joint import WINDOW
from muster.http.http2.limits import Http2Limits
from muster.http.http2.server import ServerLimits

PROTOCOL: Final = "v1.tunnel.cluster-gateway.muster"
"""The WebSocket's subprotocol: ends that mean different things by a tunnel do not come together."""
HOST: Final = "kubernetes.default.svc"
PORT: Final = 443
AUTHORITY: Final = f"{HOST}:{PORT}"
"""The only place that an agent leads to. Its API server's certificate is for this name."""

REPLICA_FIELD: Final = "X-Gateway-Replica"
"""Of the answer: which of the gateway's replicas this is."""
ATTACHED_FIELD: Final = "X-Gateway-Attached"
"""Of the request: replicas to which the agent has a tunnel already, separated by commas."""
BASE_PATH_FIELD: Final = "X-Cluster-Base-Path"
"""Of the request: the path below which the cluster's API server has its API, if it does."""

REFUSED: Final = 403
UNREACHABLE: Final = 502
TIMED_OUT: Final = 504

PING_SECONDS: Final = 20.0
SILENT_SECONDS: Final = 40.0
"""After an unanswered ping: a peer is given up within a minute of its last word."""
MAX_STREAMS: Final = 512
MAX_UNSENT: Final = 64 * 1024 * 1024
"""Of all streams: one holds what is read of its socket at once, at most."""
CONNECTION_WINDOW: Final = 4 * 1024 * 1024
KEEPALIVE: Final = KeepAlive(time=PING_SECONDS, timeout=SILENT_SECONDS, permit_without_stream=True)
GATEWAY_LIMITS: Final = Http2Limits(
    stream_window=WINDOW, connection_window=CONNECTION_WINDOW, max_fields=16 * 1024, max_unsent=MAX_UNSENT
)
AGENT_LIMITS: Final = ServerLimits(
    stream_window=WINDOW,
    connection_window=CONNECTION_WINDOW,
    max_fields=16 * 1024,
    max_unsent=MAX_UNSENT,
    max_streams=MAX_STREAMS,
    ping_interval=PING_SECONDS,
    ping_timeout=SILENT_SECONDS,
    permit_ping_without_stream=True,
)
