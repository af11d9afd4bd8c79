"""Deployments on an embedded cluster behave as kubectl and operators expect of a real one."""

from datetime import UTC, datetime, timedelta
from typing import Any

from muster.fleet.workloads.deployments import group_of
from muster.fleet.workloads.deploymentstatus import status_of
from muster.fleet.workloads.rollout import RolloutSpec
from muster.fleet.workloads.templates import HASH_LABEL, REVISION, template_hash
from tests.support.stage import DEPLOYMENTS, IMAGE, PODS, Stage, condition


def deployment(name: str, *args: str, replicas: int = 2, image: str = IMAGE, **spec: Any) -> dict[str, Any]:
    labels = {"app": name}
    container = {"name": "main", "image": image, "args": list(args)}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container], "terminationGracePeriodSeconds": 1}}
    wanted = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template, **spec}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"}, "spec": wanted}


def found(stage: Stage, name: str) -> dict[str, Any]:
    return stage.read(name, "apps/deployments")


def sets(stage: Stage) -> list[dict[str, Any]]:
    return sorted(stage.cluster.scan("apps/replicasets"), key=lambda each: int(each["metadata"]["annotations"][REVISION]))


def pods(stage: Stage) -> list[dict[str, Any]]:
    return list(stage.cluster.scan("/pods"))


async def rolled_out(stage: Stage, name: str) -> dict[str, Any]:
    """As `kubectl rollout status` judges it."""

    def complete() -> bool:
        obj = found(stage, name)
        status, wanted = obj.get("status") or {}, obj["spec"]["replicas"]
        return bool(
            status.get("observedGeneration", 0) >= obj["metadata"]["generation"]
            and status.get("updatedReplicas", 0) == wanted
            and status.get("replicas", 0) == wanted
            and status.get("availableReplicas", 0) == wanted
        )

    await stage.until(complete, f"{name} is rolled out")
    return found(stage, name)


async def test_a_deployment_becomes_available_through_one_replica_set(stage: Stage) -> None:
    await stage.client.create(DEPLOYMENTS, deployment("web", "serve"))
    done = await rolled_out(stage, "web")
    assert done["metadata"]["annotations"][REVISION] == "1"
    conditions = {each["type"]: (each["status"], each["reason"]) for each in done["status"]["conditions"]}
    assert conditions == {"Available": ("True", "MinimumReplicasAvailable"), "Progressing": ("True", "NewReplicaSetAvailable")}
    (only,) = sets(stage)
    suffix = only["metadata"]["labels"][HASH_LABEL]
    assert only["metadata"]["name"] == f"web-{suffix}"
    assert only["metadata"]["ownerReferences"][0]["name"] == "web"
    assert {pod["metadata"]["labels"][HASH_LABEL] for pod in pods(stage)} == {suffix}
    assert all(pod["metadata"]["name"].startswith(f"web-{suffix}-") for pod in pods(stage))


async def test_a_new_template_is_rolled_out_and_the_old_one_can_be_had_back(stage: Stage) -> None:
    await stage.client.create(DEPLOYMENTS, deployment("web", "serve", "one"))
    first = await rolled_out(stage, "web")
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "main", "args": ["serve", "two"]}]}}}}
    await stage.client.patch(DEPLOYMENTS, "web", patch, "default", kind="strategic")
    second = await rolled_out(stage, "web")
    assert second["metadata"]["annotations"][REVISION] == "2"
    assert [each["spec"]["replicas"] for each in sets(stage)] == [0, 2]
    await stage.client.patch(DEPLOYMENTS, "web", {"spec": {"template": first["spec"]["template"]}}, "default")
    third = await rolled_out(stage, "web")
    assert third["metadata"]["annotations"][REVISION] == "3"
    assert len(sets(stage)) == 2
    assert sets(stage)[-1]["metadata"]["annotations"]["deployment.kubernetes.io/revision-history"] == "1"


async def test_scaling_adds_and_removes_pods(stage: Stage) -> None:
    await stage.client.create(DEPLOYMENTS, deployment("web", "serve", replicas=1))
    await rolled_out(stage, "web")
    await stage.client.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 4}}, "default", subresource="scale")
    await rolled_out(stage, "web")
    await stage.client.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 0}}, "default", subresource="scale")
    await rolled_out(stage, "web")
    await stage.until(lambda: not pods(stage), "no pod is left")


async def test_a_pod_that_is_deleted_is_replaced(stage: Stage) -> None:
    await stage.client.create(DEPLOYMENTS, deployment("web", "serve", replicas=1))
    await rolled_out(stage, "web")
    (victim,) = pods(stage)
    await stage.client.delete(PODS, victim["metadata"]["name"], "default")
    await stage.gone(victim["metadata"]["name"])
    await stage.until(lambda: [condition(pod, "Ready") for pod in pods(stage)] == ["True"], "another one runs")


async def test_recreating_never_runs_old_and_new_at_once(stage: Stage) -> None:
    await stage.client.create(DEPLOYMENTS, deployment("web", "serve", "one", strategy={"type": "Recreate"}))
    await rolled_out(stage, "web")
    seen: list[set[str]] = []

    def watch() -> bool:
        seen.append({pod["metadata"]["labels"][HASH_LABEL] for pod in pods(stage)})
        return len(seen[-1]) == 1 and seen[-1] != seen[0]

    patch = {"spec": {"template": {"spec": {"containers": [{"name": "main", "args": ["serve", "two"]}]}}}}
    await stage.client.patch(DEPLOYMENTS, "web", patch, "default", kind="strategic")
    await stage.until(watch, "new pods are there")
    assert max(len(each) for each in seen) == 1
    await rolled_out(stage, "web")


