"""The health of clusters behind the gateway: the gateway's own condition of each, and the result of a request through it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from muster.api.proxy.v1alpha1 import ClusterGateway
from muster.gateway.client import ClusterUnavailable, Gateway, GatewayError
from muster.machinery.clock import SYSTEM
from muster.runtime.client import OutgoingRequest, Transport, status_error

PROBED: Final = "/healthz"
MAX_CONCURRENT_CLUSTERS: Final = 16


@dataclass(frozen=True)
class ClusterHealth:
    """`probed` is whether the cluster answers, and if not, why; `seconds` is the duration of the request."""

    gateway: ClusterGateway
    ok: bool
    probed: str
    seconds: float

    @property
    def name(self) -> str:
        return self.gateway.metadata.name


async def probe(gateway: Gateway, found: Sequence[ClusterGateway], timeout: float) -> list[ClusterHealth]:
    """The results in the order of `found`; a cluster that does not answer delays no other."""
    known = {one.metadata.name: one for one in found}

    async def request(cluster: str) -> str:
        # Sent once: a KubeClient would retry as long as the gateway's Retry-After suggests it.
        transport = Transport(gateway.config_for(cluster), "clusteradm", SYSTEM, max_idle=1)
        try:
            reply = await transport.send(OutgoingRequest("GET", PROBED, {}), (), timeout, idempotent=True)
        finally:
            await transport.close()
        if reply.status >= HTTPStatus.BAD_REQUEST:
            raise status_error(reply.status, reply.content)
        return reply.content[:100].decode(errors="replace").strip()

    results = {}
    async for one in gateway.fanout(known, request, limit=MAX_CONCURRENT_CLUSTERS, timeout=timeout):
        answer = one.unwrap() if one.error is None else _error_text(one.error, timeout)
        results[one.cluster] = ClusterHealth(known[one.cluster], one.error is None and answer == "ok", answer, one.seconds)
    return [results[name] for name in known]


def _error_text(error: Exception, timeout: float) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {timeout:g} s"
    if isinstance(error, ClusterUnavailable):
        return error.cause
    if isinstance(error, GatewayError):
        return type(error).__name__
    return str(error) or type(error).__name__
