"""Installation of the gateway's APIServices, and its condition.

Its certificate is managed as those of webhooks: the CA is in the APIServices before the certificate is served. APIServices are
created once the gateway's Deployment is available, since a hub with an unavailable APIService shows errors to all its users, and
only if nothing else is served in their groups and versions. Existing ones of ours are always kept up to date.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from muster.api import Condition
from muster.gateway.apiservice import SERVING_SECRET, api_service_name, api_services, collision, serving_hosts, version_remedy
from muster.machinery.objects import ObjectKey, key_of
from muster.operator.applier import ObjectRef, Wanted, remove
from muster.operator.cluster_manager import manifests, status
from muster.operator.cluster_manager.components import GATEWAY, Component, wanted
from muster.operator.cluster_manager.manifests import owned
from muster.operator.cluster_manager.plan import ClusterManagerPlan
from muster.operator.deployments import Rollout, rollouts
from muster.operator.site import Installed, Site
from muster.runtime.client.builtin import API_SERVICES, SECRETS
from muster.runtime.webhook import ServingCertificate, ServingPair, trust_webhooks

RETRY_INTERVAL: Final = timedelta(minutes=1)
"""The interval of checks for conflicts, since the CRDs of others are not watched."""

HubSite = Site[ClusterManagerPlan]


def wanted_deployments(plan: ClusterManagerPlan) -> list[str]:
    return [component.deployment(plan) for component in wanted(plan)]


async def ensure_certificate(site: HubSite, made: Installed) -> bytes:
    """Ensure the certificate in its Secret; returns its CA, or nothing if the gateway is disabled. Raises BadSpec and KubeError."""
    plan = site.plan
    if not plan.gateway:
        return b""

    async def trusted(pair: ServingPair) -> None:
        there = [(API_SERVICES, name) for name in _names(plan) if site.target.find(API_SERVICES, ObjectKey("", name))]
        await trust_webhooks(site.target.client, there, pair.ca, clock=site.clock)

    hosts = serving_hosts(plan.hub_namespace)
    certificate = ServingCertificate(site.here.client, SERVING_SECRET, plan.namespace, hosts, clock=site.clock)
    pair = await certificate.ensure(trusted)
    made.requeue_at(pair.not_before + (pair.not_after - pair.not_before) * 2 / 3)
    return pair.ca


async def apply_api_services(site: HubSite, made: Installed, ca: bytes) -> str:
    """Apply the APIServices; returns why they cannot be applied, if so. Raises BadSpec, KubeError and ApplyFailed."""
    plan = site.plan
    if not plan.gateway:
        return ""
    documents = manifests.gateway_api_services(plan, ca)
    there = [document for document in documents if site.target.find(API_SERVICES, key_of(document[1])) is not None]
    problem = ""
    if len(there) < len(documents) and is_available(plan, made, GATEWAY):
        problem = await _conflict(site, documents)
        if problem:
            made.requeue_at(site.clock.now() + RETRY_INTERVAL)
        else:
            there = documents
    await site.apply_on_target(made, owned(plan, there))
    return problem


async def _conflict(site: HubSite, documents: Sequence[Wanted]) -> str:
    served = [(document["spec"]["group"], document["spec"]["version"]) for _, document in documents]
    problem = await collision(site.target.client, served, site.plan.hub_namespace)
    return f"{problem}; {version_remedy(site.plan.gateway_version)}" if problem else ""


def is_available(plan: ClusterManagerPlan, made: Installed, component: Component) -> bool:
    found = _rollouts(plan, made)[component.deployment(plan)]
    return found is not None and found.functional


def _rollouts(plan: ClusterManagerPlan, made: Installed) -> dict[str, Rollout | None]:
    return rollouts(wanted_deployments(plan), [obj for _, obj in made.deployments])


async def drop_certificate(site: HubSite) -> None:
    """Delete the certificate of a gateway that was disabled."""
    if not site.plan.gateway and site.here.has_secret(SERVING_SECRET, site.plan.namespace):
        await remove(site.here.client, [ObjectRef(SECRETS, SERVING_SECRET, site.plan.namespace)])


def conditions(site: HubSite, made: Installed, problem: str) -> list[Condition]:
    names = _names(site.plan) if site.plan.gateway else []
    found = {name: site.target.find(API_SERVICES, ObjectKey("", name)) for name in names}
    return status.gateway(site.plan, _rollouts(site.plan, made), found, problem)


def _names(plan: ClusterManagerPlan) -> list[str]:
    return [api_service_name(version, group) for group, version in api_services(plan.gateway_version, oam=plan.gateway_oam)]
