"""An agent that only renews its lease, for weeks, leaves nothing behind with each renewal."""

from muster.runtime.client.builtin import LEASES
from tests.support.holdings import grown, population
from tests.unit.registration.agent.conftest import Fleet, until

MANY = 60
AGENTS = ("muster.registration", "muster.runtime", "muster.api", "muster.http", "_asyncio", "asyncio")


async def test_renewals_leave_nothing(fleet: Fleet) -> None:
    await fleet.give(fleet.hub.kubeconfig())
    async with fleet.running():
        await fleet.join()

        async def renew(times: int) -> None:
            wanted = fleet.hub.count("PUT", "/leases/") + times
            while fleet.hub.count("PUT", "/leases/") < wanted:
                await fleet.advance(75, step=25)

        await renew(10)
        before = population(*AGENTS)
        await renew(MANY)
        await until(lambda: fleet.hub.admin.list(LEASES), "a moment of rest")
        assert grown(before, population(*AGENTS), MANY // 10) == {}
