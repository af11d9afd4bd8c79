"""A managed cluster and two hubs in this process, an agent with the rights it really has, and hands that act for the hub.

The hubs have no controllers: the test accepts, denies and approves, with exactly the rules that upstream's hub hands out. A `Link`
is the way to a hub; it counts what is asked, and can be cut.
"""

import asyncio
import base64
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from muster.api.crds import HUB, definitions
from muster.apiserver.server import ApiServer, ServerConfig
from muster.fleet.in_process import InProcessClient
from muster.kube import certificates, yaml
from muster.machinery.authentication import UserInfo
from muster.machinery.golang.timestamps import format_micro_time
from muster.machinery.metrics import Metrics
from muster.machinery.objects import Object
from muster.registration.agent.agent import Agent
from muster.registration.agent.install import ACCOUNT, install
from muster.registration.agent.options import AgentOptions
from muster.registration.drivers.endpoints import HubEndpoint
from muster.registration.drivers.kubeconfigs import KubeconfigEndpoint
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import AGENT_NAMESPACE, LEASE
from muster.runtime.client.builtin import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CRDS,
    LEASES,
    NAMESPACES,
    NODES,
    ROLE_BINDINGS,
    SECRETS,
    SIGNING_REQUESTS,
)
from muster.runtime.client.errors import AlreadyExists, NotFound, Unauthorized, Unreachable
from muster.runtime.client.rest import JSON, Query
from muster.runtime.install import rule
from tests.support.agents import agent_running
from tests.support.fake_clock import FakeClock, settle

GROUP = "cluster.open-cluster-management.io"
REQUESTS = rule("certificates.k8s.io", ["certificatesigningrequests"], ["create", "get", "list", "watch"])
RULES_ACCEPTED = [REQUESTS, rule("register.open-cluster-management.io", ["managedclusters/clientcertificates"], ["renew"])]
RULES_REGISTRATION = [
    rule("coordination.k8s.io", ["leases"], ["get", "list", "watch", "update"]),
    rule("addon.open-cluster-management.io", ["managedclusteraddons"], ["get", "list", "watch"]),
    rule("addon.open-cluster-management.io", ["managedclusteraddons/status"], ["patch", "update"]),
    rule("events.k8s.io", ["events"], ["create"]),
]
RULES_BOOTSTRAP = [REQUESTS, rule(GROUP, ["managedclusters"], ["get", "create", "list", "watch"])]


async def until(probe: Callable[[], Awaitable[Any] | Any], what: str, seconds: float = 30.0) -> Any:
    """The first true answer of `probe`."""
    try:
        async with asyncio.timeout(seconds):
            while True:
                found = probe()
                found = await found if asyncio.iscoroutine(found) else found
                if found:
                    return found
                await asyncio.sleep(0.005)
    except TimeoutError:
        raise AssertionError(f"waited for: {what}") from None


async def _nothing_happens() -> None:
    return None


class Link(InProcessClient):
    """A way to a cluster that a test may cut (`down`) or make refuse (`refusing`), and that counts what goes over it."""

    def __init__(self, hub: "Hub", user: UserInfo) -> None:
        super().__init__(hub.server.client(hub.server.clusters[hub.name], user, agent="muster-registration-agent"), hub.url)
        self._hub = hub

    async def exchange(
        self, method: str, path: str, query: Query, body: bytes | None = None, media: str = JSON, *, idempotent: bool
    ) -> bytes:
        self._hub.check()
        self._hub.requests.append((method, path))
        await self._hub.fate()
        answer = await super().exchange(method, path, query, body, media, idempotent=idempotent)
        await self._hub.fate()
        return answer

    async def lines(
        self, path: str, query: Query, timeout: float | None, opened: Callable[[], None] | None
    ) -> AsyncGenerator[bytes, None]:
        self._hub.check()
        self._hub.requests.append(("WATCH", path))
        lines = super().lines(path, query, timeout, opened)
        try:
            while True:
                line = asyncio.ensure_future(anext(lines))
                cut = asyncio.ensure_future(self._hub.cut.wait())
                await asyncio.wait([line, cut], return_when=asyncio.FIRST_COMPLETED)
                cut.cancel()
                if not line.done():
                    line.cancel()
                    await asyncio.gather(line, return_exceptions=True)
                    self._hub.check()
                yield line.result()
        except StopAsyncIteration:
            return
        finally:
            await lines.aclose()


