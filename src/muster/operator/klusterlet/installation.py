"""Makes a cluster a managed one, step by step: what a later step needs, an earlier one has made.

Definitions → namespaces and the pull secret on the managed cluster → accounts and roles there → the agents' namespace and roles
where they run → their way to the managed cluster, if that is another one → the agents. At the end goes what a former spec asked
for and this one does not. The first step that fails ends the pass with its reason; the next pass begins at the start again and
costs nothing where all is well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from muster.machinery.clock import Clock
from muster.machinery.objects import GVR, Object, ObjectKey
from muster.operator.accounts import AccountSecret, ensure_account_secret
from muster.operator.applying import Place, Wanted, places
from muster.operator.deployments import Rollout, rollout
from muster.operator.elsewhere import copy_secret
from muster.operator.ground import Ground
from muster.operator.keeping import apply_owned, established, prune, step
from muster.operator.klusterlet import manifests
from muster.operator.klusterlet.manifests import SHARED, components
from muster.operator.klusterlet.plan import Plan
from muster.operator.klusterlet.status import APPLY_FAILED, CRD_FAILED, MANAGED_FAILED, MANAGEMENT_FAILED
from muster.operator.names import ADDON_NAMESPACE, KLUSTERLET_FIELDS, KLUSTERLET_LABEL, PULL_SECRET
from muster.operator.reporting import Waiting
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
from muster.runtime.client.errors import NotFound
from muster.runtime.client.kubeconfig import ClientConfig
from muster.runtime.install.objects import await_definitions

OWNED: Final = (DEPLOYMENTS, CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES, SERVICE_ACCOUNTS, NAMESPACES)
"""What is made for one Klusterlet, in the order in which it goes."""
KINDS: Final = (*OWNED, CRDS)


@dataclass
class Installed:
    """What a pass has made, here and on the managed cluster; whoever waits for it looks again at `again`."""

    here: list[Wanted] = field(default_factory=list)
    managed: list[Wanted] = field(default_factory=list)
    deployments: list[tuple[GVR, Object]] = field(default_factory=list)
    again: datetime | None = None

    @property
    def places(self) -> list[Place]:
        return list(dict.fromkeys(places([*self.managed, *self.here])))


@dataclass(frozen=True)
class Site:
    """Where agents are put: the cluster that runs them, the managed one, which may be another, and the way to that."""

    plan: Plan
    here: Ground
    managed: Ground
    way: ClientConfig | None
    pull_namespace: str
    clock: Clock


async def install(site: Site) -> Installed:
    """Raises StepFailed and BadSpec."""
    made, plan = Installed(), site.plan
    with step(CRD_FAILED):
        await _definitions(site, made)
    with step(APPLY_FAILED):
        await _managed_namespaces(site, made)
    with step(MANAGED_FAILED):
        await _managed(site, made, manifests.managed_permissions(plan))
    with step(APPLY_FAILED):
        if plan.hosted:
            await _here(site, made, manifests.agent_namespace(plan))
        await _pull_secret(site, site.here, plan.agent_namespace, plan.name)
    with step(MANAGEMENT_FAILED):
        await _here(site, made, manifests.management_permissions(plan))
    with step(APPLY_FAILED):
        await _ways(site, made)
        results = await _here(site, made, manifests.deployments(plan))
        made.deployments = [(DEPLOYMENTS, obj) for obj in results]
        await _prune(site, made)
    return made


async def _here(site: Site, made: Installed, documents: Sequence[Wanted]) -> list[Object]:
    made.here += documents
    return await apply_owned(site.here, documents)


async def _managed(site: Site, made: Installed, documents: Sequence[Wanted]) -> list[Object]:
    made.managed += documents
    return await apply_owned(site.managed, documents)


async def _definitions(site: Site, made: Installed) -> None:
    results = await _managed(site, made, manifests.spoke_definitions(site.plan))
    pending = [obj["metadata"]["name"] for obj in results if not established(obj)]
    if pending:
        await await_definitions(site.managed.client, pending, site.clock)


async def _managed_namespaces(site: Site, made: Installed) -> None:
    if site.plan.hosted and (other := await _owner(site)):
        namespace = site.plan.klusterlet_namespace
        text = f"spec.namespace: {namespace} on the managed cluster belongs to Klusterlet {other}; choose another one"
        raise Waiting(APPLY_FAILED, text)
    await _managed(site, made, [*manifests.addon_namespace(), *manifests.klusterlet_namespace(site.plan)])
    await _pull_secret(site, site.managed, ADDON_NAMESPACE, SHARED)


async def _owner(site: Site) -> str:
    """The other Klusterlet that has the namespace on the managed cluster already; empty when none has."""
    name = site.plan.klusterlet_namespace
    found = site.managed.find(NAMESPACES, ObjectKey("", name))
    try:
        # What is not labelled is not cached, and the caches of a cluster that has just been reached are empty.
        found = found or await site.managed.client.get(NAMESPACES, name)
    except NotFound:
        return ""
    owner = str((found["metadata"].get("labels") or {}).get(KLUSTERLET_LABEL, ""))
    return "" if owner == site.plan.name else owner


async def _pull_secret(site: Site, target: Ground, namespace: str, owner: str) -> None:
    """What images are pulled with, if anything, goes where pods will be."""
    if namespace != site.pull_namespace:
        labels, between = {KLUSTERLET_LABEL: owner}, (site.pull_namespace, namespace)
        await copy_secret(site.here.client, target.client, PULL_SECRET, between, labels, KLUSTERLET_FIELDS)


async def _ways(site: Site, made: Installed) -> None:
    """Agents that run elsewhere get a way to the managed cluster, each as its own account."""
    plan = site.plan
    if site.way is None:
        return
    for component in components(plan):
        wanted = AccountSecret(
            component.managed_secret,
            plan.agent_namespace,
            component.account(plan),
            plan.klusterlet_namespace,
            {KLUSTERLET_LABEL: plan.name},
        )
        clients = site.here.client, site.managed.client
        renewal = await ensure_account_secret(*clients, site.way, wanted, KLUSTERLET_FIELDS, site.clock)
        made.again = min(filter(None, (made.again, renewal)))


async def _prune(site: Site, made: Installed) -> None:
    """A cluster may be managed by agents that are hosted on itself: then what is wanted on either is wanted there."""
    same = site.here is site.managed or await _identity(site.here) == await _identity(site.managed)
    for ground, wanted in ((site.here, made.here), (site.managed, made.managed)):
        kept = set(made.places if same else places(wanted))
        await prune(ground, OWNED, KLUSTERLET_LABEL, site.plan.name, kept)


async def _identity(ground: Ground) -> str:
    return str((await ground.client.get(NAMESPACES, "kube-system"))["metadata"]["uid"])


def rollouts(plan: Plan, deployments: Iterable[Object]) -> dict[str, Rollout | None]:
    found = {obj["metadata"]["name"]: rollout(obj) for obj in deployments}
    return {name: found.get(name) for name in (component.deployment(plan) for component in components(plan))}
