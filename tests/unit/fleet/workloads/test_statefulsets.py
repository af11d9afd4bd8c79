"""StatefulSets on an embedded cluster give each pod its name, its claims and its turn."""

from typing import Any

import pytest

from muster.fleet.workloads.revisions import HASH_LABEL
from muster.runtime.client.builtin import CONTROLLER_REVISIONS, PERSISTENT_VOLUME_CLAIMS, STATEFUL_SETS
from tests.support.stage import IMAGE, PODS, Stage, condition

CLAIM = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


def stateful_set(replicas: int, *args: str, **spec: Any) -> dict[str, Any]:
    labels = {"app": "db"}
    container = {"name": "main", "image": IMAGE, "args": list(args or ("serve",))}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container], "terminationGracePeriodSeconds": 1}}
    wanted = {"replicas": replicas, "serviceName": "db", "selector": {"matchLabels": labels}, "template": template, **spec}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db", "namespace": "default"}, "spec": wanted}


def found(stage: Stage) -> dict[str, Any]:
    return stage.read("db", "apps/statefulsets")


def status(stage: Stage) -> dict[str, Any]:
    return found(stage).get("status") or {}


def pods(stage: Stage) -> dict[str, dict[str, Any]]:
    return {pod["metadata"]["name"]: pod for pod in sorted(stage.cluster.scan("/pods"), key=lambda pod: pod["metadata"]["name"])}


def arguments(stage: Stage) -> dict[str, str]:
    return {name: " ".join(pod["spec"]["containers"][0]["args"]) for name, pod in pods(stage).items()}


def revisions(stage: Stage) -> list[int]:
    return sorted(each["revision"] for each in stage.cluster.scan("apps/controllerrevisions"))


def claims(stage: Stage) -> dict[str, dict[str, Any]]:
    return {claim["metadata"]["name"]: claim for claim in stage.cluster.scan("/persistentvolumeclaims")}


async def rolled_out(stage: Stage, replicas: int) -> None:
    def done() -> bool:
        seen = status(stage)
        current = seen.get("observedGeneration", 0) >= found(stage)["metadata"]["generation"]
        counts = (seen.get("updatedReplicas", 0), seen.get("availableReplicas", 0), seen.get("replicas"))
        return current and counts == (replicas,) * 3 and seen["currentRevision"] == seen["updateRevision"]

    await stage.until(done, f"{replicas} pods of the present revision")


async def change(stage: Stage, *args: str, **spec: Any) -> None:
    container = {"name": "main", "args": list(args)}
    template = {"template": {"spec": {"containers": [container]}}} if args else {}
    await stage.client.patch(STATEFUL_SETS, "db", {"spec": {**template, **spec}}, "default", kind="strategic")


async def test_pods_come_one_after_the_other_and_go_the_other_way_round(stage: Stage) -> None:
    ready = {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1}
    wanted = stateful_set(2)
    wanted["spec"]["template"]["spec"]["containers"][0]["readinessProbe"] = ready
    await stage.client.create(STATEFUL_SETS, wanted)
    await stage.until(lambda: stage.status("db-0").get("phase") == "Running", "the first runs and is not ready")
    assert (list(pods(stage)), status(stage)["replicas"]) == (["db-0"], 1)
    await change(stage, "listen", "8080")
    await stage.client.delete(PODS, "db-0", "default")
    await rolled_out(stage, 2)
    metadata, spec = pods(stage)["db-1"]["metadata"], pods(stage)["db-1"]["spec"]
    assert (spec["hostname"], spec["subdomain"]) == ("db-1", "db")
    assert metadata["labels"]["statefulset.kubernetes.io/pod-name"] == "db-1"
    assert metadata["labels"]["apps.kubernetes.io/pod-index"] == "1"
    assert metadata["labels"][HASH_LABEL] == status(stage)["currentRevision"]
    await change(stage, replicas=1)
    await stage.until(lambda: list(pods(stage)) == ["db-0"], "the last has gone")
    texts = {text for _, text in stage.events("db")}
    assert {"Create Pod db-1 in StatefulSet db successful", "Delete Pod db-1 in StatefulSet db successful"} <= texts


