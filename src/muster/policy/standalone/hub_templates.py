"""Resolves the hub templates of policies, before they are evaluated.

A resolver of its own reads only the hub, with the addon's identity there, and watches what it has read, so that a change on the
hub resolves exactly the affected policies again. The result is saved beside the policy (`last_resolved`) before it is enforced.
While the hub cannot be reached, cached objects are still used; if they are not sufficient, for example after a restart, the
saved state of the same generation is used. If the hub itself answers, even with a refusal, the saved state is not used.

A failed run keeps the watches and values of the last successful one. The watches for a policy end when it is deleted or has no
hub templates any more. Without the addon, no policy with hub templates is resolved, and no state is kept.
"""

from __future__ import annotations

import asyncio
import random as chance
from collections.abc import Callable
from typing import Final

import orjson

from muster.api.cluster.v1 import ManagedCluster
from muster.gotemplate.values import Map
from muster.machinery.clock import SYSTEM, Clock, Random
from muster.machinery.objects import GVR, Object
from muster.policy.dependencies import FollowingSource
from muster.policy.names import HUB_DELIMITERS, STANDALONE_DISABLED
from muster.policy.resolver import Resolver
from muster.policy.resolver.errors import MissingAPIResource
from muster.policy.resolver.interfaces import ObjectSource, Resolution, ResolveError, ResolveOptions
from muster.policy.standalone.document import has_hub_templates, has_templates_disabled, resolved_document, stripped
from muster.policy.standalone.interfaces import HubResolution, HubTemplateError, PolicyKey
from muster.policy.standalone.last_resolved import LastResolved
from muster.policy.standalone.reachability import (
    HubReachability,
    hub_failure,
    is_transient_failure,
)
from muster.runtime.cache import FollowedSelections, Informers, Selection
from muster.runtime.client import KubeClient, KubeError, RESTMapper, served

DISCOVERY_TIMEOUT: Final = 10.0
"""Seconds within which the hub must answer discovery requests."""
_LABELS: Final = "ManagedClusterLabels"
_MANAGED_CLUSTERS: Final[GVR] = served(ManagedCluster)


class HubTemplates:
    """For policies of both kinds. The owner runs `run` as a task."""

    def __init__(
        self,
        client: KubeClient,
        informers: Informers,
        *,
        cluster_name: str,
        hub: KubeClient | None,
        denylist: frozenset[str] = frozenset(),
        clock: Clock = SYSTEM,
        random: Random = chance.random,
    ) -> None:
        """`client` and `informers` are of the cluster that contains the policies; `hub` is a client with the addon's identity,
        None while the addon is disabled."""
        self._saved = LastResolved(client, informers, clock=clock)
        self._cluster_name = cluster_name
        self._denylist = denylist
        self._handlers: list[Callable[[PolicyKey], None]] = []
        self._hub = None if hub is None else _Hub(hub, self._changed, clock, random)
        self._resolver = Resolver(delims=HUB_DELIMITERS)

    @property
    def watches(self) -> int:
        """Number of watches on the hub."""
        return 0 if self._hub is None else self._hub.selections.watches

    def on_change(self, handler: Callable[[PolicyKey], None]) -> None:
        """`handler` is called with a policy that has to be resolved again: something that its hub templates read has changed,
        was forbidden or is allowed now, or the hub is reachable again. It must not block, and must check the kind."""
        self._handlers.append(handler)

    async def resolve(self, policy: Object) -> HubResolution:
        """The policy with its hub templates resolved. The given policy is never changed.

        Raises HubTemplateError, which has to be reported in the policy's status; and KubeError if the policy's own cluster
        failed, after which the caller retries.
        """
        key = PolicyKey.of(policy)
        if has_templates_disabled(policy) or not has_hub_templates(policy["spec"]):
            self.forget(key)
            await self._saved.remove(policy)
            return HubResolution(policy, sensitive=False, from_cache=False)
        if self._hub is None:
            await self._saved.remove(policy)
            raise HubTemplateError(STANDALONE_DISABLED)
        return await self._resolve(self._hub, key, policy)

    def forget(self, policy: PolicyKey) -> None:
        """The policy was deleted: end its watches on the hub."""
        if self._hub is not None:
            self._hub.selections.forget(str(policy))
            self._hub.reachability.forget(policy)

    async def run(self) -> None:
        """Runs watches and checks of the hub's reachability until cancelled."""
        if self._hub is None:
            await asyncio.Event().wait()
        else:
            await self._hub.run()

    async def _resolve(self, hub: _Hub, key: PolicyKey, policy: Object) -> HubResolution:
        document = stripped(policy)
        try:
            resolution = await self._run(hub, key, document)
            resolved = resolved_document(resolution.value, document)
        except (ResolveError, HubTemplateError) as error:
            failure = hub_failure(error)
            if is_transient_failure(failure):
                hub.reachability.wait(key)
                if await hub.reachability.is_unreachable(failure):
                    saved = await self._saved.load(policy)
                    if saved is not None:
                        # The saved state does not contain whether Secrets were read.
                        return HubResolution({**policy, "spec": saved["spec"]}, sensitive=True, from_cache=True)
            else:
                if isinstance(error.__cause__, MissingAPIResource):
                    # There is no event when the hub gets it.
                    hub.reachability.wait(key)
                await self._saved.remove(policy)
            raise HubTemplateError(str(error)) from error
        hub.reachability.forget(key)
        await self._saved.save(policy, resolved)
        return HubResolution({**policy, "spec": resolved["spec"]}, sensitive=resolution.sensitive, from_cache=False)

    async def _run(self, hub: _Hub, key: PolicyKey, document: Object) -> Resolution:
        source = FollowingSource(hub.selections, hub.mapper, str(key))
        try:
            options = ResolveOptions(context=await self._context(source, document), denylist=self._denylist)
            resolution = await self._resolver.resolve(document, source, options)
        except BaseException:
            source.keep()
            raise
        source.commit()
        return resolution

    async def _context(self, source: ObjectSource, document: Object) -> dict[str, object]:
        labels: dict[str, str] = {}
        if f".{_LABELS}".encode() in orjson.dumps(document["spec"]):
            labels = await self._labels(source)
        return {"ManagedClusterName": self._cluster_name, _LABELS: Map(labels)}

    async def _labels(self, source: ObjectSource) -> dict[str, str]:
        about = f"failed to resolve the template: the labels of the ManagedCluster {self._cluster_name}"
        try:
            found = await source.read(Selection(_MANAGED_CLUSTERS, name=self._cluster_name))
        except KubeError as error:
            raise ResolveError(f"{about} cannot be read: {error}") from error
        if not found:
            raise ResolveError(f"{about} cannot be read: the hub has no ManagedCluster of this name; see --cluster-name")
        return found[0]["metadata"].get("labels") or {}

    def _changed(self, policy: PolicyKey) -> None:
        for handler in self._handlers:
            handler(policy)


class _Hub:
    """The hub: watches, discovery and reachability."""

    def __init__(self, client: KubeClient, on_change: Callable[[PolicyKey], None], clock: Clock, random: Random) -> None:
        self.selections = FollowedSelections(client, clock=clock, random=random)
        self.selections.on_change(lambda follower: on_change(PolicyKey.parse(follower)))
        self.mapper = RESTMapper(client, clock=clock, timeout=DISCOVERY_TIMEOUT)
        self.reachability = HubReachability(client, on_change, clock=clock, random=random)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.selections.run())
            tasks.create_task(self.reachability.run())
