"""Whichever write of the controllers is their last, before it is carried out or after, the next life ends in the same state."""

from __future__ import annotations

import pytest

from muster.registration.drivers.certificates.requests import issued_certificate
from muster.runtime.client.builtin import SECRETS, SIGNING_REQUESTS
from tests.support.addon_hub import AddonHub
from tests.support.addon_requests import CLUSTER, content
from tests.support.mortal_hub import Life
from tests.support.template_addons import template_of
from tests.unit.addon.requests.test_approval import SIGNER, may_sign
from tests.unit.addon.requests.test_signer import SUBJECT, _parts, custom, elliptic, secret_of
from tests.unit.addon.requests.test_token_infrastructure import OBJECTS, TOKEN, none_left, until_ready

WRITES = 6
"""Account, role, binding and condition; approval and certificate."""


async def prepare(hub: AddonHub) -> None:
    hub.configs.put(template_of(registration=[{"type": "KubeClient"}, custom()]))
    await hub.cluster()
    await hub.offer("hello", "hello-1")
    await hub.enable(template="hello-1")
    await hub.status(TOKEN)
    await may_sign(hub)
    await hub.admin.create(SECRETS, secret_of(*_parts(elliptic(hub.clock.now()))))
    await hub.ask("addon-1", pem=content(SUBJECT), signer=SIGNER)


async def certified(hub: AddonHub) -> bool:
    csr = await hub.admin.get(SIGNING_REQUESTS, "addon-1")
    return bool(issued_certificate(csr)) and len(csr["status"]["conditions"]) == 1


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("writes", range(WRITES))
async def test_a_controller_that_dies_at_a_write_leaves_work_for_the_next(idle: AddonHub, writes: int, before: bool) -> None:
    await prepare(idle)
    async with idle.running(Life(writes, before=before)) as life:

        async def over() -> bool:
            return life.over.is_set()

        await idle.until(over, f"the end at write {writes}")
    async with idle.running() as life:
        await until_ready(idle)
        await idle.until(lambda: certified(idle), "a certificate")
        assert len(life.writes) <= WRITES
    found = [await idle.admin.get(kind, name, CLUSTER) for kind, name in OBJECTS]
    assert all(one["metadata"]["labels"] for one in found)


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("writes", range(4))
async def test_one_that_dies_removing_leaves_the_rest_to_the_next(idle: AddonHub, writes: int, before: bool) -> None:
    await idle.cluster()
    await idle.enable()
    await idle.status(TOKEN)
    async with idle.running():
        await until_ready(idle)
    await idle.status({"kubeClientDriver": "csr"})
    async with idle.running(Life(writes, before=before)) as life:

        async def over() -> bool:
            return life.over.is_set()

        await idle.until(over, f"the end at write {writes}")
    async with idle.running():
        await idle.until(lambda: none_left(idle), "the objects to be gone")
