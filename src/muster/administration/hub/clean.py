"""Removes the hub from a cluster: deletes everything that `init` and the operator created, and reports what is left.

Refused while clusters are available: their agents would have no hub. The operator is removed last because it cleans up after the
ClusterManager. A repeated or interrupted call continues. Namespaces of clusters stay: users may have objects there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from muster.administration.aws.revocation import Revocation
from muster.administration.drivers import aws_driver
from muster.administration.dryrun import is_dry_run
from muster.administration.errors import Refused, TookTooLong
from muster.administration.hub.tokens import HUB_LABEL, TOKEN_NAMESPACE, bootstrap_accounts
from muster.administration.hubs import CLUSTER_INFO, CLUSTER_INFO_ROLE, CLUSTERADM, MADE_BY, PUBLIC_NAMESPACE
from muster.administration.progress import SILENT, Progress, wait
from muster.administration.readiness import deployment_problem
from muster.api import MalformedObject, condition_of
from muster.api.cluster.v1 import ManagedCluster
from muster.api.operator.v1 import ClusterManager
from muster.gateway.names import CREDENTIALS_NAMESPACE
from muster.machinery.clock import SYSTEM, Clock
from muster.operator.applier import ObjectRef, object_refs, remove, remove_and_wait
from muster.operator.bundle import CLUSTER_MANAGER_OPERATOR, bundle
from muster.operator.conditions import DELETING
from muster.operator.names import CLUSTER_MANAGER, CLUSTER_MANAGERS, KLUSTERLET, OPERATOR_NAMESPACE, PULL_SECRET, operator_lock
from muster.registration.drivers.certificates.approval import is_in_use
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import CLUSTER_LABEL
from muster.runtime.client import KubeClient, NotFound
from muster.runtime.client.builtin import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    DEPLOYMENTS,
    LEASES,
    NAMESPACES,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
)

OLD_NAMES: Final = (
    ObjectRef(CLUSTER_ROLES, "system:open-cluster-management:bootstrap"),
    ObjectRef(CLUSTER_ROLE_BINDINGS, "cluster-bootstrap"),
    ObjectRef(CLUSTER_ROLE_BINDINGS, "cluster-bootstrap-sa"),
    ObjectRef(SERVICE_ACCOUNTS, "cluster-bootstrap", OPERATOR_NAMESPACE),
)
"""Objects by which earlier versions let new clusters register."""


@dataclass(frozen=True)
class CleanOptions:
    name: str = CLUSTER_MANAGER
    purge_operator: bool = True
    force: bool = False
    """Also while clusters are available."""
    timeout: float = 300.0


@dataclass(frozen=True)
class Cleaned:
    removed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    """What stays on purpose, and why."""


async def clean(client: KubeClient, options: CleanOptions, progress: Progress = SILENT, clock: Clock = SYSTEM) -> Cleaned:
    """Raises Refused, TookTooLong, and the client's errors."""
    await _refuse_another_name(client, options)
    await _refuse_while_in_use(client, options, progress)
    removed: list[str] = []
    revocation = Revocation(client, await _hub_arn(client, options))
    if (on_aws := await revocation.remaining()) and is_dry_run(client):
        progress.info(f"by the hub, before it goes: {on_aws}")
    if await _remove_manager(client, options, revocation, progress, clock):
        removed.append(f"ClusterManager {options.name}")
    wanted = [*await bootstrap_accounts(client), *OLD_NAMES, *await _left_in_kube_system(client), *await _cluster_info(client)]
    kept = await _namespaces_of_clusters(client)
    if not is_dry_run(client):
        kept += await revocation.finish()
    if options.purge_operator:
        operator_refs, reasons = await _operator(client, options)
        wanted += operator_refs
        kept += reasons
    removed += await _remove(client, wanted, options, clock)
    return Cleaned(tuple(removed), tuple(kept))


async def _refuse_another_name(client: KubeClient, options: CleanOptions) -> None:
    """Raise Refused if no ClusterManager has this name: a typing error must not remove the bootstrap objects of another hub."""
    try:
        names = [one["metadata"]["name"] for one in (await client.list(CLUSTER_MANAGERS)).items]
    except NotFound:
        return
    if names and options.name not in names:
        raise Refused(f"--name: there is no ClusterManager {options.name}", f"there is {', '.join(names)}")


async def _refuse_while_in_use(client: KubeClient, options: CleanOptions, progress: Progress) -> None:
    try:
        found = (await client.list(MANAGED_CLUSTERS)).items
    except NotFound:
        return
    alive = []
    for document in found:
        try:
            cluster = ManagedCluster.decode(document)
        except MalformedObject:
            continue
        if is_in_use(cluster):
            alive.append(cluster.metadata.name)
    if alive and not options.force:
        raise Refused(
            f"Please detach all managed clusters from the hub control plane: {', '.join(alive)}: joined and alive",
            "run unjoin on each of them, or use --force to leave their agents without a hub",
        )
    names = [document["metadata"]["name"] for document in found]
    if names:
        progress.warn(f"ManagedClusters are deleted with the hub: {', '.join(names)}; agents that are still on them are not")


async def _hub_arn(client: KubeClient, options: CleanOptions) -> str:
    """The hub's ARN in its ClusterManager."""
    try:
        configured = (await client.get(ClusterManager, options.name)).spec.registration_configuration
    except (NotFound, MalformedObject):
        return ""
    own = aws_driver(configured.registration_drivers if configured else ())
    return own.hub_cluster_arn if own is not None else ""


