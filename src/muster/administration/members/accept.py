"""Accepts a cluster: approves its agent's signing request, and sets `hubAcceptsClient`.

`requests.py` judges which requests may be approved; if several keys or agents ask for the same cluster, or one asks for the name of
an available cluster, the administrator has to choose. Exactly the request that was judged is approved. Nothing is written before
dry runs have shown that everything is permitted: a caller who lacks a permission leaves nothing half done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from muster.administration.drivers import fitting, identity_marks
from muster.administration.dryrun import is_dry_run
from muster.administration.errors import AdministrationError, Refused
from muster.administration.members.requests import EVERY_REQUEST, Judgement, RequestFilter, judge, refuse_ambiguity
from muster.administration.progress import SILENT, Progress, wait
from muster.administration.readiness import cluster_problem
from muster.api import is_true
from muster.api.cluster.v1 import ACCEPTED, JOINED, ManagedCluster
from muster.api.operator.v1 import ClusterManager, HubRegistrationDriver
from muster.api.resource import MalformedObject
from muster.aws.process_env import ProcessEnv
from muster.machinery.clock import SYSTEM, Clock
from muster.machinery.objects import Object
from muster.operator.names import CLUSTER_MANAGER
from muster.registration.drivers.certificates.first_requests import approval
from muster.registration.drivers.interfaces import AcceptanceContext, Driver, Undo
from muster.registration.drivers.ownership import owner_of
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import CLUSTER_LABEL
from muster.runtime.client import Conflict, Forbidden, KubeClient, NotFound
from muster.runtime.client.builtin import SIGNING_REQUESTS


@dataclass(frozen=True)
class AcceptOptions:
    wanted: RequestFilter = EVERY_REQUEST
    wait: bool = False
    timeout: float = 300.0
    identity: str = ""
    """The cluster's name at its identity provider; written to its ManagedCluster if that has none."""
    process_env: ProcessEnv = field(default_factory=ProcessEnv)


@dataclass(frozen=True)
class Accepted:
    cluster: str
    approved: tuple[str, ...] = ()
    """Requests that this call has approved."""
    newly: bool = False
    """Whether it was not accepted before."""


async def accept(
    client: KubeClient, name: str, options: AcceptOptions, progress: Progress = SILENT, clock: Clock = SYSTEM
) -> Accepted:
    """Raises AdministrationError and the client's errors."""
    if options.wait and not is_dry_run(client):
        await wait(
            f"managed cluster {name}",
            lambda: _not_ready(client, name, options),
            within=options.timeout,
            progress=progress,
            clock=clock,
        )
    found = await _cluster(client, name)
    cluster = await _named(client, found, options)
    progress.info(f"Starting approve csrs for the cluster {name}")
    approvals = await _approvals(client, cluster, options, progress, clock)
    if not cluster.spec.hub_accepts_client:
        # A dry run checks now whether it is permitted; it is written when the requests are approved.
        await client.patch(MANAGED_CLUSTERS, name, _ACCEPTS, dry_run=True)
    await _approve_all(client, cluster, approvals, progress)
    newly = not cluster.spec.hub_accepts_client
    if newly:
        await _accept_cluster(client, cluster, options, progress)
        progress.info(f"set hubAcceptsClient to true for managed cluster {name}")
    else:
        if cluster is not found or not is_true(cluster.status.conditions, ACCEPTED):
            # Accepted by other means, or by another driver before: what its own driver does first is missing.
            await _prepare(client, cluster, options, progress)
        progress.info(f"hubAcceptsClient already set for managed cluster {name}")
    if options.wait and not is_dry_run(client):
        approvals += await _await_available(client, name, options, progress, clock, pending=bool(approvals))
    return Accepted(name, tuple(judgement.name for judgement in approvals), newly)


async def _await_available(
    client: KubeClient, name: str, options: AcceptOptions, progress: Progress, clock: Clock, *, pending: bool
) -> list[Judgement]:
    """Wait until it is available.

    An earlier approval may be for a former cluster of that name: then the first new request counts.
    """
    approved: list[Judgement] = []

    async def remaining() -> str:
        cluster = await _cluster(client, name)
        if not pending and not approved and not is_true(cluster.status.conditions, JOINED) and by_certificate(cluster):
            judged = await _judged(client, cluster, options)
            refuse_ambiguity(cluster, judged, options.wanted, clock.now())
            good = [one for one in judged if one.good]
            await _approve_all(client, cluster, good, progress)
            approved.extend(good)
        return cluster_problem(cluster)

    await wait(f"managed cluster {name}", remaining, within=options.timeout, progress=progress, clock=clock)
    return approved


_ACCEPTS: Final = {"spec": {"hubAcceptsClient": True}}


async def _named(client: KubeClient, cluster: ManagedCluster, options: AcceptOptions) -> ManagedCluster:
    """The cluster with the annotations of the administrator's identity. Raises AdministrationError if it has another one."""
    if not options.identity:
        return cluster
    name = cluster.metadata.name
    with fitting():
        marks = identity_marks(options.identity, await configured_drivers(client))
    while True:
        other = {key: value for key, value in marks.items() if cluster.metadata.annotations.get(key, value) != value}
        if other:
            named = next(iter(other))
            raise Refused(
                f"the annotations of cluster {name} belong to another cluster: {named}", "delete it, or leave the flag out"
            )
        if all(key in cluster.metadata.annotations for key in marks):
            return cluster
        change = {"resourceVersion": cluster.metadata.resource_version, "annotations": marks}
        try:
            return ManagedCluster.decode(await client.patch(MANAGED_CLUSTERS, name, {"metadata": change}))
        except Conflict:
            # Controllers write to it as well; the identity in the new version is checked again.
            cluster = await _cluster(client, name)


