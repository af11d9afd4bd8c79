"""Removes a managed cluster from its hub, from its own side.

Order: check that no applied objects would be left behind → notify the hub, while there is a credential for it → delete the
Klusterlet, with which its operator removes everything it has created → remove the operator with the last Klusterlet.

With an administrator's kubeconfig for the hub the ManagedCluster is deleted there. The agents' own credential can only reset its
acceptance: the hub revokes all permissions, and an administrator has to delete the rest. An unreachable hub does not prevent a
cluster from leaving; what is left there is printed. With the ManagedCluster the account is deleted whose tokens could only
bootstrap this cluster; if that is not permitted, the command for it is printed. Everything can be repeated at any time.

A hub that manages itself is handled as such: it is recognized by the ManagedCluster on this cluster being that of the agents' hub.
It stays a hub.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from muster.administration.dryrun import JournalingClient, is_dry_run
from muster.administration.errors import AdministrationError, Refused, TookTooLong
from muster.administration.hub.tokens import is_bound, revoke
from muster.administration.hubs import CLUSTERADM
from muster.administration.members.hub_trust import Connect, connect_by_http
from muster.administration.members.klusterlets import (
    account_token,
    bootstrap_tokens,
    cluster_name_of,
    hub_secret,
    list_klusterlets,
    operator_problem,
)
from muster.administration.progress import SILENT, Progress, Remaining, wait
from muster.api import condition_of
from muster.api.operator.v1 import Klusterlet
from muster.aws.process_env import ProcessEnv
from muster.machinery.clock import SYSTEM, Clock
from muster.machinery.objects import Object
from muster.operator.applier import ObjectRef, object_refs, remove
from muster.operator.bundle import KLUSTERLET_OPERATOR, bundle
from muster.operator.conditions import DELETING
from muster.operator.hosted import read_kubeconfig_secret
from muster.operator.klusterlet.connection import ForeignCredential, Open, open_secret
from muster.operator.klusterlet.plan import KlusterletPlan, agent_namespace_of, is_hosted
from muster.operator.klusterlet.removal import APPLIED_WORKS
from muster.operator.names import EXTERNAL_MANAGED_SECRET, KLUSTERLETS, KUBECONFIG_KEY, OPERATOR_NAMESPACE, operator_lock
from muster.operator.spec import BadSpec
from muster.registration.drivers.endpoints import EndpointError, EndpointFormat
from muster.registration.drivers.errors import Unfit
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import HUB_SECRET
from muster.runtime.auth import missing_rights, rights
from muster.runtime.client import ClientConfig, Conflict, KubeClient, KubeconfigError, KubeError, NotFound, StatusError
from muster.runtime.client.builtin import DEPLOYMENTS, LEASES, NAMESPACES, SERVICE_ACCOUNTS

HUB_WITHIN: Final = 30.0
"""Seconds for the hub to answer."""


@dataclass(frozen=True)
class UnjoinOptions:
    cluster_name: str
    purge_operator: bool = True
    force: bool = False
    """Leave the objects that were applied, and do not wait for the hub."""
    hub: ClientConfig | None = None
    """An administrator's kubeconfig for the hub."""
    timeout: float = 300.0
    process_env: ProcessEnv = field(default_factory=ProcessEnv)


@dataclass(frozen=True)
class Unjoined:
    cluster: str
    klusterlets: tuple[str, ...] = ()
    """The names of the Klusterlets that were removed."""
    left: tuple[str, ...] = ()
    """What remains on the hub, and what to do about it."""
    purged: bool = False
    """Whether the operator was removed too."""


@dataclass
class _Leave:
    client: KubeClient
    options: UnjoinOptions
    progress: Progress
    clock: Clock
    connect: Connect
    open: Open
    left: list[str] = field(default_factory=list)
    revoked: bool = False
    """Whether all tokens for this cluster alone are revoked."""
    own_hub: bool = False
    """Whether the cluster is the hub that it leaves."""

    @property
    def cluster(self) -> str:
        return self.options.cluster_name

    @property
    def dry_run(self) -> bool:
        return is_dry_run(self.client)

    @property
    def administers_hub(self) -> bool:
        return self.options.hub is not None or self.own_hub


