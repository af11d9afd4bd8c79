"""The server of the webhooks of works (see `muster.runtime.webhook.serving`), with the caches that they use if bindings are
enforced.

Every replica serves. Allowed access reviews are cached for seconds, denied ones never, so that a new permission takes effect at
once.
"""

from __future__ import annotations

import asyncio

from muster.machinery.clock import SYSTEM, Clock
from muster.runtime.auth import AccessReviewer
from muster.runtime.cache import Informers
from muster.runtime.client import KubeClient
from muster.runtime.webhook import ServingNames, ServingOptions, WebhookServer, WebhookServing
from muster.work.hub.bindings.accounts import BoundAccounts
from muster.work.hub.bindings.policy import ByBinding
from muster.work.hub.bindings.webhook import BindingWebhook
from muster.work.hub.install import (
    SERVICE,
    VALIDATE_BINDING,
    VALIDATE_REPLICA_SET,
    VALIDATE_WORK,
    WEBHOOK_SECRET,
    WorkEndpoint,
    controller_name,
    trust,
)
from muster.work.hub.options import ExecutorAuthorization, WorkHubOptions
from muster.work.hub.webhooks.authorization import ByAccessReview, ExecutorPolicy
from muster.work.hub.webhooks.works import WorkLimits, WorkWebhooks


class Webhooks(WebhookServing):
    def __init__(self, client: KubeClient, options: WorkHubOptions, serving: ServingOptions, *, clock: Clock = SYSTEM) -> None:
        super().__init__(client, ServingNames(WEBHOOK_SECRET, SERVICE, options.namespace), serving, clock=clock)
        self._options = options
        self._informers = Informers(client, clock=clock)
        self._reviews = ByAccessReview(AccessReviewer(client, refused_for=0.0, clock=clock))
        self._bound = BoundAccounts(self._informers, options.addon_namespace) if options.authorization.by_bindings else None

    def register(self, server: WebhookServer) -> None:
        rules = WorkLimits(self._options.manifest_limit, self._options.nil_executor_validating)
        works = WorkWebhooks(self._policy(), rules)
        server.admission(VALIDATE_WORK, works.validate_work)
        server.admission(VALIDATE_REPLICA_SET, works.validate_replica_set)
        if self._bound is not None:
            server.admission(VALIDATE_BINDING, BindingWebhook(self._bound, self._reviews).validate)

    def _policy(self) -> ExecutorPolicy:
        if self._bound is None:
            return self._reviews
        either = self._options.authorization is ExecutorAuthorization.EITHER
        return ByBinding(self._bound, self._reviews, controller_name(self._options), either=either)

    async def trust(self, ca: bytes) -> None:
        await trust(self._client, self._options, ca, clock=self._clock)

    @property
    def endpoint(self) -> WorkEndpoint:
        return WorkEndpoint(self.ca, self.url, self._options.namespace)

    def problem(self) -> str | None:
        return None if self._informers.has_synced else "bindings of managed service accounts are not known yet"

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(super().run())
            tasks.create_task(self._informers.run())