async def _accept_cluster(client: KubeClient, cluster: ManagedCluster, options: AcceptOptions, progress: Progress) -> None:
    """The cluster's driver acts first, which is undone if accepting the cluster is denied."""
    undo = await _prepare(client, cluster, options, progress)
    try:
        await client.patch(MANAGED_CLUSTERS, cluster.metadata.name, _ACCEPTS)
    except BaseException:
        if undo is not None:
            await undo()
        raise


async def _prepare(client: KubeClient, cluster: ManagedCluster, options: AcceptOptions, progress: Progress) -> Undo | None:
    """Call the cluster's driver; returns what undoes it. Raises AdministrationError."""
    owner = owner_of(cluster)
    if not isinstance(owner, Driver):
        return None
    configured = next((one for one in await configured_drivers(client) if one.auth_type in (owner.name, *owner.aliases)), None)
    with fitting():
        if is_dry_run(client):
            for line in owner.acceptance_plan(cluster, configured):
                progress.info(line)
            return None
        return await owner.prepare_acceptance(cluster, AcceptanceContext(client, configured, options.process_env, progress.info))


async def configured_drivers(client: KubeClient) -> tuple[HubRegistrationDriver, ...]:
    """The drivers' entries in the ClusterManager, if it is readable."""
    try:
        manager = await client.get(ClusterManager, CLUSTER_MANAGER)
    except (NotFound, Forbidden, MalformedObject):
        return ()
    configured = manager.spec.registration_configuration
    return configured.registration_drivers if configured else ()


async def _cluster(client: KubeClient, name: str) -> ManagedCluster:
    try:
        return await client.get(ManagedCluster, name)
    except NotFound:
        raise AdministrationError(
            f"fail to get managedcluster {name}: there is none of this name",
            "see get clusters; if the cluster is about to join, use --wait",
        ) from None


def by_certificate(cluster: ManagedCluster) -> bool:
    """Whether the cluster's agent requests a certificate."""
    owner = owner_of(cluster)
    return owner is not None and owner.certificates


async def _judged(client: KubeClient, cluster: ManagedCluster, options: AcceptOptions) -> list[Judgement]:
    found = await client.list(SIGNING_REQUESTS, label_selector=f"{CLUSTER_LABEL}={cluster.metadata.name}")
    return [judge(csr, cluster, options.wanted) for csr in found.items]


async def _not_ready(client: KubeClient, name: str, options: AcceptOptions) -> str:
    """Why the cluster cannot be accepted yet."""
    try:
        cluster = await client.get(ManagedCluster, name)
    except NotFound:
        return "there is no ManagedCluster of this name: its agent has not introduced it yet"
    if not by_certificate(cluster) or is_true(cluster.status.conditions, JOINED):
        return ""
    judged = await _judged(client, cluster, options)
    if any(one.good or one.is_approved(options.wanted) for one in judged):
        return ""
    objections = [f"CSR {one.name}: {one.objection or one.settled}" for one in judged]
    return "; ".join(objections) or "its agent has not requested a certificate yet"


async def _approvals(
    client: KubeClient, cluster: ManagedCluster, options: AcceptOptions, progress: Progress, clock: Clock
) -> list[Judgement]:
    """The requests to approve. Raises Refused if that is ambiguous."""
    name = cluster.metadata.name
    if not by_certificate(cluster):
        if options.wanted.fingerprints:
            raise Refused(
                f"cluster {name} requests no certificate: by its annotations it registers by another driver",
                "the client that created it wrote them: accept it without --fingerprint if that is expected, else delete it",
            )
        return []
    judged = await _judged(client, cluster, options)
    for one in judged:
        if one.objection:
            progress.warn(f"CSR {one.name} is not approved: {one.objection}")
        elif one.settled:
            progress.info(f"CSR {one.name} already {one.settled}")
    refuse_ambiguity(cluster, judged, options.wanted, clock.now())
    good = [one for one in judged if one.good]
    served = is_true(cluster.status.conditions, JOINED) or any(one.settled == "approved" for one in judged)
    if not good and not served and not options.wanted.skip_check:
        raise AdministrationError(
            f"no csr is approved yet for cluster {name}: there is none to approve",
            "wait for it with --wait; or accept the cluster without one with --skip-approve-check",
        )
    return good


async def _approve_all(client: KubeClient, cluster: ManagedCluster, judgements: Sequence[Judgement], progress: Progress) -> None:
    condition = approval("ClusteradmApprove", "This CSR was approved by clusteradm accept.", cluster)
    for judgement in judgements:
        await _approve(client, judgement, condition)
        progress.info(f"CSR {judgement.name} approved: key {judgement.fingerprint}")


async def _approve(client: KubeClient, judgement: Judgement, condition: Object) -> None:
    while True:
        csr = await client.get(SIGNING_REQUESTS, judgement.name)
        if csr["metadata"]["uid"] != judgement.uid:
            raise Refused(
                f"CSR {judgement.name} was replaced by another while it was judged", "check the current requests, and accept again"
            )
        status = csr.setdefault("status", {})
        status["conditions"] = [*(status.get("conditions") or ()), dict(condition)]
        try:
            await client.update(SIGNING_REQUESTS, csr, subresource="approval")
        except Conflict:
            continue
        return
