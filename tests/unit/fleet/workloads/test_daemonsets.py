"""DaemonSets on an embedded cluster have a pod on every node that may have one."""

from typing import Any

import pytest

from muster.fleet.workloads.daemonsets.nodes import by_node, new_pod, should_run
from muster.fleet.workloads.daemonsets.rollout import Step, keep_one_each, roll
from muster.fleet.workloads.podstate import is_ready
from muster.fleet.workloads.revisions import HASH_LABEL
from muster.runtime.client.builtin import DAEMON_SETS, NODES
from tests.support.stage import IMAGE, PODS, Stage, condition


def daemon_set(*args: str, pod: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    labels = {"app": "agent"}
    container = {"name": "main", "image": IMAGE, "args": list(args or ("serve",))}
    pod_spec = {"containers": [container], "terminationGracePeriodSeconds": 1, **(pod or {})}
    wanted = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod_spec}, **spec}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent", "namespace": "default"}, "spec": wanted}


def found(stage: Stage) -> dict[str, Any]:
    return stage.read("agent", "apps/daemonsets")


def status(stage: Stage) -> dict[str, Any]:
    return found(stage).get("status") or {}


def pods(stage: Stage) -> list[dict[str, Any]]:
    return list(stage.cluster.scan("/pods"))


def arguments(stage: Stage) -> list[str]:
    return [" ".join(pod["spec"]["containers"][0]["args"]) for pod in pods(stage)]


def revisions(stage: Stage) -> list[int]:
    return sorted(each["revision"] for each in stage.cluster.scan("apps/controllerrevisions"))


async def rolled_out(stage: Stage) -> None:
    def done() -> bool:
        seen = status(stage)
        if seen.get("observedGeneration", 0) < found(stage)["metadata"]["generation"]:
            return False
        return bool(seen["desiredNumberScheduled"] == seen.get("updatedNumberScheduled") == seen.get("numberAvailable") == 1)

    await stage.until(done, "it is rolled out")


async def change(stage: Stage, *args: str) -> None:
    template = {"spec": {"containers": [{"name": "main", "args": list(args)}]}}
    await stage.client.patch(DAEMON_SETS, "agent", {"spec": {"template": template}}, "default", kind="strategic")


async def test_every_node_gets_one_pod_and_the_status_counts_them(stage: Stage) -> None:
    await stage.client.create(DAEMON_SETS, daemon_set())
    await rolled_out(stage)
    (pod,) = pods(stage)
    assert pod["spec"]["nodeName"] == "default-node"
    assert {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"} in pod["spec"]["tolerations"]
    assert pod["metadata"]["labels"]["pod-template-generation"] == "1"
    await stage.client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "far"}})
    await stage.until(lambda: status(stage)["desiredNumberScheduled"] == 2 and len(pods(stage)) == 2, "the other has one too")
    assert (status(stage)["currentNumberScheduled"], status(stage)["numberUnavailable"]) == (2, 1)
    await stage.client.delete(NODES, "far")
    await stage.until(lambda: len(pods(stage)) == 1 and status(stage)["desiredNumberScheduled"] == 1, "its pod goes with it")


async def test_pods_come_and_go_with_what_nodes_are_like(stage: Stage) -> None:
    await stage.client.create(DAEMON_SETS, daemon_set(pod={"nodeSelector": {"disk": "fast"}}))
    await stage.until(lambda: status(stage).get("desiredNumberScheduled") == 0, "no node is meant")
    await stage.client.patch(NODES, "default-node", {"metadata": {"labels": {"disk": "fast"}}})
    await rolled_out(stage)
    await stage.client.patch(NODES, "default-node", {"spec": {"unschedulable": True}})
    before = pods(stage)[0]["metadata"]["name"]
    await stage.client.delete(PODS, before, "default")
    await stage.gone(before)
    await stage.until(lambda: [condition(pod, "Ready") for pod in pods(stage)] == ["True"], "it is replaced though cordoned")
    await stage.client.patch(NODES, "default-node", {"metadata": {"labels": {"disk": "slow"}}})
    await stage.until(lambda: not pods(stage), "it is gone")
    await stage.until(lambda: {"SuccessfulCreate", "SuccessfulDelete"} <= {reason for reason, _ in stage.events("agent")}, "told")


