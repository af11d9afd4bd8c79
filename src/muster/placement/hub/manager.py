"""Assembly of the placement controller.

`PlacementManager` needs only a client and options of its process. Leader election is up to the caller.
"""

from __future__ import annotations

import random as chance
from typing import Final

from muster.machinery.clock import SYSTEM, Clock, Random
from muster.machinery.metrics import Metrics
from muster.placement.hub.controller import NAME, Placements
from muster.placement.hub.debug_server import DebugOptions, DebugServer
from muster.placement.hub.options import PlacementOptions
from muster.runtime.auth import AccessReviewer, TokenReviewer
from muster.runtime.client import KubeClient
from muster.runtime.controller import ControllerContext, Manager

REPORTER: Final = "placement-controller"
"""The reportingController of events."""


class PlacementManager(Manager):
    def __init__(
        self,
        client: KubeClient,
        options: PlacementOptions,
        *,
        clock: Clock = SYSTEM,
        random: Random = chance.random,
        metrics: Metrics | None = None,
        debug: DebugOptions | None = None,
    ) -> None:
        """`debug`: the address of the debug service, if it is enabled."""
        super().__init__()
        context = ControllerContext.of(client, REPORTER, workers=options.workers, metrics=metrics, clock=clock, random=random)
        self.placements = Placements(context)
        self.add_context(context)
        self.add_controllers({NAME: self.placements})
        self.debug_server: DebugServer | None = None
        if debug is not None:
            self.debug_server = DebugServer(
                self.placements.inventory,
                self.placements.find,
                TokenReviewer(client, clock=clock),
                AccessReviewer(client, clock=clock),
                debug,
                clock=clock,
            )
            self.add("the debug service", self.debug_server)
