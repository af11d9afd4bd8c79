"""Pods of finished or deleted Jobs: their finalizer is removed, because no controller counts them any more."""

from __future__ import annotations

from collections.abc import Iterable

from muster.fleet.attached import Attached, Change, controller_of
from muster.fleet.workloads.jobs.conditions import is_finished
from muster.fleet.workloads.jobs.pods import is_tracked, untrack
from muster.fleet.workloads.jobs.spec import is_ours
from muster.machinery.objects import Object
from muster.runtime.client.builtin import JOBS, PODS


class JobOrphans:
    name = "pods of jobs"
    resources = (PODS, JOBS)

    def keys(self, attached: Attached, change: Change) -> Iterable[str]:
        if change.resource == PODS:
            return () if change.deleted or not is_tracked(change.versions()[0]) else (change.key,)
        namespace = change.key.partition("/")[0]
        if not change.deleted and not is_finished(change.versions()[0]):
            return ()
        pods = (pod for pod in attached.view.scan(PODS, namespace) if is_tracked(pod))
        return [f"{namespace}/{pod['metadata']['name']}" for pod in pods]

    async def reconcile(self, attached: Attached, key: str) -> float | None:
        pod = attached.view.read(PODS, key)
        if pod is not None and is_tracked(pod) and not _is_counted(attached, pod):
            await untrack(attached, [pod])
        return None


def _is_counted(attached: Attached, pod: Object) -> bool:
    """Whether a Job, or another controller, still counts the pod."""
    owner = controller_of(pod)
    if owner is None:
        return False
    if (owner.get("apiVersion"), owner.get("kind")) != (JOBS.api_version, JOBS.kind):
        return True
    job = attached.view.read(JOBS, f"{pod['metadata']['namespace']}/{owner['name']}")
    if job is None or job["metadata"]["uid"] != owner["uid"]:
        return False
    return not is_ours(job) or not is_finished(job)
