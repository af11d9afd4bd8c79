"""The addon manager, put together.

`AddonManager` takes a client and options and nothing else from the process around it. Who may run at all (leader election) is the
caller's business. Without `addons` it is the hub's own: it plans every ClusterManagementAddOn and serves those that are made of
templates. With `addons` it is the manager of somebody's addons, in a process of theirs: it serves these, and leaves planning to
the hub's.
"""

from __future__ import annotations

import random as chance
from collections.abc import Mapping
from typing import Final

from muster.addon.agent_addon import AddonRegistry
from muster.addon.options import AddonOptions
from muster.machinery.clock import SYSTEM, Clock, Random
from muster.machinery.metrics import Metrics
from muster.runtime.client import KubeClient
from muster.runtime.controller import ControllerContext, Manager, Runnable

REPORTER: Final = "addon-manager-controller"
"""Who the events are from."""


class AddonManager(Manager):
    def __init__(
        self,
        client: KubeClient,
        options: AddonOptions,
        *,
        addons: AddonRegistry | None = None,
        clock: Clock = SYSTEM,
        random: Random = chance.random,
        metrics: Metrics | None = None,
    ) -> None:
        super().__init__()
        context = ControllerContext.of(client, REPORTER, workers=options.workers, metrics=metrics, clock=clock, random=random)
        self.add_context(context)
        self.add_controllers(_parts(context, options, addons))


# PLUG IN HERE: the controllers of manager, framework, templates and requests, by name. Nothing else has to change.
def _parts(context: ControllerContext, options: AddonOptions, addons: AddonRegistry | None) -> Mapping[str, Runnable]:
    return {}
