"""The clusters behind a hub's gateway.

Discovery gives the API version in which the hub serves the gateway, because an installation may use another than the default. A
user of a cluster need not be allowed to list the clusters, so clusters that are named are assumed to exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from muster.administration.errors import AdministrationError
from muster.api.proxy.v1alpha1 import ClusterGateway
from muster.gateway.client import GATEWAY_API, GatewayApi
from muster.gateway.names import COMPONENT, OAM_GROUP, RESOURCE
from muster.kube.names import dns1123_label
from muster.machinery.objects import GVR
from muster.runtime.client import Forbidden, KubeClient, NotFound, gvr_of


class NoGateway(AdministrationError):
    def __init__(self, server: str) -> None:
        remedy = f"install it with install hub-addon --names {COMPONENT}, or choose another hub with --context"
        super().__init__(f"{server} has no gateway: it serves no {RESOURCE}", remedy)


async def find_api(client: KubeClient) -> GatewayApi:
    """The served gateway API. Raises NoGateway."""
    for group in (GATEWAY_API.group, OAM_GROUP):
        try:
            versions = await client.api_versions(group)
        except NotFound:
            continue
        for api_version in versions:
            try:
                served = await client.api_resources(api_version)
            except NotFound:
                continue
            if RESOURCE in {one.plural for one in served}:
                return GatewayApi(group, api_version.rpartition("/")[2])
    raise NoGateway(client.server)


def resource_of(api: GatewayApi) -> GVR:
    return replace(gvr_of(ClusterGateway), api_version=f"{api.group}/{api.version}")


async def gateways(client: KubeClient, api: GatewayApi, *, names: Sequence[str] = (), selector: str = "") -> list[ClusterGateway]:
    """Those of these names, in their order, or all with these labels sorted by name. Raises AdministrationError."""
    resource = resource_of(api)
    if names:
        return [await _one(client, resource, require_name(name)) for name in dict.fromkeys(names)]
    found = [ClusterGateway.decode(one) for one in (await client.list(resource, label_selector=selector)).items]
    return sorted(found, key=lambda one: one.metadata.name)


async def choose(client: KubeClient, api: GatewayApi, *, names: Sequence[str] = (), selector: str = "") -> list[str]:
    """The names of clusters. Raises AdministrationError for a missing one; one that the caller may not read is assumed to exist."""
    if not names:
        found = [one.metadata.name for one in await gateways(client, api, selector=selector)]
        if not found:
            text = f"no cluster has the labels {selector}" if selector else "the gateway knows no cluster"
            raise AdministrationError(text, "see get clusters")
        return found
    resource = resource_of(api)
    for name in names:
        try:
            await _one(client, resource, require_name(name))
        except Forbidden:
            continue
    return list(dict.fromkeys(names))


async def _one(client: KubeClient, resource: GVR, name: str) -> ClusterGateway:
    try:
        return ClusterGateway.decode(await client.get(resource, name))
    except NotFound:
        text = f"the gateway knows no cluster {name}: the hub has not accepted it, or has no such cluster"
        raise AdministrationError(text, "see get clusters, and accept") from None


def require_name(name: str) -> str:
    """Raises AdministrationError for an invalid cluster name."""
    if flaws := dns1123_label(name):
        raise AdministrationError(f"{name!r} cannot name a cluster: {flaws[0]}")
    return name
