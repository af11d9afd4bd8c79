"""Installs the agents of a managed cluster, step by step, in the order of dependencies.

CRDs → namespaces and the pull secret on the managed cluster → accounts and roles there, and objects in the namespaces of addons →
the agents' namespace and roles → kubeconfigs for a hosted managed cluster → the agents. At the end, objects that are no longer
wanted are deleted. The first step that fails ends the reconcile with its reason; the next reconcile starts at the first step and
sends no requests for unchanged ones.
"""

from __future__ import annotations

from typing import Final

from muster.machinery.objects import ObjectKey
from muster.operator.accounts import AccountSecret, ensure_account_secret
from muster.operator.applier import checked, object_refs
from muster.operator.conditions import Waiting
from muster.operator.hosted import copy_secret
from muster.operator.klusterlet import manifests
from muster.operator.klusterlet.manifests import SHARED, components
from muster.operator.klusterlet.plan import KlusterletPlan
from muster.operator.klusterlet.status import APPLY_FAILED, CRD_FAILED, MANAGED_FAILED, MANAGEMENT_FAILED
from muster.operator.names import ADDON_NAMESPACE, KLUSTERLET_FIELDS, KLUSTERLET_LABEL, PULL_SECRET, UPSTREAM_KLUSTERLET_LABEL
from muster.operator.prune import prune, prune_recorded, step
from muster.operator.site import Installed, Site
from muster.operator.target_cluster import TargetCluster
from muster.runtime.client import NotFound
from muster.runtime.client.builtin import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CRDS,
    DEPLOYMENTS,
    NAMESPACES,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
)

OWNED: Final = (DEPLOYMENTS, CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES, SERVICE_ACCOUNTS, NAMESPACES)
"""The kinds of a Klusterlet's objects, in the order of their deletion."""
KINDS: Final = (*OWNED, CRDS)


AgentSite = Site[KlusterletPlan]


async def install(site: AgentSite) -> Installed:
    """Raises StepFailed and BadSpec."""
    made, plan = Installed(), site.plan
    with step(CRD_FAILED):
        await site.apply_definitions(made, manifests.spoke_definitions(plan))
    with step(APPLY_FAILED):
        await _managed_namespaces(site, made)
    with step(MANAGED_FAILED):
        await site.apply_on_target(made, manifests.managed_permissions(plan))
        await _addon_namespaces(site, made)
    with step(APPLY_FAILED):
        if plan.hosted:
            await site.apply_here(made, manifests.agent_namespace(plan))
        await _pull_secret(site, site.here, plan.agent_namespace, plan.name)
    with step(MANAGEMENT_FAILED):
        await site.apply_here(made, manifests.management_permissions(plan))
    with step(APPLY_FAILED):
        await _kubeconfigs(site, made)
        results = await site.apply_here(made, manifests.deployments(plan))
        made.deployments = [(DEPLOYMENTS, obj) for obj in results]
        await _prune(site, made)
    return made


async def _managed_namespaces(site: AgentSite, made: Installed) -> None:
    if site.plan.hosted and (other := await _owner(site)):
        namespace = site.plan.klusterlet_namespace
        text = f"spec.namespace: {namespace} on the managed cluster belongs to Klusterlet {other}; choose another one"
        raise Waiting(APPLY_FAILED, text)
    await site.apply_on_target(made, [*manifests.addon_namespace(), *manifests.klusterlet_namespace(site.plan)])
    await _pull_secret(site, site.target, ADDON_NAMESPACE, SHARED)


async def _addon_namespaces(site: AgentSite, made: Installed) -> None:
    """In the namespaces of addons, which have a label: permissions of the agent, and what the addons' pods need. Without the label,
    the permissions are removed."""
    plan, chosen = site.plan, [name for name in site.target.chosen_namespaces if name != ADDON_NAMESPACE]
    await site.apply_on_target(made, manifests.addon_permissions(plan, [ADDON_NAMESPACE, *chosen]))
    if plan.hosted:
        await site.apply_here(made, manifests.hosted_addon_permissions(plan, site.here.chosen_namespaces))
    if plan.addons:
        checked(await site.target.applier.apply(manifests.running_in(chosen)))
        for namespace in chosen:
            await _pull_secret(site, site.target, namespace, SHARED)


async def _owner(site: AgentSite) -> str:
    """The other Klusterlet that owns the namespace on the managed cluster already; empty if there is none."""
    name = site.plan.klusterlet_namespace
    found = site.target.find(NAMESPACES, ObjectKey("", name))
    try:
        # Unlabelled objects are not cached, and the caches of a newly connected cluster are empty.
        found = found or await site.target.client.get(NAMESPACES, name)
    except NotFound:
        return ""
    owner = str((found["metadata"].get("labels") or {}).get(KLUSTERLET_LABEL, ""))
    return "" if owner == site.plan.name else owner


async def _pull_secret(site: AgentSite, target: TargetCluster, namespace: str, owner: str) -> None:
    """Copy the pull secret, if there is one, to a namespace with pods."""
    if namespace != site.pull_namespace:
        labels, between = {KLUSTERLET_LABEL: owner}, (site.pull_namespace, namespace)
        await copy_secret(site.here.client, target.client, PULL_SECRET, between, labels, KLUSTERLET_FIELDS)


async def _kubeconfigs(site: AgentSite, made: Installed) -> None:
    """Hosted agents get kubeconfigs for the managed cluster, each with its own service account."""
    plan = site.plan
    if site.target_config is None:
        return
    for component in components(plan):
        wanted = AccountSecret(
            component.managed_secret,
            plan.agent_namespace,
            component.account(plan),
            plan.klusterlet_namespace,
            {KLUSTERLET_LABEL: plan.name},
        )
        clients = site.here.client, site.target.client
        renewal = await ensure_account_secret(*clients, site.target_config, wanted, KLUSTERLET_FIELDS, site.clock)
        made.requeue_at(renewal)


async def _prune(site: AgentSite, made: Installed) -> None:
    """A cluster may be managed by agents that are hosted on itself: then the objects of both clusters are kept."""
    same = site.here is site.target or await _identity(site.here) == await _identity(site.target)
    for cluster, wanted in ((site.here, made.here), (site.target, made.on_target)):
        kept = set(made.object_refs if same else object_refs(wanted))
        await prune(cluster, OWNED, KLUSTERLET_LABEL, site.plan.name, kept)
        unwanted = [ref for ref in site.recorded - kept if ref.resource is not NAMESPACES]
        await prune_recorded(cluster, unwanted, UPSTREAM_KLUSTERLET_LABEL, site.plan.name)


async def _identity(cluster: TargetCluster) -> str:
    return str((await cluster.client.get(NAMESPACES, "kube-system"))["metadata"]["uid"])


def wanted_deployments(plan: KlusterletPlan) -> list[str]:
    return [component.deployment(plan) for component in components(plan)]
