"""Lets a ManagedClusterAddOn go that is being deleted: its hooks run first, then what is hosted elsewhere is taken away.

While hooks run, works follow the addon as before: an addon may have to change what it deployed to be removable. A hook that cannot
run any more is passed over, with an event: its cluster is gone or given up (`lifecycle.given_up`), or nothing is left to render it
from. An addon that cannot be rendered for another reason is waited for, unless its cluster is being deleted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

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
from muster.machinery.objects import Object
from muster.runtime.controller import ControllerContext

log = get_logger("muster.addon.framework.removal")


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
        self._works = works
        self._writer = writer
        self._deployment = deployment

    async def remove(self, scene: Scene, draft: StatusDraft, rendering: Rendering) -> None:
        if lifecycle.without_unneeded(scene.addon.metadata.finalizers) == scene.addon.metadata.finalizers:
            return
        agent = rendering.agent
        manifests = sort_manifests(agent.manifests, hosted=scene.is_hosted) if agent is not None else Sorted()
        pending = [problem for hook in _hooks(scene, manifests) if (problem := await self._run(scene, draft, rendering, hook))]
        if pending:
            draft.set(HOOK_COMPLETED, False, "HookManifestIsNotCompleted", "; ".join(pending))
            problems = await self._deployment.deploy(scene, draft, rendering, manifests)
            await self._writer.report(scene, draft)
        else:
            hosted = [one for one in self._works.of(scene.key) if _hosted(scene, one)]
            problems = [await write_works(self._works, scene.key, (), hosted)]
        if any(problems):
            raise NotRemoved("; ".join(filter(None, problems)))
        if not pending:
            await self._let_go(scene, draft)

    async def _let_go(self, scene: Scene, draft: StatusDraft) -> None:
        finalizers = scene.addon.metadata.finalizers
        ran = [work.metadata.name for work in self._works.of(scene.key) if scene.site.is_hook(work)]
        if ran and lifecycle.without_unneeded(finalizers):
            # Somebody else holds it longer.
            draft.set(HOOK_COMPLETED, True, "HookManifestIsCompleted", f"hook manifestWork {ran[0]} is completed.")
            scene = await self._writer.report(scene, draft)
        await self._writer.release(scene)

    async def _run(self, scene: Scene, draft: StatusDraft, rendering: Rendering, hook: _Hook) -> str:
        """What is waited for; empty when nothing is."""
        name = hook.site.hook_name
        if reason := lifecycle.given_up(hook.cluster, hook.site.namespace):
            return self._pass_over(scene, name, reason)
        present = next((one for one in self._works.of(scene.key) if hook.site.is_hook(one)), None)
        if rendering.agent is None and present is None:
            leaving = hook.cluster is not None and hook.cluster.metadata.deletion_timestamp
            if rendering.problem and not leaving:
                return f"hook manifestWork {name} is not completed. {rendering.problem}"
            return self._pass_over(scene, name, rendering.problem or "the configurations that it is rendered from are gone")
        if rendering.agent is not None and hook.manifests:
            addon = msgspec.structs.replace(scene.addon, status=draft.status)
            problem = await write_works(self._works, scene.key, [hook_work(hook.site, addon, hook.manifests)], ())
            if problem:
                return f"hook manifestWork {name} is not completed. {problem}"
            present = next((one for one in self._works.of(scene.key) if hook.site.is_hook(one)), None)
        elif rendering.agent is not None:
            return ""
        return "" if present is not None and is_hook_complete(present) else f"hook manifestWork {name} is not completed."

    def _pass_over(self, scene: Scene, name: str, reason: str) -> str:
        log.warning("pre-delete hook passed over", addon=str(scene.key), work=name, reason=reason)
        note = f"The pre-delete hook {name} is not run: {reason}"
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
