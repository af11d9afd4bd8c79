"""Deletes a ManagedClusterAddOn's objects: its hooks run first, then its hosted works are deleted.

While hooks run, works are updated as before: an addon may have to change its deployment for its removal. A hook that can no longer
run is skipped, with an event: its cluster is gone or given up (`lifecycle.given_up`), or it cannot be rendered since its
configurations are gone. The latter is accepted only after a while, since configurations are not known just after a start. Other
rendering errors block the removal, unless the cluster is being deleted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from muster.addon.framework import lifecycle
from muster.addon.framework.addon_context import AddonContext, hosting_cluster
from muster.addon.framework.addon_writer import AddonWriter
from muster.addon.framework.deployment import Deployment
from muster.addon.framework.effects import write_works
from muster.addon.framework.manifests import Sorted, sort_manifests
from muster.addon.framework.owned import OwnedObjects
from muster.addon.framework.progress import is_hook_complete
from muster.addon.framework.rendered_agent import RenderedAgent
from muster.addon.framework.status_draft import HOOK_COMPLETED, StatusDraft
from muster.addon.framework.works import WorkNamespace, hook_work
from muster.api.addons import HOSTING_PRE_DELETE_FINALIZER, PRE_DELETE
from muster.api.cluster.v1 import ManagedCluster
from muster.api.work.v1 import ManifestWork
from muster.machinery.logs import get_logger
from muster.machinery.objects import Object, ObjectKey
from muster.runtime.controller import ControllerContext

log = get_logger("muster.addon.framework.removal")

MISSING_FOR: Final = 60.0
"""Seconds after which a hook's configuration that was never seen is taken for deleted."""


class NotRemoved(Exception):
    """Some objects could not be deleted, or a hook could not be created."""


@dataclass(frozen=True)
class _Hook:
    """The hooks of one site."""

    site: WorkNamespace
    cluster: ManagedCluster | None
    manifests: tuple[Object, ...]


class Removal:
    def __init__(
        self, context: ControllerContext, works: OwnedObjects[ManifestWork], writer: AddonWriter, deployment: Deployment
    ) -> None:
        self._events = context.events
        self._clock = context.clock
        self._missing: dict[ObjectKey, float] = {}
        """Since when the configurations of an addon with hooks are missing."""
        self._works = works
        self._writer = writer
        self._deployment = deployment

    async def remove(self, addon_context: AddonContext, draft: StatusDraft, rendering: RenderedAgent) -> float | None:
        """Returns the seconds until the next check, if no event will trigger it."""
        if lifecycle.without_unneeded(addon_context.addon.metadata.finalizers) == addon_context.addon.metadata.finalizers:
            return None
        agent = rendering.agent
        manifests = sort_manifests(agent.manifests, hosted=addon_context.is_hosted) if agent is not None else Sorted()
        hooks = list(_hooks(addon_context, manifests))
        problems = [await self._begin(addon_context, draft, hook) for hook in hooks]
        pending = [wait for hook in hooks if (wait := self._waits_for(addon_context, draft, rendering, hook))]
        if pending:
            draft.set(HOOK_COMPLETED, False, "HookManifestIsNotCompleted", " ".join(filter(None, (*pending, *problems))))
            problems += await self._deployment.deploy(addon_context, draft, rendering, manifests)
            await self._writer.report(addon_context, draft)
        else:
            hosted = [one for one in self._works.of(addon_context.key) if _hosted(addon_context, one)]
            problems = [await write_works(self._works, addon_context.key, (), hosted)]
        if any(problems):
            raise NotRemoved("; ".join(filter(None, problems)))
        if not pending:
            self._missing.pop(addon_context.key, None)
            await self._let_go(addon_context, draft)
        missed = self._missing.get(addon_context.key)
        return None if missed is None else max(0.0, missed + MISSING_FOR - self._clock.monotonic())

    async def _let_go(self, addon_context: AddonContext, draft: StatusDraft) -> None:
        if lifecycle.without_unneeded(addon_context.addon.metadata.finalizers):
            # Another finalizer remains, so the result of the hooks can still be read.
            addon_context = await self._writer.report(addon_context, draft)
        await self._writer.release(addon_context)

    async def _begin(self, addon_context: AddonContext, draft: StatusDraft, hook: _Hook) -> str:
        """Write the work of a hook that can run; returns why it could not be written."""
        if not hook.manifests or lifecycle.given_up(hook.cluster, hook.site.namespace):
            return ""
        addon = msgspec.structs.replace(addon_context.addon, status=draft.status)
        return await write_works(self._works, addon_context.key, [hook_work(hook.site, addon, hook.manifests)], ())

    def _waits_for(self, addon_context: AddonContext, draft: StatusDraft, rendering: RenderedAgent, hook: _Hook) -> str:
        """What a hook waits for; empty if it is done."""
        name = hook.site.hook_name
        if reason := lifecycle.given_up(hook.cluster, hook.site.namespace):
            return self._pass_over(addon_context, draft, name, reason)
        work = next((one for one in self._works.of(addon_context.key) if hook.site.is_hook(one)), None)
        if rendering.agent is None and work is None:
            leaving = hook.cluster is not None and hook.cluster.metadata.deletion_timestamp
            problem = rendering.problem or "The configurations that it is rendered from are missing."
            wait = not leaving if rendering.problem else self._is_missed_lately(addon_context.key)
            return (
                f"hook manifestWork {name} is not completed. {problem}"
                if wait
                else self._pass_over(addon_context, draft, name, problem)
            )
        self._missing.pop(addon_context.key, None)
        if rendering.agent is not None and not hook.manifests:
            return ""
        if work is None or not is_hook_complete(work):
            return f"hook manifestWork {name} is not completed."
        draft.set(HOOK_COMPLETED, True, "HookManifestIsCompleted", f"hook manifestWork {name} is completed.")
        return ""

    def _is_missed_lately(self, addon: ObjectKey) -> bool:
        now = self._clock.monotonic()
        return now < self._missing.setdefault(addon, now) + MISSING_FOR

    def _pass_over(self, addon_context: AddonContext, draft: StatusDraft, name: str, reason: str) -> str:
        log.warning("pre-delete hook passed over", addon=str(addon_context.key), work=name, reason=reason)
        note = f"hook manifestWork {name} is not run: {reason}"
        draft.set(HOOK_COMPLETED, False, "HookManifestIsNotCompleted", note)
        self._events.event(addon_context.addon.document(), "Warning", "PreDeleteHookSkipped", note, action="Delete")
        return ""


def _hooks(addon_context: AddonContext, manifests: Sorted) -> Iterator[_Hook]:
    """The hooks that the addon's finalizers require."""
    finalizers = addon_context.addon.metadata.finalizers
    if PRE_DELETE in finalizers:
        yield _Hook(addon_context.site, addon_context.cluster, manifests.managed_hooks)
    if HOSTING_PRE_DELETE_FINALIZER in finalizers and (host := hosting_cluster(addon_context.addon)):
        site = WorkNamespace(addon_context.key.name, addon_context.key.namespace, host)
        yield _Hook(site, addon_context.hosting, manifests.hosting_hooks)


def _hosted(addon_context: AddonContext, work: ManifestWork) -> bool:
    return WorkNamespace(addon_context.key.name, addon_context.key.namespace, work.metadata.namespace).has(work)