async def test_parallel_pods_do_not_wait_for_each_other_and_ordinals_may_begin_anywhere(stage: Stage) -> None:
    wanted = stateful_set(3, "exit", "1", podManagementPolicy="Parallel", ordinals={"start": 5})
    await stage.client.create(STATEFUL_SETS, wanted)
    await stage.until(lambda: list(pods(stage)) == ["db-5", "db-6", "db-7"], "all three are there")


async def test_each_pod_keeps_its_claims(stage: Stage) -> None:
    await stage.client.create(STATEFUL_SETS, stateful_set(1, volumeClaimTemplates=[CLAIM]))
    await stage.until(lambda: pods(stage), "there is a pod")
    volumes = pods(stage)["db-0"]["spec"]["volumes"]
    assert {"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}} in volumes
    assert claims(stage)["data-db-0"]["metadata"]["labels"] == {"app": "db"}
    assert "ownerReferences" not in claims(stage)["data-db-0"]["metadata"]
    texts = {text for _, text in stage.events("db")} or await stage.until(lambda: stage.events("db"), "it is told")
    assert texts
    await stage.client.delete(STATEFUL_SETS, "db", "default", propagation="Background")
    await stage.until(lambda: not pods(stage), "the pod goes")
    assert list(claims(stage)) == ["data-db-0"]


@pytest.mark.parametrize("when", ["whenScaled", "whenDeleted"])
async def test_claims_go_with_the_pod_or_the_set_where_that_is_wanted(stage: Stage, when: str) -> None:
    other = {"whenScaled": "whenDeleted", "whenDeleted": "whenScaled"}[when]
    policy = {when: "Delete", other: "Retain"}
    wanted = stateful_set(
        2, podManagementPolicy="Parallel", volumeClaimTemplates=[CLAIM], persistentVolumeClaimRetentionPolicy=policy
    )
    await stage.client.create(STATEFUL_SETS, wanted)
    await stage.until(lambda: len(pods(stage)) == 2, "both are there")
    owner = {"whenScaled": [], "whenDeleted": ["StatefulSet"]}[when]
    await stage.until(
        lambda: all([o["kind"] for o in c["metadata"].get("ownerReferences", ())] == owner for c in claims(stage).values()),
        f"claims are owned by {owner}",
    )
    await change(stage, replicas=1)
    await stage.until(lambda: len(pods(stage)) == 1, "one pod goes")
    kept = ["data-db-0"] if when == "whenScaled" else ["data-db-0", "data-db-1"]
    await stage.until(lambda: sorted(claims(stage)) == kept, f"{kept} are kept")
    await stage.client.delete(STATEFUL_SETS, "db", "default", propagation="Background")
    await stage.until(lambda: not pods(stage), "all pods go")
    if when == "whenDeleted":
        await stage.until(lambda: not claims(stage), "all claims go")


async def test_a_new_template_is_rolled_out_from_the_last_to_the_first_and_the_old_one_can_be_had_back(stage: Stage) -> None:
    await stage.client.create(STATEFUL_SETS, stateful_set(2, "serve", "one"))
    await rolled_out(stage, 2)
    await change(stage, "serve", "two")
    seen: list[dict[str, str]] = []

    def all_are_new() -> bool:
        seen.append(arguments(stage))
        return set(seen[-1].values()) == {"serve two"}

    await stage.until(all_are_new, "all are new")
    assert not any(each.get("db-0") == "serve two" and each.get("db-1") == "serve one" for each in seen)
    await rolled_out(stage, 2)
    assert revisions(stage) == [1, 2]
    first = next(each for each in stage.cluster.scan("apps/controllerrevisions") if each["revision"] == 1)
    await stage.client.patch(STATEFUL_SETS, "db", first["data"], "default", kind="strategic")
    await stage.until(lambda: set(arguments(stage).values()) == {"serve one"}, "all are as before")
    await rolled_out(stage, 2)
    assert revisions(stage) == [2, 3]


async def test_pods_below_the_partition_stay_as_they_are(stage: Stage) -> None:
    await stage.client.create(STATEFUL_SETS, stateful_set(2, "serve", "one"))
    await rolled_out(stage, 2)
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    await change(stage, "serve", "two", updateStrategy=strategy)
    await stage.until(lambda: status(stage).get("updatedReplicas") == 1 == status(stage).get("currentReplicas"), "one is new")
    await stage.until(lambda: status(stage)["availableReplicas"] == 2, "both are available")
    await stage.client.delete(PODS, "db-0", "default")
    uid = pods(stage)["db-0"]["metadata"]["uid"]
    await stage.until(lambda: pods(stage).get("db-0", {"metadata": {"uid": uid}})["metadata"]["uid"] != uid, "it comes again")
    assert arguments(stage) == {"db-0": "serve one", "db-1": "serve two"}


async def test_on_delete_pods_become_new_when_they_are_deleted(stage: Stage) -> None:
    await stage.client.create(STATEFUL_SETS, stateful_set(1, "serve", "one", updateStrategy={"type": "OnDelete"}))
    await stage.until(lambda: status(stage).get("availableReplicas") == 1, "it runs")
    await change(stage, "serve", "two")
    await stage.until(lambda: status(stage)["currentRevision"] != status(stage)["updateRevision"], "there is a new revision")
    assert arguments(stage) == {"db-0": "serve one"}
    await stage.client.delete(PODS, "db-0", "default")
    await stage.until(lambda: arguments(stage) == {"db-0": "serve two"}, "it is new")


async def test_revisions_are_kept_up_to_the_limit(stage: Stage) -> None:
    await stage.client.create(STATEFUL_SETS, stateful_set(0, "serve", "0", revisionHistoryLimit=1))
    for number in range(1, 4):
        await stage.until(lambda: max(revisions(stage), default=0) == number, f"revision {number}")  # noqa: B023  # asked at once
        await change(stage, "serve", str(number))
    await stage.until(lambda: len(revisions(stage)) <= 3 and max(revisions(stage)) == 4, "old ones are gone")


async def test_a_pod_that_ended_is_made_anew(stage: Stage) -> None:
    wanted = stateful_set(1)
    wanted["spec"]["template"]["spec"]["schedulerName"] = "nobody"
    await stage.client.create(STATEFUL_SETS, wanted)
    await stage.until(lambda: pods(stage), "there is one")
    uid = pods(stage)["db-0"]["metadata"]["uid"]
    failed = {"status": {"phase": "Failed", "reason": "Evicted"}}
    await stage.client.patch(PODS, "db-0", failed, "default", subresource="status")
    await stage.until(lambda: pods(stage).get("db-0", {"metadata": {"uid": uid}})["metadata"]["uid"] != uid, "there is another")


async def test_a_set_that_cannot_go_on_says_why_and_a_revision_that_is_none_holds_up_nobody(stage: Stage) -> None:
    broken = {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {"name": "db-broken", "labels": {"app": "db"}},
        "revision": 7,
        "data": {"spec": "nonsense"},
    }
    await stage.client.create(CONTROLLER_REVISIONS, broken, "default")
    wanted = stateful_set(1)
    wanted["spec"]["template"]["spec"]["serviceAccountName"] = "nobody"
    await stage.client.create(STATEFUL_SETS, wanted)
    await stage.until(lambda: any(reason == "FailedCreate" for reason, _ in stage.events("db")), "it is told")
    await stage.until(lambda: max(revisions(stage)) == 8, "its revision is the newest")


async def test_a_claim_that_is_being_deleted_is_waited_for(stage: Stage) -> None:
    held = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data-db-0", "finalizers": ["example.com/held"]},
    }
    await stage.client.create(PERSISTENT_VOLUME_CLAIMS, {**held, "spec": CLAIM["spec"]}, "default")
    await stage.client.delete(PERSISTENT_VOLUME_CLAIMS, "data-db-0", "default")
    await stage.client.create(STATEFUL_SETS, stateful_set(1, volumeClaimTemplates=[CLAIM]))
    await stage.until(lambda: any("pvc data-db-0 is being deleted" in text for _, text in stage.events("db")), "it says so")
    assert not pods(stage)
    patch = {"metadata": {"finalizers": None}}
    await stage.client.patch(PERSISTENT_VOLUME_CLAIMS, "data-db-0", patch, "default")
    await stage.until(lambda: pods(stage), "the pod comes")
    assert condition(pods(stage)["db-0"], "Ready") != "True"
