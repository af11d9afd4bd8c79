"""The end of a policy controller: it lets go of all policies, so that they and their CustomResourceDefinition can be deleted.

The addon is removed in this order: a Pod runs `trigger-uninstall`, which marks the controller's Deployment and waits until no
policy has a finalizer; the controller, which watches its Deployment, evaluates nothing from then on and only takes its finalizers
off; then the manifests go. A CustomResourceDefinition that is being deleted, or gone, means the same. Objects that policies have
created stay: who removes an addon does not ask for its policies to be undone.

The Deployment goes before the controller's pod does, and the mark with it. A controller without its Deployment therefore leaves
policies as they are: a finalizer that it put on now nobody would take off, and the CustomResourceDefinition could not go.
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
"""Seconds between two looks at the finalizers that are left."""


def is_marked(obj: Object) -> bool:
    """Whether a Deployment is marked as being uninstalled."""
    annotations = obj["metadata"].get("annotations") or {}
    return annotations.get(UNINSTALLING_ANNOTATION, "") not in ("", "false")


class Stage(Enum):
    """What is to be done about policies."""

    EVALUATE = "evaluate"
    RELEASE = "release"
    """The controller is being uninstalled."""
    LEAVE_ALONE = "leave alone"
    """Its Deployment is not there: it is about to end, or whoever has deleted that makes it anew."""


class UninstallState:
    """Whether the controller is being uninstalled, as the cluster that it runs in says."""

    def __init__(self, informers: Informers, deployment: ObjectKey | None, definitions: Informer[FollowedDefinition]) -> None:
        """`deployment` is the controller's own; None outside a cluster. `definitions` has those of that cluster, at least the one
        of ConfigurationPolicies."""
        self._definitions = definitions
        self._deployments: Informer[Snapshot] | None = None
        if deployment is not None:
            self._deployments = informers.of(DEPLOYMENTS, deployment.namespace, field_selector=f"metadata.name={deployment.name}")

    @property
    def informers(self) -> list[Informer[Any]]:
        """What has to be known before anything may be evaluated."""
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
        """`handler` is told the stage whenever something changes that it depends on."""

        def definition_changed(old: FollowedDefinition | None, new: FollowedDefinition | None) -> None:
            if DEFINITION in (old and old.name, new and new.name):
                handler(self.stage)

        self._definitions.on_change(definition_changed)
        if self._deployments is not None:
            self._deployments.on_change(lambda old, new: handler(self.stage))


async def trigger_uninstall(client: KubeClient, deployment: ObjectKey, namespaces: Sequence[str], *, clock: Clock = SYSTEM) -> None:
    """Mark the controller's Deployment, and wait until no policy in these namespaces has finalizers. Raises KubeError."""
    await _mark(client, deployment, clock)
    while held := [key for namespace in namespaces for key in await _held(client, namespace)]:
        log.info("policies still have finalizers", policies=len(held))
        await _mark_policies(client, held, clock)
        await sleep(clock, CHECK_INTERVAL)


async def _mark(client: KubeClient, deployment: ObjectKey, clock: Clock) -> None:
    await client.patch(DEPLOYMENTS, deployment.name, _annotation(clock), deployment.namespace)


async def _held(client: KubeClient, namespace: str) -> list[ObjectKey]:
    try:
        policies = await client.list(POLICIES, namespace)
    except NotFound:
        # The definition is gone, and all policies with it.
        return []
    return [ObjectKey(namespace, one["metadata"]["name"]) for one in policies.items if one["metadata"].get("finalizers")]


async def _mark_policies(client: KubeClient, policies: Sequence[ObjectKey], clock: Clock) -> None:
    """So that a controller which missed the Deployment's mark looks at them."""
    for key in policies:
        try:
            await client.patch(POLICIES, key.name, _annotation(clock), key.namespace)
        except NotFound:
            continue


def _annotation(clock: Clock) -> Object:
    return {"metadata": {"annotations": {UNINSTALLING_ANNOTATION: format_time(clock.now())}}}
