"""The relay: the paths and header fields of requests for clusters, and the sending of them."""

from muster.gateway.relay.headers import audit_id
from muster.gateway.relay.limits import Kind, Limits
from muster.gateway.relay.passage import Passage, PassageCut, Traffic
from muster.gateway.relay.paths import CANONICAL, OAM, ProxyPath, ProxyPaths
from muster.gateway.relay.problems import ClusterProblem
from muster.gateway.relay.relay import ClusterRelay

__all__ = [
    "CANONICAL",
    "OAM",
    "ClusterProblem",
    "ClusterRelay",
    "Kind",
    "Limits",
    "Passage",
    "PassageCut",
    "ProxyPath",
    "ProxyPaths",
    "Traffic",
    "audit_id",
]
