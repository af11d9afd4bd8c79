"""Lets a ManagedClusterAddOn go that is being deleted: its hooks run first, then what is hosted elsewhere is taken away.

While hooks run, works follow the addon as before: an addon may have to change what it deployed to be removable. A hook that cannot
run any more is passed over, with an event: its cluster is gone or given up (`lifecycle.given_up`), or nothing is left to render it
from. That is believed only after a while: just after a start, configurations are not known yet. An addon that cannot be rendered
for another reason is waited for, unless its cluster is being deleted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from muster.addon.framework import lifecycle
from muster.addon.framework.addon_writer import AddonWriter
from muster.addon.framework.deployment import Deployment
from muster.addon.framework.effects import write_works
from muster.addon.framework.manifests import Sorted, sort_manifests
from muster.addon.framework.owned import OwnedObjects
from muster.addon.framework.progress import is_hook_complete
from muster.addon.framework.rendering import Rendering
from muster.addon.framework.scene import Scene, hosting_cluster
from muster.addon.framework.status_draft import HOOK_COMPLETED, StatusDraft
from muster.addon.framework.works import Site, hook_work
from muster.api.addons import HOSTING_PRE_DELETE_FINALIZER, PRE_DELETE
from muster.api.cluster.v1 import ManagedCluster
from muster.api.work.v1 import ManifestWork
from muster.machinery.logs import get_logger
from muster.machinery.objects import Object, ObjectKey
from muster.runtime.controller import ControllerContext

log = get_logger("muster.addon.framework.removal")

MISSING_FOR: Final = 60.0
"""Seconds after which a configuration that a hook is rendered from, and that nobody has seen, is taken to be gone."""


class NotRemoved(Exception):
    """Something that has to go with an addon, or run before, could not be written."""


@dataclass(frozen=True)
class _Hook:
    """The hooks of one site."""

    site: Site
    cluster: ManagedCluster | None
    manifests: tuple[Object, ...]


class Removal:
    def __init__(
        self, context: ControllerContext, works: OwnedObjects[ManifestWork], writer: AddonWriter, deployment: Deployment
    ) -> None:
        self._events = context.events
        self._clock = context.clock
        self._missing: dict[ObjectKey, float] = {}
        """Since when the configurations of an addon with hooks are missed."""
        self._works = works
        self._writer = writer
        self._deployment = deployment

    async def remove(self, scene: Scene, draft: StatusDraft, rendering: Rendering) -> float | None:
        """Gives the seconds after which to look again, where only time will tell."""
        if lifecycle.without_unneeded(scene.addon.metadata.finalizers) == scene.addon.metadata.finalizers:
            return None
        agent = rendering.agent
        manifests = sort_manifests(agent.manifests, hosted=scene.is_hosted) if agent is not None else Sorted()
        hooks = list(_hooks(scene, manifests))
        problems = [await self._begin(scene, draft, hook) for hook in hooks]
        pending = [wait for hook in hooks if (wait := self._waits_for(scene, draft, rendering, hook))]
        if pending:
            draft.set(HOOK_COMPLETED, False, "HookManifestIsNotCompleted", " ".join(filter(None, (*pending, *problems))))
            problems += await self._deployment.deploy(scene, draft, rendering, manifests)
            await self._writer.report(scene, draft)
        else:
            hosted = [one for one in self._works.of(scene.key) if _hosted(scene, one)]
            problems = [await write_works(self._works, scene.key, (), hosted)]
        if any(problems):
            raise NotRemoved("; ".join(filter(None, problems)))
        if not pending:
            self._missing.pop(scene.key, None)
            await self._let_go(scene, draft)
        missed = self._missing.get(scene.key)
        return None if missed is None else max(0.0, missed + MISSING_FOR - self._clock.monotonic())

    async def _let_go(self, scene: Scene, draft: StatusDraft) -> None:
        if lifecycle.without_unneeded(scene.addon.metadata.finalizers):
            # Somebody else holds it longer, and there is somebody to read how its hooks ended.
            scene = await self._writer.report(scene, draft)
        await self._writer.release(scene)

    async def _begin(self, scene: Scene, draft: StatusDraft, hook: _Hook) -> str:
        """Write the work of a hook that can run; gives why it could not be written."""
        if not hook.manifests or lifecycle.given_up(hook.cluster, hook.site.namespace):
            return ""
        addon = msgspec.structs.replace(scene.addon, status=draft.status)
        return await write_works(self._works, scene.key, [hook_work(hook.site, addon, hook.manifests)], ())

    def _waits_for(self, scene: Scene, draft: StatusDraft, rendering: Rendering, hook: _Hook) -> str:
        """What of a hook is waited for; empty when nothing is."""
        name = hook.site.hook_name
        if reason := lifecycle.given_up(hook.cluster, hook.site.namespace):
            return self._pass_over(scene, draft, name, reason)
        work = next((one for one in self._works.of(scene.key) if hook.site.is_hook(one)), None)
        if rendering.agent is None and work is None:
            leaving = hook.cluster is not None and hook.cluster.metadata.deletion_timestamp
            problem = rendering.problem or "The configurations that it is rendered from are missing."
            wait = not leaving if rendering.problem else self._is_missed_lately(scene.key)
            return f"hook manifestWork {name} is not completed. {problem}" if wait else self._pass_over(scene, draft, name, problem)
        self._missing.pop(scene.key, None)
        if rendering.agent is not None and not hook.manifests:
            return ""
        if work is None or not is_hook_complete(work):
            return f"hook manifestWork {name} is not completed."
        draft.set(HOOK_COMPLETED, True, "HookManifestIsCompleted", f"hook manifestWork {name} is completed.")
        return ""

    def _is_missed_lately(self, addon: ObjectKey) -> bool:
        now = self._clock.monotonic()
        return now < self._missing.setdefault(addon, now) + MISSING_FOR

    def _pass_over(self, scene: Scene, draft: StatusDraft, name: str, reason: str) -> str:
        log.warning("pre-delete hook passed over", addon=str(scene.key), work=name, reason=reason)
        note = f"hook manifestWork {name} is not run: {reason}"
        draft.set(HOOK_COMPLETED, False, "HookManifestIsNotCompleted", note)
        self._events.event(scene.addon.document(), "Warning", "PreDeleteHookSkipped", note, action="Delete")
        return ""


def _hooks(scene: Scene, manifests: Sorted) -> Iterator[_Hook]:
    """Those that the addon's finalizers say have to run."""
    finalizers = scene.addon.metadata.finalizers
    if PRE_DELETE in finalizers:
        yield _Hook(scene.site, scene.cluster, manifests.managed_hooks)
    if HOSTING_PRE_DELETE_FINALIZER in finalizers and (host := hosting_cluster(scene.addon)):
        site = Site(scene.key.name, scene.key.namespace, host)
        yield _Hook(site, scene.hosting, manifests.hosting_hooks)


def _hosted(scene: Scene, work: ManifestWork) -> bool:
    return Site(scene.key.name, scene.key.namespace, work.metadata.namespace).has(work)