class Hub:
    """A hub's API server, and the acts of its administrator and controllers."""

    def __init__(self, server: ApiServer, name: str, clock: FakeClock) -> None:
        self.server = server
        self.name = name
        self.clock = clock
        self.url = f"https://{name}.example:6443"
        self.admin = InProcessClient(server.client(server.clusters[name]))
        self.requests: list[tuple[str, str]] = []
        self.cut = asyncio.Event()
        self.refusing = False
        self.fate: Callable[[], Awaitable[None]] = _nothing_happens
        """Called before and after every request that is no watch; a test may let somebody die there."""
        self.token = "secret-token"
        """What a bootstrap kubeconfig must say to be let in."""

    def check(self) -> None:
        if self.refusing:
            raise Unauthorized(401, "Unauthorized", "Unauthorized")
        if self.cut.is_set():
            raise Unreachable(self.url, "connection refused", sent=False)

    async def prepare(self) -> None:
        for document in definitions(kind for kind in HUB if kind.resource.kind in ("ManagedCluster", "ManagedClusterAddOn")):
            await self.admin.create(CRDS, document)
        await self.role("bootstrap", RULES_BOOTSTRAP, {"kind": "User", "name": "bootstrap"})
        await until(self._served, "the hub's definitions")

    async def _served(self) -> bool:
        try:
            await self.admin.list(MANAGED_CLUSTERS)
        except NotFound:
            return False
        return True

    async def role(self, name: str, rules: list[Any], subject: Object, namespace: str = "") -> None:
        group = "rbac.authorization.k8s.io"
        await self.admin.apply(CLUSTER_ROLES, {"metadata": {"name": name}, "rules": rules}, manager="hub")
        reference = {"apiGroup": group, "kind": "ClusterRole", "name": name}
        binding = {"metadata": {"name": name}, "roleRef": reference, "subjects": [{"apiGroup": group, **subject}]}
        if namespace:
            binding["metadata"] = {"name": name, "namespace": namespace}
        await self.admin.apply(ROLE_BINDINGS if namespace else CLUSTER_ROLE_BINDINGS, binding, manager="hub")

    def kubeconfig(self, name: str = "", token: str = "", ca: bytes = b"ca of the hub") -> str:
        """A bootstrap kubeconfig for this hub."""
        name = name or self.name
        cluster = {"server": self.url, "certificate-authority-data": base64.b64encode(ca).decode()}
        return yaml.dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": name, "cluster": cluster}],
                "users": [{"name": "bootstrap", "user": {"token": token or self.token}}],
                "contexts": [{"name": "bootstrap", "context": {"cluster": name, "user": "bootstrap"}}],
                "current-context": "bootstrap",
            }
        )

    async def cluster(self, name: str = "c1") -> Object | None:
        try:
            return await self.admin.get(MANAGED_CLUSTERS, name)
        except NotFound:
            return None

    async def condition(self, kind: str, name: str = "c1") -> str:
        """A condition's status and reason, e.g. `True/ManagedClusterJoined`; empty when it is not there."""
        conditions = ((await self.cluster(name) or {}).get("status") or {}).get("conditions") or ()
        return next((f"{one['status']}/{one['reason']}" for one in conditions if one["type"] == kind), "")

    async def available(self, name: str = "c1") -> bool:
        return await self.condition("ManagedClusterConditionAvailable", name) == "True/ManagedClusterAvailable"

    async def set_condition(self, kind: str, status: str, reason: str, name: str = "c1") -> None:
        cluster = await self.admin.get(MANAGED_CLUSTERS, name)
        kept = [one for one in (cluster.get("status") or {}).get("conditions") or () if one["type"] != kind]
        stamp = self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        condition = {"type": kind, "status": status, "reason": reason, "message": "", "lastTransitionTime": stamp}
        await self.admin.patch(MANAGED_CLUSTERS, name, {"status": {"conditions": [*kept, condition]}}, subresource="status")

    async def requests_made(self, name: str = "c1") -> list[Object]:
        return (await self.admin.list(SIGNING_REQUESTS, label_selector=f"open-cluster-management.io/cluster-name={name}")).items

    async def approve(self, name: str = "c1") -> None:
        for csr in await self.requests_made(name):
            if not (csr.get("status") or {}).get("conditions"):
                condition = {"type": "Approved", "status": "True", "reason": "Test", "message": "by hand"}
                csr["status"] = {"conditions": [condition]}
                await self.admin.update(SIGNING_REQUESTS, csr, subresource="approval")

    async def grant(self, name: str = "c1") -> None:
        """The rights of an accepted cluster."""
        group = {"kind": "Group", "name": f"system:open-cluster-management:{name}"}
        own = [
            rule(GROUP, ["managedclusters"], ["get", "list", "update", "watch"], [name]),
            rule(GROUP, ["managedclusters/status"], ["patch", "update"], [name]),
        ]
        with suppress(AlreadyExists):
            await self.admin.create(NAMESPACES, {"metadata": {"name": name}})
        await self.role(f"open-cluster-management:managedcluster:{name}", [*RULES_ACCEPTED, *own], group)
        await self.role(f"registration:{name}", RULES_REGISTRATION, group, name)

    async def accept(self, name: str = "c1", lease_seconds: int = 60) -> None:
        """What an administrator and the hub's controllers do."""
        spec = {"hubAcceptsClient": True, "leaseDurationSeconds": lease_seconds}
        await self.admin.patch(MANAGED_CLUSTERS, name, {"spec": spec})
        await self.grant(name)
        lease = {"metadata": {"name": LEASE, "namespace": name}, "spec": {"renewTime": format_micro_time(self.clock.now())}}
        with suppress(AlreadyExists):
            await self.admin.create(LEASES, lease)
        await self.set_condition("HubAcceptedManagedCluster", "True", "HubClusterAdminAccepted", name)

    async def replace_cluster(self, agent: str, name: str = "c1") -> None:
        """The ManagedCluster is removed with its rights, and another of its name made and accepted, for one agent alone."""
        await self.admin.delete(MANAGED_CLUSTERS, name)
        await self.new_cluster(agent, name)

    async def new_cluster(self, agent: str, name: str = "c1") -> None:
        """A ManagedCluster that is accepted, for one agent alone."""
        kind = {"apiVersion": MANAGED_CLUSTERS.api_version, "kind": MANAGED_CLUSTERS.kind}
        await self.admin.create(MANAGED_CLUSTERS, {**kind, "metadata": {"name": name}})
        await self.accept(name)
        for resource, binding, namespace in (
            (CLUSTER_ROLE_BINDINGS, f"open-cluster-management:managedcluster:{name}", ""),
            (ROLE_BINDINGS, f"registration:{name}", name),
        ):
            user = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": agent}
            await self.admin.patch(resource, binding, {"subjects": [user]}, namespace)

    async def revoke(self, name: str = "c1") -> None:
        """All rights of a cluster go, and the watches that are open with them."""
        await self.admin.delete(CLUSTER_ROLE_BINDINGS, f"open-cluster-management:managedcluster:{name}")
        await self.admin.delete(ROLE_BINDINGS, f"registration:{name}", name)
        self.cut.set()
        await settle()
        self.cut.clear()

    async def deny(self, name: str = "c1") -> None:
        await self.admin.patch(MANAGED_CLUSTERS, name, {"spec": {"hubAcceptsClient": False}})
        own = rule(GROUP, ["managedclusters"], ["get", "list", "watch"], [name])
        group = {"kind": "Group", "name": f"system:open-cluster-management:{name}"}
        await self.role(f"open-cluster-management:managedcluster:{name}", [own], group)
        await self.admin.delete(ROLE_BINDINGS, f"registration:{name}", name)
        await self.set_condition("HubAcceptedManagedCluster", "False", "HubClusterAdminDenied", name)

    async def renewed(self, name: str = "c1") -> str:
        return str((await self.admin.get(LEASES, LEASE, name))["spec"]["renewTime"])

    def count(self, method: str, part: str) -> int:
        return sum(1 for verb, path in self.requests if verb == method and part in path)


