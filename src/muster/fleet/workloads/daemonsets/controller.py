"""The controller of DaemonSets: it executes the decisions of `rollout`, and writes the number of nodes by state to the status."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from muster.fleet.attached import Attached, Change, owner_keys
from muster.fleet.workloads import podstate
from muster.fleet.workloads.claims import claim
from muster.fleet.workloads.daemonsets.nodes import by_node, is_updated, new_pod, should_run
from muster.fleet.workloads.daemonsets.rollout import Available, PodsByNode, Step, keep_one_each, roll
from muster.fleet.workloads.podcontrol import create_pod, delete_pod, keys_of_owned, owned, selector_of
from muster.fleet.workloads.revisions import (
    HASH_LABEL,
    claimed_revisions,
    create_revision,
    forget_revisions,
    keeps,
    renumber,
)
from muster.machinery.objects import Object
from muster.runtime.client import NotFound, StatusError, patch_status
from muster.runtime.client.builtin import CONTROLLER_REVISIONS, DAEMON_SETS, NODES, PODS

BURST = 250
"""Limit of pods created or deleted in one pass."""
FIRST_DELAY, LONGEST_DELAY = 1.0, 900.0
"""Seconds until a node's failed pod is deleted again (backoff)."""


class DaemonSets:
    name = "daemonsets"
    resources = (DAEMON_SETS, PODS, NODES, CONTROLLER_REVISIONS)

    def __init__(self) -> None:
        self._failures: dict[tuple[str, str], dict[tuple[str, int], tuple[float, float]]] = {}
        """By cluster and key, then by node and generation: the backoff, and since when."""

    def keys(self, attached: Attached, change: Change) -> Iterable[str]:
        if change.resource == DAEMON_SETS:
            return (change.key,)
        if change.resource == PODS:
            return keys_of_owned(attached, change, DAEMON_SETS)
        if change.resource == CONTROLLER_REVISIONS:
            return owner_keys(change, "DaemonSet") if change.deleted else ()
        sets = attached.view.scan(DAEMON_SETS) if _matters(change) else ()
        return [f"{each['metadata']['namespace']}/{each['metadata']['name']}" for each in sets]

    async def reconcile(self, attached: Attached, key: str) -> float | None:
        found = attached.view.read(DAEMON_SETS, key)
        if found is None:
            self._failures.pop((attached.name, key), None)
            return None
        if found["metadata"].get("deletionTimestamp"):
            return None
        if not any((found["spec"].get("selector") or {}).values()):
            text = "This daemon set is selecting all pods. A non-empty selector is required."
            attached.events.event(found, "Warning", "SelectingAll", text)
            return None
        candidates = list(attached.view.scan(PODS, found["metadata"]["namespace"]))
        await claim(attached.controllers, found, DAEMON_SETS, PODS, selector_of(found), candidates)
        current, old, collisions = await _revisions(attached, found)
        suffix = current["metadata"]["labels"][HASH_LABEL]
        problem: StatusError | None = None
        again: float | None = None
        try:
            again = await self._proceed(attached, key, found, suffix)
            pods = _pods_of(attached, found)
            live = {(pod["metadata"].get("labels") or {}).get(HASH_LABEL) for pod in pods}
            names = {each["metadata"]["name"] for each in old if _suffix(each) in live}
            await forget_revisions(attached, old, names, max(found["spec"].get("revisionHistoryLimit", 10) - len(names), 0))
        except StatusError as error:
            problem = error
        await _write_status(attached, found, suffix, collisions)
        if problem is not None:
            raise problem
        waits = _waits(attached, found)
        return min((wait for wait in (again, *waits) if wait), default=None)

    async def _proceed(self, attached: Attached, key: str, found: Object, suffix: str) -> float | None:
        """One step; returns the seconds until a failed pod may be deleted, if that is waited for."""
        nodes = sorted(attached.view.scan(NODES), key=lambda node: str(node["metadata"]["name"]))
        pods, available = by_node(_pods_of(attached, found)), _availability(attached, found)
        step = keep_one_each(found, nodes, pods, suffix, available)
        again = self._delete_ended(attached, key, found, step)
        if await _take(attached, found, suffix, step):
            return again
        if (found["spec"].get("updateStrategy") or {}).get("type") != "OnDelete":
            await _take(attached, found, suffix, roll(found, nodes, pods, suffix, available))
        return again

    def _delete_ended(self, attached: Attached, key: str, found: Object, step: Step) -> float | None:
        """Mark ended pods for deletion; failed ones with backoff."""
        failures = self._failures.setdefault((attached.name, key), {})
        generation, now = (found.get("status") or {}).get("observedGeneration", 0), attached.now().timestamp()
        again: float | None = None
        for node, pod in step.ended:
            name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']} on node {node}"
            if pod["status"]["phase"] == "Succeeded":
                text = f"Found succeeded daemon pod {name}, will try to delete it"
                attached.events.event(found, "Normal", "SucceededDaemonPod", text)
                step.delete.append(pod)
                continue
            delay, since = failures.get((node, generation), (0.0, 0.0))
            if now - since < delay:
                left = delay - (now - since)
                again = left if again is None else min(again, left)
                continue
            forgiven = now - since > 2 * LONGEST_DELAY
            failures[node, generation] = (FIRST_DELAY if not delay or forgiven else min(2 * delay, LONGEST_DELAY), now)
            text = f"Found failed daemon pod {name}, will try to kill it"
            attached.events.event(found, "Warning", "FailedDaemonPod", text)
            step.delete.append(pod)
        return again