async def test_an_image_that_does_not_run_here_leaves_the_deployment_unavailable_and_the_old_pods_running(stage: Stage) -> None:
    await stage.client.create(DEPLOYMENTS, deployment("web", "serve"))
    await rolled_out(stage, "web")
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "nginx"}]}}}}
    await stage.client.patch(DEPLOYMENTS, "web", patch, "default", kind="strategic")
    await stage.until(lambda: found(stage, "web")["status"].get("updatedReplicas") == 1, "a new pod was made")
    assert sum(condition(pod, "Ready") == "True" for pod in pods(stage)) == 2
    assert condition(found(stage, "web"), "Available") == "True"


async def test_a_deleted_deployment_takes_its_sets_and_pods_along(stage: Stage) -> None:
    await stage.client.create(DEPLOYMENTS, deployment("web", "serve"))
    await rolled_out(stage, "web")
    await stage.client.delete(DEPLOYMENTS, "web", "default", propagation="Background")
    await stage.until(lambda: not pods(stage) and not sets(stage), "everything is gone")


async def test_a_paused_deployment_keeps_its_template_but_scales(stage: Stage) -> None:
    await stage.client.create(DEPLOYMENTS, deployment("web", "serve", replicas=1))
    await rolled_out(stage, "web")
    template = {"spec": {"containers": [{"name": "main", "args": ["serve", "two"]}]}}
    await stage.client.patch(
        DEPLOYMENTS, "web", {"spec": {"paused": True, "replicas": 2, "template": template}}, "default", kind="strategic"
    )
    await stage.until(lambda: found(stage, "web")["status"].get("availableReplicas") == 2, "it is scaled")
    assert len(sets(stage)) == 1
    await stage.client.patch(DEPLOYMENTS, "web", {"spec": {"paused": False}}, "default")
    await rolled_out(stage, "web")
    assert len(sets(stage)) == 2


async def test_old_sets_are_kept_up_to_the_history_limit(stage: Stage) -> None:
    await stage.client.create(DEPLOYMENTS, deployment("web", "serve", "0", replicas=1, revisionHistoryLimit=1))
    for number in range(1, 4):
        await rolled_out(stage, "web")
        patch = {"spec": {"template": {"spec": {"containers": [{"name": "main", "args": ["serve", str(number)]}]}}}}
        await stage.client.patch(DEPLOYMENTS, "web", patch, "default", kind="strategic")
    await rolled_out(stage, "web")
    await stage.until(lambda: len(sets(stage)) == 2, "one old set is left")


async def test_a_pod_that_may_not_be_created_is_told_by_the_condition(stage: Stage) -> None:
    wanted = deployment("web", "serve")
    wanted["spec"]["template"]["spec"]["serviceAccountName"] = "nobody"
    await stage.client.create(DEPLOYMENTS, wanted)
    await stage.until(lambda: condition(found(stage, "web"), "ReplicaFailure") == "True", "the failure shows")
    assert condition(found(stage, "web"), "Available") == "False"


async def test_pods_without_a_controller_are_adopted_and_strangers_released(stage: Stage) -> None:
    await stage.client.create(DEPLOYMENTS, deployment("web", "serve", replicas=1))
    await rolled_out(stage, "web")
    (mine,) = pods(stage)
    await stage.client.patch(PODS, mine["metadata"]["name"], {"metadata": {"labels": {"app": "other"}}}, "default")
    await stage.until(lambda: len(pods(stage)) == 2, "it is replaced")
    released = stage.read(mine["metadata"]["name"])
    await stage.until(lambda: not stage.read(mine["metadata"]["name"])["metadata"].get("ownerReferences"), "it is released")
    assert released["metadata"]["uid"] == mine["metadata"]["uid"]
    await stage.client.patch(PODS, mine["metadata"]["name"], {"metadata": {"labels": {"app": "web"}}}, "default")
    await stage.until(lambda: len(pods(stage)) == 1, "the surplus goes after adoption")


def test_a_set_that_was_just_made_smaller_is_not_counted_on_for_pods_that_are_about_to_go() -> None:
    made = {"name": "web-x", "creationTimestamp": "t"}
    group = group_of({"metadata": made, "spec": {"replicas": 3}, "status": {"replicas": 6, "availableReplicas": 6}})
    assert (group.wanted, group.actual, group.available) == (3, 6, 3)


NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_rollout_that_does_not_get_on_times_out() -> None:
    began = (NOW - timedelta(seconds=61)).strftime("%Y-%m-%dT%H:%M:%SZ")
    progressing = {"type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated", "lastUpdateTime": began}
    obj = deployment("web", "serve", progressDeadlineSeconds=60)
    obj["status"] = {"conditions": [{**progressing, "lastTransitionTime": began}], "updatedReplicas": 1, "replicas": 1}
    new = {"metadata": {"name": "web-x"}, "spec": {"replicas": 1}, "status": {"replicas": 1}}
    status = status_of(obj, new, [new], RolloutSpec(2, 1, 0), NOW)
    said = {each["type"]: (each["status"], each["reason"]) for each in status["conditions"]}
    assert said["Progressing"] == ("False", "ProgressDeadlineExceeded")


def test_the_hash_of_a_template_is_spelled_without_vowels_and_changes_with_collisions() -> None:
    template = {"spec": {"containers": [{"name": "a"}]}}
    assert set(template_hash(template)) <= set("bcdfghjklmnpqrstvwxz2456789")
    assert template_hash(template) != template_hash(template, 1)
