"""Uninstalls a policy controller: it removes its finalizers from all policies, so that they and their CustomResourceDefinition
can be deleted.

The addon is removed in this order: a Pod runs `trigger-uninstall`, which annotates the controller's Deployment and waits until
no policy has a finalizer; the controller, which watches its Deployment, no longer evaluates and only removes its finalizers;
then the manifests are deleted. A CustomResourceDefinition that is terminating or deleted has the same meaning. Objects that
policies have created stay: removing the addon does not undo its policies.

The Deployment, and its annotation, are deleted before the controller's pod ends. A controller without its Deployment therefore
does not touch policies: nobody would remove a finalizer that it adds now, and the CustomResourceDefinition could not be deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Final

from muster.api.policy.v1 import ConfigurationPolicy
from muster.machinery.clock import SYSTEM, Clock, sleep
from muster.machinery.golang.timestamps import format_time
from muster.machinery.logs import get_logger
from muster.machinery.objects import Object, ObjectKey
from muster.policy.names import UNINSTALLING_ANNOTATION
from muster.runtime.cache import FollowedDefinition, Informer, Informers, Snapshot
from muster.runtime.client import KubeClient, NotFound, served
from muster.runtime.client.builtin import DEPLOYMENTS

log = get_logger("muster.policy.uninstall")

POLICIES: Final = served(ConfigurationPolicy)
DEFINITION: Final = f"{POLICIES.plural}.{POLICIES.group}"
CHECK_INTERVAL: Final = 1.0
"""Seconds between two checks for remaining finalizers."""


def is_marked(obj: Object) -> bool:
    """Whether a Deployment is annotated as being uninstalled."""
    annotations = obj["metadata"].get("annotations") or {}
    return annotations.get(UNINSTALLING_ANNOTATION, "") not in ("", "false")


class Stage(Enum):
    """What to do with policies."""

    EVALUATE = "evaluate"
    RELEASE = "release"
    """The controller is being uninstalled."""
    LEAVE_ALONE = "leave alone"
    """The Deployment does not exist: it is about to end, or will be created again."""


class UninstallState:
    """Whether the controller is being uninstalled, according to its own cluster."""

    def __init__(self, informers: Informers, deployment: ObjectKey | None, definitions: Informer[FollowedDefinition]) -> None:
        """`deployment` is the controller's own; None outside a cluster. `definitions` has the CustomResourceDefinitions of that
        cluster, at least the one of ConfigurationPolicies."""
        self._definitions = definitions
        self._deployments: Informer[Snapshot] | None = None
        if deployment is not None:
            self._deployments = informers.of(DEPLOYMENTS, deployment.namespace, field_selector=f"metadata.name={deployment.name}")

    @property
    def informers(self) -> list[Informer[Any]]:
        """Informers that must have synced before anything is evaluated."""
        return [self._definitions] if self._deployments is None else [self._definitions, self._deployments]

    @property
    def stage(self) -> Stage:
        definition = self._definitions.cache.get(ObjectKey("", DEFINITION))
        if definition is None or definition.deleting:
            return Stage.RELEASE
        if self._deployments is None:
            return Stage.EVALUATE
        own = [one.data for one in self._deployments.cache]
        if not own:
            return Stage.LEAVE_ALONE
        return Stage.RELEASE if any(map(is_marked, own)) else Stage.EVALUATE

    def on_change(self, handler: Callable[[Stage], None]) -> None:
        """`handler` is called with the stage when it may have changed."""

        def definition_changed(old: FollowedDefinition | None, new: FollowedDefinition | None) -> None:
            if DEFINITION in (old and old.name, new and new.name):
                handler(self.stage)

        self._definitions.on_change(definition_changed)
        if self._deployments is not None:
            self._deployments.on_change(lambda old, new: handler(self.stage))


async def trigger_uninstall(client: KubeClient, deployment: ObjectKey, namespaces: Sequence[str], *, clock: Clock = SYSTEM) -> None:
    """Annotate the controller's Deployment, and wait until no policy in these namespaces has finalizers. Raises KubeError."""
    await _mark(client, deployment, clock)
    while held := [key for namespace in namespaces for key in await _held_policies(client, namespace)]:
        log.info("policies still have finalizers", policies=len(held))
        await _mark_policies(client, held, clock)
        await sleep(clock, CHECK_INTERVAL)


async def _mark(client: KubeClient, deployment: ObjectKey, clock: Clock) -> None:
    await client.patch(DEPLOYMENTS, deployment.name, _annotation(clock), deployment.namespace)


async def _held_policies(client: KubeClient, namespace: str) -> list[ObjectKey]:
    try:
        policies = await client.list(POLICIES, namespace)
    except NotFound:
        # The CustomResourceDefinition was deleted, and all policies with it.
        return []
    return [ObjectKey(namespace, one["metadata"]["name"]) for one in policies.items if one["metadata"].get("finalizers")]


async def _mark_policies(client: KubeClient, policies: Sequence[ObjectKey], clock: Clock) -> None:
    """Triggers a reconcile by controllers that have missed the Deployment's annotation."""
    for key in policies:
        try:
            await client.patch(POLICIES, key.name, _annotation(clock), key.namespace)
        except NotFound:
            continue


def _annotation(clock: Clock) -> Object:
    return {"metadata": {"annotations": {UNINSTALLING_ANNOTATION: format_time(clock.now())}}}
