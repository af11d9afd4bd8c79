"""The lease of an addon's agent."""

from __future__ import annotations

import asyncio
from typing import Any

from muster.addon.lease import LeaseUpdater, api_server_healthy, pod_running
from muster.fleet.in_process import embedded_cluster
from muster.runtime.client.builtin import LEASES, NAMESPACES, PODS
from muster.runtime.client.errors import NotFound
from tests.support.eventually import eventually
from tests.support.fake_clock import FakeClock


async def test_a_lease_is_made_and_renewed_while_all_is_well() -> None:
    clock = FakeClock()
    well = True

    async def check() -> bool:
        return well

    async with embedded_cluster() as client:
        await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "hello-ns"}})
        checks = (check, api_server_healthy(client))
        updater = LeaseUpdater(client, "hello", "hello-ns", checks, clock=clock, random=lambda: 0.0)

        async def renewed() -> Any:
            try:
                return (await client.get(LEASES, "hello", "hello-ns"))["spec"]["renewTime"]
            except NotFound:
                return None

        task = asyncio.create_task(updater.run())
        try:
            first = await eventually(renewed, "the lease", 30)

            async def later() -> bool:
                await clock.advance(30)
                return await renewed() > first

            await eventually(later, "a renewal", 30)
            well = False
            last = await renewed()
            assert not await updater.update()
            assert await renewed() == last
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_an_agent_is_well_while_one_of_its_pods_runs() -> None:
    async with embedded_cluster() as client:
        await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "hello-ns"}})
        check = pod_running(client, "hello-ns", "app=hello")
        assert not await check()
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "agent", "namespace": "hello-ns", "labels": {"app": "hello"}},
            "spec": {"containers": [{"name": "agent", "image": "agent"}], "serviceAccountName": "default"},
        }
        await eventually(lambda: _created(client, pod), "the pod", 30)
        await client.patch(PODS, "agent", {"status": {"phase": "Running"}}, "hello-ns", subresource="status")
        assert await check()


async def _created(client: Any, pod: Any) -> bool:
    """The namespace's service account is made a moment after it."""
    try:
        await client.create(PODS, pod)
    except Exception:
        return False
    return True
