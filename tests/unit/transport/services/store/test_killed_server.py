"""One of two servers is killed in the middle of its work: whatever it acknowledged is there, and the other goes on."""

from __future__ import annotations

import asyncio
import random
import sys
from pathlib import Path

from muster.transport.contract.rows import WORKS
from muster.transport.contract.types import Action
from tests.unit.transport.services.store.hubs import agent_of, applied, running_hub, until

KILLS = 3


class BusyHub:
    """What a process has said so far."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.made: set[str] = set()
        self.reported: dict[str, int] = {}
        self.ready = asyncio.Event()
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, database: str, directory: Path, cluster: str) -> BusyHub:
        program = (sys.executable, "-m", "tests.unit.transport.services.store.busy_hub", database, str(directory), cluster)
        return cls(await asyncio.create_subprocess_exec(*program, stdout=asyncio.subprocess.PIPE))

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            if not line.endswith(b"\n"):
                return
            word, *rest = line.decode().split()
            if word == "ready":
                self.ready.set()
            elif word == "made":
                self.made.add(rest[0])
            else:
                self.reported[rest[0]] = max(int(rest[1]), self.reported.get(rest[0], 0))

    async def kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()
        await self._reading


async def test_nothing_acknowledged_is_lost_and_the_other_server_goes_on(postgres: str, tmp_path: Path) -> None:
    async with running_hub(postgres, tmp_path) as hub:
        clusters = [f"c{number}" for number in range(KILLS)]
        for cluster in clusters:
            await hub.join(cluster)
        for cluster in clusters:
            busy = await BusyHub.start(postgres, tmp_path, cluster)
            try:
                async with asyncio.timeout(60):
                    await busy.ready.wait()
                enough = random.randint(10, 60)
                await until(lambda b=busy, n=enough: len(b.reported) > n, "it is at work", 60)  # type: ignore[misc]
            finally:
                await busy.kill()
            await hub.hub.server.store.synced()
            known = {event.attributes["resourceid"] for event in hub.known(WORKS, cluster)}
            for name in busy.made:
                found = await hub.work(cluster, name)
                assert found["metadata"]["uid"] in known
                reports = [int(each["message"]) for each in (found.get("status") or {}).get("conditions", ())[:1]]
                assert reports or name not in busy.reported
                assert not reports or reports[0] >= busy.reported.get(name, 0)
            told = hub.told(WORKS, cluster)
            assert told.count(Action.CREATE) == len(known), "each once"
            name = next(iter(busy.made))
            await hub.report(await hub.work(cluster, name), applied("the other goes on"), agent_of(cluster))
            assert (await hub.work(cluster, name))["status"]["conditions"][0]["message"] == "the other goes on"
