"""Reconciles the works of a replica set: creates and changes them as its rollout proceeds, deletes those of clusters no longer
selected.

A reconcile is: add the finalizer, read the placements' clusters and the state of their works, write the works that are next, delete
the others, set the status. A work that could not be written is named in the status and retried; others are not delayed. Works of a
missing placement stay: a placement that was deleted by mistake deletes no works, a reference that is removed from the set does.

A work belongs to the set by its label, whatever its name. New ones have the name of the set; if a work of another owner has that
name, a fixed suffix is added, so that a repeated create does not make a second work.

The placement label of a work is that of the first placement that selected its cluster; a change of it does not count as a change of
the work.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Final

import msgspec

from muster.api.cluster.v1beta1 import PLACEMENT_LABEL, Placement, PlacementDecision
from muster.api.meta import Condition
from muster.api.resource import Document
from muster.api.work.v1alpha1 import (
    MANIFEST_WORK_APPLIED,
    LocalPlacementReference,
    ManifestWorkReplicaSet,
    ManifestWorkReplicaSetStatus,
)
from muster.kube.names import label_value
from muster.machinery.objects import Object, ObjectKey
from muster.placement.decisions import Precedence, divided_groups
from muster.placement.rollout import BadStrategy, plan
from muster.runtime.client import AlreadyExists, KubeError, NotFound, patch_object
from muster.runtime.controller import (
    ControllerContext,
    WriteOne,
    add_finalizer,
    failures_text,
    remove_finalizer,
    with_condition,
    write_each,
)
from muster.work.hub.options import REPLICA_SET_CONTROLLER
from muster.work.hub.replica_sets import conditions
from muster.work.hub.replica_sets.conditions import PlacementShare
from muster.work.hub.replica_sets.replicas import Replica, digest, is_ruled
from muster.work.kinds import MANIFEST_WORKS
from muster.work.names import PLACEMENT_NAME_LABEL, REPLICA_SET_FINALIZER, REPLICA_SET_LABEL

RESYNC_INTERVAL: Final = 1.0
"""Seconds between lists for works that are not in the cache."""
_LONGEST: Final = 182
"""The longest name of a work, so that the agent's AppliedManifestWork can add to it."""
_BY_OWNER: Final = "owner"
_BY_PLACEMENT: Final = "placement"


class WorksNotWritten(Exception):
    """Some works of a set could not be written; the status has their names and errors."""


class TakenName(Exception):
    """All possible names of a work are in use by others."""


def owner_label(key: ObjectKey) -> str:
    return f"{key.namespace}.{key.name}"


@dataclass(frozen=True)
class DesiredWork:
    """The desired state of every work of a set."""

    names: tuple[str, str]
    """The name of a work, and the alternative if that is in use."""
    owner: str
    template: Document
    labels: dict[str, str]
    digest: bytes

    @classmethod
    def of(cls, replica_set: ManifestWorkReplicaSet) -> DesiredWork:
        metadata = replica_set.metadata
        template = replica_set.document()["spec"].get("manifestWorkTemplate") or {}
        owner = owner_label(ObjectKey(metadata.namespace, metadata.name))
        names = (metadata.name, f"{metadata.name[:_LONGEST]}-{hashlib.sha256(owner.encode()).hexdigest()[:5]}")
        return cls(names, owner, template, {**metadata.labels, REPLICA_SET_LABEL: owner}, digest(template))

    def document(self, name: str, cluster: str, placement: str) -> Object:
        metadata = {"name": name, "namespace": cluster, "labels": {**self.labels, PLACEMENT_NAME_LABEL: placement}}
        return {"apiVersion": MANIFEST_WORKS.api_version, "kind": MANIFEST_WORKS.kind, "metadata": metadata, "spec": self.template}


