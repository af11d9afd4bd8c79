"""`site`: a hub and a managed cluster on an API server in this process, and the agent with its own rights only."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from muster.accounts.agent.agent import AccountAgent
from muster.accounts.agent.reconcile import AgentOptions
from muster.accounts.hub.addon import AGENT_RULES, KINDS
from muster.accounts.hub.manifests import agent_manifests
from muster.accounts.names import AGENT
from muster.api.addons import AddonIdentity
from muster.api.authentication.v1beta1 import ManagedServiceAccount
from muster.api.crds import definitions
from muster.apiserver.server import ApiServer, ServerConfig
from muster.fleet.in_process import InProcessClient
from muster.machinery.authentication import UserInfo
from muster.machinery.clock import SYSTEM
from muster.machinery.objects import GVR, Object
from muster.runtime.client import KubeClient, NotFound, served
from muster.runtime.client.builtin import CRDS, NAMESPACES, SECRETS, SERVICE_ACCOUNTS, TOKEN_REVIEWS
from muster.runtime.install import RBAC_GROUP, apply_all, await_definitions, binding, named
from tests.support.fake_clock import FakeClock
from tests.support.mortal_hub import Life, Mortal

CLUSTER, NAMESPACE = "cluster1", "accounts"
AUTHORITY = b"-----BEGIN CERTIFICATE-----\nof the managed cluster\n"
ACCOUNTS = served(ManagedServiceAccount)
KINDS_OF_MANIFESTS = {
    "Namespace": NAMESPACES,
    "ServiceAccount": SERVICE_ACCOUNTS,
    "Role": GVR(f"{RBAC_GROUP}/v1", "roles", "Role"),
    "RoleBinding": GVR(f"{RBAC_GROUP}/v1", "rolebindings", "RoleBinding"),
    "ClusterRole": GVR(f"{RBAC_GROUP}/v1", "clusterroles", "ClusterRole", namespaced=False),
    "ClusterRoleBinding": GVR(f"{RBAC_GROUP}/v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False),
}


def claims_of(token: str) -> Any:
    payload = token.split(".")[1]
    return orjson.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))


class AccountSite:
    def __init__(self, server: ApiServer) -> None:
        self.server = server
        self.clock = FakeClock(datetime.now(UTC))
        for cluster in server.clusters.values():
            cluster.clock = self.clock.now
        self.hub, self.spoke = self._admin("hub"), self._admin(CLUSTER)

    def _admin(self, cluster: str) -> KubeClient:
        return self._client(cluster, UserInfo("admin", groups=("system:masters", "system:authenticated")), Life())

    def _client(self, cluster: str, user: UserInfo, life: Life) -> InProcessClient:
        client = Mortal(self.server.client(self.server.clusters[cluster], user))
        client.life = life
        return client

    async def prepare(self) -> None:
        """What administrators, the hub's side of the addon and the work agent have done before."""
        await apply_all(self.hub, [(CRDS, document) for document in definitions(KINDS)], "test")
        await await_definitions(self.hub, [kind.name for kind in KINDS], SYSTEM)
        await self.hub.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": CLUSTER}})
        role = {"metadata": named(AGENT), "rules": list(AGENT_RULES)}
        await self.hub.apply(KINDS_OF_MANIFESTS["ClusterRole"], role, manager="test")
        subject = {"kind": "User", "name": self.identity.user, "apiGroup": RBAC_GROUP}
        bound = binding(AGENT, "ClusterRole", AGENT, subject, CLUSTER)
        await self.hub.apply(KINDS_OF_MANIFESTS["RoleBinding"], bound, manager="test")
        for manifest in agent_manifests(CLUSTER, NAMESPACE, "muster"):
            if resource := KINDS_OF_MANIFESTS.get(manifest["kind"]):
                await self.spoke.apply(resource, manifest, manager="test")

    @property
    def identity(self) -> AddonIdentity:
        return AddonIdentity(CLUSTER, "managed-serviceaccount", "managed-serviceaccount-agent")

    @asynccontextmanager
    async def agent(self, life: Life | None = None) -> AsyncIterator[Life]:
        """While an agent lives, or until its life is over."""
        living = life or Life()
        hub = self._client("hub", UserInfo(self.identity.user, groups=(*self.identity.groups, "system:authenticated")), living)
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}", "system:authenticated")
        spoke = self._client(CLUSTER, UserInfo(f"system:serviceaccount:{NAMESPACE}:{AGENT}", groups=groups), living)
        agent = AccountAgent(hub, spoke, AgentOptions(CLUSTER, NAMESPACE, lambda: AUTHORITY), clock=self.clock)
        task = asyncio.create_task(agent.run())
        try:
            yield living
            assert living.over.is_set() or not task.done(), task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    # What people do.

    async def want(self, name: str, **spec: Any) -> Object:
        rotation = {"rotation": {"validity": spec.pop("validity", "1h0m0s")}, **spec}
        body = {"apiVersion": ACCOUNTS.api_version, "kind": ACCOUNTS.kind, "metadata": named(name, CLUSTER), "spec": rotation}
        return await self.hub.create(ACCOUNTS, body, CLUSTER)

    # What there is.

    async def account(self, name: str) -> Object:
        return await self.hub.get(ACCOUNTS, name, CLUSTER)

    async def condition(self, name: str, kind: str = "TokenReported") -> Object | None:
        said = ((await self.account(name)).get("status") or {}).get("conditions") or ()
        return next((one for one in said if one["type"] == kind), None)

    async def secret(self, name: str) -> Object | None:
        with suppress(NotFound):
            return await self.hub.get(SECRETS, name, CLUSTER)
        return None

    async def service_account(self, name: str) -> Object | None:
        with suppress(NotFound):
            return await self.spoke.get(SERVICE_ACCOUNTS, name, NAMESPACE)
        return None

    async def token(self, name: str) -> str:
        found = await self.secret(name)
        return base64.b64decode(((found or {}).get("data") or {}).get("token") or "").decode()

    async def is_accepted(self, token: str) -> bool:
        body = {"apiVersion": TOKEN_REVIEWS.api_version, "kind": TOKEN_REVIEWS.kind, "spec": {"token": token}}
        return bool((await self.spoke.create(TOKEN_REVIEWS, body))["status"].get("authenticated"))

    async def reported(self, name: str, besides: str = "") -> str:
        """The token on the hub, once it is told of and another one than `besides`."""

        async def look() -> str:
            token = await self.token(name)
            said = await self.condition(name)
            status = (await self.account(name)).get("status") or {}
            told = said is not None and said["status"] == "True" and token not in ("", besides)
            if not told or (status.get("tokenSecretRef") or {}).get("name") != name:
                return ""
            expires = datetime.fromtimestamp(claims_of(token)["exp"], UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            return token if status["expirationTimestamp"] == expires else ""

        return str(await self.until(look, f"a token of {name}"))

    async def failing(self, name: str, words: str, kind: str = "TokenReported") -> str:
        async def look() -> str:
            said = await self.condition(name, kind)
            return said["message"] if said is not None and said["status"] == "False" and words in said["message"] else ""

        return str(await self.until(look, f"{name} to say {words!r}"))

    async def until(self, probe: Callable[[], Awaitable[Any]], what: str, seconds: float = 20.0, moving: float = 0.01) -> Any:
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


async def is_gone(site: AccountSite, name: str) -> bool:
    return await site.service_account(name) is None


@pytest.fixture
async def site() -> AsyncIterator[AccountSite]:
    server = ApiServer(ServerConfig(store="memory", namespace_grace_period=0, clusters=("hub", CLUSTER)))
    await server.start()
    found = AccountSite(server)
    await found.prepare()
    yield found
    await server.stop(grace=0.1)
