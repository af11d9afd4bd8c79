"""ReplicationControllers on an embedded cluster keep their number of pods."""

from typing import Any

from muster.runtime.client.builtin import REPLICATION_CONTROLLERS
from tests.support.stage import IMAGE, PODS, Stage, condition


def controller(name: str, replicas: int, **pod: Any) -> dict[str, Any]:
    labels = {"app": name}
    spec = {"containers": [{"name": "main", "image": IMAGE, "args": ["serve"]}], "terminationGracePeriodSeconds": 1, **pod}
    wanted = {"replicas": replicas, "template": {"metadata": {"labels": labels}, "spec": spec}}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ReplicationController", "metadata": metadata, "spec": wanted}


def found(stage: Stage) -> dict[str, Any]:
    return stage.read("web", "/replicationcontrollers")


def status(stage: Stage) -> dict[str, Any]:
    return found(stage).get("status") or {}


def pods(stage: Stage) -> list[dict[str, Any]]:
    return list(stage.cluster.scan("/pods"))


async def test_there_are_as_many_pods_as_wanted_and_the_status_counts_them(stage: Stage) -> None:
    await stage.client.create(REPLICATION_CONTROLLERS, controller("web", 2))
    await stage.until(lambda: status(stage).get("availableReplicas") == 2, "two are available")
    counted = dict.fromkeys(("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas"), 2)
    assert status(stage) == {**counted, "observedGeneration": 1}
    assert {pod["metadata"]["ownerReferences"][0]["kind"] for pod in pods(stage)} == {"ReplicationController"}
    await stage.client.patch(REPLICATION_CONTROLLERS, "web", {"spec": {"replicas": 1}}, "default", subresource="scale")
    await stage.until(lambda: status(stage).get("replicas") == 1 and len(pods(stage)) == 1, "one is left")
    await stage.until(lambda: any(reason == "SuccessfulDelete" for reason, _ in stage.events("web")), "it is told")


async def test_a_pod_that_matches_is_adopted(stage: Stage) -> None:
    await stage.pod("web", "serve")
    await stage.client.create(REPLICATION_CONTROLLERS, controller("web", 1))
    await stage.until(lambda: status(stage).get("availableReplicas") == 1, "it counts")
    assert [pod["metadata"]["name"] for pod in pods(stage)] == ["web"]
    await stage.client.delete(PODS, "web", "default")
    await stage.until(lambda: [name["metadata"].get("generateName") for name in pods(stage)] == ["web-"], "it is replaced")


async def test_what_cannot_be_made_is_told(stage: Stage) -> None:
    await stage.client.create(REPLICATION_CONTROLLERS, controller("web", 1, serviceAccountName="nobody"))
    await stage.until(lambda: condition(found(stage), "ReplicaFailure") == "True", "the failure shows")
