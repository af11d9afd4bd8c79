"""Works at random, applied by the agent's own parts in the name of random executors, and held to one law: no write of the agent
brings about what the executor could not have brought about itself.

The judge is the server. Just before each write to a role or binding, it is asked by a dry run what would come of it; then the
executor's *twin* tries to write just that, by a dry run too. The twin has the executor's rights and may write roles and bindings of
any name besides, so that what is refused to it is refused as escalation.

While the agent is at it, an administrator may change the very object that is about to be written.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

import orjson

from muster.api.work.v1 import ExecutorServiceAccount, ManifestWork
from muster.apiserver.auth.identity import LOOPBACK
from muster.apiserver.server import ApiServer
from muster.fleet.in_process import InProcessClient
from muster.kube.rbac import API_GROUP, RbacRef
from muster.machinery.authentication import UserInfo
from muster.machinery.backoff import Backoff
from muster.machinery.clock import SYSTEM
from muster.machinery.objects import GVR, Object, ObjectRef
from muster.runtime.auth.rbac import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, KINDS, ROLE_BINDINGS, ROLES
from muster.runtime.cache.observed import ABSENT, UNKNOWN, ObservedObject, Presence
from muster.runtime.client.builtin import CONFIG_MAPS, NAMESPACES
from muster.runtime.client.errors import KubeError, NotFound, StatusError
from muster.runtime.client.rest import JSON, Query
from muster.work.agent.apply_plan import make_plan
from muster.work.agent.applying import ClusterApplier
from muster.work.agent.deletion import Remover
from muster.work.agent.executor import ExecutorOptions
from muster.work.agent.interfaces import Drafts, ManifestOwner, Observer
from muster.work.agent.manifest_applier import ManifestApplier
from muster.work.agent.work_state import WorkState
from tests.support.gates import LoneGate

BY_KIND: Final = {resource.kind: resource for resource in (*KINDS, CONFIG_MAPS)}
WRITING: Final = {"apiGroups": [API_GROUP], "resources": ["*"], "verbs": ["create", "update", "patch", "get", "delete"]}
SPACE, WIDE = "<space>", "<wide>"
"""Stand for the namespace of a scenario, and for what names in no namespace begin with."""
OWNER: Final = ManifestOwner("record", "11111111-1111-1111-1111-111111111111")
_SERVERS: Final = ("managedFields", "uid", "creationTimestamp")
_numbers = itertools.count()


@dataclass(frozen=True)
class Change:
    """What an administrator does to the object that is about to be written: `before` which write, and what it becomes."""

    before: int
    content: Object | None
    """None: it goes."""


@dataclass(frozen=True)
class Scenario:
    holdings: list[Object]
    """The executor's rules."""
    everywhere: bool
    existing: list[Object]
    works: list[tuple[list[Object], list[Object]]]
    """Versions of one work, one after the other: manifests, and manifestConfigs."""
    change: Change | None = None
    strict: bool = False
    observed: bool = True
    impersonating: bool = True


class Agent(InProcessClient):
    """The agent's client, with the server's judge before each write."""

    judge: Callable[[str, str, Query, bytes, str], Any]

    async def exchange(
        self, method: str, path: str, query: Query, body: bytes | None = None, media: str = JSON, *, idempotent: bool
    ) -> bytes:
        if method in ("POST", "PUT", "PATCH") and API_GROUP in path and "dryRun" not in query:
            await self.judge(method, path, query, body or b"", media)
        return await super().exchange(method, path, query, body, media, idempotent=idempotent)


class _Eyes:
    """An observer that has just looked, or never does."""

    def __init__(self) -> None:
        self.seen: dict[ObjectRef, ObservedObject] = {}

    def get(self, ref: ObjectRef) -> ObservedObject:
        return self.seen.get(ref, UNKNOWN)

    def record_write(self, ref: ObjectRef, document: Object | None) -> None:
        self.seen.pop(ref, None)


