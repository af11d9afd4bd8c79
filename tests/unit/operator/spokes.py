"""A Klusterlet operator at work on one cluster, with the other one as its hub or as the cluster it manages."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from muster.fleet.in_process import InProcessClient
from muster.kube import yaml
from muster.machinery.authentication import UserInfo
from muster.machinery.clock import SYSTEM, Clock
from muster.machinery.objects import Object
from muster.operator.bundle import KLUSTERLET_OPERATOR
from muster.operator.klusterlet.controller import KlusterletOperator, KlusterletOptions
from muster.operator.names import KLUSTERLETS
from muster.registration.drivers.endpoints import EndpointError, EndpointFormat
from muster.registration.names import AGENT_NAMESPACE, BOOTSTRAP_SECRET, HUB_SECRET
from muster.runtime.client.base import KubeClient
from muster.runtime.client.builtin import DEPLOYMENTS, SECRETS
from muster.runtime.client.errors import Unreachable
from muster.runtime.client.rest import JSON, Query
from muster.runtime.install import ensure_namespace
from tests.unit.operator.conftest import Cluster, CountingClient, running

K = "klusterlet"
AGENT = f"{K}-registration-agent"
WORK_AGENT = f"{K}-work-agent"
IMAGE = "example.com/muster:test"


def kubeconfig(user: str, server: str = "https://hub.example.com") -> bytes:
    return yaml.dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "hub", "cluster": {"server": server}}],
            "users": [{"name": "me", "user": {"username": user, "password": "secret"}}],
            "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": "me"}}],
            "current-context": "hub",
        }
    ).encode()


class Hub:
    """What agents' kubeconfigs lead to, as the user that they name."""

    def __init__(self, place: Cluster) -> None:
        self.place = place
        self.away = False
        self.opened = 0
        self.permitted = {"admin"}
        """Users who may do everything; others may do nothing."""

    @asynccontextmanager
    async def open(
        self, endpoints: EndpointFormat, contents: Mapping[str, bytes], source: str, cluster: str
    ) -> AsyncIterator[KubeClient]:
        self.opened += 1
        try:
            document = yaml.load(contents[endpoints.key])
            name = document["users"][0]["user"]["username"]
        except (KeyError, TypeError, yaml.YAMLError):
            raise EndpointError(source, "not a kubeconfig") from None
        if self.away:
            raise Unreachable("hub", "connection refused")
        groups = ("system:masters",) if name in self.permitted else ()
        user = UserInfo(name, groups=(*groups, "system:authenticated"))
        yield InProcessClient(self.place.server.client(self.place.server.clusters[self.place.name], user), "hub")


class Cuttable(CountingClient):
    """A client that finds nobody while its cluster is `away`."""

    away = False

    async def exchange(
        self, method: str, path: str, query: Query, body: bytes | None = None, media: str = JSON, *, idempotent: bool
    ) -> bytes:
        if Cuttable.away:
            raise Unreachable("managed", "no route to host", sent=False)
        return await super().exchange(method, path, query, body, media, idempotent=idempotent)


@dataclass
class Spoke:
    """An operator at work, and what an administrator sees of it."""

    place: Cluster
    client: CountingClient
    hub: Hub

    async def create(self, name: str = K, labels: Mapping[str, str] | None = None, **spec: Any) -> Object:
        metadata = {"name": name, **({"labels": dict(labels)} if labels else {})}
        document = {"apiVersion": KLUSTERLETS.api_version, "kind": "Klusterlet", "metadata": metadata, "spec": spec}
        return await self.place.admin.create(KLUSTERLETS, document)

    async def change(self, spec: Object, name: str = K) -> None:
        await self.place.admin.patch(KLUSTERLETS, name, {"spec": spec})

    async def delete(self, name: str = K) -> None:
        await self.place.admin.delete(KLUSTERLETS, name)

    async def says(self, kind: str, status: str, reason: str = "", name: str = K) -> Object:
        return await self.place.until_condition(KLUSTERLETS, name, kind, status, reason)

    async def up(self, name: str = K, **spec: Any) -> None:
        await self.create(name, **spec)
        await self.says("Applied", "True", "KlusterletApplied", name)

    async def until_gone(self, name: str = K) -> None:
        await self.place.until_gone(KLUSTERLETS, name)

    async def deployment(self, name: str = AGENT, namespace: str = AGENT_NAMESPACE) -> Object:
        return await self.place.until_found(DEPLOYMENTS, name, namespace)

    async def arguments(self, name: str = AGENT, namespace: str = AGENT_NAMESPACE) -> list[str]:
        found: list[str] = (await self.deployment(name, namespace))["spec"]["template"]["spec"]["containers"][0]["args"]
        return found

    async def until_argument(self, argument: str, name: str = AGENT, namespace: str = AGENT_NAMESPACE) -> None:
        async def told() -> bool:
            return argument in await self.arguments(name, namespace)

        await self.place.until(told, f"the agent is told {argument}")

    async def secret(self, name: str, content: Mapping[str, bytes], namespace: str = AGENT_NAMESPACE) -> None:
        await ensure_namespace(self.place.admin, namespace)
        data = {key: base64.b64encode(value).decode() for key, value in content.items()}
        await self.place.admin.apply(SECRETS, {"metadata": {"name": name, "namespace": namespace}, "data": data}, manager="test")

    async def bootstrap(self, user: str = "admin", name: str = BOOTSTRAP_SECRET, namespace: str = AGENT_NAMESPACE) -> None:
        await self.secret(name, {"kubeconfig": kubeconfig(user)}, namespace)

    async def credential(self, user: str = "admin", namespace: str = AGENT_NAMESPACE, **content: bytes) -> None:
        await self.secret(HUB_SECRET, {"kubeconfig": kubeconfig(user), "cluster-name": b"c1", **content}, namespace)


@asynccontextmanager
async def operated(place: Cluster, hub: Hub, clock: Clock = SYSTEM, **options: Any) -> AsyncIterator[Spoke]:
    client = await place.operator(KLUSTERLET_OPERATOR)
    operator = KlusterletOperator(client, KlusterletOptions(image=IMAGE, open=hub.open, **options), clock=clock)
    async with running(operator.manager.run()):
        yield Spoke(place, client, hub)
