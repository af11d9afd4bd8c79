"""Operators under test, on any cluster: install what is around one, look at what it makes, and play kubelet to its Deployments."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from muster.machinery.clock import SYSTEM
from muster.machinery.objects import GVR, Object
from muster.operator.bundle import Operator, bundle
from muster.runtime.client.builtin import CRDS, DEPLOYMENTS
from muster.runtime.client.errors import NotFound
from muster.runtime.client.rest import RestClient
from muster.runtime.install import await_definitions

SECONDS = 20.0


@dataclass
class Observed:
    """One cluster, seen by its administrator."""

    admin: RestClient

    async def surround(self, operator: Operator) -> None:
        """Install what is around an operator."""
        documents = bundle(operator)
        for resource, document in documents:
            await self.admin.apply(resource, document, manager="test")
        names = [document["metadata"]["name"] for resource, document in documents if resource is CRDS]
        await await_definitions(self.admin, names, SYSTEM)

    async def find(self, resource: GVR, name: str, namespace: str = "") -> Object | None:
        try:
            return await self.admin.get(resource, name, namespace)
        except NotFound:
            return None

    async def until(self, probe: Callable[[], Awaitable[Any]], what: str, seconds: float = SECONDS) -> Any:
        try:
            async with asyncio.timeout(seconds):
                while True:
                    found = await probe()
                    if found:
                        return found
                    await asyncio.sleep(0.01)
        except TimeoutError:
            raise AssertionError(f"never so: {what}") from None

    async def until_found(self, resource: GVR, name: str, namespace: str = "", seconds: float = SECONDS) -> Object:
        what = f"there is {resource} {namespace}/{name}"
        found: Object = await self.until(lambda: self.find(resource, name, namespace), what, seconds)
        return found

    async def until_gone(self, resource: GVR, name: str, namespace: str = "", seconds: float = SECONDS) -> None:
        async def gone() -> bool:
            return await self.find(resource, name, namespace) is None

        try:
            await self.until(gone, f"{resource} {namespace}/{name} is gone", seconds)
        except AssertionError as error:
            found = await self.find(resource, name, namespace) or {}
            raise AssertionError(f"{error}; it says {(found.get('status') or {}).get('conditions')}") from None

    async def set_available(self, name: str, namespace: str, *, available: bool = True) -> None:
        """What a kubelet and the Deployment controller would say."""
        await self.say_available(await self.until_found(DEPLOYMENTS, name, namespace), available=available)

    async def say_available(self, deployment: Object, *, available: bool = True) -> None:
        metadata, replicas = deployment["metadata"], deployment["spec"]["replicas"]
        ready = replicas if available else 0
        status = {
            "observedGeneration": metadata["generation"],
            "replicas": replicas,
            "updatedReplicas": replicas,
            "readyReplicas": ready,
            "availableReplicas": ready,
        }
        if {name: (deployment.get("status") or {}).get(name, 0) for name in status} == status:
            return
        await self.admin.patch(DEPLOYMENTS, metadata["name"], {"status": status}, metadata["namespace"], subresource="status")

    async def condition(self, resource: GVR, name: str, kind: str) -> Object:
        found = await self.find(resource, name)
        conditions = ((found or {}).get("status") or {}).get("conditions") or ()
        return next((one for one in conditions if one["type"] == kind), {})

    async def until_condition(
        self, resource: GVR, name: str, kind: str, status: str, reason: str = "", seconds: float = SECONDS
    ) -> Object:
        async def so() -> Object | None:
            found = await self.condition(resource, name, kind)
            return found if found.get("status") == status and (not reason or found["reason"] == reason) else None

        try:
            found: Object = await self.until(so, f"{kind} of {name} is {status} {reason}", seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}; it is {await self.condition(resource, name, kind)}") from None
        return found


@asynccontextmanager
async def running(work: Awaitable[Any]) -> AsyncIterator[asyncio.Future[Any]]:
    """Until the block ends, or the work does by itself."""
    task = asyncio.ensure_future(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task})
    if not task.cancelled() and task.exception() is not None:
        raise task.exception()  # type: ignore[misc]  # just looked
