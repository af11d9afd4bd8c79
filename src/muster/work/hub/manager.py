"""Assembly of the hub's controllers of works; the options decide which of them run.

`WorkHub` needs only a client and options of its process. Leader election and webhooks are up to the caller.
"""

from __future__ import annotations

import random as chance
from collections.abc import Callable
from functools import partial
from typing import Final

from muster.machinery.clock import SYSTEM, Clock, Random
from muster.machinery.metrics import Metrics
from muster.runtime.client import KubeClient
from muster.runtime.controller import ControllerContext, Manager, Runnable, make_controllers
from muster.work.hub.bindings.status import BindingStatus
from muster.work.hub.finished import FinishedWorks
from muster.work.hub.options import BINDING_CONTROLLER, FINISHED_WORK_CONTROLLER, REPLICA_SET_CONTROLLER, WorkHubOptions
from muster.work.hub.replica_sets.controller import ReplicaSets

REPORTER: Final = "work-controller"
"""The reportingController of events."""


class WorkHub(Manager):
    def __init__(
        self,
        client: KubeClient,
        options: WorkHubOptions,
        *,
        clock: Clock = SYSTEM,
        random: Random = chance.random,
        metrics: Metrics | None = None,
    ) -> None:
        super().__init__()
        workers = options.workers
        context = ControllerContext.of(client, REPORTER, workers=workers, metrics=metrics, clock=clock, random=random)
        controllers: dict[str, Callable[[ControllerContext], Runnable]] = {
            REPLICA_SET_CONTROLLER: ReplicaSets,
            FINISHED_WORK_CONTROLLER: FinishedWorks,
            BINDING_CONTROLLER: partial(BindingStatus, addon_namespace=options.addon_namespace),
        }
        self.add_context(context)
        self.add_controllers(make_controllers(controllers, context, options.disabled_controllers))
