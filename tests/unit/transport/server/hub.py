"""A hub of fake services before a real API server, whose RBAC decides: calls are made without a wire."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import orjson

from muster.api.agents import PREFIX
from muster.fleet.in_process import InProcessClient
from muster.machinery.clock import SYSTEM, Clock
from muster.machinery.metrics import Metrics
from muster.machinery.objects import Object
from muster.runtime.auth import RbacAuthorizer
from muster.runtime.auth.rbac import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES
from muster.runtime.client.errors import KubeError, Unreachable
from muster.runtime.client.rest import JSON, Query
from muster.transport.contract.rows import Row
from muster.transport.contract.types import Action, Subresource
from muster.transport.rpc.status import RpcError
from muster.transport.server.authentication import Identity
from muster.transport.server.authorization import Authorization
from muster.transport.server.broker import Broker
from muster.transport.server.guard import StreamGuard
from muster.transport.server.service import CloudEventService
from tests.unit.transport.server.fakes import FakeCall, FakeStream, all_services, published, subscription

GROUP = "rbac.authorization.k8s.io"


class Recording(InProcessClient):
    """Counts the requests that are no reads by informers."""

    def __init__(self, client: Any) -> None:
        super().__init__(client)
        self.reviews: list[dict[str, Any]] = []
        self.failing: KubeError | None = None
        self.away = False

    async def exchange(
        self, method: str, path: str, query: Query, body: bytes | None = None, media: str = JSON, *, idempotent: bool
    ) -> bytes:
        if self.away:
            raise Unreachable("https://hub.internal", "connection refused")
        if path.endswith("/subjectaccessreviews") and body is not None:
            if self.failing is not None:
                raise self.failing
            self.reviews.append(orjson.loads(body)["spec"])
        return await super().exchange(method, path, query, body, media, idempotent=idempotent)


class Known:
    """Authentication of calls whose caller a test has put there; `refused` are those that prove nothing any more."""

    def __init__(self) -> None:
        self.refused: dict[str, RpcError] = {}

    async def __call__(self, head: FakeCall) -> Identity:
        who: Identity = head.caller
        if who.user.name in self.refused:
            raise self.refused[who.user.name]
        return who


class TestHub:
    __test__ = False

    def __init__(self, client: Recording, clock: Clock = SYSTEM) -> None:
        self.client = client
        self.services = all_services()
        self.rbac = RbacAuthorizer(client)
        self.authorization = Authorization(client, self.rbac)
        self.broker = Broker(self.services.values(), heartbeat=None)
        self.metrics = Metrics()
        self.known = Known()
        self.guard = StreamGuard(self.broker, self.known, self.authorization)  # type: ignore[arg-type]
        self.service = CloudEventService(self.broker, self.authorization, self.metrics, clock=clock)
        self.tasks: list[asyncio.Task[Any]] = []

    async def start(self) -> None:
        self.tasks = [asyncio.create_task(self.rbac.run()), asyncio.create_task(self.guard.run())]
        assert await self.rbac.synced(10)

    async def stop(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    # What agents do

    async def publish(
        self,
        who: Identity,
        row: Row,
        action: Action,
        cluster: str,
        obj: Any,
        *,
        subresource: Subresource = Subresource.SPEC,
        call: FakeCall | None = None,
        **attributes: Any,
    ) -> bytes:
        message = published(row, action, cluster, obj, subresource=subresource, **attributes)
        return await self.service.publish(call or FakeCall(who), message)

    def subscribe(
        self, who: Identity, data_type: object, cluster: str, *, call: FakeCall | None = None, source: str = ""
    ) -> Listener:
        return Listener(self, call or FakeCall(who), subscription(data_type, cluster, source))

    # What administrators do

    async def grant(self, name: str, subject: Object, *rules: Object) -> None:
        await self.client.create(CLUSTER_ROLES, {"metadata": {"name": name}, "rules": list(rules)})
        ref = {"apiGroup": GROUP, "kind": "ClusterRole", "name": name}
        await self.client.create(
            CLUSTER_ROLE_BINDINGS, {"metadata": {"name": name}, "roleRef": ref, "subjects": [{"apiGroup": GROUP, **subject}]}
        )

    async def revoke(self, name: str) -> None:
        await self.client.delete(CLUSTER_ROLE_BINDINGS, name)

    async def accept(self, cluster: str) -> None:
        """Grant what an accepted cluster's agents may, everywhere: that they keep to their cluster is not the rules' doing here."""
        await self.grant(f"accepted-{cluster}", {"kind": "Group", "name": f"{PREFIX}{cluster}"}, *AGENT_RULES)

    async def invite(self, user: str, names: Iterable[str] = ()) -> None:
        """Grant what a newcomer's token may, for clusters of these names only, if any are given."""
        create = rule("cluster.open-cluster-management.io", "managedclusters", "create")
        if names:
            create["resourceNames"] = list(names)
        await self.grant(
            f"invited-{user}",
            {"kind": "User", "name": f"system:serviceaccount:hub:{user}"},
            create,
            rule("cluster.open-cluster-management.io", "managedclusters", "get,list,watch"),
            rule("certificates.k8s.io", "certificatesigningrequests", "create,get,list,watch"),
        )


class Listener:
    def __init__(self, hub: TestHub, call: FakeCall, message: bytes) -> None:
        self.call = call
        self.stream = FakeStream()
        self.task = asyncio.create_task(hub.service.subscribe(call, message, self.stream))
        hub.tasks.append(self.task)

    async def started(self) -> Listener:
        """Until the head is there; raises what the call fails with."""
        async with asyncio.timeout(10):
            while self.stream.metadata is None:
                if self.task.done():
                    await self.task
                await asyncio.sleep(0)
        return self

    async def code(self) -> str:
        """How the stream ends."""
        try:
            async with asyncio.timeout(10):
                await self.task
        except RpcError as error:
            return error.code.name
        return "OK"


def rule(group: str, resources: str, verbs: str) -> Object:
    return {"apiGroups": [group], "resources": resources.split(","), "verbs": verbs.split(",")}


AGENT_RULES = (
    rule("certificates.k8s.io", "certificatesigningrequests", "create,get,list,watch"),
    rule("cluster.open-cluster-management.io", "managedclusters", "get,list,update,watch,create"),
    rule("cluster.open-cluster-management.io", "managedclusters/status", "patch,update"),
    rule("coordination.k8s.io", "leases", "get,list,watch,update"),
    rule("addon.open-cluster-management.io", "managedclusteraddons", "get,list,watch,update"),
    rule("addon.open-cluster-management.io", "managedclusteraddons/status", "patch,update"),
    rule("events.k8s.io", "events", "create,update,list,watch"),
    rule("work.open-cluster-management.io", "manifestworks", "get,list,watch,update"),
    rule("work.open-cluster-management.io", "manifestworks/status", "patch,update"),
    rule("", "serviceaccounts/token", "create,subscribe"),
)
