"""Deployments: one ReplicaSet per pod template, scaled step by step from the old template to the new one.

A pass reads the Deployment and its sets, finds or creates the set of the present template, asks `rollout` for the next sizes,
writes them, and writes the status. A change of a set's status triggers the next pass; a pass that changes nothing writes nothing.
Revisions, annotations, conditions and events are those of the real controller, so that kubectl's rollout commands work.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from muster.fleet.attached import Attached, Change
from muster.fleet.workloads import rollout, templates
from muster.fleet.workloads.claims import claim
from muster.fleet.workloads.deploymentstatus import deadline_in, is_complete, status_of
from muster.fleet.workloads.podcontrol import keys_of_owned, selector_of
from muster.fleet.workloads.rollout import Group, RolloutSpec, Sizes
from muster.machinery.objects import Object
from muster.runtime.client import AlreadyExists, Conflict, NotFound, patch_changes, patch_status
from muster.runtime.client.builtin import DEPLOYMENTS, REPLICA_SETS


class Deployments:
    name = "deployments"
    resources = (DEPLOYMENTS, REPLICA_SETS)

    def keys(self, attached: Attached, change: Change) -> Iterable[str]:
        if change.resource == DEPLOYMENTS:
            return (change.key,)
        return keys_of_owned(attached, change, DEPLOYMENTS)

    async def reconcile(self, attached: Attached, key: str) -> float | None:
        found = attached.view.read(DEPLOYMENTS, key)
        if found is None:
            return None
        rollout_spec = _rollout_spec(found)
        sets = await claim(
            attached.controllers,
            found,
            DEPLOYMENTS,
            REPLICA_SETS,
            selector_of(found),
            list(attached.view.scan(REPLICA_SETS, key.partition("/")[0])),
        )
        new, created = templates.current_set(found, sets), False
        if not found["metadata"].get("deletionTimestamp"):
            if new is None and _may_create(found, rollout_spec, sets):
                new = await _create(attached, found, rollout_spec, sets)
                if new is None:
                    return 0.0  # the name is in use with another template; the next pass counts the collision
                sets, created = [*sets, new], True
            elif new is not None:
                new = await _record_revision(attached, found, rollout_spec, new, sets)
                sets = [new if each["metadata"]["uid"] == new["metadata"]["uid"] else each for each in sets]
            sets = await _resize(attached, found, rollout_spec, new, sets)
            new = templates.current_set(found, sets)
        status = status_of(found, new, sets, rollout_spec, attached.now(), created)
        await _write(attached, found, new, status)
        if new is not None and is_complete(found, status):
            await _forget_history(attached, found, new, sets)
        waiting = deadline_in(found, status["conditions"], attached.now())
        return None if waiting is None else waiting + 1


def _rollout_spec(found: Object) -> RolloutSpec:
    spec = found["spec"]
    replicas, strategy = spec.get("replicas", 1), spec.get("strategy") or {}
    if strategy.get("type") == "Recreate":
        return RolloutSpec(replicas, recreate=True)
    rolling = strategy.get("rollingUpdate") or {}
    surge, unavailable = rollout.resolve(rolling.get("maxSurge", "25%"), rolling.get("maxUnavailable", "25%"), replicas)
    return RolloutSpec(replicas, surge, unavailable)


def group_of(found: Object) -> Group:
    status, notes = found.get("status") or {}, found["metadata"].get("annotations") or {}
    return Group(
        found["metadata"]["name"],
        found["spec"].get("replicas", 0),
        status.get("replicas", 0),
        # The status of a set that was just scaled down still includes pods that are about to be deleted.
        min(status.get("availableReplicas", 0), found["spec"].get("replicas", 0)),
        status.get("terminatingReplicas", 0),
        found["metadata"]["creationTimestamp"],
        templates.number(notes[templates.DESIRED]) if templates.DESIRED in notes else None,
        templates.number(notes[templates.MOST]) if templates.MOST in notes else None,
    )


def _may_create(found: Object, rollout_spec: RolloutSpec, sets: Sequence[Object]) -> bool:
    if found["spec"].get("paused"):
        return False
    old = [group_of(each) for each in sets]
    return not rollout_spec.recreate or (not any(group.wanted for group in old) and rollout.old_are_gone(old))


async def _create(attached: Attached, found: Object, rollout_spec: RolloutSpec, sets: Sequence[Object]) -> Object | None:
    size = rollout.first_size(rollout_spec, [group_of(each) for each in sets])
    revision = max((templates.revision_of(each) for each in sets), default=0) + 1
    collisions = (found.get("status") or {}).get("collisionCount", 0)
    wanted = templates.new_set(found, collisions, size, rollout_spec.most, revision)
    try:
        made = await attached.controllers.create(REPLICA_SETS, wanted)
    except AlreadyExists:
        status = {**(found.get("status") or {}), "collisionCount": collisions + 1}
        await patch_status(attached.controllers, DEPLOYMENTS, found, status)
        return None
    if size:
        _record_scaled(attached, found, made["metadata"]["name"], 0, size)
    return made


async def _record_revision(
    attached: Attached, found: Object, rollout_spec: RolloutSpec, new: Object, sets: Sequence[Object]
) -> Object:
    """Set revision and size annotations on the current set, which may be of an earlier rollout."""
    others = [each for each in sets if each["metadata"]["uid"] != new["metadata"]["uid"]]
    revision = max((templates.revision_of(each) for each in others), default=0) + 1
    present = new["metadata"].get("annotations") or {}
    # The size annotations are written when the set is scaled (`_resize`): until then the old ones show that the Deployment was
    # scaled.
    noted = templates.set_annotations(found, present, rollout_spec.most, revision)
    noted |= {name: present[name] for name in (templates.DESIRED, templates.MOST) if name in present}
    least = found["spec"].get("minReadySeconds", 0)
    changed = {**new, "metadata": {**new["metadata"], "annotations": noted}, "spec": {**new["spec"], "minReadySeconds": least}}
    return await patch_changes(attached.controllers, REPLICA_SETS, new, changed) or new


async def _resize(
    attached: Attached, found: Object, rollout_spec: RolloutSpec, new: Object | None, sets: Sequence[Object]
) -> list[Object]:
    uid = new["metadata"]["uid"] if new is not None else ""
    old = [group_of(each) for each in sets if each["metadata"]["uid"] != uid]
    fresh = group_of(new) if new is not None else None
    sizes: Sizes = {}
    if found["spec"].get("paused") or rollout.was_rescaled(rollout_spec, [*old, *([fresh] if fresh else [])]):
        sizes = rollout.rescale(rollout_spec, fresh, old)
    elif rollout_spec.recreate:
        sizes = rollout.recreate(rollout_spec, fresh, old)
    elif fresh is not None:
        sizes = rollout.roll(rollout_spec, fresh, old)
    result = []
    for each in sets:
        result.append(
            await _sized(attached, found, rollout_spec, each, sizes.get(each["metadata"]["name"], each["spec"].get("replicas", 0)))
        )
    return result


async def _sized(attached: Attached, found: Object, rollout_spec: RolloutSpec, each: Object, size: int) -> Object:
    """Scale a set, with annotations of the Deployment's size at that time."""
    before = each["spec"].get("replicas", 0)
    notes = dict(each["metadata"].get("annotations") or {})
    if size or before:
        notes |= {templates.DESIRED: str(rollout_spec.replicas), templates.MOST: str(rollout_spec.most)}
    changed = {**each, "metadata": {**each["metadata"], "annotations": notes}, "spec": {**each["spec"], "replicas": size}}
    try:
        written = await patch_changes(attached.controllers, REPLICA_SETS, each, changed)
    except (NotFound, Conflict):
        return each
    if size != before:
        _record_scaled(attached, found, each["metadata"]["name"], before, size)
    return written or each


