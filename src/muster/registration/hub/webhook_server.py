"""The server of the webhooks of registration (see `muster.runtime.webhook.serving`)."""

from __future__ import annotations

from muster.machinery.clock import SYSTEM, Clock
from muster.registration.hub.install import SERVICE, WEBHOOK_SECRET, WebhookEndpoint, trust
from muster.registration.hub.options import HubOptions
from muster.registration.hub.webhooks import register
from muster.runtime.client import KubeClient
from muster.runtime.webhook import ServingNames, ServingOptions, WebhookServer, WebhookServing


class Webhooks(WebhookServing):
    def __init__(self, client: KubeClient, options: HubOptions, serving: ServingOptions, *, clock: Clock = SYSTEM) -> None:
        super().__init__(client, ServingNames(WEBHOOK_SECRET, SERVICE, options.namespace), serving, clock=clock)
        self._options = options

    def register(self, server: WebhookServer) -> None:
        register(
            server,
            self._client,
            default_cluster_set=self._options.default_cluster_set,
            agent_restriction=self._options.agent_restriction,
            hub_namespace=self._options.namespace,
            clock=self._clock,
        )

    async def trust(self, ca: bytes) -> None:
        await trust(self._client, ca, clock=self._clock)

    @property
    def endpoint(self) -> WebhookEndpoint:
        return WebhookEndpoint(self.ca, self.url, self._options.namespace)
