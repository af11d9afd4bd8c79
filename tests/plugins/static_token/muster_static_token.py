"""A registration driver that comes from elsewhere: the hub's API server knows each agent's token already (--token-auth-file).

The agent is started with its token, keeps it in its Secret and marks its ManagedCluster with the token's digest. The hub accepts by
itself whose digest it was told, and keeps a ConfigMap in the cluster's namespace as long as the cluster may use its token.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping

from muster.api.cluster.v1 import ManagedCluster
from muster.api.resource import Document
from muster.registration.drivers.interfaces import (
    NOTHING_TO_DO,
    CredentialReport,
    DriverConfigError,
    GrantResult,
    GrantStep,
    HubContext,
    SpokeContext,
    StepResult,
    Vote,
)
from muster.registration.drivers.kubeconfigs import KubeconfigDriver, KubeconfigSpoke
from muster.registration.names import AGENT_ANNOTATIONS, DRIVER_ANNOTATION
from muster.runtime.client.base import KubeClient
from muster.runtime.client.builtin import CONFIG_MAPS
from muster.runtime.client.errors import AlreadyExists, KubeError, NotFound

NAME = "static-token"
DIGEST = f"{AGENT_ANNOTATIONS}/token-digest"
PERMIT = "static-token-permit"


def digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


class TokenSpoke(KubeconfigSpoke):
    def __init__(self, context: SpokeContext) -> None:
        tokens = context.options.get("token") or ()
        if not tokens or not tokens[-1]:
            raise DriverConfigError(NAME, "token", "an agent needs one")
        self._token = tokens[-1]

    def decorate(self, cluster: Document) -> Document:
        metadata = cluster.get("metadata") or {}
        marks = {DRIVER_ANNOTATION: NAME, DIGEST: digest(self._token)}
        return {**cluster, "metadata": {**metadata, "annotations": {**(metadata.get("annotations") or {}), **marks}}}

    def kubeconfig_user(self) -> Document:
        return {"tokenFile": "token"}

    def problem(self, stored: Mapping[str, bytes]) -> str:
        return "" if stored.get("token") == self._token.encode() else "the token is not stored"

    async def advance(
        self, hub: KubeClient, stored: Mapping[str, bytes], pending: Mapping[str, bytes], seen: Document | None = None
    ) -> StepResult:
        if not self.problem(stored):
            return StepResult()
        return StepResult(
            credential={"token": self._token.encode()}, again=0, report=CredentialReport(True, "TokenStored", "token stored")
        )


class TokenHub:
    def __init__(self, context: HubContext) -> None:
        self._client = context.client
        self._accepted = frozenset(context.options.get("accepted-digest") or ())

    def owns(self, cluster: ManagedCluster) -> bool:
        return cluster.metadata.annotations.get(DRIVER_ANNOTATION) == NAME

    def vote(self, cluster: ManagedCluster) -> Vote:
        if not self.owns(cluster):
            return Vote.ABSTAIN
        return Vote.ALLOW if cluster.metadata.annotations.get(DIGEST) in self._accepted else Vote.DENY

    def agents(self, cluster: ManagedCluster) -> None:
        """Whoever the API server's file puts into the cluster's group."""
        return

    async def grant(self, cluster: ManagedCluster) -> GrantResult:
        if not self.owns(cluster):
            return NOTHING_TO_DO
        permit = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": PERMIT, "namespace": cluster.metadata.name}}
        try:
            await self._client.create(CONFIG_MAPS, permit)
        except AlreadyExists:
            pass
        except KubeError as error:
            return GrantResult((GrantStep("permit", str(error)),))
        return GrantResult((GrantStep("permit"),))

    async def revoke(self, cluster: ManagedCluster) -> GrantResult:
        if not self.owns(cluster):
            return NOTHING_TO_DO
        try:
            await self._client.delete(CONFIG_MAPS, PERMIT, cluster.metadata.name)
        except NotFound:
            pass
        except KubeError as error:
            return GrantResult((GrantStep("permit", str(error)),))
        return GrantResult((GrantStep("permit"),))

    async def run(self) -> None:
        await asyncio.Event().wait()


class StaticToken(KubeconfigDriver):
    name = NAME
    aliases = ("token",)

    def hub(self, context: HubContext) -> TokenHub:
        return TokenHub(context)

    def spoke(self, context: SpokeContext) -> TokenSpoke:
        return TokenSpoke(context)
