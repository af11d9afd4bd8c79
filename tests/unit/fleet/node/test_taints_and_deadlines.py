"""Pods that a node's taints keep away, and pods that may be on it for so many seconds only."""

from __future__ import annotations

from typing import Any

import pytest

from muster.runtime.client.builtin import NODES
from tests.support.stage import PODS, Stage, condition

TAINT = {"key": "tier", "value": "gold", "effect": "NoSchedule"}


async def taint(stage: Stage, *taints: dict[str, str]) -> None:
    await stage.client.patch(NODES, "default-node", {"spec": {"taints": list(taints) or None}})


def why(stage: Stage, name: str) -> str:
    found = stage.status(name).get("conditions") or ()
    return next((str(each.get("message")) for each in found if each["type"] == "PodScheduled" and each["status"] == "False"), "")


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
async def test_a_pod_waits_for_a_node_whose_taints_it_tolerates(stage: Stage, effect: str) -> None:
    await taint(stage, {**TAINT, "effect": effect})
    await stage.pod("plain", "serve")
    tolerations = [{"key": "tier", "operator": "Equal", "value": "gold", "effect": effect}]
    await stage.pod("tolerant", "serve", tolerations=tolerations)
    await stage.ready("tolerant")
    await stage.until(lambda: why(stage, "plain"), "it says why it waits")
    assert why(stage, "plain") == "0/1 nodes are available: 1 node(s) had untolerated taint {tier: gold}."
    await taint(stage)
    await stage.ready("plain")


async def test_a_taint_that_only_prefers_keeps_no_pod_away(stage: Stage) -> None:
    await taint(stage, {**TAINT, "effect": "PreferNoSchedule"})
    await stage.pod("plain", "serve")
    await stage.ready("plain")


def deadline_of(stage: Stage, name: str) -> tuple[Any, ...]:
    status = stage.status(name)
    return status.get("phase"), status.get("reason"), status.get("message")


EXCEEDED = ("Failed", "DeadlineExceeded", "Pod was active on the node longer than the specified deadline")


async def test_a_pod_that_is_active_for_too_long_fails(stage: Stage) -> None:
    await stage.pod("short", "serve", activeDeadlineSeconds=1)
    await stage.until(lambda: deadline_of(stage, "short") == EXCEEDED, "it has failed")
    assert condition(stage.read("short"), "Ready") == "False"
    assert stage.container("short")["state"]["terminated"]["exitCode"] == 143
    assert stage.container("short")["restartCount"] == 0
    await stage.until(lambda: "DeadlineExceeded" in dict(stage.events("short")), "an Event says so")
    assert "tidied up" in await stage.log("short")


async def test_a_deadline_may_be_set_while_the_pod_runs_and_one_that_ends_before_it_is_let_alone(stage: Stage) -> None:
    await stage.pod("long", "serve")
    await stage.pod("done", "exit", "0", restartPolicy="Never", activeDeadlineSeconds=1)
    await stage.ready("long")
    await stage.phase("done", "Succeeded")
    await stage.client.patch(PODS, "long", {"spec": {"activeDeadlineSeconds": 1}}, "default")
    await stage.until(lambda: deadline_of(stage, "long") == EXCEEDED, "it has failed")
    assert deadline_of(stage, "done")[:2] == ("Succeeded", None)


async def test_a_pod_that_still_waits_for_a_volume_fails_too(stage: Stage) -> None:
    volumes = [{"name": "key", "secret": {"secretName": "nowhere"}}]
    await stage.pod("short", "serve", activeDeadlineSeconds=1, volumes=volumes)
    await stage.until(lambda: deadline_of(stage, "short") == EXCEEDED, "it has failed")
