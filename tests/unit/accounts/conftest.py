"""`site`: a hub and a managed cluster on an API server in this process, and the agent with its own rights only."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from muster.accounts.agent.agent import AccountAgent
from muster.accounts.agent.reconciler import AgentOptions
from muster.accounts.hub.addon import AGENT_RULES, KINDS
from muster.accounts.hub.manifests import agent_manifests
from muster.accounts.names import AGENT
from muster.api.addons import AddonIdentity
from muster.api.authentication.v1beta1 import ManagedServiceAccount
from muster.machinery.authentication import UserInfo
from muster.machinery.objects import GVR, Object
from muster.runtime.client import served
from muster.runtime.client.builtin import NAMESPACES, SECRETS, SERVICE_ACCOUNTS, TOKEN_REVIEWS
from muster.runtime.install import RBAC_GROUP, binding, named
from tests.support.in_process import serving
from tests.support.mortal_hub import Life
from tests.support.mortal_site import CLUSTER, MortalSite

NAMESPACE = "accounts"
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


class AccountSite(MortalSite):
    step = 0.01

    async def prepare(self) -> None:
        """What administrators, the hub's side of the addon and the work agent have done before."""
        await self.define(self.hub, KINDS)
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
        hub = self.client("hub", living, UserInfo(self.identity.user, groups=(*self.identity.groups, "system:authenticated")))
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}", "system:authenticated")
        spoke = self.client(CLUSTER, living, UserInfo(f"system:serviceaccount:{NAMESPACE}:{AGENT}", groups=groups))
        agent = AccountAgent(hub, spoke, AgentOptions(CLUSTER, NAMESPACE, lambda: AUTHORITY), clock=self.clock)
        async with self.living(agent.run, living):
            yield living

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
        return await self.find(self.hub, SECRETS, name, CLUSTER)

    async def service_account(self, name: str) -> Object | None:
        return await self.find(self.spoke, SERVICE_ACCOUNTS, name, NAMESPACE)

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


async def is_gone(site: AccountSite, name: str) -> bool:
    return await site.service_account(name) is None


@pytest.fixture
async def site() -> AsyncIterator[AccountSite]:
    async with serving("hub", CLUSTER) as server:
        found = AccountSite(server)
        await found.prepare()
        yield found
