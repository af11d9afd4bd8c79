"""Muster's own addons, and the process on the hub that serves them.

A `HubAddon` has everything that an addon needs there: its definition, its CRDs, roles of its agents, permissions of the process,
and additional controllers. The process is an addon's own manager in the sense of `process.py`: planning is done by the hub's addon
manager, Muster's or upstream's, so these addons work with either. They have their own process and account because the addon
manager's account may only bind roles that an administrator permits, and must not need more for our addons.
"""

from __future__ import annotations

import random as chance
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from muster.addon.agent_addon import AgentAddon, StaticAddons
from muster.addon.framework import rules as framework
from muster.addon.install import KINDS
from muster.addon.options import AddonOptions
from muster.addon.process import AddonManager
from muster.addon.requests import past_requests
from muster.addon.requests.past_requests import PastRequests
from muster.addon.requests.rules import APPROVAL_RULES
from muster.api import Document
from muster.api.addon.v1alpha1 import GROUP, ClusterManagementAddOn, ConfigGroupResource
from muster.api.addons import LIFECYCLE_ANNOTATION, LIFECYCLE_MANAGED
from muster.api.crds import Definition, definitions
from muster.api.work.v1 import GROUP as WORK_GROUP
from muster.machinery.clock import SYSTEM, Clock, Random
from muster.machinery.metrics import Metrics
from muster.machinery.objects import GVR
from muster.runtime.client import KubeClient, NotFound, served
from muster.runtime.client.builtin import CRDS
from muster.runtime.controller import ControllerContext, Runnable
from muster.runtime.install import READ, InstallError, account_permissions, apply_all, await_definitions, ensure_namespace, rule
from muster.work.hub.webhooks.executors import AGENT
from muster.work.names import EXECUTE_AS

COMMAND: Final = "hub-addons"
FIELD_MANAGER: Final = "muster-hub-addons-install"
PROCESS: Final = "muster-hub-addons"
ACCOUNT: Final = "hub-addons-controller-sa"
LOCK: Final = "hub-addons-lock"
BASE_RULES: Final = (
    rule("coordination.k8s.io", ["leases"], [*READ, "create", "update"]),
    # Works of addons run as the work agent itself.
    rule(WORK_GROUP, ["manifestworks"], [EXECUTE_AS], [AGENT.user]),
    rule(GROUP, ["addondeploymentconfigs"], READ),
    # To notice CRDs of configurations that come and go.
    rule("apiextensions.k8s.io", ["customresourcedefinitions"], READ),
    rule("apiregistration.k8s.io", ["apiservices"], READ),
    *framework.RULES,
    *APPROVAL_RULES,
    *past_requests.RULES,
)


@dataclass(frozen=True)
class HubAddon:
    name: str
    display_name: str
    description: str
    make: Callable[[str], AgentAddon]
    """The parameter is Muster's image, for agents that run it."""
    config_kinds: tuple[ConfigGroupResource, ...] = ()
    kinds: tuple[Definition, ...] = ()
    """The CRDs that it installs on the hub."""
    rules: tuple[Document, ...] = ()
    """The permissions of its process on the hub, besides those of all addons."""
    objects: tuple[tuple[GVR, Document], ...] = ()
    """Objects that must exist on the hub, such as roles of its agents."""
    controllers: Callable[[ControllerContext], Mapping[str, Runnable]] = lambda context: {}
    """Additional controllers of the process."""
    requires: tuple[str, ...] = ()
    """Addons that must be enabled on the same cluster."""

    def definition(self) -> Document:
        """Its ClusterManagementAddOn, without an install strategy."""
        supported = [{"group": config_kind.group, "resource": config_kind.resource} for config_kind in self.config_kinds]
        meta = {"displayName": self.display_name, "description": self.description}
        metadata = {"name": self.name, "annotations": {LIFECYCLE_ANNOTATION: LIFECYCLE_MANAGED}}
        return {"metadata": metadata, "spec": {"addOnMeta": meta, "supportedConfigs": supported}}


def role(hub: str = "cluster-manager") -> str:
    return f"open-cluster-management:{hub}-hub-addons:controller"


def rules(addons: Sequence[HubAddon]) -> tuple[Document, ...]:
    """Of the process's account."""
    return (*BASE_RULES, *(one for addon in addons for one in addon.rules))


def permissions(addons: Sequence[HubAddon], namespace: str, hub: str = "cluster-manager") -> list[tuple[GVR, Document]]:
    return account_permissions(ACCOUNT, namespace, role(hub), rules(addons))


def hub_objects(addons: Sequence[HubAddon]) -> list[tuple[GVR, Document]]:
    """The objects of addons on a hub: CRDs first, then roles, then the ClusterManagementAddOns."""
    kinds = [kind for addon in addons for kind in addon.kinds]
    return [
        *((CRDS, document) for document in definitions(kinds)),
        *(pair for addon in addons for pair in addon.objects),
        *((served(ClusterManagementAddOn), addon.definition()) for addon in addons),
    ]


async def install(client: KubeClient, addons: Sequence[HubAddon], namespace: str, *, clock: Clock = SYSTEM) -> None:
    """Install everything but the process itself on a hub with an addon manager, and wait until the CRDs are served.

    Needs an administrator's permissions. Raises InstallError and the errors of the client.
    """
    await _require_addon_kinds(client)
    await ensure_namespace(client, namespace)
    await apply_all(client, [*hub_objects(addons), *permissions(addons, namespace)], FIELD_MANAGER)
    await await_definitions(client, [kind.name for addon in addons for kind in addon.kinds], clock)


async def _require_addon_kinds(client: KubeClient) -> None:
    try:
        listed = {one.plural for one in await client.api_resources(f"{GROUP}/v1alpha1")}
    except NotFound:
        listed = set()
    missing = [kind.resource.plural for kind in KINDS if kind.resource.group == GROUP and kind.resource.plural not in listed]
    if "clustermanagementaddons" in missing or "managedclusteraddons" in missing:
        raise InstallError(f"the hub serves no {' and no '.join(missing)} of {GROUP}/v1alpha1: is this a hub? see clusteradm init")


def hub_addon_manager(
    client: KubeClient,
    addons: Sequence[HubAddon],
    image: str,
    options: AddonOptions,
    *,
    clock: Clock = SYSTEM,
    random: Random = chance.random,
    metrics: Metrics | None = None,
) -> AddonManager:
    """The manager of the process; `image` is Muster's."""
    names = frozenset(addon.name for addon in addons)

    def requests(context: ControllerContext) -> Mapping[str, Runnable]:
        return {past_requests.NAME: PastRequests(context, names)}

    return AddonManager(
        client,
        options,
        addons=StaticAddons.of(*(addon.make(image) for addon in addons)),
        process=PROCESS,
        beside=[requests, *(addon.controllers for addon in addons)],
        clock=clock,
        random=random,
        metrics=metrics,
    )
