"""RBAC decided in the agent against the cluster's own reviews: some hundred random questions over random roles and bindings."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from muster.runtime.auth.delegation import AccessReviewer
from muster.runtime.auth.rbac import RbacAuthorizer
from muster.runtime.client.builtin import NAMESPACES
from muster.runtime.client.http import HttpClient
from muster.runtime.client.kubeconfig import load_kubeconfig
from muster.work.agent.executor import ExecutorOptions
from tests.support.executor_truth import compare_escalation, compare_permissions
from tests.support.gates import LoneGate
from tests.support.planes import ControlPlane
from tests.support.rbac_truth import World, differences


@pytest.mark.parametrize("seed", [11, 12])
async def test_random_questions_have_the_clusters_answers(plane: ControlPlane, seed: int) -> None:
    client = HttpClient(load_kubeconfig(plane.cluster.kubeconfig))
    authorizer = RbacAuthorizer(client)
    running = asyncio.create_task(authorizer.run())
    world = World(client, Random(seed), f"truth-{seed}")
    try:
        assert await authorizer.synced(20)
        await world.prepare()
        allowed = 0
        for _ in range(10):
            for _ in range(4):
                await world.change()
            asked = [world.question() for _ in range(30)]
            assert await differences(authorizer, AccessReviewer(client), asked, 10.0) == []
            allowed += sum(authorizer.decide(*question).allowed for question in asked)
        assert 30 < allowed < 270, "the questions must be worth asking"
    finally:
        await world.remove()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await client.close()


async def test_the_gate_agrees_with_a_review_of_everything(plane: ControlPlane) -> None:
    client = HttpClient(load_kubeconfig(plane.cluster.kubeconfig))
    gate = LoneGate(client, ExecutorOptions(strict=False))
    running = asyncio.create_task(gate.run())
    world = World(client, Random(21), "truth-gate")
    try:
        await world.prepare()
        allowed, refused = await compare_permissions(client, world, gate, 8)
        assert allowed > 5
        assert refused > 5
    finally:
        await world.remove()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await client.close()


async def test_what_is_called_escalation_is_what_the_cluster_refuses(plane: ControlPlane) -> None:
    client = HttpClient(load_kubeconfig(plane.cluster.kubeconfig))
    await client.create(NAMESPACES, {"metadata": {"name": "truth-roles"}})
    try:
        allowed, refused = await compare_escalation(client, Random(31), "truth-roles", 12)
        assert allowed > 3
        assert refused > 3
    finally:
        await client.delete(NAMESPACES, "truth-roles")
        await client.close()
