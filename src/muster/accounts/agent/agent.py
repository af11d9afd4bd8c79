"""The agent, put together: what it follows on the hub and on its cluster, its one controller, and its lease.

It takes two clients, each with the agent's own identity there, and needs no more on the hub than upstream's agents are given:
secrets get, list, watch, create and update, accounts get, list and watch, and their status.
"""

from __future__ import annotations

import random as chance
from typing import Final

from muster.accounts.agent.reconcile import AccountReconciler, AgentOptions
from muster.accounts.names import ADDON, AGENT, SELECTOR
from muster.addon.lease import LeaseUpdater
from muster.api.authentication.v1beta1 import ManagedServiceAccount
from muster.machinery.clock import SYSTEM, Clock, Random
from muster.machinery.metrics import Metrics
from muster.runtime.cache import Informers
from muster.runtime.client import KubeClient
from muster.runtime.client.builtin import SECRETS, SERVICE_ACCOUNTS
from muster.runtime.controller import ControllerContext, Manager, RunnableFunc

WORKERS: Final = 4
LONGEST_DELAY: Final = 60.0
"""Seconds after which what failed is tried again at the latest."""


class AccountAgent(Manager):
    def __init__(
        self,
        hub: KubeClient,
        spoke: KubeClient,
        options: AgentOptions,
        *,
        lease: bool = True,
        clock: Clock = SYSTEM,
        random: Random = chance.random,
        metrics: Metrics | None = None,
    ) -> None:
        super().__init__()
        context = ControllerContext.of(hub, AGENT, workers=WORKERS, metrics=metrics, clock=clock, random=random)
        accounts = context.informers.of(ManagedServiceAccount, options.cluster)
        secrets = context.informers.of(SECRETS, options.cluster, label_selector=SELECTOR)
        spoke_informers = Informers(spoke, clock=clock, random=random)
        service_accounts = spoke_informers.of(SERVICE_ACCOUNTS, options.namespace, label_selector=SELECTOR)
        reconciler = AccountReconciler(hub, spoke, options, accounts, secrets, service_accounts, clock)
        controller = context.controller("managedserviceaccounts", reconciler.reconcile, max_delay=LONGEST_DELAY)
        controller.watch(accounts, lambda account: [account.metadata.name])
        controller.watch(secrets, lambda secret: [secret.name])
        controller.watch(service_accounts, lambda found: [found.name])
        self.add_controllers({"managedserviceaccounts": controller})
        self.add("the managed cluster's caches", spoke_informers)
        self._informers.append(spoke_informers)
        self.add_context(context)
        if lease:
            self._lease = LeaseUpdater(spoke, ADDON, options.namespace, clock=clock, random=random)
            self.add("the lease", RunnableFunc(self._renew))

    async def _renew(self) -> None:
        # An agent that cannot read what it works on is not well.
        await self.synced()
        await self._lease.run()
