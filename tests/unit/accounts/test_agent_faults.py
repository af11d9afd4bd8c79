"""The agent may die before or after any write, and meets objects of any shape: it ends where it would have ended."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import Any, Final

import pytest

from muster.accounts.hub.addon import KINDS
from muster.api.crds import definitions
from muster.runtime.client import KubeError, Unreachable
from muster.runtime.client.builtin import CRDS, SECRETS, SERVICE_ACCOUNTS
from tests.support.mortal_hub import Life
from tests.unit.accounts.conftest import ACCOUNTS, CLUSTER, NAMESPACE, AccountSite, is_gone

MOST: Final = 40
"""Writes that nothing here needs."""


@pytest.mark.parametrize("early", [True, False], ids=["before", "after"])
async def test_dying_at_any_write(site: AccountSite, early: bool) -> None:
    for writes in range(MOST):
        name = f"gateway{writes}"
        await site.want(name)
        async with site.agent(Life(writes, before=early)) as life:
            over = asyncio.create_task(life.over.wait())
            end = asyncio.create_task(site.reported(name))
            await asyncio.wait({over, end}, return_when=asyncio.FIRST_COMPLETED)
            over.cancel()
            end.cancel()
            await asyncio.gather(end, over, return_exceptions=True)
        async with site.agent():
            token = await site.reported(name)
            assert await site.is_accepted(token)
            await site.hub.delete(ACCOUNTS, name, CLUSTER)
            await site.until(partial(is_gone, site, name), "the account to go")
        if not life.over.is_set():
            return
    raise AssertionError(f"no account should need {MOST} writes")


@pytest.mark.parametrize("early", [True, False], ids=["before", "after"])
async def test_dying_while_an_account_is_removed(site: AccountSite, early: bool) -> None:
    await site.want("gateway")
    async with site.agent():
        await site.reported("gateway")
    await site.hub.delete(ACCOUNTS, "gateway", CLUSTER)
    async with site.agent(Life(0, before=early)) as life:
        await site.until(lambda: _is_set(life), "the end")
    async with site.agent():
        await site.until(partial(is_gone, site, "gateway"), "the account to go")


async def _is_set(life: Life) -> bool:
    return life.over.is_set()


async def test_a_hub_that_is_away_is_waited_for(site: AccountSite) -> None:
    await site.want("gateway")
    async with site.agent() as life:
        await site.reported("gateway")
        life.refuse = lambda method, path: Unreachable("in-process", "away") if method != "GET" and "secrets" in path else None
        await site.hub.delete(SECRETS, "gateway", CLUSTER)

        async def tried() -> bool:
            return sum(method == "POST" and path.endswith("/secrets") for method, path in life.asked) > 2

        await site.until(tried, "some tries", moving=1.0)
        life.refuse = lambda method, path: None
        await site.until(lambda: site.token("gateway"), "the Secret", moving=1.0)


async def test_a_refusal_is_told_and_holds_up_nobody_else(site: AccountSite) -> None:
    await site.want("gateway")
    await site.want("other")
    async with site.agent() as life:
        await site.reported("other")
        token = await site.reported("gateway")
        life.refuse = lambda method, path: _forbidden() if path.endswith("/gateway/token") else None
        await site.hub.delete(SECRETS, "gateway", CLUSTER)
        message = await site.failing("gateway", "not today")
        assert token not in message
        await site.want("later")
        await site.reported("later")


def _forbidden() -> Exception:
    from muster.runtime.client.errors import status_error

    return status_error(403, b'{"kind":"Status","message":"not today","code":403,"reason":"Forbidden"}')


HOSTILE: Final[tuple[Any, ...]] = (None, 0, True, "x", [], {}, [None], {"x": {"y": []}}, ["x"], -1e300, "2026", {"": ""})


async def test_objects_of_any_shape_harm_themselves_alone(site: AccountSite) -> None:
    (document,) = definitions(KINDS)
    for version in document["spec"]["versions"]:
        version["schema"] = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    await site.hub.apply(CRDS, document, manager="test")
    await site.want("good")
    async with site.agent():
        first = await site.reported("good")
        for number, value in enumerate(HOSTILE):
            shapes: list[dict[str, Any]] = [
                {"spec": value},
                {"spec": {"rotation": value}},
                {"spec": {"rotation": {"validity": value}}},
            ]
            shapes += [{"status": value}, {"status": {"conditions": value}}, {"status": {"tokenSecretRef": value}}]
            for place, shape in enumerate(shapes):
                metadata = {"name": f"evil{number}-{place}", "namespace": CLUSTER}
                body = {"apiVersion": ACCOUNTS.api_version, "kind": ACCOUNTS.kind, "metadata": metadata, **shape}
                with suppress(KubeError):
                    await site.hub.create(ACCOUNTS, body, CLUSTER)
                    if "status" in shape:
                        await site.hub.patch(ACCOUNTS, metadata["name"], shape, CLUSTER, subresource="status")
            await site.hub.patch(ACCOUNTS, "good", {"status": {"conditions": value}}, CLUSTER, subresource="status")
        await site.want("later")
        await site.reported("later")
        await site.hub.patch(ACCOUNTS, "good", {"status": None}, CLUSTER, subresource="status")
        assert await site.reported("good") == first
    async with site.agent():
        await site.want("last")
        await site.reported("last")
        # What an unreadable account has is not taken away.
        assert await site.service_account("good") is not None
    assert (await site.spoke.list(SERVICE_ACCOUNTS, NAMESPACE)).items