async def unjoin(
    client: KubeClient,
    options: UnjoinOptions,
    progress: Progress = SILENT,
    clock: Clock = SYSTEM,
    connect: Connect = connect_by_http,
    open_hub: Open = open_secret,
) -> Unjoined:
    """`client` is for the cluster that runs the agents. Raises AdministrationError and the client's errors."""
    if not options.cluster_name:
        raise AdministrationError("--cluster-name: name is missing")
    run = _Leave(client, options, progress, clock, connect, open_hub)
    there = await list_klusterlets(client)
    names = {one.metadata.name: await cluster_name_of(client, one) for one in there}
    mine = [one for one in there if names[one.metadata.name] == options.cluster_name]
    others = [one for one in there if one not in mine]
    if others and not mine:
        known = ", ".join(sorted(name or f"(Klusterlet {klusterlet})" for klusterlet, name in names.items()))
        raise AdministrationError(f"--cluster-name: no Klusterlet here is of {options.cluster_name}; there are those of {known}")
    run.own_hub = options.hub is None and any([await _is_own_hub(run, one) for one in mine])
    await _refuse_works(run, mine, others)
    for one in mine:
        await _notify_hub(run, one)
        if not run.revoked:
            await _note_tokens(run, one)
    for one in mine:
        await _remove_klusterlet(run, one, others)
    purged = options.purge_operator and not others and await _purge(run)
    return Unjoined(options.cluster_name, tuple(one.metadata.name for one in mine), tuple(run.left), purged)


# Applied objects


async def _refuse_works(run: _Leave, mine: Sequence[Klusterlet], others: Sequence[Klusterlet]) -> None:
    for one in mine:
        if one.metadata.deletion_timestamp:
            continue
        try:
            async with _managed(run, one) as managed:
                works = await _applied(managed, {other.metadata.uid for other in others})
        except (KubeError, KubeconfigError) as error:
            _refuse(run, f"cannot see what the hub has applied to {run.cluster}: {error}")
            continue
        if works:
            _refuse(
                run,
                f"there are resources on {run.cluster} that the hub has applied, by AppliedManifestWorks {', '.join(works)}",
                "delete the works on the hub first",
            )


def _refuse(run: _Leave, problem: str, remedy: str = "") -> None:
    if not run.options.force:
        also = "go on and leave them where they are with --force"
        raise Refused(problem, f"{remedy}, or {also}" if remedy else also)
    # Deleting the ManagedCluster deletes its works too, while the agents still run to clean up.
    run.progress.warn(f"{problem}; they {'go with the works' if run.administers_hub else 'are left where they are'}")


async def _applied(managed: KubeClient, others: set[str]) -> list[str]:
    """The AppliedManifestWorks of this Klusterlet, or of none that exists."""
    try:
        found = (await managed.list(APPLIED_WORKS)).items
    except NotFound:
        return []
    return [work["metadata"]["name"] for work in found if (work.get("spec") or {}).get("agentID") not in others]


@asynccontextmanager
async def _managed(run: _Leave, klusterlet: Klusterlet) -> AsyncIterator[KubeClient]:
    """A client of the managed cluster. Raises KubeconfigError if there is no kubeconfig for it."""
    if not is_hosted(klusterlet):
        yield run.client
        return
    namespace = agent_namespace_of(klusterlet)
    way = await read_kubeconfig_secret(run.client, EXTERNAL_MANAGED_SECRET, namespace)
    if way is None:
        raise KubeconfigError(f"Secret {namespace}/{EXTERNAL_MANAGED_SECRET}", "", KUBECONFIG_KEY, "missing")
    client = run.connect(way[1])
    try:
        yield client
    finally:
        await client.close()


# The hub


async def _is_own_hub(run: _Leave, klusterlet: Klusterlet) -> bool:
    """Compares with the hub that its agents use, whatever its address: a hub may have a different cluster of this name."""
    try:
        here = await run.client.get(MANAGED_CLUSTERS, run.cluster)
        async with asyncio.timeout(HUB_WITHIN), await _hub_client(run, klusterlet) as hub:
            there = await hub.get(MANAGED_CLUSTERS, run.cluster)
    except (KubeError, EndpointError, KubeconfigError, Unfit, ForeignCredential, TimeoutError, OSError):
        # A problem with the hub is reported when the hub is notified.
        return False
    return bool(here["metadata"]["uid"] == there["metadata"]["uid"])


