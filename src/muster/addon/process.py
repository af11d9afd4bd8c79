"""Assembly of the addon manager.

`AddonManager` needs only a client and options of its process. Leader election is up to the caller. Without `addons` it is the hub's
own: it plans every ClusterManagementAddOn and serves template addons. With `addons` it is the manager of these addons, in a process
of their own: it serves them, and leaves planning to the hub's.
"""

from __future__ import annotations

import random as chance
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from muster.addon.agent_addon import AddonRegistry
from muster.addon.config_objects import WatchedConfigObjects
from muster.addon.framework import ADDON_MANAGER, Framework
from muster.addon.manager import manager_controllers
from muster.addon.options import AddonOptions
from muster.addon.plans import Plans
from muster.addon.requests.controllers import request_controllers, token_controllers
from muster.addon.requests.options import RequestOptions
from muster.addon.requests.registrations import RenderedRegistrations
from muster.addon.templates.registry import TemplateAddons
from muster.machinery.clock import SYSTEM, Clock, Random
from muster.machinery.metrics import Metrics
from muster.runtime.client import KubeClient
from muster.runtime.controller import ControllerContext, Manager, Runnable

REPORTER: Final = "addon-manager-controller"
"""The reportingController of events."""


class AddonManager(Manager):
    def __init__(
        self,
        client: KubeClient,
        options: AddonOptions,
        *,
        addons: AddonRegistry | None = None,
        process: str = ADDON_MANAGER,
        beside: Sequence[Callable[[ControllerContext], Mapping[str, Runnable]]] = (),
        clock: Clock = SYSTEM,
        random: Random = chance.random,
        metrics: Metrics | None = None,
    ) -> None:
        """`process` is the unique name of the manager on a hub, as a label value: it may delete objects with that label. With
        `addons` it is required. `beside` makes further controllers of the process, with the same caches."""
        if addons is not None and process == ADDON_MANAGER:
            raise ValueError("a manager of its own addons has a name of its own: give `process`")
        super().__init__()
        context = ControllerContext.of(client, REPORTER, workers=options.workers, metrics=metrics, clock=clock, random=random)
        configs = WatchedConfigObjects(client, clock=clock)
        registry = TemplateAddons(context.informers) if addons is None else addons
        plans = Plans() if addons is None else None
        framework = Framework(context, registry, plans, configs, process=process)
        self.add("the configurations", configs)
        if plans is not None:
            self.add_controllers(manager_controllers(context, plans, configs))
            self.add_controllers(token_controllers(context))
        self.add_controllers(framework.controllers)
        registrations = RenderedRegistrations(context.informers, registry, configs)
        self.add_controllers(request_controllers(context, registrations, RequestOptions(namespace=options.namespace)))
        for make in beside:
            self.add_controllers(make(context))
        self.add_context(context)
