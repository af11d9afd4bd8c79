"""The relay: paths and header fields of requests for clusters, and the connections on which they are sent."""

from muster.gateway.relay.errors import ClusterError
from muster.gateway.relay.headers import audit_id
from muster.gateway.relay.in_flight import InFlightRequest, RequestAborted, Traffic
from muster.gateway.relay.limits import Limits, RequestKind
from muster.gateway.relay.paths import CANONICAL, OAM, ProxyPath, ProxyPaths
from muster.gateway.relay.relay import ClusterRelay

__all__ = [
    "CANONICAL",
    "OAM",
    "ClusterError",
    "ClusterRelay",
    "InFlightRequest",
    "Limits",
    "ProxyPath",
    "ProxyPaths",
    "RequestAborted",
    "RequestKind",
    "Traffic",
    "audit_id",
]
