"""Jobs, CronJobs, StatefulSets, DaemonSets and ReplicationControllers beside the real controllers: the same steps, the same states
and the same Events.

Hashes, names, uids and times are masked.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.client import MERGE_PATCH, STRATEGIC_PATCH
from tests.support.parity import APPS, BATCH, CORE, Play, played, shown, shown_pod, side_by_side
from tests.support.planes import ControlPlane

pytestmark = [pytest.mark.kube, pytest.mark.timeout(300)]
CONTROLLERS = (
    "job-controller",
    "cronjob-controller",
    "ttl-after-finished-controller",
    "statefulset-controller",
    "daemonset-controller",
    "replicationcontroller-controller",
)
TIMES = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S*")
UIDS = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
GENERATED = re.compile(r"\b((?:sum|agent|web)(?:-\d)?)-[a-z0-9]{5}\b")
SCHEDULED = re.compile(r"\bnightly-\d{8}(?:-[a-z0-9]{5})?\b")
NODES = ("far", "near")


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ControlPlane, ControlPlane]]:
    yield from side_by_side(tmp_path_factory.mktemp, CONTROLLERS)


class ControllerPlay(Play):
    def make(self, prefix: str, plural: str, kind: str, name: str, spec: dict[str, Any]) -> None:
        group = prefix.rpartition("/apis/")[2] if "/apis/" in prefix else "v1"
        body = {"apiVersion": group, "kind": kind, "metadata": {"name": name, "annotations": {"a": "b"}}, "spec": spec}
        self.client.post(self.path(prefix, plural), body).expect(201)

    def change(self, prefix: str, plural: str, name: str, spec: dict[str, Any]) -> None:
        self.client.patch(self.path(prefix, plural, name), {"spec": spec}, STRATEGIC_PATCH).expect(200)

    def job(self, policy: str = "Never", **spec: Any) -> None:
        template = {"spec": pod_spec(restartPolicy=policy)}
        self.make(BATCH, "jobs", "Job", "sum", {"template": template, **spec})

    def stateful_set(self, **spec: Any) -> None:
        template = {"metadata": {"labels": {"app": "db"}}, "spec": pod_spec()}
        wanted = {"serviceName": "db", "selector": {"matchLabels": {"app": "db"}}, "template": template, **spec}
        self.make(APPS, "statefulsets", "StatefulSet", "db", wanted)

    def daemon_set(self, **spec: Any) -> None:
        """On the two nodes that both planes have, and that nobody runs."""
        for node in NODES:
            self.client.post(f"{CORE}/nodes", {"metadata": {"name": node}}).expect(201, 409)
            labels = {"metadata": {"labels": {"pool": "parity"}}}
            self.client.patch(f"{CORE}/nodes/{node}", labels, MERGE_PATCH).expect(200)
        # A real server taints nodes of which nobody has said that they are ready.
        pod = pod_spec(nodeSelector={"pool": "parity"}, tolerations=[{"operator": "Exists"}])
        template = {"metadata": {"labels": {"app": "agent"}}, "spec": pod}
        wanted = {"selector": {"matchLabels": {"app": "agent"}}, "template": template, **spec}
        self.make(APPS, "daemonsets", "DaemonSet", "agent", wanted)

    def end(self, code: int, *, at_most: int = 100, index: str | None = None) -> None:
        """Containers of pods that run end with the code."""
        for pod in self.items(CORE, "pods")[:]:
            meta = pod["metadata"]
            theirs = (meta.get("annotations") or {}).get("batch.kubernetes.io/job-completion-index")
            running = (pod.get("status") or {}).get("phase") in ("Pending", "Running") and not meta.get("deletionTimestamp")
            if not running or index not in (None, theirs) or at_most <= 0:
                continue
            at_most -= 1
            now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            ended = {"exitCode": code, "reason": "Error" if code else "Completed", "startedAt": now, "finishedAt": now}
            names = {"image": "example/app:1", "imageID": "", "ready": False, "restartCount": 0}
            container = {"name": "c", **names, "state": {"terminated": ended}}
            status = {"phase": "Failed" if code else "Succeeded", "containerStatuses": [container]}
            self.client.patch(self.path(CORE, "pods", f"{meta['name']}/status"), {"status": status}).expect(200)

    def state(self) -> Any:
        state = {
            "jobs": [shown(each) for each in self.items(BATCH, "jobs")],
            "cronjobs": [shown(each) for each in self.items(BATCH, "cronjobs")],
            "sets": [shown(each) for each in self.items(APPS, "statefulsets")],
            "daemons": [shown(each) for each in self.items(APPS, "daemonsets")],
            "controllers": [shown(each) for each in self.items(CORE, "replicationcontrollers")],
            "revisions": [shown_revision(each) for each in self.items(APPS, "controllerrevisions")],
            "claims": [shown(each) for each in self.items(CORE, "persistentvolumeclaims")],
            "pods": [[each["metadata"].get("finalizers"), *shown_pod(each), each["spec"]] for each in self.items(CORE, "pods")],
            "events": self.events(),
        }
        hashes = {each["metadata"]["name"].rpartition("-")[2]: "…" for each in self.items(APPS, "controllerrevisions")}
        return {kind: sorted(each, key=str) for kind, each in masked(state, hashes).items()}

    def events(self) -> list[Any]:
        """What was told of the objects that have controllers, once each."""
        told = [each for each in self.items(CORE, "events") if each["involvedObject"]["kind"] != "Pod"]
        unique = {(each["type"], each["reason"], cleaned(each["message"])) for each in told if LOST_RACE not in each["message"]}
        return [list(each) for each in unique]


LOST_RACE = "the object has been modified"
"""Another of the real controllers wrote first; that this one tries again is seen by what comes of it."""


def pod_spec(**spec: Any) -> dict[str, Any]:
    return {"containers": [{"name": "c", "image": "example/app:1"}], "schedulerName": "nobody", **spec}


def shown_revision(obj: dict[str, Any]) -> Any:
    kept = shown({**obj, "spec": None})
    return [kept["labels"], kept["annotations"], kept["owners"], obj["revision"], obj["data"]]


def cleaned(text: str) -> str:
    for pattern, replacement in ((UIDS, "<uid>"), (TIMES, "<time>"), (GENERATED, r"\1-…"), (SCHEDULED, "nightly-…")):
        text = pattern.sub(replacement, text)
    return text


def masked(state: Any, hashes: dict[str, str]) -> Any:
    """Without times, uids, generated names and hashes; what is mounted for service accounts differs by its name only."""
    if isinstance(state, dict):
        return {key: masked(value, hashes) for key, value in state.items() if key not in ("creationTimestamp", "resourceVersion")}
    if isinstance(state, list):
        return [masked(each, hashes) for each in state]
    if isinstance(state, str):
        for found, name in hashes.items():
            state = state.replace(found, name)
        if state in NODES:
            return "<node>"  # which comes first is up to Go's maps
        return re.sub(r"kube-api-access-[a-z0-9]{5}", "kube-api-access-…", cleaned(state))
    return state


def completing(play: ControllerPlay) -> None:
    play.job(completions=3, parallelism=2)
    play.settle()
    play.ready()
    play.settle()
    play.end(0, at_most=1)
    play.settle()
    play.end(0)
    play.settle()


def working_a_queue(play: ControllerPlay) -> None:
    play.job(parallelism=2)
    play.settle()
    play.end(0, at_most=1)
    play.settle()
    play.end(0)
    play.settle()


def failing(play: ControllerPlay) -> None:
    play.job(backoffLimit=0, parallelism=2, completions=2)
    play.settle()
    play.end(1, at_most=1)
    play.settle()


def restarting_too_often(play: ControllerPlay) -> None:
    play.job("OnFailure", backoffLimit=1)
    play.settle()
    for pod in play.items(CORE, "pods"):
        state = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
        container = {"name": "c", "image": "example/app:1", "imageID": "", "ready": True, "restartCount": 1, "state": state}
        status = {"phase": "Running", "containerStatuses": [container]}
        play.client.patch(play.path(CORE, "pods", f"{pod['metadata']['name']}/status"), {"status": status}).expect(200)
    play.settle()


def indexing(play: ControllerPlay) -> None:
    play.job(completionMode="Indexed", completions=4, parallelism=3)
    play.settle()
    play.end(0, index="2")
    play.settle()
    play.end(0, index="0")
    play.end(0, index="1")
    play.settle()
    play.end(0)
    play.settle()


def failing_by_index(play: ControllerPlay) -> None:
    play.job(completionMode="Indexed", completions=3, parallelism=3, backoffLimitPerIndex=0, maxFailedIndexes=2)
    play.settle()
    play.end(1, index="1")
    play.settle()
    play.end(0)
    play.settle()


def succeeding_by_policy(play: ControllerPlay) -> None:
    rules = [{"succeededIndexes": "0-1", "succeededCount": 1}]
    play.job(completionMode="Indexed", completions=3, parallelism=3, successPolicy={"rules": rules})
    play.settle()
    play.end(0, index="1")
    play.settle()


def failing_by_policy(play: ControllerPlay) -> None:
    rules = [
        {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [7]}},
        {"action": "FailJob", "onExitCodes": {"containerName": "c", "operator": "NotIn", "values": [1, 7]}},
    ]
    play.job(podFailurePolicy={"rules": rules}, completions=2, parallelism=2)
    play.settle()
    play.end(7, at_most=1)
    play.settle()
    play.end(42, at_most=1)
    play.settle()


def suspending(play: ControllerPlay) -> None:
    play.job(suspend=True, completions=2, parallelism=2)
    play.settle()
    play.change(BATCH, "jobs", "sum", {"suspend": False})
    play.settle()
    play.end(0, at_most=1)
    play.settle()
    play.change(BATCH, "jobs", "sum", {"suspend": True})
    play.settle()


def running_late(play: ControllerPlay) -> None:
    play.job(activeDeadlineSeconds=2)
    play.settle()
    time.sleep(3)
    play.settle()


def changing_parallelism(play: ControllerPlay) -> None:
    play.job(completions=5, parallelism=3)
    play.settle()
    play.bind()
    play.change(BATCH, "jobs", "sum", {"parallelism": 1})
    play.settle()
    play.finish()
    play.settle()
    play.change(BATCH, "jobs", "sum", {"parallelism": 2})
    play.settle()


def expiring(play: ControllerPlay) -> None:
    play.job(ttlSecondsAfterFinished=2)
    play.settle()
    play.end(0)
    time.sleep(4)
    play.settle()


def refusing_pods(play: ControllerPlay) -> None:
    template = {"spec": pod_spec(restartPolicy="Never", serviceAccountName="nobody")}
    play.make(BATCH, "jobs", "Job", "sum", {"template": template})
    play.settle()


def scheduling(play: ControllerPlay) -> None:
    template = {"metadata": {"labels": {"x": "y"}}, "spec": {"template": {"spec": pod_spec(restartPolicy="Never")}}}
    spec = {"schedule": "0 0 1 1 *", "suspend": True, "concurrencyPolicy": "Forbid", "jobTemplate": template}
    play.make(BATCH, "cronjobs", "CronJob", "nightly", {**spec, "timeZone": "Etc/UTC"})
    play.settle()
    # As if it had last run yesterday; the next time but this is hours away.
    now = datetime.now(UTC)
    before, due = now - timedelta(hours=24), now - timedelta(minutes=10)
    past = {"status": {"lastScheduleTime": before.strftime("%Y-%m-%dT%H:%M:%SZ")}}
    play.client.patch(play.path(BATCH, "cronjobs", "nightly/status"), past).expect(200)
    play.change(BATCH, "cronjobs", "nightly", {"schedule": f"{due.minute} {due.hour} * * *"})
    play.change(BATCH, "cronjobs", "nightly", {"suspend": False})
    play.settle()
    play.end(0)
    play.settle()


def ordered(play: ControllerPlay) -> None:
    play.stateful_set(replicas=2)
    play.settle()
    play.ready()
    play.settle()
    play.roll()
    play.change(APPS, "statefulsets", "db", {"replicas": 3})
    play.settle()
    play.roll()
    play.change(APPS, "statefulsets", "db", {"replicas": 1})
    play.settle()


def updating(play: ControllerPlay) -> None:
    play.stateful_set(replicas=2, revisionHistoryLimit=1)
    play.roll()
    for version in (2, 3, 4):
        container = {"name": "c", "image": f"example/app:{version}"}
        play.change(APPS, "statefulsets", "db", {"template": {"spec": {"containers": [container]}}})
        play.settle()
        play.roll()
    container = {"name": "c", "image": "example/app:3"}
    play.change(APPS, "statefulsets", "db", {"template": {"spec": {"containers": [container]}}})
    play.roll()


def updating_a_part(play: ControllerPlay) -> None:
    play.stateful_set(
        replicas=3, updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}, ordinals={"start": 4}
    )
    play.roll()
    container = {"name": "c", "image": "example/app:2"}
    play.change(APPS, "statefulsets", "db", {"template": {"spec": {"containers": [container]}}})
    play.settle()
    play.roll()
    play.change(APPS, "statefulsets", "db", {"updateStrategy": {"rollingUpdate": {"partition": 0}}})
    play.roll()


def in_parallel(play: ControllerPlay) -> None:
    claim = {
        "metadata": {"name": "data", "labels": {"k": "v"}},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    policy = {"whenDeleted": "Delete", "whenScaled": "Delete"}
    play.stateful_set(
        replicas=3, podManagementPolicy="Parallel", volumeClaimTemplates=[claim], persistentVolumeClaimRetentionPolicy=policy
    )
    play.settle()
    play.roll()
    play.change(APPS, "statefulsets", "db", {"replicas": 1})
    play.settle()


def on_delete(play: ControllerPlay) -> None:
    play.stateful_set(replicas=1, updateStrategy={"type": "OnDelete"})
    play.roll()
    container = {"name": "c", "image": "example/app:2"}
    play.change(APPS, "statefulsets", "db", {"template": {"spec": {"containers": [container]}}})
    play.settle()
    play.client.delete(play.path(CORE, "pods", "db-0")).expect(200)
    play.settle()
    play.roll()


def on_every_node(play: ControllerPlay) -> None:
    play.daemon_set(revisionHistoryLimit=1)
    play.settle()
    play.roll()
    for version in (2, 3, 4):
        container = {"name": "c", "image": f"example/app:{version}"}
        play.change(APPS, "daemonsets", "agent", {"template": {"spec": {"containers": [container]}}})
        play.settle()
        play.roll()


def surging(play: ControllerPlay) -> None:
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    play.daemon_set(updateStrategy=rolling, minReadySeconds=0)
    play.roll()
    container = {"name": "c", "image": "example/app:2"}
    play.change(APPS, "daemonsets", "agent", {"template": {"spec": {"containers": [container]}}})
    play.settle()
    play.roll()


def replacing_failed_daemons(play: ControllerPlay) -> None:
    play.daemon_set()
    play.roll()
    play.end(1)
    play.settle()


def replicating(play: ControllerPlay) -> None:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod_spec()}
    play.make(CORE, "replicationcontrollers", "ReplicationController", "web", {"replicas": 2, "template": template})
    play.settle()
    play.roll()
    play.change(CORE, "replicationcontrollers", "web", {"replicas": 1})
    play.settle()


SCENARIOS: list[Callable[[ControllerPlay], None]] = [
    completing,
    working_a_queue,
    failing,
    restarting_too_often,
    indexing,
    failing_by_index,
    succeeding_by_policy,
    failing_by_policy,
    suspending,
    running_late,
    changing_parallelism,
    expiring,
    refusing_pods,
    scheduling,
    ordered,
    updating,
    updating_a_part,
    in_parallel,
    on_delete,
    on_every_node,
    surging,
    replacing_failed_daemons,
    replicating,
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__.replace("_", "-"))
def test_controllers_go_the_same_way_as_the_real_ones(
    both: tuple[ControlPlane, ControlPlane], scenario: Callable[[ControllerPlay], None]
) -> None:
    found = played(both, ControllerPlay, scenario)
    assert not found, "\n".join(found)