async def test_a_new_template_is_rolled_out_and_the_old_one_can_be_had_back(stage: Stage) -> None:
    await stage.client.create(DAEMON_SETS, daemon_set("serve", "one"))
    await rolled_out(stage)
    await change(stage, "serve", "two")
    await stage.until(lambda: arguments(stage) == ["serve two"], "it is new")
    await rolled_out(stage)
    assert revisions(stage) == [1, 2]
    first = next(each for each in stage.cluster.scan("apps/controllerrevisions") if each["revision"] == 1)
    await stage.client.patch(DAEMON_SETS, "agent", first["data"], "default", kind="strategic")
    await stage.until(lambda: arguments(stage) == ["serve one"], "it is as before")
    await rolled_out(stage)
    assert revisions(stage) == [2, 3]


async def test_with_surge_the_old_pod_stays_until_the_new_one_is_available(stage: Stage) -> None:
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    await stage.client.create(DAEMON_SETS, daemon_set("serve", "one", updateStrategy=rolling))
    await rolled_out(stage)
    seen: list[list[str]] = []

    def all_new() -> bool:
        ready = [pod for pod in pods(stage) if condition(pod, "Ready") == "True"]
        seen.append([" ".join(pod["spec"]["containers"][0]["args"]) for pod in ready])
        return arguments(stage) == ["serve two"]

    await change(stage, "serve", "two")
    await stage.until(all_new, "the new one is alone")
    assert all(seen), "one was ready at any time"


async def test_on_delete_a_pod_is_new_once_it_was_deleted(stage: Stage) -> None:
    await stage.client.create(DAEMON_SETS, daemon_set("serve", "one", updateStrategy={"type": "OnDelete"}))
    await rolled_out(stage)
    await change(stage, "serve", "two")
    await stage.until(lambda: revisions(stage) == [1, 2] and "updatedNumberScheduled" not in status(stage), "it is known")
    assert arguments(stage) == ["serve one"]
    await stage.client.delete(PODS, pods(stage)[0]["metadata"]["name"], "default")
    await stage.until(lambda: arguments(stage) == ["serve two"], "it is new")


async def test_a_pod_that_failed_is_told_of_and_replaced(stage: Stage) -> None:
    await stage.client.create(DAEMON_SETS, daemon_set(pod={"schedulerName": "nobody"}))
    await stage.until(lambda: pods(stage), "there is one")
    before = pods(stage)[0]["metadata"]
    await stage.client.patch(PODS, before["name"], {"status": {"phase": "Failed"}}, "default", subresource="status")
    await stage.until(lambda: [pod for pod in pods(stage) if pod["metadata"]["uid"] != before["uid"]], "there is another")
    await stage.until(lambda: any(reason == "FailedDaemonPod" for reason, _ in stage.events("agent")), "it is told")


async def test_a_set_whose_pods_are_refused_holds_up_nobody(stage: Stage) -> None:
    refused = daemon_set(pod={"serviceAccountName": "nobody"})
    refused["metadata"]["name"] = "refused"
    await stage.client.create(DAEMON_SETS, refused)
    await stage.client.create(DAEMON_SETS, daemon_set())
    await rolled_out(stage)
    await stage.until(lambda: any(reason == "FailedCreate" for reason, _ in stage.events("refused")), "it is told")


def node(name: str, *taints: tuple[str, str], **labels: str) -> dict[str, Any]:
    tainted = [{"key": key, "effect": effect} for key, effect in taints]
    return {"metadata": {"name": name, "labels": labels}, "spec": {"taints": tainted}}


