"""A managed cluster with a policy controller on it, and a hub beside, on an API server in this process.

Time stands still but where a test moves it. The controller may die at any of its requests (`Life`), and everything that it asks is
on record there.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from muster.api.crds import POLICY, definitions
from muster.api.policy.v1 import ConfigurationPolicy
from muster.apiserver.server import ApiServer, ServerConfig
from muster.fleet.in_process import InProcessClient
from muster.machinery.authentication import UserInfo
from muster.machinery.clock import SYSTEM
from muster.machinery.metrics import Metrics
from muster.machinery.objects import GVR, Object, ObjectKey
from muster.policy.configuration.controller import ConfigurationPolicyOptions
from muster.policy.process import PolicyManager, PolicyOptions
from muster.runtime.client import KubeClient, NotFound, served
from muster.runtime.client.builtin import CONFIG_MAPS, CORE_EVENTS, CRDS, NAMESPACES
from muster.runtime.install import apply_all, await_definitions
from tests.support.fake_clock import FakeClock
from tests.support.mortal_hub import Life, Mortal

CLUSTER = "cluster1"
POLICIES = served(ConfigurationPolicy)
KINDS = tuple(kind for kind in POLICY if not kind.name.startswith("policies."))
ADMINISTRATOR = UserInfo("admin", groups=("system:masters", "system:authenticated"))


def config_map(name: str, namespace: str = "app", /, **data: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": data}


def template(definition: Object, compliance: str = "musthave", **more: Any) -> Object:
    return {"complianceType": compliance, "objectDefinition": definition, **more}


def policy(name: str, *templates: Object, action: str = "enforce", namespace: str = CLUSTER, **spec: Any) -> Object:
    return {
        "apiVersion": POLICIES.api_version,
        "kind": POLICIES.kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"remediationAction": action, "object-templates": list(templates), **spec},
    }


class PolicySite:
    def __init__(self, server: ApiServer) -> None:
        self.server = server
        self.clock = FakeClock(datetime.now(UTC))
        for cluster in server.clusters.values():
            cluster.clock = self.clock.now
        self.hub, self.spoke = self.client("hub"), self.client(CLUSTER)
        self.options = PolicyOptions(CLUSTER, ConfigurationPolicyOptions((CLUSTER, "open-cluster-management-policies")))
        self.manager: PolicyManager | None = None
        self.metrics = Metrics()

    def client(self, cluster: str, life: Life | None = None) -> InProcessClient:
        client = Mortal(self.server.client(self.server.clusters[cluster], ADMINISTRATOR))
        client.life = life or Life()
        return client

    async def prepare(self) -> None:
        await apply_all(self.spoke, [(CRDS, document) for document in definitions(KINDS)], "test")
        await await_definitions(self.spoke, [kind.name for kind in KINDS], SYSTEM)
        for namespace in (CLUSTER, "app"):
            await self.create_namespace(namespace)

    @asynccontextmanager
    async def controller(
        self, life: Life | None = None, *, hub: KubeClient | None = None, target: KubeClient | None = None, **options: Any
    ) -> AsyncIterator[Life]:
        """While a controller lives, or until its life is over."""
        living = life or Life()
        self.metrics = Metrics()
        manager = self.manager = PolicyManager(
            self.client(CLUSTER, living),
            replace(self.options, **options),
            hub=hub,
            target=target,
            clock=self.clock,
            metrics=self.metrics,
        )
        task = asyncio.create_task(manager.run())
        try:
            yield living
            assert living.over.is_set() or not task.done(), task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    # What people do.

    async def create_namespace(self, name: str, **labels: str) -> Object:
        metadata = {"name": name, "labels": labels}
        return await self.spoke.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})

    async def create(self, document: Object) -> Object:
        return await self.spoke.create(POLICIES, document, document["metadata"]["namespace"])

    async def change(self, name: str, patch: Object) -> Object:
        return await self.spoke.patch(POLICIES, name, patch, CLUSTER)

    # What there is.

    async def get(self, name: str, namespace: str = CLUSTER) -> Object | None:
        with suppress(NotFound):
            return await self.spoke.get(POLICIES, name, namespace)
        return None

    async def status(self, name: str, namespace: str = CLUSTER) -> Object:
        return ((await self.get(name, namespace)) or {}).get("status") or {}

    async def object(self, name: str, namespace: str = "app", resource: GVR = CONFIG_MAPS) -> Object | None:
        with suppress(NotFound):
            return await self.spoke.get(resource, name, namespace)
        return None

    async def data(self, name: str, namespace: str = "app") -> Any:
        return ((await self.object(name, namespace)) or {}).get("data")

    async def events(self, name: str, namespace: str = CLUSTER) -> list[Object]:
        found = await self.spoke.list(CORE_EVENTS, namespace)
        return [one for one in found.items if one["involvedObject"]["name"] == name]

    # Waiting.

    async def until(self, probe: Callable[[], Awaitable[Any]], what: str, seconds: float = 20.0, moving: float = 0.02) -> Any:
        found: Any = None
        try:
            async with asyncio.timeout(seconds):
                while True:
                    await self.clock.advance(moving)
                    if found := await probe():
                        return found
                    await asyncio.sleep(0.002)
        except TimeoutError:
            raise AssertionError(f"waited for {what}; last seen: {found!r}") from None

    async def reported(self, name: str, compliant: str, words: str = "", namespace: str = CLUSTER, moving: float = 0.2) -> Object:
        """The status of a policy, once it says so."""

        async def look() -> Object | None:
            status = await self.status(name, namespace)
            said = status.get("compliant") == compliant and words in str(status.get("history", [{}])[0].get("message", ""))
            return status if said else None

        found: Object = await self.until(look, f"{name} to be {compliant} with {words!r}", moving=moving)
        return found

    async def at_rest(self, life: Life, seconds: float = 30.0) -> None:
        """Until the controller has had nothing to do for a while."""
        for _ in range(100):
            before = len(life.asked)
            for _ in range(int(seconds * 2)):
                await self.clock.advance(0.5)
            if len(life.asked) == before:
                return
        raise AssertionError(f"the controller does not come to rest: {life.asked[-10:]}")


def requests_of(life: Life, since: int) -> Iterator[str]:
    return (f"{method} {path}" for method, path in life.asked[since:])


def key(document: Object) -> ObjectKey:
    return ObjectKey(document["metadata"]["namespace"], document["metadata"]["name"])


@asynccontextmanager
async def policy_site() -> AsyncIterator[PolicySite]:
    server = ApiServer(ServerConfig(store="memory", namespace_grace_period=0, clusters=("hub", CLUSTER)))
    await server.start()
    found = PolicySite(server)
    await found.prepare()
    try:
        yield found
    finally:
        await server.stop(grace=0.1)
