"""Works in a test: a cluster that is hub and managed cluster in one, agents of the product in the test's own process, and people.

`Workplace` is one cluster namespace on the hub with the managed cluster behind it; every test has its own, so tests do not meet.
The agent has its own service account's rights there, not the administrator's; what works bring besides is granted by the label
that administrators use. `requests` of a client tells what the agent has asked for.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from muster.api.crds import HUB, definitions
from muster.machinery.clock import SYSTEM, Clock
from muster.machinery.objects import GVR, Object
from muster.runtime.client.base import KubeClient
from muster.runtime.client.builtin import CLUSTER_ROLES, CONFIG_MAPS, CRDS, NAMESPACES
from muster.runtime.client.errors import AlreadyExists, Conflict, NotFound
from muster.runtime.client.http import HttpClient
from muster.runtime.client.kubeconfig import AuthInfo, load_kubeconfig
from muster.runtime.client.rest import JSON, Query
from muster.runtime.install import apply_all, await_definitions
from muster.work.agent.agent import WorkAgent
from muster.work.agent.install import AGGREGATE, PREFIX, install
from muster.work.agent.options import WorkAgentOptions
from muster.work.kinds import APPLIED_WORKS, MANIFEST_WORKS
from muster.work.names import DEFAULT_SERVICE_ACCOUNT
from tests.support.planes import Cluster

T = TypeVar("T")
_numbers = itertools.count(1)
_prepared: set[str] = set()
SERVICE_ACCOUNTS = GVR("v1", "serviceaccounts", "ServiceAccount")


class Counting(HttpClient):
    """Keeps what was asked for: method and path, watches as WATCH."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.asked: list[tuple[str, str]] = []
        self.unanswered = 0
        """Requests under way, watches aside."""

    async def exchange(
        self, method: str, path: str, query: Query, body: bytes | None = None, media: str = JSON, *, idempotent: bool
    ) -> bytes:
        self.asked.append((method, path))
        self.unanswered += 1
        try:
            return await super().exchange(method, path, query, body, media, idempotent=idempotent)
        finally:
            self.unanswered -= 1

    async def lines(
        self, path: str, query: Query, timeout: float | None, opened: Callable[[], None] | None
    ) -> AsyncGenerator[bytes, None]:
        self.asked.append(("WATCH", path))
        async for line in super().lines(path, query, timeout, opened):
            yield line

    @property
    def writes(self) -> list[tuple[str, str]]:
        return [(method, path) for method, path in self.asked if method not in ("GET", "WATCH")]


async def until_accounted(client: KubeClient, namespace: str) -> None:
    """Until a new namespace has the account without which no pod can be made."""
    names: set[str] = set()
    async with asyncio.timeout(40):
        while "default" not in names:
            await asyncio.sleep(0.02)
            names = {one["metadata"]["name"] for one in (await client.list(SERVICE_ACCOUNTS, namespace)).items}


