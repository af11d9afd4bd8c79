"""On random permissions the gate says what brute force would find out."""

from random import Random

import pytest

from tests.support.executor_truth import compare_escalation, compare_permissions
from tests.support.rbac_truth import World
from tests.unit.work.executor.conftest import Stage


@pytest.mark.parametrize("seed", range(3))
async def test_the_gate_agrees_with_a_review_of_everything(stage: Stage, seed: int) -> None:
    world = World(stage.admin, Random(seed), f"truth{seed}")
    await world.prepare()
    allowed, refused = await compare_permissions(stage.admin, world, stage.gate(strict=False), 20)
    assert allowed > 10
    assert refused > 10


async def test_what_is_called_escalation_is_what_the_server_refuses(stage: Stage) -> None:
    allowed, refused = await compare_escalation(stage.admin, Random(5), "app", 12)
    assert allowed > 5
    assert refused > 5