class Fleet:
    """One managed cluster with its agent, and the hubs it may join."""

    def __init__(self, server: ApiServer, clock: FakeClock, directory: Path) -> None:
        self.server = server
        self.clock = clock
        self.directory = directory
        self.hub = Hub(server, "hub", clock)
        self.other = Hub(server, "other", clock)
        self.admin = InProcessClient(server.client(server.clusters["c1"]))
        self.options = AgentOptions(cluster_name="c1", hub_kubeconfig_dir=directory / "hub")
        account = f"system:serviceaccount:{AGENT_NAMESPACE}:{ACCOUNT}"
        self.account = UserInfo(account, groups=("system:serviceaccounts", "system:authenticated"))
        self.spoke = Hub(server, "c1", clock)
        self.random = random.Random(1).random

    def agent(self, *, metrics: Metrics | None = None, **options: Any) -> Agent:
        client = Link(self.spoke, self.account)
        chosen = replace(self.options, **options)
        return Agent(client, chosen, clock=self.clock, random=self.random, connect=self.connect, metrics=metrics)

    def connect(self, endpoint: HubEndpoint) -> Link:
        """As whom a kubeconfig lets one in, judged as a hub would: by certificate, else by token."""
        assert isinstance(endpoint, KubeconfigEndpoint)
        path = endpoint.file
        document = yaml.load(path.read_bytes())
        server = document["clusters"][0]["cluster"]["server"]
        hub = next(hub for hub in (self.hub, self.other) if hub.url == server)
        user = document["users"][0]["user"]
        if "client-certificate" not in user:
            name = "bootstrap" if user["token"] == hub.token else ""
        else:
            certificate = x509.load_pem_x509_certificate((path.parent / user["client-certificate"]).read_bytes())
            name = certificates.common_name(certificate.subject)
            groups = tuple(certificates.organizations(certificate.subject))
            return Link(hub, UserInfo(name, groups=(*groups, "system:authenticated")))
        if not name:
            return RefusedLink(hub, UserInfo("nobody"))
        return Link(hub, UserInfo(name, groups=("system:authenticated",)))

    @asynccontextmanager
    async def running(self, **options: Any) -> AsyncIterator[Agent]:
        async with agent_running(self.agent(**options)) as agent:
            yield agent

    async def give(self, kubeconfig: str, secret: str = "bootstrap-hub-kubeconfig") -> None:
        """Put a bootstrap kubeconfig into its Secret."""
        document = {"metadata": {"name": secret, "namespace": AGENT_NAMESPACE}, "stringData": {"kubeconfig": kubeconfig}}
        await self.admin.apply(SECRETS, document, manager="administrator")

    async def stored(self, name: str = "hub-kubeconfig-secret") -> dict[str, bytes]:
        try:
            secret = await self.admin.get(SECRETS, name, AGENT_NAMESPACE)
        except NotFound:
            return {}
        return {key: base64.b64decode(value) for key, value in (secret.get("data") or {}).items()}

    async def pending(self) -> dict[str, bytes]:
        """What is begun, whatever hub it is for."""
        kept = await self.stored("hub-kubeconfig-secret-pending")
        return {key.partition(".")[2] or key: value for key, value in kept.items()}

    async def join(self, hub: Hub | None = None) -> None:
        """From nothing to Available, with an agent that runs."""
        hub = hub or self.hub
        await until(lambda: hub.cluster(), "the ManagedCluster")
        await hub.accept()
        await until(lambda: hub.requests_made(), "a request for a certificate")
        await hub.approve()
        await until(lambda: hub.available(), "the cluster being available")

    async def advance(self, seconds: float, step: float = 5.0) -> None:
        """Let time pass, slowly enough that everybody keeps up."""
        while seconds > 0:
            await self.clock.advance(min(step, seconds))
            seconds -= step
            await settle()

    async def add_node(self, name: str, capacity: dict[str, str], allocatable: dict[str, str], unschedulable: bool = False) -> None:
        status = {"capacity": capacity, "allocatable": allocatable}
        node = {"metadata": {"name": name}, "spec": {"unschedulable": unschedulable}, "status": status}
        await self.admin.create(NODES, node)


class RefusedLink(Link):
    """With a token that nobody knows (any more)."""

    async def exchange(self, *given: Any, **more: Any) -> bytes:
        raise Unauthorized(401, "Unauthorized", "Unauthorized")

    async def lines(self, *given: Any) -> AsyncGenerator[bytes, None]:
        yield await self.exchange()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def fleet(clock: FakeClock, tmp_path: Path) -> AsyncIterator[Fleet]:
    server = ApiServer(ServerConfig(store="memory", namespace_grace_period=0, clusters=("hub", "other", "c1"), clock=clock.now))
    await server.start()
    made = Fleet(server, clock, tmp_path)
    await made.hub.prepare()
    await made.other.prepare()
    await install(made.admin, AgentOptions())
    yield made
    await server.stop(grace=0.1)
