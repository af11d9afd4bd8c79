"""Works are applied, kept applied, reported and removed: what people on the hub and on the managed cluster see."""

from __future__ import annotations

from muster.runtime.resource import Resource
from tests.support.working import Workplace, condition, config_map

DEPLOYMENTS = Resource("apps/v1", "deployments", "Deployment")


async def test_a_work_costs_two_requests_on_the_hub_and_two_more_than_its_manifests_on_the_cluster(place: Workplace) -> None:
    async with place.agent() as agent:
        await place.create("first", config_map("zero", place.namespace))
        await place.wait_applied("first")
        await agent.quiet()
        agent.forget()

        await place.create("second", *(config_map(f"c{number}", place.namespace, a="b") for number in range(10)))
        await place.wait_applied("second")
        await agent.quiet()

        assert [method for method, _ in agent.hub.asked] == ["PATCH", "PATCH"]
        methods = sorted(method for method, _ in agent.spoke.asked)
        assert methods == ["PATCH", *["POST"] * 11]
        work = await place.work("second")
        assert work is not None
        status = work["status"]
        assert condition(status, "Applied")["message"] == "Apply manifest work complete"
        assert condition(status, "Available")["message"] == "All resources are available"
        assert [entry["resourceMeta"]["name"] for entry in status["resourceStatus"]["manifests"]] == [f"c{n}" for n in range(10)]
