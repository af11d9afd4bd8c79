"""The agent's manager: its informers on the hub and on the managed cluster, its one controller, and its lease.

It takes two clients, one for the hub and one for the managed cluster, each with the agent's own identity there. On the hub it
needs no more permissions than upstream grants its agents: get, list, watch, create and update for Secrets, get, list and watch
for ManagedServiceAccounts, and writes to their status.
"""

from __future__ import annotations

import random as chance
from typing import Final

from muster.accounts.agent.reconciler import AccountReconciler, AgentOptions
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
MAX_RETRY_DELAY: Final = 60.0
"""Upper limit in seconds of the delay before a failed reconcile is repeated."""


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
        controller = context.controller("managedserviceaccounts", reconciler.reconcile, max_delay=MAX_RETRY_DELAY)
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
        # The lease is renewed only once the caches have synced: an agent that cannot read its objects is not healthy.
        await self.synced()
        await self._lease.run()