class ReplicaSets:
    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        informers = context.informers
        self._sets = informers.of(ManifestWorkReplicaSet)
        self._works = informers.of(MANIFEST_WORKS, label_selector=REPLICA_SET_LABEL, decode=Replica.decode)
        self._placements = informers.of(Placement)
        self._decisions = informers.of(PlacementDecision)
        self._works.cache.add_index(_BY_OWNER, lambda work: [work.owner])
        self._decisions.cache.add_index(_BY_PLACEMENT, lambda decision: [str(_placement_of(decision))])
        self._sets.cache.add_index(_BY_PLACEMENT, lambda one: [str(key) for key in _placements(one)])
        self._controller = context.controller(REPLICA_SET_CONTROLLER, self.reconcile)
        self._controller.watch(self._sets, lambda one: [_key(one)])
        self._controller.watch(self._works, _owners)
        self._controller.watch(self._placements, lambda placement: self._sets_with(_key(placement)))
        self._controller.watch(self._decisions, lambda decision: self._sets_with(_placement_of(decision)))

    async def run(self) -> None:
        await self._controller.run()

    def _sets_with(self, placement: ObjectKey) -> list[ObjectKey]:
        return [_key(one) for one in self._sets.cache.by_index(_BY_PLACEMENT, str(placement))]

    async def reconcile(self, key: ObjectKey) -> float | None:
        found = self._sets.cache.get(key)
        if found is None:
            return None
        if found.metadata.deletion_timestamp:
            return await self._let_go(found)
        if found.spec is None:
            return None
        if problem := label_value(owner_label(key)):
            await self._report_unnameable(found, problem[0])
            return None
        if REPLICA_SET_FINALIZER not in found.metadata.finalizers:
            await self._hold(found)
            return None
        return await self._roll_out(found)

    # Finalizer

    async def _hold(self, found: ManifestWorkReplicaSet) -> None:
        await add_finalizer(self._context.client, found, REPLICA_SET_FINALIZER)

    async def _let_go(self, found: ManifestWorkReplicaSet) -> float | None:
        if REPLICA_SET_FINALIZER not in found.metadata.finalizers:
            return None
        patient = found.spec is not None and found.spec.cascade_deletion_policy == "Foreground"
        known = self._works.cache.by_index(_BY_OWNER, owner_label(_key(found)))
        await self._delete_all(known)
        if known and patient:
            return None
        # The final check lists the works: the cache may lack those that were just created.
        there = await self._there(owner_label(_key(found)))
        await self._delete_all(there)
        if there and patient:
            return RESYNC_INTERVAL
        await remove_finalizer(self._context.client, found, REPLICA_SET_FINALIZER)
        return None

    async def _there(self, owner: str) -> list[Replica]:
        if label_value(owner):
            return []
        pages = self._context.client.pages(MANIFEST_WORKS, label_selector=f"{REPLICA_SET_LABEL}={owner}")
        try:
            return [Replica.decode(raw) async for page in pages for raw in page.items]
        except NotFound:
            # The CRD of works is gone: the hub is being removed.
            return []

    async def _delete_all(self, works: Iterable[Replica]) -> None:
        failed = await self._each((work.cluster, partial(self._delete, work)) for work in works if not work.deleting)
        if failed:
            raise WorksNotWritten(failures_text(failed))

    async def _report_unnameable(self, found: ManifestWorkReplicaSet, problem: str) -> None:
        message = f"{owner_label(_key(found))} must be a label's value: {problem}"
        condition = Condition(type=MANIFEST_WORK_APPLIED, status="False", reason="InvalidManifestWorkName", message=message)
        await patch_object(self._context.client, found, with_condition(found, condition, self._context.clock.now()), status=True)

    # Rollout

    async def _roll_out(self, found: ManifestWorkReplicaSet) -> float | None:
        wanted = DesiredWork.of(found)
        works, spare = _one_each(self._works.cache.by_index(_BY_OWNER, wanted.owner), wanted.names)
        shares = self._shares(found, wanted, works)
        deletions = ((work.cluster, partial(self._delete, work)) for work in spare if not work.deleting)
        failed = await self._each(chain(self._writes(wanted, works, shares), deletions))
        leaving = {cluster for cluster, work in works.items() if work.deleting}
        begun = frozenset(cluster for share in shares for cluster in share.rollout.begin) - failed.keys() - leaving
        await self._report(found, shares, begun, failed)
        if failed:
            raise WorksNotWritten(failures_text(failed))
        times = [share.rollout.again for share in shares if share.rollout.again is not None]
        return max(0.0, (min(times) - self._context.clock.now()).total_seconds()) + 0.1 if times else None

    def _shares(self, found: ManifestWorkReplicaSet, wanted: DesiredWork, works: dict[str, Replica]) -> list[PlacementShare]:
        """By placement, in the order of the set."""
        assert found.spec is not None, "read"
        ruled = is_ruled(found.spec.manifest_work_template)
        shares: list[PlacementShare] = []
        refs: dict[ObjectKey, LocalPlacementReference] = {}
        for ref in found.spec.placement_refs:
            refs.setdefault(ObjectKey(found.metadata.namespace, ref.name), ref)
        present = [key for key in refs if key in self._placements.cache]
        decisions = [self._decisions.cache.by_index(_BY_PLACEMENT, str(key)) for key in present]
        divided = dict(zip(present, divided_groups(decisions, Precedence.FIRST), strict=True))
        for key, ref in refs.items():
            if key not in divided:
                shares.append(PlacementShare(ref.name, missing=True))
                continue
            groups = divided[key]
            chosen = frozenset(cluster for group in groups for cluster in group.clusters)
            here = {cluster: works[cluster] for cluster in sorted(chosen) if cluster in works and not works[cluster].deleting}
            updated = {cluster: work for cluster, work in here.items() if work.digest == wanted.digest}
            known = {cluster: work.progress(ruled) for cluster, work in updated.items()}
            states = {cluster: progress.state for cluster, progress in known.items()}
            share = PlacementShare(ref.name, tuple(groups), updated, states, present=frozenset(here))
            try:
                rollout = plan(groups, ref.rollout_strategy, known, self._context.clock.now())
            except BadStrategy as error:
                shares.append(dataclasses.replace(share, problem=str(error)))
            else:
                shares.append(dataclasses.replace(share, rollout=rollout))
        return shares

    def _writes(
        self, wanted: DesiredWork, works: dict[str, Replica], shares: Sequence[PlacementShare]
    ) -> Iterator[tuple[str, WriteOne]]:
        """By cluster, how its work must be written."""
        chosen = {cluster: share for share in shares for group in share.groups for cluster in group.clusters}
        kept = {share.name for share in shares if share.missing}
        for share in shares:
            for cluster in share.rollout.begin:
                work = works.get(cluster)
                if work is None:
                    yield cluster, partial(self._create, wanted, cluster, share.name)
                elif not work.deleting:
                    yield cluster, partial(self._change, wanted, work, share.name)
        for cluster, work in works.items():
            if cluster not in chosen:
                if work.placement not in kept and not work.deleting:
                    yield cluster, partial(self._delete, work)
            elif work.placement != chosen[cluster].name and cluster not in chosen[cluster].rollout.begin and not work.deleting:
                yield cluster, partial(self._relabel, work, chosen[cluster].name)

    async def _create(self, wanted: DesiredWork, cluster: str, placement: str) -> None:
        for name in wanted.names:
            try:
                await self._context.client.create(MANIFEST_WORKS, wanted.document(name, cluster, placement))
            except AlreadyExists:
                there = await self._context.client.get(MANIFEST_WORKS, name, cluster)
                if (there["metadata"].get("labels") or {}).get(REPLICA_SET_LABEL) != wanted.owner:
                    continue
            # Created just now, or a moment ago and not in the cache yet.
            return
        raise TakenName(f"there are ManifestWorks {' and '.join(wanted.names)} that are not of this set")

    async def _change(self, wanted: DesiredWork, work: Replica, placement: str) -> None:
        """Replace the whole spec of the version that was read; labels are added, not removed."""
        seen = self._works.cache.snapshot(ObjectKey(work.cluster, work.metadata.name))
        if seen is None:
            return
        current, fresh = seen.decode(), wanted.document(work.metadata.name, work.cluster, placement)
        labels = {**(current["metadata"].get("labels") or {}), **fresh["metadata"]["labels"]}
        changed = {**current, "metadata": {**current["metadata"], "labels": labels}, "spec": fresh["spec"]}
        await self._context.client.update(MANIFEST_WORKS, changed)

    async def _relabel(self, work: Replica, placement: str) -> None:
        change = {"metadata": {"uid": work.metadata.uid, "labels": {PLACEMENT_NAME_LABEL: placement}}}
        await self._context.client.patch(MANIFEST_WORKS, work.metadata.name, change, work.cluster)

    async def _delete(self, work: Replica) -> None:
        try:
            await self._context.client.delete(MANIFEST_WORKS, work.metadata.name, work.cluster, uid=work.metadata.uid)
        except NotFound:
            return

    async def _each(self, writes: Iterable[tuple[str, WriteOne]]) -> dict[str, str]:
        """A decision without a cluster name is a ValueError."""
        return await write_each(writes, (KubeError, TakenName, ValueError))

    async def _report(
        self, found: ManifestWorkReplicaSet, shares: Sequence[PlacementShare], begun: frozenset[str], failed: dict[str, str]
    ) -> None:
        lines = tuple(share.line(begun) for share in shares)
        total = conditions.added([line.summary for line in lines])
        status: ManifestWorkReplicaSetStatus = msgspec.structs.replace(found.status, summary=total, placement_summary=lines)
        wanted = msgspec.structs.replace(found, status=status)
        observed = (conditions.verified(shares), conditions.rolled_out(shares), conditions.applied(shares, failed, total))
        for condition in observed:
            dated = msgspec.structs.replace(condition, observed_generation=found.metadata.generation)
            wanted = with_condition(wanted, dated, self._context.clock.now())
        await patch_object(self._context.client, found, wanted, status=True)


def _key(one: ManifestWorkReplicaSet | Placement) -> ObjectKey:
    return ObjectKey(one.metadata.namespace, one.metadata.name)


def _one_each(works: Iterable[Replica], names: Sequence[str]) -> tuple[dict[str, Replica], list[Replica]]:
    """By cluster one of its works, and the others; a work with the desired name is preferred."""
    ordered = sorted(works, key=lambda work: (work.metadata.name not in names, work.metadata.name))
    first: dict[str, Replica] = {}
    return first, [work for work in ordered if first.setdefault(work.cluster, work) is not work]


def _owners(work: Replica) -> list[ObjectKey]:
    """A namespace has no dots, a name may have some."""
    namespace, separator, name = work.owner.partition(".")
    return [ObjectKey(namespace, name)] if separator else []


def _placement_of(decision: PlacementDecision) -> ObjectKey:
    return ObjectKey(decision.metadata.namespace, decision.metadata.labels.get(PLACEMENT_LABEL, ""))


def _placements(one: ManifestWorkReplicaSet) -> list[ObjectKey]:
    return [ObjectKey(one.metadata.namespace, ref.name) for ref in (one.spec.placement_refs if one.spec else ())]
