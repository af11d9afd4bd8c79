"""Patches say what changed and nothing else."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.fleet.in_process import InProcessClient
from muster.kube.patching.jsonpatch import apply_json_patch
from muster.machinery.objects import Object
from muster.runtime.client.builtin import CONFIG_MAPS, NAMESPACES
from muster.runtime.client.errors import Conflict
from muster.runtime.client.patches import json_patch, patch_changes, patch_status, retry_on_conflict
from tests.support.fake_clock import FakeClock
from tests.unit.runtime.conftest import config_map

scalars = st.booleans() | st.integers(-5, 5) | st.text("ab~/", max_size=3)
keys = st.text("ab~/", min_size=1, max_size=2)
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=12)
objects = st.dictionaries(keys, values, max_size=4)


@given(objects, objects)
def test_a_json_patch_turns_old_into_new(old: Object, new: Object) -> None:
    assert apply_json_patch(old, json_patch(old, new)) == new
    assert json_patch(new, new) == []


class Typed(msgspec.Struct, omit_defaults=True):
    metadata: dict[str, Any]
    data: dict[str, str] = {}


async def test_a_typed_write_keeps_fields_that_the_type_does_not_know(client: InProcessClient) -> None:
    created = await client.create(CONFIG_MAPS, {**config_map("a", k="1"), "binaryData": {"x": "QQ=="}})
    old, new = msgspec.convert(created, Typed), msgspec.convert(created, Typed)
    new.data = {"k": "2"}
    written = await patch_changes(client, CONFIG_MAPS, old, new)
    assert written is not None
    assert (written["data"], written["binaryData"]) == ({"k": "2"}, {"x": "QQ=="})
    assert await patch_changes(client, CONFIG_MAPS, new, new) is None


async def test_a_decision_from_an_old_version_is_a_conflict_and_is_made_again(client: InProcessClient, clock: FakeClock) -> None:
    first = await client.create(CONFIG_MAPS, config_map("a", n="1"))
    await client.patch(CONFIG_MAPS, "a", {"data": {"n": "2"}}, "default")
    with pytest.raises(Conflict):
        await patch_changes(client, CONFIG_MAPS, first, {**first, "data": {"n": "3"}}, optimistic=True)
    stale = [first]

    async def increment() -> Object | None:
        current = stale.pop() if stale else await client.get(CONFIG_MAPS, "a", "default")
        wanted = {**current, "data": {"n": str(int(current["data"]["n"]) + 1)}}
        return await patch_changes(client, CONFIG_MAPS, current, wanted, optimistic=True)

    async def always() -> None:
        raise Conflict(409, "Conflict", "no")

    written = await retry_on_conflict(increment)
    assert written is not None
    assert written["data"] == {"n": "3"}
    with pytest.raises(Conflict):
        await retry_on_conflict(always, attempts=2)


async def test_a_status_is_written_by_itself(client: InProcessClient) -> None:
    created = await client.create(NAMESPACES, {"metadata": {"name": "ns"}})
    condition = {"type": "Ready", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    status = {**created["status"], "conditions": [condition]}
    written = await patch_status(client, NAMESPACES, created, status)
    assert written is not None
    assert written["status"]["conditions"][0]["type"] == "Ready"
    assert await patch_status(client, NAMESPACES, written, written["status"]) is None
