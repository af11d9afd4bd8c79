"""The published address and CA of a hub's gRPC server.

The address is in the ClusterManager, except for a load balancer's, which is in the status of the server's Service once it is
assigned. While no address is known, `pending` has the reason and the remedy. The hub's operator publishes the CA once it has
reconciled the ClusterManager.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from muster.administration.hub.authority import grpc_authority
from muster.api.operator.v1 import LOAD_BALANCER, ClusterManager, ClusterManagerSpec, Endpoint, EndpointExposure, ServerEndpoint
from muster.http.upstream import host_port
from muster.operator.cluster_manager.exposure import LOAD_BALANCER_PORT, balancers
from muster.operator.names import CLUSTER_MANAGER
from muster.registration.names import HUB_NAMESPACE
from muster.runtime.client import Forbidden, KubeClient, NotFound
from muster.runtime.client.builtin import SERVICES

SERVICE: Final = f"{CLUSTER_MANAGER}-grpc-server"


@dataclass(frozen=True)
class PublishedServer:
    spec: ClusterManagerSpec
    """The ClusterManager's spec, with the assigned addresses of load balancers."""
    authority: bytes = b""
    """PEM; empty if it is not published, or not readable."""
    pending: str = ""
    """Why the server's address is unknown, and the remedy."""


async def published_server(client: KubeClient, manager: ClusterManager) -> PublishedServer:
    """Raises the client's errors, except for objects that are missing or not readable."""
    authority, found = b"", None
    with suppress(NotFound, Forbidden):
        authority = await grpc_authority(client)
    with suppress(NotFound, Forbidden):
        found = await client.get(SERVICES, SERVICE, HUB_NAMESPACE)
    spec = with_balancers(manager.spec, balancers(found))
    return PublishedServer(spec, authority, pending(spec))


def with_balancers(spec: ClusterManagerSpec, addresses: Sequence[str]) -> ClusterManagerSpec:
    """A load balancer without a configured host gets its first assigned address."""
    server = spec.server_configuration
    if server is None or not addresses:
        return spec
    host = host_port(addresses[0], LOAD_BALANCER_PORT)

    def reached(exposure: EndpointExposure | None) -> EndpointExposure | None:
        if exposure is None or exposure.type != LOAD_BALANCER or exposure.host:
            return exposure
        return replace(exposure, load_balancer=replace(exposure.load_balancer or Endpoint(), host=host))

    def endpoint(one: ServerEndpoint) -> ServerEndpoint:
        return replace(one, grpc=reached(one.grpc))

    return replace(spec, server_configuration=replace(server, endpoints_exposure=tuple(map(endpoint, server.endpoints_exposure))))


def pending(spec: ClusterManagerSpec) -> str:
    """Why the server's address is unknown; empty if it is known."""
    exposures = spec.server_configuration.grpc_exposures if spec.server_configuration else ()
    if any(exposure.host for exposure in exposures):
        return ""
    if any(exposure.type == LOAD_BALANCER for exposure in exposures):
        return (
            f"Service {HUB_NAMESPACE}/{SERVICE} has got no address from a load balancer yet: "
            f"run get token again once kubectl -n {HUB_NAMESPACE} get service {SERVICE} shows one"
        )
    return "the ClusterManager has no address of its gRPC server for agents: run init --grpc-server HOST:PORT"
