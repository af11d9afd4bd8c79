"""The gateway's client library: access to one cluster or to many, with the client library of the caller's choice.

It does not import the gateway itself, and imports a client library only when it is used.
"""

from muster.gateway.client.context import NoCluster, current_cluster, using_cluster
from muster.gateway.client.errors import (
    ClusterForbidden,
    ClusterUnavailable,
    ClusterUnknown,
    GatewayError,
    GatewayForbidden,
    HubForbidden,
    VirtualVerbForbidden,
    blame,
    blaming,
    refusal,
)
from muster.gateway.client.fanout import ClusterResult, fanout, fanout_threads
from muster.gateway.client.gateway import Gateway
from muster.gateway.client.paths import GATEWAY_API, GatewayApi, Route, WrongTarget, gateway_base_url

__all__ = [
    "GATEWAY_API",
    "ClusterForbidden",
    "ClusterResult",
    "ClusterUnavailable",
    "ClusterUnknown",
    "Gateway",
    "GatewayApi",
    "GatewayError",
    "GatewayForbidden",
    "HubForbidden",
    "NoCluster",
    "Route",
    "VirtualVerbForbidden",
    "WrongTarget",
    "blame",
    "blaming",
    "current_cluster",
    "fanout",
    "fanout_threads",
    "gateway_base_url",
    "refusal",
    "using_cluster",
]