async def _notify_hub(run: _Leave, klusterlet: Klusterlet) -> None:
    """Notify the hub; what fails is recorded in `left`."""
    by_hand = f"an administrator of the hub removes it with kubectl delete managedcluster {run.cluster}"
    if not run.administers_hub and not (await hub_secret(run.client, klusterlet)).get(_endpoints(klusterlet).key):
        run.left.append(f"the agents have no credential for the hub; if ManagedCluster {run.cluster} is on the hub, {by_hand}")
        return
    try:
        async with await _hub_client(run, klusterlet) as opened:
            hub = run.client if run.own_hub else _like(run.client, opened)
            async with asyncio.timeout(HUB_WITHIN):
                deleting = await _leave_hub(run, hub, by_hand)
            if deleting and not run.dry_run:
                await _await_deleted(run, hub)
            if run.administers_hub:
                await _take_back_tokens(run, hub)
    except ForeignCredential:
        run.left.append(
            f"the agents' credential is of use to them alone, so ManagedCluster {run.cluster} stays on the hub; {by_hand}"
        )
    except (KubeError, EndpointError, KubeconfigError, Unfit, TimeoutError, OSError) as error:
        why = str(error) or f"no answer within {HUB_WITHIN:g} s"
        run.left.append(f"the hub could not be told: {why}; ManagedCluster {run.cluster} stays there; {by_hand}")


async def _take_back_tokens(run: _Leave, hub: KubeClient) -> None:
    """Revoke the bootstrap tokens of this cluster, so that a leaked one cannot be used."""
    with suppress(KubeError):
        if await revoke(hub, run.cluster):
            run.progress.info(f"Tokens for {run.cluster} alone {'would be' if run.dry_run else 'are'} good for nothing any more")
        run.revoked = True


async def _note_tokens(run: _Leave, klusterlet: Klusterlet) -> None:
    if any(is_bound(token, run.cluster) for token in await bootstrap_tokens(run.client, klusterlet)):
        run.left.append(
            f"the account whose tokens are good for {run.cluster} alone stays on the hub; "
            f"an administrator of the hub removes it with clusteradm delete token --cluster-name {run.cluster}"
        )


async def _hub_client(run: _Leave, klusterlet: Klusterlet) -> AbstractAsyncContextManager[KubeClient]:
    if run.options.hub is not None:
        return _closing(run.connect(run.options.hub))
    source = f"Secret {agent_namespace_of(klusterlet)}/{HUB_SECRET}"
    return run.open(_endpoints(klusterlet), await _portable(run, klusterlet), source, run.cluster)


async def _portable(run: _Leave, klusterlet: Klusterlet) -> Mapping[str, bytes]:
    """The agents' credential; an equivalent one if it is usable in their pods only. Raises Unfit and KubeError."""
    stored, plan = await hub_secret(run.client, klusterlet), KlusterletPlan(klusterlet, "")
    if run.dry_run:
        # No token is issued in a dry run.
        return stored
    try:
        driver = plan.driver
    except BadSpec:
        return stored
    return await driver.portable(stored, plan.registration, account_token(run.client, klusterlet), run.options.process_env)


def _endpoints(klusterlet: Klusterlet) -> EndpointFormat:
    return KlusterletPlan(klusterlet, "").endpoints


@asynccontextmanager
async def _closing(client: KubeClient) -> AsyncIterator[KubeClient]:
    try:
        yield client
    finally:
        await client.close()


def _like(client: KubeClient, hub: KubeClient) -> KubeClient:
    """A client for the hub with the same recording and dry run as that of the cluster."""
    return JournalingClient(hub, client.journal, dry_run=client.dry_run) if isinstance(client, JournalingClient) else hub


async def _leave_hub(run: _Leave, hub: KubeClient, by_hand: str) -> bool:
    """Delete the ManagedCluster, or reset its acceptance if that is not permitted. Returns whether it is being deleted."""
    name = run.cluster
    try:
        found = await hub.get(MANAGED_CLUSTERS, name)
        if await _may_delete(hub, name):
            if not found["metadata"].get("deletionTimestamp"):
                await hub.delete(MANAGED_CLUSTERS, name, uid=found["metadata"]["uid"])
            return True
        await _deny(hub, found)
    except NotFound:
        run.progress.info(f"The hub has no ManagedCluster {name} any more")
        return False
    run.progress.info(f"The hub was told that {name} leaves: it is denied from now on")
    run.left.append(f"ManagedCluster {name} stays on the hub, denied; {by_hand}")
    return False


async def _may_delete(hub: KubeClient, name: str) -> bool:
    try:
        return not await missing_rights(hub, rights(MANAGED_CLUSTERS.group, MANAGED_CLUSTERS.plural, "delete", name=name))
    except StatusError as error:
        if error.code != HTTPStatus.METHOD_NOT_ALLOWED:
            raise
        # Agents that use gRPC cannot create access reviews there, and cannot delete anything.
        return False


async def _deny(hub: KubeClient, found: Object) -> None:
    while (found.get("spec") or {}).get("hubAcceptsClient"):
        found["spec"]["hubAcceptsClient"] = False
        try:
            await hub.update(MANAGED_CLUSTERS, found)
        except Conflict:
            found = await hub.get(MANAGED_CLUSTERS, found["metadata"]["name"])