def _record_scaled(attached: Attached, found: Object, name: str, before: int, size: int) -> None:
    direction = "up" if size > before else "down"
    text = f"Scaled {direction} replica set {name} from {before} to {size}"
    attached.events.event(found, "Normal", "ScalingReplicaSet", text)


async def _write(attached: Attached, found: Object, new: Object | None, status: Object) -> None:
    revision = templates.revision_of(new) if new is not None else 0
    try:
        if revision and revision != templates.revision_of(found):
            noted = {**(found["metadata"].get("annotations") or {}), templates.REVISION: str(revision)}
            changed = {**found, "metadata": {**found["metadata"], "annotations": noted}}
            await patch_changes(attached.controllers, DEPLOYMENTS, found, changed)
        await patch_status(attached.controllers, DEPLOYMENTS, found, status)
    except NotFound:
        return


async def _forget_history(attached: Attached, found: Object, new: Object, sets: Sequence[Object]) -> None:
    limit = found["spec"].get("revisionHistoryLimit", 10)
    old = [each for each in sets if each["metadata"]["uid"] != new["metadata"]["uid"] and not _in_use(each)]
    for each in sorted(old, key=templates.revision_of)[: max(len(old) - limit, 0)]:
        metadata = each["metadata"]
        try:
            await attached.controllers.delete(REPLICA_SETS, metadata["name"], metadata["namespace"], uid=metadata["uid"])
        except (NotFound, Conflict):
            continue


def _in_use(each: Object) -> bool:
    status = each.get("status") or {}
    outdated = status.get("observedGeneration", 0) < each["metadata"].get("generation", 0)
    return bool(each["spec"].get("replicas") or status.get("replicas") or outdated or each["metadata"].get("deletionTimestamp"))