def config_map(name: str, namespace: str, /, **data: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": data}


def identifier(manifest: Object, plural: str, **options: Any) -> Object:
    """A manifestConfig of a manifest."""
    group = manifest["apiVersion"].rpartition("/")[0]
    metadata = manifest["metadata"]
    resource = {"group": group, "resource": plural, "name": metadata["name"], "namespace": metadata.get("namespace", "")}
    return {"resourceIdentifier": resource, **options}


def condition(entry: Mapping[str, Any], kind: str) -> Object:
    """A condition of a work's status or of a manifest in it; empty when there is none."""
    return next((one for one in entry.get("conditions") or () if one["type"] == kind), {})


class Workplace:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        number = next(_numbers)
        self.name = f"cluster-{random.randrange(10**6)}-{number}"
        """Of the managed cluster: its namespace on the hub."""
        self.namespace = f"app-{self.name}"
        """On the managed cluster, for what works bring."""
        self.agent_namespace = f"agent-{self.name}"
        self.config = load_kubeconfig(cluster.kubeconfig)
        self.admin = HttpClient(self.config)
        self.token = ""
        """Of the agent's own account, once somebody has asked for a client."""
        self._granted: dict[str, list[Object]] = {}
        """By role."""

    async def prepare(self) -> None:
        if self.cluster.url not in _prepared:
            await apply_all(self.admin, [(CRDS, document) for document in definitions(HUB)], "tests")
            await await_definitions(self.admin, [kind.name for kind in HUB], SYSTEM)
            _prepared.add(self.cluster.url)
        await install(self.admin, self.agent_namespace)
        await asyncio.gather(*(self._namespace(name) for name in (self.name, self.namespace)))

    async def _namespace(self, name: str) -> None:
        with contextlib.suppress(AlreadyExists):
            await self.admin.create(NAMESPACES, {"metadata": {"name": name}})

    async def close(self) -> None:
        for work in await self.works():
            with contextlib.suppress(NotFound):
                await self.admin.patch(MANIFEST_WORKS, work["metadata"]["name"], {"metadata": {"finalizers": None}}, self.name)
        for name in (self.name, self.namespace, self.agent_namespace):
            with contextlib.suppress(NotFound, Conflict):
                await self.admin.delete(NAMESPACES, name)
        await self._revoke()
        await self.admin.close()

    async def _revoke(self) -> None:
        """All workplaces of a cluster have one role of the agent: what a test grants is not to help the next one."""
        for role in self._granted:
            await self.admin.delete(CLUSTER_ROLES, role)
        granted = [rule for rules in self._granted.values() for rule in rules]
        if granted:
            await self.wait(lambda: self._forgotten(granted), "the agent to have lost what it was granted")

    async def _forgotten(self, rules: list[Object]) -> bool:
        left = (await self.admin.get(CLUSTER_ROLES, f"{PREFIX}:aggregate")).get("rules") or []
        return not any(rule in left for rule in rules)

    async def client(self, url: str = "") -> Counting:
        """With the agent's own rights on the managed cluster; by way of `url`, if given."""
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 7200}}
        answer = await self.admin.create(
            SERVICE_ACCOUNTS, request, self.agent_namespace, name=DEFAULT_SERVICE_ACCOUNT, subresource="token"
        )
        self.token = answer["status"]["token"]
        identity = AuthInfo(token=self.token)
        return Counting(replace(self.config, server=url or self.config.server, identity=identity), agent="work-agent")

    async def grant(self, name: str, *rules: Object) -> None:
        """To the agent, as administrators do it."""
        role = f"{self.name}:{name}"
        metadata = {"name": role, "labels": {AGGREGATE: "true"}}
        self._granted[role] = list(rules)
        await self.admin.apply(CLUSTER_ROLES, {"metadata": metadata, "rules": list(rules)}, manager="tests")

    @contextlib.asynccontextmanager
    async def agent(self, *, clock: Clock = SYSTEM, hub: str = "", spoke: str = "", **options: Any) -> AsyncIterator[Running]:
        """A running agent; `hub` and `spoke` are other ways to the servers."""
        clients = Counting(replace(self.config, server=hub or self.config.server)), await self.client(spoke)
        chosen = WorkAgentOptions(cluster_name=self.name, **{"hub_url": self.config.server, "agent_id": self.name, **options})
        agent = WorkAgent(*clients, chosen, clock=clock)
        task = asyncio.create_task(agent.run())
        try:
            yield Running(agent, *clients, task)
            assert not task.done(), task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            for client in clients:
                await client.close()

    # What people on the hub do and see.

    async def create(self, name: str, *manifests: Object, labels: Mapping[str, str] | None = None, **spec: Any) -> Object:
        metadata = {"name": name, "namespace": self.name, "labels": dict(labels or {})}
        body = {"workload": {"manifests": list(manifests)}, **spec}
        kind = {"apiVersion": MANIFEST_WORKS.api_version, "kind": MANIFEST_WORKS.kind}
        return await self.admin.create(MANIFEST_WORKS, {**kind, "metadata": metadata, "spec": body})

    async def change(self, name: str, *manifests: Object, **spec: Any) -> Object:
        """Replace the manifests, and of the rest of the spec what is given."""
        body = {**({"workload": {"manifests": list(manifests)}} if manifests else {}), **spec}
        return await self.admin.patch(MANIFEST_WORKS, name, {"spec": body}, self.name)

    async def delete(self, name: str) -> None:
        await self.admin.delete(MANIFEST_WORKS, name, self.name)

    async def works(self) -> list[Object]:
        return (await self.admin.list(MANIFEST_WORKS, self.name)).items

    async def work(self, name: str) -> Object | None:
        return await self.find(MANIFEST_WORKS, name, self.name)

    async def find(self, resource: GVR, name: str, namespace: str = "") -> Object | None:
        try:
            return await self.admin.get(resource, name, namespace)
        except NotFound:
            return None

    async def data(self, name: str) -> Mapping[str, str] | None:
        """Of a ConfigMap on the managed cluster; None when it is not there."""
        found = await self.find(CONFIG_MAPS, name, self.namespace)
        return None if found is None else found.get("data") or {}

    async def record(self, agent: Running, work: str) -> Object | None:
        return await self.find(APPLIED_WORKS, f"{agent.hub_hash}-{work}")

    async def wait(self, look: Callable[[], Any], what: str, timeout: float = 40.0) -> Any:
        """What the coroutine of `look` gives, once that is true in the sense of `if`."""
        deadline = time.monotonic() + timeout
        seen = await look()
        while not seen:
            if time.monotonic() > deadline:
                raise AssertionError(
                    f"waited {timeout:g} s for {what}; last seen: {[work.get('status') for work in await self.works()]}"
                )
            await asyncio.sleep(0.02)
            seen = await look()
        return seen

    async def wait_condition(self, name: str, kind: str, status: str = "True", timeout: float = 40.0, **expected: Any) -> Object:
        """The work, once it has this condition for its current generation."""

        async def look() -> Object | None:
            work = await self.work(name)
            if work is None:
                return None
            found = condition(work.get("status") or {}, kind)
            current = found.get("observedGeneration") == work["metadata"]["generation"]
            right = found.get("status") == status and all(found.get(key) == value for key, value in expected.items())
            return work if current and right else None

        found: Object = await self.wait(look, f"{name} to be {kind}={status}", timeout)
        return found

    async def wait_applied(self, name: str, timeout: float = 40.0) -> Object:
        return await self.wait_condition(name, "Applied", timeout=timeout)

    async def wait_gone(self, name: str, timeout: float = 40.0) -> None:
        async def look() -> bool:
            return await self.work(name) is None

        await self.wait(look, f"the work {name} to go", timeout)

    async def manifest(self, name: str, ordinal: int) -> Object:
        """The status of a manifest."""
        work = await self.work(name)
        assert work is not None
        found: Object = work["status"]["resourceStatus"]["manifests"][ordinal]
        return found


class Running:
    """An agent at work, and what it asked for."""

    def __init__(self, agent: WorkAgent, hub: Counting, spoke: Counting, task: asyncio.Task[None]) -> None:
        self.agent = agent
        self.hub = hub
        self.spoke = spoke
        self.task = task

    @property
    def hub_hash(self) -> str:
        return self.agent.hub_hash

    def forget(self) -> None:
        """What was asked for so far."""
        self.hub.asked.clear()
        self.spoke.asked.clear()

    async def quiet(self, seconds: float = 1.0, patience: float = 20.0) -> None:
        """Until it has asked for nothing for so long, and waits for no answer: a server may take its time."""
        deadline = time.monotonic() + patience
        count = -1
        while count != (count := len(self.hub.asked) + len(self.spoke.asked)) or self.hub.unanswered or self.spoke.unanswered:
            assert time.monotonic() < deadline, (self.hub.asked[-5:], self.spoke.asked[-5:])
            await asyncio.sleep(seconds)