async def _await_deleted(run: _Leave, hub: KubeClient) -> None:
    """Wait while the agents still run to remove what they have applied."""

    async def look() -> str:
        try:
            found = await hub.get(MANAGED_CLUSTERS, run.cluster)
        except NotFound:
            return ""
        said = [one for one in (found.get("status") or {}).get("conditions") or () if one["type"] == DELETING]
        return str(said[0].get("message")) if said else "the hub's controller has not begun to remove it"

    try:
        await wait(
            f"ManagedCluster {run.cluster} on the hub", look, within=run.options.timeout, progress=run.progress, clock=run.clock
        )
    except TookTooLong as error:
        if not run.options.force:
            raise
        run.left.append(f"ManagedCluster {run.cluster} is still being deleted on the hub: {error.reason}")
    else:
        run.progress.info(f"ManagedCluster {run.cluster} is deleted on the hub")


# This cluster


async def _remove_klusterlet(run: _Leave, klusterlet: Klusterlet, others: Sequence[Klusterlet]) -> None:
    name, uid = klusterlet.metadata.name, klusterlet.metadata.uid
    try:
        await run.client.delete(KLUSTERLETS, name, uid=uid)
    except (NotFound, Conflict):
        run.progress.note(f"Klusterlet {name} is gone already")
    if not run.dry_run:
        await _until(run, f"Klusterlet {name}", lambda: _remains(run.client, name, uid))
    namespace = agent_namespace_of(klusterlet)
    if namespace not in {agent_namespace_of(other) for other in others}:
        await _take_away(run, [ObjectRef(NAMESPACES, namespace)], keep=lambda found: not _made_here(found))
    run.progress.info(f"Klusterlet {name} {'would be' if run.dry_run else 'is'} removed")


async def _remains(client: KubeClient, name: str, uid: str) -> str:
    """Why a Klusterlet still exists; empty if it does not."""
    try:
        found = await client.get(Klusterlet, name)
    except NotFound:
        return ""
    if found.metadata.uid != uid:
        return ""
    if problem := await operator_problem(client):
        return f"its operator does not work: {problem}"
    said = condition_of(found.status.conditions, DELETING)
    return said.message if said is not None else "its operator has not begun to remove it"


def _made_here(namespace: Object) -> bool:
    """Whether `join` has created the namespace; another one is not deleted."""
    fields = namespace["metadata"].get("managedFields") or ()
    return any(one.get("manager") == CLUSTERADM for one in fields)


async def _purge(run: _Leave) -> bool:
    """Remove the operator and its objects; return whether it existed."""
    around = [ref for ref in reversed(object_refs(bundle(KLUSTERLET_OPERATOR))) if ref.resource is not NAMESPACES]
    around.append(ObjectRef(LEASES, operator_lock(KLUSTERLET_OPERATOR.name), OPERATOR_NAMESPACE))
    found = [ref for ref in around if await _is_there(run.client, ref)]
    if found:
        await _take_away(run, found)
    if await _is_free(run.client, OPERATOR_NAMESPACE):
        await _take_away(run, [ObjectRef(NAMESPACES, OPERATOR_NAMESPACE)], keep=lambda one: not _made_here(one))
    if found:
        run.progress.info(f"The klusterlet operator {'would be' if run.dry_run else 'is'} removed")
    return bool(found)


async def _is_there(client: KubeClient, ref: ObjectRef) -> bool:
    try:
        await client.get(ref.resource, ref.name, ref.namespace)
    except NotFound:
        return False
    return True


async def _is_free(client: KubeClient, namespace: str) -> bool:
    """Whether the namespace contains only our objects: a hub that manages itself has another operator in it."""
    own = {KLUSTERLET_OPERATOR.name, "default"}
    for resource in (DEPLOYMENTS, SERVICE_ACCOUNTS):
        found = (await client.list(resource, namespace)).items
        if {one["metadata"]["name"] for one in found} - own:
            return False
    return True


async def _take_away(run: _Leave, objects: Sequence[ObjectRef], keep: Callable[[Object], bool] | None = None) -> None:
    if run.dry_run:
        await remove(run.client, objects, keep=keep)
        return

    async def look() -> str:
        return ", ".join(map(str, await remove(run.client, objects, keep=keep)))

    await _until(run, "what is being removed", look)


async def _until(run: _Leave, what: str, look: Remaining) -> None:
    await wait(what, look, within=run.options.timeout, progress=run.progress, clock=run.clock)