@pytest.mark.parametrize(
    ("taint", "toleration", "expected"),
    [
        (("a", "NoSchedule"), {}, (False, True)),
        (("a", "NoExecute"), {}, (False, False)),
        (("a", "NoExecute"), {"key": "a", "operator": "Exists"}, (True, True)),
        (("a", "NoExecute"), {"key": "a", "value": "b"}, (False, False)),
        (("a", "NoSchedule"), {"operator": "Exists", "effect": "NoSchedule"}, (True, True)),
        (("a", "PreferNoSchedule"), {}, (True, True)),
        (("node.kubernetes.io/memory-pressure", "NoSchedule"), {}, (True, True)),
    ],
)
def test_taints_keep_pods_away_or_drive_them_off(
    taint: tuple[str, str], toleration: dict[str, str], expected: tuple[bool, bool]
) -> None:
    wanted = daemon_set(pod={"tolerations": [toleration] if toleration else []})
    assert should_run(wanted, node("n", taint)) == expected


def pods_on(names: list[str], suffix: str, *, ready: bool = True, updated: bool = False) -> list[dict[str, Any]]:
    made = []
    for name in names:
        owner = daemon_set()
        owner["metadata"]["uid"] = "1"
        pod = new_pod(owner, name, suffix if updated else "old")
        pod["metadata"] |= {"name": f"{name}-{updated}", "creationTimestamp": "2026-01-01T00:00:00Z"}
        state = {"type": "Ready", "status": "True" if ready else "False"}
        made.append({**pod, "status": {"phase": "Running", "conditions": [state]}})
    return made


def rolled(limit: int | str, *pods: list[dict[str, Any]], surge: int | str = 0) -> tuple[list[str], list[str]]:
    rolling = {"maxUnavailable": limit, "maxSurge": surge}
    wanted = daemon_set(updateStrategy={"type": "RollingUpdate", "rollingUpdate": rolling})
    nodes = [node(f"n{number}") for number in range(4)]
    step = roll(wanted, nodes, by_node(pod for each in pods for pod in each), "new", is_ready)
    return sorted(step.create), sorted(pod["metadata"]["name"] for pod in step.delete)


def test_no_more_pods_are_replaced_at_once_than_may_be_unavailable() -> None:
    everywhere = [f"n{number}" for number in range(4)]
    assert rolled(1, pods_on(everywhere, "new")) == ([], ["n0-False"])
    assert rolled("50%", pods_on(everywhere, "new")) == ([], ["n0-False", "n1-False"])
    new = pods_on(["n0"], "new", updated=True, ready=False)
    assert rolled(1, new, pods_on(everywhere[1:], "new")) == ([], [])
    broken = pods_on(["n1", "n2"], "new", ready=False)
    assert rolled(1, pods_on(["n0", "n3"], "new"), broken) == ([], ["n1-False", "n2-False"])


def test_with_surge_as_many_new_pods_come_beside_the_old_ones() -> None:
    everywhere = [f"n{number}" for number in range(4)]
    assert rolled(0, pods_on(everywhere, "new"), surge=2) == (["n0", "n1"], [])
    assert rolled(0, pods_on(everywhere, "new"), pods_on(["n0"], "new", updated=True, ready=False), surge=1) == ([], [])
    assert rolled(0, pods_on(everywhere, "new"), pods_on(["n0"], "new", updated=True), surge=1) == (["n1"], ["n0-False"])


def test_of_several_pods_on_a_node_the_oldest_stays() -> None:
    twice = [*pods_on(["n0"], "new"), *pods_on(["n0"], "new", updated=True)]
    twice[1]["metadata"]["creationTimestamp"] = "2025-01-01T00:00:00Z"
    step: Step = keep_one_each(daemon_set(), [node("n0")], by_node(twice), "new", is_ready)
    assert (step.create, [pod["metadata"]["labels"][HASH_LABEL] for pod in step.delete]) == ([], ["old"])
