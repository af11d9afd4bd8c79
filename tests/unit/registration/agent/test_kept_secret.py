"""A Secret of the agent when answers and watches do not come in the order in which things happened."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from muster.apiserver.server import ApiServer
from muster.embedded.in_process import InProcessClient
from muster.machinery.tasks import race
from muster.registration.agent.state.kept_secret import KeptSecret
from muster.runtime.cache import Informer, Snapshot
from muster.runtime.client.builtin import SECRETS
from tests.support.in_process import serving


class SlowAnswers(InProcessClient):
    """Writes are done at once, and answered once `answered` is set."""

    answered: asyncio.Event

    async def exchange(self, method: str, *args: Any, **options: Any) -> bytes:
        answer = await super().exchange(method, *args, **options)
        if method != "GET":
            await self.answered.wait()
        return answer


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with serving("c1") as server:
        yield server


async def test_a_secret_that_was_deleted_before_its_creation_is_answered_is_not_there(server: ApiServer) -> None:
    client, admin = (kind(server.client(server.clusters["c1"])) for kind in (SlowAnswers, InProcessClient))
    assert isinstance(client, SlowAnswers)
    client.answered = asyncio.Event()
    secret, changes = KeptSecret(client, "default", "credential"), asyncio.Queue[dict[str, bytes]]()
    informer: Informer[Snapshot] = Informer(admin, SECRETS, "default")
    informer.on_change(secret.seen)
    secret.on_change(lambda: changes.put_nowait(dict(secret.data)))

    async def play() -> None:
        await informer.synced()
        storing = asyncio.create_task(secret.store({"key": b"1"}))
        assert await changes.get() == {"key": b"1"}
        await admin.delete(SECRETS, "credential", "default")
        assert await changes.get() == {}
        client.answered.set()
        await storing
        assert (secret.exists, secret.data) == (False, {})
        await secret.store({"key": b"2"})
        assert (secret.exists, secret.data) == (True, {"key": b"2"})

    async with asyncio.timeout(10):
        await race(play(), informer.run())
