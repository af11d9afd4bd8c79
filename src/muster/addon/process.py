"""The addon manager, put together.

`AddonManager` takes a client and options and nothing else from the process around it. Who may run at all (leader election) is the
caller's business. Without `addons` it is the hub's own: it plans every ClusterManagementAddOn and serves those that are made of
templates. With `addons` it is the manager of somebody's addons, in a process of theirs: it serves these, and leaves planning to
the hub's.
"""

from __future__ import annotations

import random as chance
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from muster.addon.agent_addon import AddonRegistry, StaticAddons
from muster.addon.options import AddonOptions
from muster.addon.plans import Plans
from muster.machinery.clock import SYSTEM, Clock, Random
from muster.machinery.metrics import Metrics
from muster.runtime.client import KubeClient
from muster.runtime.controller import ControllerContext, Manager
from muster.runtime.controller.manager import Runnable

REPORTER: Final = "addon-manager-controller"
"""Who the events are from."""


@dataclass(frozen=True)
class Shared:
    """What the parts of a manager have in common."""

    context: ControllerContext
    options: AddonOptions
    addons: AddonRegistry
    plans: Plans = field(default_factory=Plans)


Part = Callable[[Shared], Mapping[str, Runnable]]
"""Makes the controllers of a part, by name."""

# --- PLUG IN HERE (lead): the parts of the other trees. `HUB` is what `muster addon-manager` runs, `SERVED` what runs for the
# addons of somebody else's process. ConfigObjects and the registry of template addons belong into `Shared`.
HUB: Final[tuple[Part, ...]] = ()
SERVED: Final[tuple[Part, ...]] = ()
# --- END


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
        shared = Shared(context, options, StaticAddons() if addons is None else addons)
        for part in HUB if addons is None else SERVED:
            self.add_controllers(part(shared))
        self.add_context(context)
