"""The components of a hub or a managed cluster and their present state: the operator, and what it has deployed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from muster.administration.drivers import aws_driver
from muster.administration.hub.initialize import drivers_of
from muster.administration.members.klusterlets import agent_key, hub_connection_of, klusterlet_problem
from muster.administration.readiness import hub_problem
from muster.api.operator.v1 import GRPC_PROTOCOL, ClusterManager, Klusterlet, RelatedResource
from muster.machinery.objects import Object
from muster.operator.names import CLUSTER_MANAGER, KLUSTERLET, OPERATOR_NAMESPACE
from muster.registration.drivers.flags import AWS, DEFAULT
from muster.runtime.client import KubeClient, NotFound
from muster.runtime.client.builtin import CRDS, DEPLOYMENTS

PARTS: Final[Mapping[str, str]] = {
    "registration": "Registration",
    "work": "Work",
    "placement": "Placement",
    "addon": "AddOn Manager",
    GRPC_PROTOCOL: "gRPC Server",
    "hub": "Hub AddOns",
    "cluster": "Cluster Gateway",
    "agent": "Agent",
}
"""Components by the first part of their Deployment's name after that of the ClusterManager or Klusterlet."""


@dataclass(frozen=True)
class Running:
    name: str
    pods: str
    """Wanted and available pods, in the notation of OCM's tool."""
    image: str
    namespace: str


@dataclass(frozen=True)
class HubInfo:
    operator: tuple[Running, ...] = ()
    components: Mapping[str, tuple[Running, ...]] = field(default_factory=dict)
    definitions: Mapping[str, str] = field(default_factory=dict)
    """CRD names to versions, the stored one with a star; `absent` if it is missing."""
    problem: str = ""
    key: str = ""
    """The fingerprint of the agent's key."""
    drivers: Mapping[str, str] = field(default_factory=dict)
    """The enabled registration drivers, each with the hub's name at its identity provider; empty if it has none."""


async def hub_info(client: KubeClient, name: str = CLUSTER_MANAGER) -> HubInfo:
    operator = await _running(client, CLUSTER_MANAGER, OPERATOR_NAMESPACE)
    try:
        manager = await client.get(ClusterManager, name)
    except NotFound:
        return HubInfo(operator, problem="there is no ClusterManager")
    found = await _info(client, operator, name, manager.status.related_resources, hub_problem(manager))
    return replace(found, drivers=_drivers(manager))


async def klusterlet_info(client: KubeClient, name: str = KLUSTERLET) -> HubInfo:
    operator = await _running(client, KLUSTERLET, OPERATOR_NAMESPACE)
    try:
        klusterlet = await client.get(Klusterlet, name)
    except NotFound:
        return HubInfo(operator, problem="there is no Klusterlet")
    problem = klusterlet_problem(klusterlet) or hub_connection_of(klusterlet)
    found = await _info(client, operator, name, klusterlet.status.related_resources, problem)
    return replace(found, key=await agent_key(client, klusterlet))


def _drivers(manager: ClusterManager) -> dict[str, str]:
    configured = manager.spec.registration_configuration
    on_aws = aws_driver(configured.registration_drivers if configured else ())
    names = {AWS: on_aws.hub_cluster_arn} if on_aws is not None else {}
    return {name: names.get(name, "") for name, _ in drivers_of(manager)} or {DEFAULT: ""}


async def _info(
    client: KubeClient, operator: tuple[Running, ...], name: str, related: tuple[RelatedResource, ...], problem: str
) -> HubInfo:
    components: dict[str, tuple[Running, ...]] = {}
    for one in related:
        if one.resource == DEPLOYMENTS.plural:
            part = PARTS.get(one.name.removeprefix(f"{name}-").partition("-")[0], "Other")
            components[part] = components.get(part, ()) + await _running(client, one.name, one.namespace)
    return HubInfo(operator, components, await _definitions(client, related), problem)


async def _running(client: KubeClient, name: str, namespace: str) -> tuple[Running, ...]:
    try:
        found = await client.get(DEPLOYMENTS, name, namespace)
    except NotFound:
        return ()
    available = (found.get("status") or {}).get("availableReplicas", 0)
    image = found["spec"]["template"]["spec"]["containers"][0].get("image") or "<none>"
    return (Running(name, f"{found['spec'].get('replicas', 1)}/{available}", image, namespace),)


async def _definitions(client: KubeClient, related: tuple[RelatedResource, ...]) -> dict[str, str]:
    wanted = sorted(one.name for one in related if one.resource == CRDS.plural)
    if not wanted:
        return {}
    found = {one["metadata"]["name"]: one for one in (await client.list(CRDS)).items}
    return {name: _versions(found[name]) if name in found else "absent" for name in wanted}


def _versions(definition: Object) -> str:
    served = [one for one in definition["spec"]["versions"] if one.get("served")]
    return "|".join(("*" if one.get("storage") else "") + one["name"] for one in served)
