"""An HTTP/1.1 server and a streaming relay on asyncio protocols and httptools; independent of Kubernetes.

`HttpServer` serves a handler, which returns `Response`, `StreamResponse` or `Takeover`. `relay` forwards a request to another
server, upgrades included. `server_context` makes a TLS context that requests client certificates. HTTP/2 is a subpackage, used only
where needed.
"""

from muster.http.bodies import BodyRefused
from muster.http.message import (
    Answer,
    Connection,
    Handler,
    HeaderFields,
    Headers,
    Request,
    Response,
    StreamResponse,
    Takeover,
    encode_chunk,
)
from muster.http.pool import UpstreamPool
from muster.http.relay import RequestBodyTooLarge, end_to_end_fields, relay
from muster.http.server import HttpServer
from muster.http.stream import BodyStream, RawConnection, StreamWriter
from muster.http.tls import server_context
from muster.http.upstream import (
    UpstreamBroken,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnavailable,
    UpstreamUntrusted,
)

__all__ = [
    "Answer",
    "BodyRefused",
    "BodyStream",
    "Connection",
    "Handler",
    "HeaderFields",
    "Headers",
    "HttpServer",
    "RawConnection",
    "Request",
    "RequestBodyTooLarge",
    "Response",
    "StreamResponse",
    "StreamWriter",
    "Takeover",
    "UpstreamBroken",
    "UpstreamError",
    "UpstreamPool",
    "UpstreamTimeout",
    "UpstreamUnavailable",
    "UpstreamUntrusted",
    "encode_chunk",
    "end_to_end_fields",
    "relay",
    "server_context",
]
