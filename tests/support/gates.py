"""A gate without an agent around it: nothing is observed, nothing was written before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from muster.api.work.v1 import ExecutorServiceAccount
from muster.runtime.cache.observed import UNKNOWN
from muster.runtime.client.base import KubeClient
from muster.work.agent.applying import ClusterApplier
from muster.work.agent.executor import ExecutorGate, ExecutorOptions
from muster.work.agent.interfaces import Drafts, InvalidManifest, Manifest, ManifestOwner, Refusal


class LoneGate(ExecutorGate):
    def __init__(self, client: KubeClient, options: ExecutorOptions | None = None) -> None:
        super().__init__(client, options)
        self._drafts = Drafts(ClusterApplier(client), ManifestOwner("", ""), lambda _: UNKNOWN)

    async def check(
        self,
        executor: ExecutorServiceAccount,
        manifests: Sequence[Manifest],
        invalid: Sequence[InvalidManifest],
        drafts: Drafts | None = None,
    ) -> Mapping[int, Refusal]:
        return await super().check(executor, manifests, invalid, drafts or self._drafts)