async def _remove_manager(
    client: KubeClient, options: CleanOptions, revocation: Revocation, progress: Progress, clock: Clock
) -> bool:
    """Delete the ClusterManager; returns whether it existed.

    While it is being deleted, its hub revokes what clusters were granted.
    """
    ref = ObjectRef(CLUSTER_MANAGERS, options.name)
    try:
        await client.get(CLUSTER_MANAGERS, options.name)
    except NotFound:
        return False
    await remove(client, [ref])
    if is_dry_run(client):
        return True

    async def remaining() -> str:
        on_aws = await revocation.remaining()
        try:
            manager = await client.get(ClusterManager, options.name)
        except NotFound:
            return ""
        return "; ".join(filter(None, (await _holding_up(client, manager), on_aws)))

    await wait(f"{ref} to be gone", remaining, within=options.timeout, progress=progress, clock=clock)
    return True


async def _holding_up(client: KubeClient, manager: ClusterManager) -> str:
    deleting = condition_of(manager.status.conditions, DELETING)
    if deleting is not None:
        return deleting.message
    try:
        problem = deployment_problem(await client.get(DEPLOYMENTS, CLUSTER_MANAGER, OPERATOR_NAMESPACE))
    except NotFound:
        problem = "there is no operator that would clean up"
    return problem or "the operator is cleaning up"


async def _left_in_kube_system(client: KubeClient) -> list[ObjectRef]:
    found = await client.list(SECRETS, TOKEN_NAMESPACE, label_selector=HUB_LABEL)
    return [ObjectRef(SECRETS, one["metadata"]["name"], TOKEN_NAMESPACE) for one in found.items]


async def _cluster_info(client: KubeClient) -> list[ObjectRef]:
    """The objects of cluster-info, if `init` created them."""
    mine = []
    for resource, name in ((CONFIG_MAPS, CLUSTER_INFO), (ROLE_BINDINGS, CLUSTER_INFO_ROLE), (ROLES, CLUSTER_INFO_ROLE)):
        try:
            found = await client.get(resource, name, PUBLIC_NAMESPACE)
        except NotFound:
            continue
        if (found["metadata"].get("labels") or {}).get(MADE_BY) == CLUSTERADM:
            mine.append(ObjectRef(resource, name, PUBLIC_NAMESPACE))
    return mine


async def _namespaces_of_clusters(client: KubeClient) -> list[str]:
    found = await client.list(NAMESPACES, label_selector=CLUSTER_LABEL)
    return [f"Namespace {one['metadata']['name']}: it may hold objects of users" for one in found.items]


async def _operator(client: KubeClient, options: CleanOptions) -> tuple[list[ObjectRef], list[str]]:
    """The operator's objects in the order of deletion, and those that stay because another installation needs them."""
    own = list(reversed(object_refs(bundle(CLUSTER_MANAGER_OPERATOR))))
    held = await _credentials(client)
    if held:
        own = [ref for ref in own if ref != ObjectRef(NAMESPACES, CREDENTIALS_NAMESPACE)]
    try:
        others = [one["metadata"]["name"] for one in (await client.list(CLUSTER_MANAGERS)).items]
    except NotFound:
        others = []
    others = [name for name in others if name != options.name]
    if others:
        return [], [*held, f"the operator: there is still ClusterManager {', '.join(others)}"]
    pull_secret = ObjectRef(SECRETS, PULL_SECRET, OPERATOR_NAMESPACE)
    try:
        await client.get(DEPLOYMENTS, KLUSTERLET, OPERATOR_NAMESPACE)
    except NotFound:
        return [pull_secret, *own], held
    shared = [ref for ref in own if ref != ObjectRef(NAMESPACES, OPERATOR_NAMESPACE)]
    lock = ObjectRef(LEASES, operator_lock(CLUSTER_MANAGER_OPERATOR.name), OPERATOR_NAMESPACE)
    return [*shared, lock], [*held, f"Namespace {OPERATOR_NAMESPACE}: the operator of klusterlets is there"]


async def _credentials(client: KubeClient) -> list[str]:
    """Why the namespace of clusters' credentials stays."""
    found = [one["metadata"]["name"] for one in (await client.list(SECRETS, CREDENTIALS_NAMESPACE)).items]
    if not found:
        return []
    few = ", ".join(sorted(found)[:3])
    return [f"Namespace {CREDENTIALS_NAMESPACE}: it holds credentials that Muster did not create, such as {few}"]


async def _remove(client: KubeClient, wanted: list[ObjectRef], options: CleanOptions, clock: Clock) -> list[str]:
    there = [ref for ref in dict.fromkeys(wanted) if await _exists(client, ref)]
    if is_dry_run(client):
        await remove(client, there)
        return [str(ref) for ref in there]
    left = await remove_and_wait(client, there, within=options.timeout, clock=clock)
    if left:
        raise TookTooLong("clean", f"still there: {', '.join(map(str, left))}", options.timeout)
    return [str(ref) for ref in there]


async def _exists(client: KubeClient, ref: ObjectRef) -> bool:
    try:
        await client.get(ref.resource, ref.name, ref.namespace)
    except NotFound:
        return False
    return True