class Arena:
    """One server for many scenarios. `writes` counts those that were held to the law, `refused` manifests that were not written."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server
        self.cluster = server.clusters["default"]
        self.admin = InProcessClient(server.client(self.cluster))
        self.writes = 0
        self.refused = 0

    async def play(self, scenario: Scenario) -> None:
        await _Play(self, scenario).run()


class _Play:
    def __init__(self, arena: Arena, scenario: Scenario) -> None:
        number = next(_numbers)
        self.arena = arena
        self.admin = arena.admin
        self.scenario = scenario
        self.space, self.wide = f"space{number}", f"wide{number}"
        self.account = ExecutorServiceAccount(namespace=self.space, name="executor")
        self.twin = arena.admin.as_user(f"system:serviceaccount:{self.space}:twin")
        self.made: set[tuple[GVR, str]] = set()
        """Without namespace: what is to be taken away again."""
        self.written = 0
        self.crimes: list[str] = []

    def placed(self, value: Any) -> Any:
        return orjson.loads(
            orjson.dumps(value).replace(SPACE.encode(), self.space.encode()).replace(WIDE.encode(), self.wide.encode())
        )

    async def run(self) -> None:
        await self.admin.create(NAMESPACES, {"metadata": {"name": self.space}})
        try:
            await self._permit()
            for document in self.placed(self.scenario.existing):
                await self._put(document)
            await self._apply()
            assert not self.crimes, self.crimes
        finally:
            for resource, name in self.made:
                try:
                    await self.admin.delete(resource, name)
                except NotFound:
                    continue
            await self.admin.delete(NAMESPACES, self.space)

    async def _permit(self) -> None:
        scope = {} if self.scenario.everywhere else {"namespace": self.space}
        kind, roles, bindings = (
            ("ClusterRole", CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS) if self.scenario.everywhere else ("Role", ROLES, ROLE_BINDINGS)
        )
        held = self.placed(self.scenario.holdings)
        for who, rules in (("executor", held), ("twin", [*held, WRITING])):
            metadata = {"name": f"{self.wide}-{who}", **scope}
            reference = {"apiGroup": API_GROUP, "kind": kind, "name": metadata["name"]}
            subject = {"kind": "ServiceAccount", "namespace": self.space, "name": who}
            await self._put({"metadata": metadata, "rules": rules}, roles)
            await self._put({"metadata": metadata, "roleRef": reference, "subjects": [subject]}, bindings)

    async def _put(self, document: Object, resource: GVR | None = None) -> None:
        """As far as the server takes it."""
        resource = resource or BY_KIND[document["kind"]]
        try:
            await self.admin.create(resource, document, document["metadata"].get("namespace", ""))
        except StatusError:
            return
        self._keep(resource, document["metadata"]["name"])

    def _keep(self, resource: GVR, name: str) -> None:
        if not resource.namespaced:
            self.made.add((resource, name))

    async def _apply(self) -> None:
        """As the pass over a work does it, with its own parts."""
        scenario = self.scenario
        client = Agent(self.arena.server.client(self.arena.cluster, await self._agent()))
        client.judge = self._judge
        gate = LoneGate(client, ExecutorOptions(strict=scenario.strict))
        applier, eyes, memory = ClusterApplier(client), _Eyes(), WorkState()
        observer = cast(Observer, eyes)
        remover = Remover(client, observer, cast(Any, None), writers=1)
        performer = ManifestApplier(observer, applier, remover, Backoff(0.01, 0.01), writers=1, clock=SYSTEM)
        self.gate = gate
        running = asyncio.create_task(gate.run())
        served = {(resource.api_version, resource.kind): resource for resource in BY_KIND.values()}
        try:
            for manifests, configs in scenario.works:
                spec = {"workload": {"manifests": self.placed(manifests)}, "manifestConfigs": self.placed(configs)}
                plan = make_plan(ManifestWork.decode({"spec": spec}).spec, served)
                if scenario.observed:
                    eyes.seen = {one.ref: await self._sight(one.ref) for one in plan.manifests}
                for one in plan.manifests:
                    self._keep(one.ref.resource, one.ref.name)
                consent = gate.consent(self.account, plan.manifests)
                drafts = Drafts(applier, OWNER, eyes.get)
                refusals = await gate.check(self.account, plan.manifests, plan.invalid, drafts)
                self.arena.refused += len(refusals)
                await performer.apply(plan, refusals, frozenset(), OWNER, memory, consent)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    async def _agent(self) -> UserInfo:
        """One that may everything, or one that may not act as another."""
        if self.scenario.impersonating:
            return LOOPBACK
        name = f"{self.wide}-agent"
        # What it hands out it need not hold, since it may escalate and bind.
        everything = [
            {"apiGroups": [API_GROUP, "authorization.k8s.io"], "resources": ["*"], "verbs": ["*"]},
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]},
        ]
        await self._put({"kind": "ClusterRole", "metadata": {"name": name}, "rules": everything})
        subject = {"kind": "User", "apiGroup": API_GROUP, "name": name}
        reference = {"apiGroup": API_GROUP, "kind": "ClusterRole", "name": name}
        await self._put({"kind": "ClusterRoleBinding", "metadata": {"name": name}, "roleRef": reference, "subjects": [subject]})
        return UserInfo(name, groups=("system:authenticated",))

    async def _sight(self, ref: ObjectRef) -> ObservedObject:
        live = await self._live(ref.resource, ref.namespace, ref.name)
        if live is None:
            return ABSENT
        metadata = live["metadata"]
        metadata.pop("managedFields", None)
        return ObservedObject(Presence.PRESENT, metadata["uid"], metadata["resourceVersion"], orjson.dumps(live))

    async def _live(self, resource: GVR, namespace: str, name: str) -> Object | None:
        try:
            return await self.admin.get(resource, name, namespace)
        except NotFound:
            return None

    # The law.

    async def _judge(self, method: str, path: str, query: Query, body: bytes, media: str) -> None:
        resource, namespace, name = _target(path, body)
        change = self.scenario.change
        if change is not None and self.written == change.before:
            await self._interfere(resource, namespace, name, change)
        self.written += 1
        live = await self._live(resource, namespace, name)
        try:
            answer = await self.admin.exchange(method, path, {**query, "dryRun": "All"}, body, media, idempotent=True)
        except KubeError:
            # Nothing comes of it.
            return
        self.arena.writes += 1
        after: Object = orjson.loads(answer)
        problem = await self._refused_to_twin(resource, live, after)
        if problem:
            self.crimes.append(
                f"{method} {path} {body.decode()} over {live} becomes {after}, which the executor may not: {problem}"
            )

    async def _refused_to_twin(self, resource: GVR, live: Object | None, after: Object) -> str:
        metadata = {
            key: value for key, value in after["metadata"].items() if key not in ("managedFields", "uid", "creationTimestamp")
        }
        try:
            if live is None:
                metadata.pop("resourceVersion", None)
                anew = {**after, "metadata": metadata}
                # By applying, because a right to escalate may be for names.
                await self.twin.apply(resource, anew, manager="twin", dry_run=True)
            else:
                metadata["resourceVersion"] = live["metadata"]["resourceVersion"]
                await self.twin.update(resource, {**after, "metadata": metadata}, dry_run=True)
        except NotFound:
            # It binds what is not there: that gives nobody anything.
            return ""
        except KubeError as error:
            return str(error)
        return ""

    async def _interfere(self, resource: GVR, namespace: str, name: str, change: Change) -> None:
        live = await self._live(resource, namespace, name)
        try:
            if change.content is None:
                if live is not None:
                    await self.admin.delete(resource, name, namespace)
            elif live is not None:
                await self.admin.update(resource, {**live, **self.placed(change.content)})
            else:
                metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
                await self.admin.create(
                    resource, {"kind": resource.kind, "metadata": metadata, **self.placed(change.content)}, namespace
                )
        except StatusError:
            return
        await self._heard(resource, namespace, name)

    async def _heard(self, resource: GVR, namespace: str, name: str) -> None:
        """Until the agent's watch has brought the change: that it takes its moment is not what is looked for here."""
        live = await self._live(resource, namespace, name)
        version = live["metadata"]["resourceVersion"] if live is not None else ""
        async with asyncio.timeout(10):
            while True:
                known: Mapping[str, Any] = self.gate._rbac.read(RbacRef(resource.kind, namespace, name)) or {}
                if known.get("metadata", {}).get("resourceVersion", "") == version:
                    return
                await asyncio.sleep(0.002)


def _target(path: str, body: bytes) -> tuple[GVR, str, str]:
    parts = path.removeprefix(f"/apis/{API_GROUP}/v1/").split("/")
    namespace = ""
    if parts[0] == "namespaces":
        namespace, parts = parts[1], parts[2:]
    resource = next(one for one in KINDS if one.plural == parts[0])
    return resource, namespace, parts[1] if len(parts) > 1 else str(orjson.loads(body)["metadata"]["name"])
