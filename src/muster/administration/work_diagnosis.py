"""The checks of `doctor` for a cluster's works: not reconciled, failed, stuck in deletion, or without running pods.

A work is available when its objects exist, whether or not a Deployment among them has a ready pod. So its workloads are checked if
there is a kubeconfig for the managed cluster, else the agent's feedback about them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any, Final

from muster.administration.content.work_status import one_line
from muster.administration.findings import NOTE, OK, PROBLEM, Diagnosis, Finding, Findings
from muster.administration.readiness import deployment_problem, pod_selector
from muster.api import MalformedObject, condition_of
from muster.api.work.v1 import ManifestCondition, ManifestWork
from muster.machinery.golang.durations import human_duration
from muster.machinery.golang.timestamps import parse_time
from muster.machinery.objects import Object
from muster.runtime.client import Forbidden, KubeClient, NotFound
from muster.runtime.client.builtin import DEPLOYMENTS, PODS
from muster.work.kinds import MANIFEST_WORKS
from muster.work.names import APPLIED, DELETING

UNATTENDED_SECONDS: Final = 60.0
HANGING_SECONDS: Final = 60.0
FEW: Final = 5
_SUBJECT: Final = "works"
_WAITS: Final = frozenset(("ContainerCreating", "PodInitializing"))


@dataclass(frozen=True)
class _Sorted:
    """Works by problem; the strings are names with the reason."""

    unattended: list[str]
    failed: list[str]
    hanging: list[ManifestWork]
    whole: list[ManifestWork]


async def works(diagnosis: Diagnosis) -> Findings:
    try:
        documents = (await diagnosis.hub.list(MANIFEST_WORKS, diagnosis.name)).items
    except NotFound:
        return
    found = _sort(diagnosis, documents)
    for work in found.hanging:
        yield _hanging(diagnosis, work)
    if found.unattended:
        text = f"{len(found.unattended)} of {len(documents)} not taken up by the work agent: {_few(found.unattended)}"
        yield Finding(PROBLEM, _SUBJECT, text, "does it run there? See its log")
    if found.failed:
        text = f"{len(found.failed)} of {len(documents)} cannot be applied: {_few(found.failed)}"
        yield Finding(NOTE, _SUBJECT, text, f"see get works --clusters {diagnosis.name} -o wide")
    idle = [finding async for finding in _without_pods(diagnosis, found.whole)]
    for finding in idle:
        yield finding
    if documents and not found.unattended and not found.failed and not found.hanging and not idle:
        yield Finding(OK, _SUBJECT, f"{len(documents)} applied")


def _sort(diagnosis: Diagnosis, documents: list[Object]) -> _Sorted:
    found = _Sorted([], [], [], [])
    for document in documents:
        name = document["metadata"]["name"]
        try:
            one = ManifestWork.decode(document)
        except MalformedObject as error:
            found.failed.append(f"{name} (cannot be read: {error})")
            continue
        deleted = one.metadata.deletion_timestamp
        applied = condition_of(one.status.conditions, APPLIED)
        if deleted:
            if _age(diagnosis, deleted) > HANGING_SECONDS:
                found.hanging.append(one)
        elif applied is None or applied.observed_generation != one.metadata.generation:
            if _age(diagnosis, one.metadata.creation_timestamp) > UNATTENDED_SECONDS:
                found.unattended.append(name)
        elif applied.status != "True":
            found.failed.append(name)
        else:
            found.whole.append(one)
    return found


def _age(diagnosis: Diagnosis, since: str) -> float:
    return (diagnosis.clock.now() - parse_time(since)).total_seconds()


def _hanging(diagnosis: Diagnosis, work: ManifestWork) -> Finding:
    name = work.metadata.name
    since = human_duration(max(_age(diagnosis, work.metadata.deletion_timestamp or ""), 0))
    deleting = condition_of(work.status.conditions, DELETING)
    leave = f"delete work {name} --clusters {diagnosis.name} --force leaves what was applied where it is"
    held = ", ".join(work.metadata.finalizers) or "nothing that is seen here"
    text = f"it has been in deletion for {since}, held by {held}"
    if deleting is not None and deleting.message:
        text += f": {one_line(deleting.message)}"
        return Finding(PROBLEM, f"work {name}", text, f"remove what blocks the object's deletion there (its finalizers); {leave}")
    if not diagnosis.available:
        return Finding(PROBLEM, f"work {name}", text, f"the agent removes it when the cluster is available again; {leave}")
    return Finding(PROBLEM, f"work {name}", text, f"does the work agent run there? See its log; {leave}")


async def _without_pods(diagnosis: Diagnosis, found: list[ManifestWork]) -> AsyncIterator[Finding]:
    for work in found:
        for manifest in work.status.resource_status.manifests:
            meta = manifest.resource_meta
            if (meta.group, meta.resource) != (DEPLOYMENTS.group, DEPLOYMENTS.plural):
                continue
            problem, remedy = await _deployment(diagnosis, manifest)
            if problem:
                yield Finding(PROBLEM, f"work {work.metadata.name}", problem, remedy)


async def _deployment(diagnosis: Diagnosis, manifest: ManifestCondition) -> tuple[str, str]:
    meta = manifest.resource_meta
    where = f"Deployment {meta.namespace}/{meta.name}"
    command = f"on the cluster: kubectl -n {meta.namespace} describe deployment {meta.name}"
    if diagnosis.managed is None:
        values = {one.name: one.field_value.integer for one in manifest.status_feedback.values}
        ready, wanted = values.get("ReadyReplicas"), values.get("Replicas")
        if wanted and not ready:
            return f"{where} has no ready pod of {wanted}, as the agent reports", f"{command}; or give --managed-cluster-kubeconfig"
        return "", ""
    try:
        deployment = await diagnosis.managed.get(DEPLOYMENTS, meta.name, meta.namespace)
    except NotFound:
        return f"{where} is not there", "the work agent creates it: see its log"
    except Forbidden:
        return "", ""
    problem = deployment_problem(deployment)
    if not problem:
        return "", ""
    why = await _pod_problem(diagnosis.managed, deployment)
    return f"{problem}{f': {why}' if why else ''}", command


async def _pod_problem(managed: KubeClient, deployment: Object) -> str:
    """The problem of its first pod that waits or has failed."""
    selector = pod_selector(deployment)
    if not selector:
        return ""
    try:
        pods = (await managed.list(PODS, deployment["metadata"]["namespace"], label_selector=selector)).items
    except Forbidden:
        return ""
    return next((problem for pod in pods for problem in pod_problems(pod)), "")


def pod_problems(pod: Object) -> Iterator[str]:
    """The pod's problems in words: waiting containers, terminated ones, and why it is not scheduled."""
    name, status = pod["metadata"]["name"], pod.get("status") or {}
    for one in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        state: dict[str, Any] = one.get("state") or {}
        waiting = state.get("waiting") or {}
        ended = state.get("terminated") or (one.get("lastState") or {}).get("terminated") or {}
        if waiting.get("reason") and waiting["reason"] not in _WAITS:
            why = one_line(str(waiting.get("message") or ended.get("message") or ""))
            yield f"pod {name}: {waiting['reason']}{f': {why}' if why else ''}"
        elif ended.get("exitCode"):
            yield f"pod {name}: container {one['name']} ended with {ended['exitCode']}"
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            yield f"pod {name}: not scheduled: {one_line(str(condition.get('message') or condition.get('reason') or ''))}"


def _few(names: list[str]) -> str:
    """The first names, and the number of the others."""
    shown = ", ".join(sorted(names)[:FEW])
    return f"{shown} and {len(names) - FEW} more" if len(names) > FEW else shown
