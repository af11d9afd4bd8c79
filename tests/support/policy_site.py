"""A managed cluster with a policy controller on it, and a hub beside, on an API server in this process.

Time stands still but where a test moves it. The controller may die at any of its requests (`Life`), and everything that it asks is
on record there.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from muster.api.crds import POLICY
from muster.api.policy.v1 import ConfigurationPolicy
from muster.apiserver.server import ApiServer
from muster.machinery.metrics import Metrics
from muster.machinery.objects import GVR, Object, ObjectKey
from muster.policy.configuration.controller import ConfigurationPolicyOptions
from muster.policy.manager import PolicyManager, PolicyOptions
from muster.runtime.client import KubeClient, served
from muster.runtime.client.builtin import CONFIG_MAPS, CORE_EVENTS
from tests.support.in_process import serving
from tests.support.mortal_hub import Life
from tests.support.mortal_site import CLUSTER, MortalSite

POLICIES = served(ConfigurationPolicy)
KINDS = tuple(kind for kind in POLICY if not kind.name.startswith("policies."))


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


class PolicySite(MortalSite):
    def __init__(self, server: ApiServer) -> None:
        super().__init__(server)
        self.options = PolicyOptions(CLUSTER, ConfigurationPolicyOptions((CLUSTER, "open-cluster-management-policies")))
        self.manager: PolicyManager | None = None
        self.metrics = Metrics()

    async def prepare(self) -> None:
        await self.define(self.spoke, KINDS)
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
        async with self.living(manager.run, living):
            yield living

    # What people do.

    async def create(self, document: Object) -> Object:
        return await self.spoke.create(POLICIES, document, document["metadata"]["namespace"])

    async def change(self, name: str, patch: Object) -> Object:
        return await self.spoke.patch(POLICIES, name, patch, CLUSTER)

    # What there is.

    async def get(self, name: str, namespace: str = CLUSTER) -> Object | None:
        return await self.find(self.spoke, POLICIES, name, namespace)

    async def status(self, name: str, namespace: str = CLUSTER) -> Object:
        return ((await self.get(name, namespace)) or {}).get("status") or {}

    async def object(self, name: str, namespace: str = "app", resource: GVR = CONFIG_MAPS) -> Object | None:
        return await self.find(self.spoke, resource, name, namespace)

    async def data(self, name: str, namespace: str = "app") -> Any:
        return ((await self.object(name, namespace)) or {}).get("data")

    async def events(self, name: str, namespace: str = CLUSTER) -> list[Object]:
        found = await self.spoke.list(CORE_EVENTS, namespace)
        return [one for one in found.items if one["involvedObject"]["name"] == name]

    # Waiting.

    async def reported(self, name: str, compliant: str, words: str = "", namespace: str = CLUSTER, moving: float = 0.2) -> Object:
        """The status of a policy, once it says so."""

        async def look() -> Object | None:
            status = await self.status(name, namespace)
            said = status.get("compliant") == compliant and words in str(status.get("history", [{}])[0].get("message", ""))
            return status if said else None

        found: Object = await self.until(look, f"{name} to be {compliant} with {words!r}", moving=moving)
        return found


def requests_of(life: Life, since: int) -> Iterator[str]:
    return (f"{method} {path}" for method, path in life.asked[since:])


def key(document: Object) -> ObjectKey:
    return ObjectKey(document["metadata"]["namespace"], document["metadata"]["name"])


@asynccontextmanager
async def policy_site() -> AsyncIterator[PolicySite]:
    async with serving("hub", CLUSTER) as server:
        found = PolicySite(server)
        await found.prepare()
        yield found
