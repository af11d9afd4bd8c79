"""`site`: a hub and a managed cluster on API servers in this process, and hub templates with the addon's rights on the hub only.

The way to the hub can break in every manner (`Outage`), and the program can die at any of its writes (`Life`).
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest

from muster.api.addons import AddonIdentity
from muster.api.cluster.v1 import ManagedCluster
from muster.api.crds import Definition, definitions
from muster.api.policy.v1 import ConfigurationPolicy
from muster.api.policy.v1beta1 import OperatorPolicy
from muster.apiserver.server import ApiServer
from muster.fleet.in_process import InProcessClient
from muster.machinery.authentication import UserInfo
from muster.machinery.clock import SYSTEM, Clock, SystemClock, Timer, within
from muster.machinery.objects import GVR, Object
from muster.policy.names import LAST_RESOLVED_KEY, LAST_RESOLVED_SUFFIX, STANDALONE_ADDON
from muster.policy.standalone import HubResolution, HubTemplateError, HubTemplates, PolicyKey
from muster.runtime.cache import Informers
from muster.runtime.client import KubeClient, NotFound, TooManyRequests, Unauthorized, Unreachable, served
from muster.runtime.client.builtin import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    CRDS,
    NAMESPACES,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
)
from muster.runtime.client.gate import Gate
from muster.runtime.client.rest import JSON, Query
from muster.runtime.install import RBAC_GROUP, apply_all, await_definitions
from tests.support.eventually import eventually
from tests.support.in_process import serving
from tests.support.mortal_hub import Life, Mortal

CLUSTER, NAMESPACE, SHOP = "cluster1", "cluster1", "shop"
POLICIES, OPERATOR_POLICIES = served(ConfigurationPolicy), served(OperatorPolicy)
MANAGED_CLUSTERS = served(ManagedCluster)
IDENTITY = AddonIdentity(CLUSTER, STANDALONE_ADDON, STANDALONE_ADDON)
COLOUR = '{{hub fromConfigMap "shop" "settings" "colour" hub}}'


class Outage:
    """What is wrong with the way to the hub. `begin` also breaks what is under way."""

    def __init__(self) -> None:
        self._fault: Callable[[], Exception] | None = None
        self._silent = False
        self._began = asyncio.Event()

    def begin(self, fault: Callable[[], Exception]) -> None:
        self._fault = fault
        self._began.set()

    def silence(self) -> None:
        """Nothing is answered, and nothing breaks."""
        self._silent = True
        self._began.set()

    def end(self) -> None:
        self._fault, self._silent = None, False
        self._began = asyncio.Event()

    async def check(self) -> None:
        if self._silent:
            await asyncio.Event().wait()
        if self._fault is not None:
            raise self._fault()

    async def wait(self) -> None:
        await self._began.wait()


class FastClock(SystemClock):
    """A second takes a fiftieth of one."""

    SPEED = 50

    def monotonic(self) -> float:
        return super().monotonic() * self.SPEED

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        return super().call_later(seconds / self.SPEED, callback)


class DistantClient(InProcessClient):
    """A client whose way to the server may break."""

    outage: Outage
    asked: list[tuple[str, str]]
    its_clock: Clock
    its_gate: Gate
    _lost: tuple[str, int] = ("", 0)

    @property
    def gate(self) -> Gate:
        return self.its_gate

    async def probe(self) -> None:
        try:
            await within(self.its_clock, 5, self.server_version())
        except TimeoutError:
            raise Unreachable("https://hub", "no answer") from None
        except (Unauthorized, TooManyRequests):
            return

    def lose(self, path: str, times: int = 1) -> None:
        """So many requests whose path ends so get no answer."""
        self._lost = path, times

    def _check_lost(self, path: str) -> None:
        ending, times = self._lost
        if times and path.endswith(ending):
            self._lost = ending, times - 1
            raise Unreachable("https://hub", "lost")

    async def exchange(
        self, method: str, path: str, query: Query, body: bytes | None = None, media: str = JSON, *, idempotent: bool
    ) -> bytes:
        self.asked.append((method, path))
        self._check_lost(path)
        await self.outage.check()
        return await super().exchange(method, path, query, body, media, idempotent=idempotent)

    async def lines(
        self, path: str, query: Query, timeout: float | None, opened: Callable[[], None] | None
    ) -> AsyncGenerator[bytes, None]:
        self.asked.append(("WATCH", path))
        await self.outage.check()
        lines = super().lines(path, query, timeout, opened)
        broken = asyncio.ensure_future(self.outage.wait())
        following: asyncio.Future[bytes] = asyncio.ensure_future(anext(lines))
        try:
            while True:
                await asyncio.wait((following, broken), return_when=asyncio.FIRST_COMPLETED)
                if broken.done():
                    await self.outage.check()
                try:
                    line = await following
                except StopAsyncIteration:
                    return
                yield line
                following = asyncio.ensure_future(anext(lines))
        finally:
            broken.cancel()
            following.cancel()
            await asyncio.gather(broken, following, return_exceptions=True)
            await lines.aclose()


@dataclass
class Controller:
    """A running instance of what is tested."""

    templates: HubTemplates
    hub: DistantClient | None
    life: Life
    changed: list[PolicyKey] = field(default_factory=list)
    again: asyncio.Event = field(default_factory=asyncio.Event)

    def note(self, policy: PolicyKey) -> None:
        self.changed.append(policy)
        self.again.set()

    async def told(self, policy: Object, seconds: float = 20.0) -> None:
        """Until the policy is to be resolved again."""
        async with asyncio.timeout(seconds):
            while PolicyKey.of(policy) not in self.changed:
                self.again.clear()
                await self.again.wait()
        self.changed.clear()

    async def resolve(self, policy: Object) -> HubResolution:
        return await self.templates.resolve(policy)

    async def fails(self, policy: Object) -> str:
        with pytest.raises(HubTemplateError) as caught:
            await self.templates.resolve(policy)
        return str(caught.value)

    async def healed(self, policy: Object, expected: Callable[[HubResolution], bool], seconds: float = 20.0) -> HubResolution:
        """What comes of resolving it whenever that is asked for, once it is as expected."""
        async with asyncio.timeout(seconds):
            while True:
                with suppress(HubTemplateError):
                    found = await self.templates.resolve(policy)
                    if expected(found):
                        return found
                await self.told(policy, seconds)


class Site:
    def __init__(self, server: ApiServer) -> None:
        self.server = server
        self.hub, self.spoke = self._admin("hub"), self._admin("managed")
        self.outage = Outage()

    def _admin(self, cluster: str) -> KubeClient:
        user = UserInfo("admin", groups=("system:masters", "system:authenticated"))
        return InProcessClient(self.server.client(self.server.clusters[cluster], user))

    async def prepare(self) -> None:
        managed_cluster = Definition((ManagedCluster,), "v1")
        policies = [Definition((kind,), kind.resource.version) for kind in (ConfigurationPolicy, OperatorPolicy)]
        for client, kinds in ((self.hub, [managed_cluster]), (self.spoke, policies)):
            await apply_all(client, [(CRDS, document) for document in definitions(kinds)], "test")
            await await_definitions(client, [kind.name for kind in kinds], SYSTEM)
        await self.hub.create(NAMESPACES, named(NAMESPACES, SHOP))
        await self.spoke.create(NAMESPACES, named(NAMESPACES, NAMESPACE))

    @asynccontextmanager
    async def controller(
        self, *, enabled: bool = True, life: Life | None = None, clock: Clock = SYSTEM, denylist: frozenset[str] = frozenset()
    ) -> AsyncIterator[Controller]:
        """While the program runs; the next one knows nothing of it."""
        living = life or Life()
        spoke = Mortal(self.server.client(self.server.clusters["managed"]))
        spoke.life = living
        hub = self.addon_client(clock) if enabled else None
        informers = Informers(spoke)
        templates = HubTemplates(spoke, informers, cluster_name=CLUSTER, hub=hub, denylist=denylist, clock=clock)
        running = Controller(templates, hub, living)
        templates.on_change(running.note)
        tasks = [asyncio.create_task(informers.run()), asyncio.create_task(templates.run())]
        try:
            yield running
            assert not any(task.done() for task in tasks), tasks
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def addon_client(self, clock: Clock = SYSTEM) -> DistantClient:
        user = UserInfo(IDENTITY.user, groups=(*IDENTITY.groups, "system:authenticated"))
        client = DistantClient(self.server.client(self.server.clusters["hub"], user), "https://hub")
        client.outage, client.asked, client.its_clock = self.outage, [], clock
        client.its_gate = Gate(client.server, client.probe, clock=clock)
        return client

    # What administrators of the hub do.

    async def grant(self, resource: str, *names: str, verbs: tuple[str, ...] = ("list", "watch"), name: str = "") -> None:
        rules = [{"apiGroups": [""], "resources": [resource], "verbs": list(verbs), "resourceNames": list(names)}]
        role = named(ROLES, name or resource, SHOP) | {"rules": rules}
        reference = {"apiGroup": RBAC_GROUP, "kind": "Role", "name": name or resource}
        bound = named(ROLE_BINDINGS, name or resource, SHOP) | {"roleRef": reference, "subjects": [GROUP]}
        await self.hub.apply(ROLES, role, manager="test")
        await self.hub.apply(ROLE_BINDINGS, bound, manager="test")

    async def grant_own_cluster(self) -> None:
        rule = {
            "apiGroups": [MANAGED_CLUSTERS.group],
            "resources": [MANAGED_CLUSTERS.plural],
            "verbs": ["list", "watch"],
            "resourceNames": [CLUSTER],
        }
        reference = {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": "own-cluster"}
        await self.hub.apply(CLUSTER_ROLES, named(CLUSTER_ROLES, "own-cluster") | {"rules": [rule]}, manager="test")
        bound = named(CLUSTER_ROLE_BINDINGS, "own-cluster") | {"roleRef": reference, "subjects": [GROUP]}
        await self.hub.apply(CLUSTER_ROLE_BINDINGS, bound, manager="test")

    async def revoke(self, name: str) -> None:
        await self.hub.delete(ROLE_BINDINGS, name, SHOP)

    async def settings(self, name: str = "settings", **data: str) -> None:
        await self.hub.apply(CONFIG_MAPS, named(CONFIG_MAPS, name, SHOP) | {"data": data}, manager="test")

    async def managed_cluster(self, **labels: str) -> None:
        body = named(MANAGED_CLUSTERS, CLUSTER) | {"spec": {"hubAcceptsClient": True}}
        body["metadata"]["labels"] = labels
        await self.hub.apply(MANAGED_CLUSTERS, body, manager="test")

    async def define(self, kind: str, plural: str, group: str) -> None:
        """A kind that the hub has not had before."""
        schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        version = {"name": "v1", "served": True, "storage": True, "schema": schema}
        names = {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"}
        spec = {"group": group, "scope": "Namespaced", "names": names, "versions": [version]}
        await self.hub.apply(CRDS, named(CRDS, f"{plural}.{group}") | {"spec": spec}, manager="test")

    # What a GitOps tool does on the managed cluster, and what is there.

    async def policy(self, text: str = COLOUR, name: str = "p", **more: Any) -> Object:
        annotations = more.pop("annotations", {})
        wanted = named(CONFIG_MAPS, "wanted", "default") | {"data": {"value": text}}
        template = {"complianceType": "musthave", "objectDefinition": wanted}
        spec = {"remediationAction": "enforce", "object-templates": [template], **more}
        body = named(POLICIES, name, NAMESPACE) | {"spec": spec}
        body["metadata"]["annotations"] = annotations
        return await self.spoke.apply(POLICIES, body, manager="gitops")

    async def operator_policy(self, text: str, name: str = "p") -> Object:
        spec = {
            "remediationAction": "inform",
            "complianceType": "musthave",
            "upgradeApproval": "None",
            "subscription": {"name": "argocd", "namespace": text},
        }
        return await self.spoke.apply(
            OPERATOR_POLICIES, named(OPERATOR_POLICIES, name, NAMESPACE) | {"spec": spec}, manager="gitops"
        )

    async def secret(self, policy: Object) -> Object | None:
        with suppress(NotFound):
            return await self.spoke.get(SECRETS, policy["metadata"]["uid"] + LAST_RESOLVED_SUFFIX, NAMESPACE)
        return None

    async def saved(self, policy: Object) -> Object | None:
        secret = await self.secret(policy)
        return None if secret is None else orjson.loads(base64.b64decode(secret["data"][LAST_RESOLVED_KEY]))

    async def forge(self, policy: Object, document: object, *, immutable: bool = False, **metadata: Any) -> None:
        """Somebody puts something in the place of the last resolved policy."""
        body: Object = {"immutable": immutable} | named(SECRETS, policy["metadata"]["uid"] + LAST_RESOLVED_SUFFIX, NAMESPACE)
        owner = {"apiVersion": policy["apiVersion"], "kind": policy["kind"]}
        owner |= {field: policy["metadata"][field] for field in ("name", "uid")}
        body["metadata"] |= {"ownerReferences": [owner], **metadata}
        content = document if isinstance(document, bytes) else orjson.dumps(document)
        body["data"] = {LAST_RESOLVED_KEY: base64.b64encode(content).decode()}
        with suppress(NotFound):
            await self.spoke.delete(SECRETS, body["metadata"]["name"], NAMESPACE)
        await self.spoke.create(SECRETS, body)


GROUP = {"kind": "Group", "apiGroup": RBAC_GROUP, "name": IDENTITY.groups[0]}


def named(resource: GVR, name: str, namespace: str = "") -> Object:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}


def value_of(resolution: HubResolution) -> str:
    """What the object that the policy wants says."""
    return str(resolution.policy["spec"]["object-templates"][0]["objectDefinition"]["data"]["value"])


async def no_watches(controller: Controller, seconds: float = 10.0) -> None:
    """Until nothing of the hub is followed."""

    async def none_left() -> bool:
        return not controller.templates.watches

    await eventually(none_left, "no watches", seconds, poll=0.02)


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with serving("hub", "managed") as server:
        made = Site(server)
        await made.prepare()
        await made.grant("configmaps")
        await made.settings(colour="red")
        yield made