def _matters(change: Change) -> bool:
    """Whether a node was added, deleted, or changed in a field that decides which pods run on it."""
    versions = change.versions()
    return len(versions) < 2 or change.deleted or _traits(versions[0]) != _traits(versions[1])


def _traits(node: Object) -> tuple[object, ...]:
    return node["metadata"].get("labels"), node.get("spec"), podstate.is_ready(node)


def _pods_of(attached: Attached, found: Object) -> list[Object]:
    return [pod for pod in attached.view.scan(PODS, found["metadata"]["namespace"]) if owned(pod, found)]


def _availability(attached: Attached, found: Object) -> Available:
    least, now = found["spec"].get("minReadySeconds", 0), attached.now()
    return lambda pod: podstate.available_in(pod, least, now) == 0.0


def _waits(attached: Attached, found: Object) -> list[float | None]:
    least, now = found["spec"].get("minReadySeconds", 0), attached.now()
    return [podstate.available_in(pod, least, now) for pod in _pods_of(attached, found)] if least else []


async def _take(attached: Attached, found: Object, suffix: str, step: Step) -> bool:
    """Execute the step; returns whether it did anything: then its events trigger the next pass."""
    for node in step.create[:BURST]:
        await create_pod(attached, found, new_pod(found, node, suffix))
    for pod in step.delete[:BURST]:
        await delete_pod(attached, found, pod)
    return bool(step)


def _suffix(revision: Object) -> str:
    return str((revision["metadata"].get("labels") or {}).get(HASH_LABEL, ""))


async def _revisions(attached: Attached, found: Object) -> tuple[Object, Sequence[Object], int]:
    """The current revision, the earlier ones, and the number of name collisions."""
    known = await claimed_revisions(attached, found, DAEMON_SETS)
    known = [await _with_hash(attached, each) for each in known]
    current = [each for each in known if keeps(each, found["spec"]["template"])]
    old = [each for each in known if each not in current]
    number = max((each["revision"] for each in old), default=0) + 1
    collisions = (found.get("status") or {}).get("collisionCount", 0)
    if not current:
        made, collisions = await create_revision(
            attached, found, DAEMON_SETS, number, collisions, lambda suffix: {HASH_LABEL: suffix}
        )
        return await _with_hash(attached, made), old, collisions
    *duplicates, newest = current
    for each in duplicates:
        await _fold(attached, found, each, newest)
    if newest["revision"] < number:
        newest = await renumber(attached, newest, number)
    return newest, old, collisions


async def _with_hash(attached: Attached, revision: Object) -> Object:
    if _suffix(revision):
        return revision
    metadata = revision["metadata"]
    patch = {"metadata": {"labels": {HASH_LABEL: metadata["name"]}}}
    return await attached.controllers.patch(CONTROLLER_REVISIONS, metadata["name"], patch, metadata["namespace"])


async def _fold(attached: Attached, found: Object, duplicate: Object, kept: Object) -> None:
    """Merge two revisions with the same template; pods are relabelled."""
    for pod in _pods_of(attached, found):
        if (pod["metadata"].get("labels") or {}).get(HASH_LABEL) == _suffix(duplicate):
            patch = {"metadata": {"uid": pod["metadata"]["uid"], "labels": {HASH_LABEL: _suffix(kept)}}}
            await attached.controllers.patch(PODS, pod["metadata"]["name"], patch, pod["metadata"]["namespace"])
    await forget_revisions(attached, [duplicate], (), 0)


async def _write_status(attached: Attached, found: Object, suffix: str, collisions: int) -> None:
    status = status_of(
        found, list(attached.view.scan(NODES)), by_node(_pods_of(attached, found)), suffix, _availability(attached, found)
    )
    if collisions:
        status["collisionCount"] = collisions
    if conditions := (found.get("status") or {}).get("conditions"):
        status["conditions"] = conditions
    try:
        await patch_status(attached.controllers, DAEMON_SETS, found, status)
    except NotFound:
        return


def status_of(found: Object, nodes: Sequence[Object], pods: PodsByNode, suffix: str, available: Available) -> Object:
    wanted = {node["metadata"]["name"] for node in nodes if should_run(found, node)[0]}
    known = {node["metadata"]["name"] for node in nodes}
    oldest = {name: there[0] for name, there in pods.items() if name in wanted}
    working = sum(podstate.is_ready(pod) and available(pod) for pod in oldest.values())
    status = {
        "currentNumberScheduled": len(oldest),
        "numberMisscheduled": len((known & pods.keys()) - wanted),
        "desiredNumberScheduled": len(wanted),
        "numberReady": sum(map(podstate.is_ready, oldest.values())),
        "observedGeneration": found["metadata"].get("generation", 0),
    }
    optional = {
        "updatedNumberScheduled": sum(is_updated(found, pod, suffix) for pod in oldest.values()),
        "numberAvailable": working,
        "numberUnavailable": len(wanted) - working,
    }
    return {**status, **{name: number for name, number in optional.items() if number}}
