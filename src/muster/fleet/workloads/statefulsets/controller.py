"""StatefulSets: one pod for each ordinal, created and deleted in order (or at once, with podManagementPolicy Parallel).

A pass finds the current and the update revision, goes through the ordinals until one has to be waited for, then through the surplus
pods, and only when all are as wanted replaces one pod of the old revision, the highest ordinal first. Scaling comes before
updating, and unready pods are waited for, so a broken update stops the set.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from muster.fleet.attached import Attached, Change, owner_keys
from muster.fleet.workloads import podstate
from muster.fleet.workloads.claims import claim
from muster.fleet.workloads.podcontrol import keys_of_owned, owned, selector_of
from muster.fleet.workloads.revisions import (
    HASH_LABEL,
    claimed_revisions,
    create_revision,
    forget_revisions,
    keeps,
    renumber,
    template_of,
)
from muster.fleet.workloads.statefulsets.claims import ClaimBeingDeleted, apply_retention, create_missing_claims, is_stale
from muster.fleet.workloads.statefulsets.identity import (
    POD_NAME,
    first_ordinal,
    identity_labels,
    new_pod,
    ordinal_of,
    ordinals,
)
from muster.machinery.objects import Object
from muster.runtime.client import AlreadyExists, Conflict, NotFound, StatusError, patch_status
from muster.runtime.client.builtin import CONTROLLER_REVISIONS, PERSISTENT_VOLUME_CLAIMS, PODS, STATEFUL_SETS

REVISION_HASH = "controller.kubernetes.io/hash"


@dataclass(slots=True)
class _Pass:
    attached: Attached
    found: Object
    current: Object
    """The revision of pods before an update, and the one after it."""
    update: Object
    pods: dict[int, Object]
    now: datetime

    @property
    def in_order(self) -> bool:
        return bool(self.found["spec"].get("podManagementPolicy") != "Parallel")

    @property
    def least_seconds(self) -> int:
        return int(self.found["spec"].get("minReadySeconds", 0))

    def is_available(self, pod: Object) -> bool:
        return podstate.available_in(pod, self.least_seconds, self.now) == 0.0

    def is_unavailable(self, pod: Object | None) -> bool:
        return pod is None or not self.is_available(pod) or bool(pod["metadata"].get("deletionTimestamp"))


class StatefulSets:
    name = "statefulsets"
    resources = (STATEFUL_SETS, PODS, CONTROLLER_REVISIONS, PERSISTENT_VOLUME_CLAIMS)

    def keys(self, attached: Attached, change: Change) -> Iterable[str]:
        if change.resource == STATEFUL_SETS:
            return (change.key,)
        if change.resource == PODS:
            return keys_of_owned(attached, change, STATEFUL_SETS)
        if change.resource == CONTROLLER_REVISIONS:
            return owner_keys(change, "StatefulSet") if change.deleted else ()
        return _waiting_for_claim(attached, change) if change.deleted else ()

    async def reconcile(self, attached: Attached, key: str) -> float | None:
        found = attached.view.read(STATEFUL_SETS, key)
        if found is None:
            return None
        revisions = await claimed_revisions(attached, found, STATEFUL_SETS)
        pods = await self._pods(attached, found)
        current, update, collisions = await _revisions(attached, found, revisions)
        step = _Pass(attached, found, current, update, {ordinal_of(pod, found): pod for pod in pods}, attached.now())
        problem = None
        if not found["metadata"].get("deletionTimestamp"):
            try:
                await _proceed(step)
            except (StatusError, ClaimBeingDeleted) as error:
                problem = error
        pods = [pod for pod in attached.view.scan(PODS, found["metadata"]["namespace"]) if owned(pod, found)]
        status = status_of(step, [pod for pod in pods if ordinal_of(pod, found) >= 0], collisions)
        try:
            await patch_status(attached.controllers, STATEFUL_SETS, found, status)
        except NotFound:
            return None
        live = {pod["metadata"].get("labels", {}).get(HASH_LABEL, "") for pod in pods}
        live |= {current["metadata"]["name"], update["metadata"]["name"]}
        await forget_revisions(attached, revisions, live, found["spec"].get("revisionHistoryLimit", 10))
        if problem is not None:
            raise problem
        waits = [podstate.available_in(pod, step.least_seconds, step.now) for pod in pods if step.least_seconds]
        return min((wait for wait in waits if wait), default=None)

    async def _pods(self, attached: Attached, found: Object) -> list[Object]:
        scanned = attached.view.scan(PODS, found["metadata"]["namespace"])
        candidates = [pod for pod in scanned if ordinal_of(pod, found) >= 0]
        return await claim(attached.controllers, found, STATEFUL_SETS, PODS, selector_of(found), candidates)


def _waiting_for_claim(attached: Attached, change: Change) -> list[str]:
    """Sets with a pod that can be created now that a claim of its name is deleted."""
    namespace, _, name = change.key.partition("/")
    sets = attached.view.scan(STATEFUL_SETS, namespace)
    return [f"{namespace}/{each['metadata']['name']}" for each in sets if f"-{each['metadata']['name']}-" in name]


async def _revisions(attached: Attached, found: Object, known: list[Object]) -> tuple[Object, Object, int]:
    """The current revision, the update revision, and the number of name collisions."""
    status, template = found.get("status") or {}, found["spec"]["template"]
    collisions = status.get("collisionCount", 0)
    following = known[-1]["revision"] + 1 if known else 1
    equal = [revision for revision in known if keeps(revision, template)]
    if equal and equal[-1] is known[-1]:
        update = known[-1]
    elif equal:
        update = await renumber(attached, equal[-1], following)
    else:
        update, collisions = await create_revision(
            attached, found, STATEFUL_SETS, following, collisions, lambda suffix: {REVISION_HASH: suffix}
        )
    named = (each for each in known if each["metadata"]["name"] == status.get("currentRevision"))
    return next(named, update), update, collisions


async def _proceed(step: _Pass) -> None:
    """Go as far as possible; returning early means waiting."""
    found = step.found
    wanted = ordinals(found)
    condemned = sorted((ordinal for ordinal in step.pods if ordinal not in wanted), reverse=True)
    unhealthy = [ordinal for ordinal in (*wanted, *reversed(condemned)) if step.is_unavailable(step.pods.get(ordinal))]
    for ordinal in wanted:
        if await _keep(step, ordinal) and step.in_order:
            return
    for ordinal in condemned:
        await apply_retention(step.attached, found, step.pods[ordinal])
    for ordinal in condemned:
        if await _condemn(step, ordinal, unhealthy[:1] == [ordinal]) and step.in_order:
            return
    strategy = found["spec"].get("updateStrategy") or {}
    if strategy.get("type") == "OnDelete":
        return
    partition = (strategy.get("rollingUpdate") or {}).get("partition", 0)
    for ordinal in reversed(wanted[partition:]):
        pod = step.pods.get(ordinal)
        if pod is None:
            return
        if revision_of(pod) != step.update["metadata"]["name"] and not pod["metadata"].get("deletionTimestamp"):
            await _delete(step, pod)
            return
        if step.is_unavailable(pod):
            return


def revision_of(pod: Object) -> str:
    return str((pod["metadata"].get("labels") or {}).get(HASH_LABEL, ""))


async def _keep(step: _Pass, ordinal: int) -> bool:
    """Reconcile the pod of an ordinal; returns whether it has to be waited for."""
    attached, found, pod = step.attached, step.found, step.pods.get(ordinal)
    if pod is None:
        await _create(step, ordinal)
        return True
    status, name = pod.get("status") or {}, pod["metadata"]["name"]
    leaving = bool(pod["metadata"].get("deletionTimestamp"))
    if status.get("phase") in podstate.FINISHED:
        if not leaving:
            await _delete(step, pod)
        return True
    if status.get("phase") == "Pending":
        await create_missing_claims(attached, found, name, ordinal)
        await apply_retention(attached, found, pod)
    if step.in_order and (leaving or not step.is_available(pod)):
        return True
    changed = await apply_retention(attached, found, pod)
    if (pod["metadata"].get("labels") or {}).get(POD_NAME) != name:
        patch = {"metadata": {"uid": pod["metadata"]["uid"], "labels": identity_labels(name, ordinal)}}
        await attached.controllers.patch(PODS, name, patch, pod["metadata"]["namespace"])
        changed = True
    if changed:
        _record_event(step, "Update", name)
    return False


async def _create(step: _Pass, ordinal: int) -> None:
    attached, found = step.attached, step.found
    name = f"{found['metadata']['name']}-{ordinal}"
    if is_stale(attached, found, name, ordinal):
        return
    try:
        await create_missing_claims(attached, found, name, ordinal)
        revision = step.current if _stays_behind(found, ordinal) else step.update
        template = template_of(revision) or found["spec"]["template"]
        wanted = new_pod(found, template, ordinal, revision["metadata"]["name"])
        pod = await attached.controllers.create(PODS, wanted, found["metadata"]["namespace"])
        await apply_retention(attached, found, pod)
    except AlreadyExists:
        raise  # another owner's pod has the name: retried with backoff
    except (StatusError, ClaimBeingDeleted) as problem:
        _record_event(step, "Create", name, problem)
        raise
    _record_event(step, "Create", name)


def _stays_behind(found: Object, ordinal: int) -> bool:
    """Whether a pod that is created now gets the revision before the update."""
    rolling = (found["spec"].get("updateStrategy") or {}).get("rollingUpdate")
    return rolling is not None and ordinal < first_ordinal(found) + rolling.get("partition", 0)


async def _condemn(step: _Pass, ordinal: int, is_first_unhealthy: bool) -> bool:
    """Delete a surplus pod; returns whether the next one has to wait."""
    pod = step.pods[ordinal]
    if pod["metadata"].get("deletionTimestamp"):
        return True
    if step.in_order and not step.is_available(pod) and not is_first_unhealthy:
        return True
    await _delete(step, pod)
    return True


async def _delete(step: _Pass, pod: Object) -> None:
    metadata = pod["metadata"]
    try:
        await step.attached.controllers.delete(PODS, metadata["name"], metadata["namespace"], uid=metadata["uid"])
    except (NotFound, Conflict):
        return
    except StatusError as problem:
        _record_event(step, "Delete", metadata["name"], problem)
        raise
    _record_event(step, "Delete", metadata["name"])


def _record_event(step: _Pass, verb: str, pod: str, problem: Exception | None = None) -> None:
    text = f"{verb} Pod {pod} in StatefulSet {step.found['metadata']['name']}"
    if problem is None:
        step.attached.events.event(step.found, "Normal", f"Successful{verb}", f"{text} successful")
    else:
        step.attached.events.event(step.found, "Warning", f"Failed{verb}", f"{text} failed error: {problem}")


def status_of(step: _Pass, pods: list[Object], collisions: int) -> Object:
    found, wanted = step.found, len(ordinals(step.found))
    current, update = step.current["metadata"]["name"], step.update["metadata"]["name"]
    ready = [pod for pod in pods if (pod.get("status") or {}).get("phase") == "Running" and podstate.is_ready(pod)]
    staying = [revision_of(pod) for pod in pods if not pod["metadata"].get("deletionTimestamp")]
    numbers = {
        "readyReplicas": len(ready),
        "currentReplicas": staying.count(current),
        "updatedReplicas": staying.count(update),
    }
    strategy = (found["spec"].get("updateStrategy") or {}).get("type", "RollingUpdate")
    if strategy == "RollingUpdate" and numbers["updatedReplicas"] == len(ready) == len(pods) == wanted:
        current = update
        numbers["currentReplicas"] = numbers["updatedReplicas"]
    conditions = (found.get("status") or {}).get("conditions")
    return {
        "observedGeneration": found["metadata"].get("generation", 0),
        "replicas": len(pods),
        **{name: number for name, number in numbers.items() if number},
        "availableReplicas": sum(map(step.is_available, ready)),
        "currentRevision": current,
        "updateRevision": update,
        "collisionCount": collisions,
        **({"conditions": conditions} if conditions else {}),
    }
