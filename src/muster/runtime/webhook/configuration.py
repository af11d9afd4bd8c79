"""What an API server is told about webhooks: where they are, whom it trusts there, and when it calls them.

A `Hook` is a configuration with the one webhook in it; its document is made for an `Endpoint`. Every hook fails closed: while
nobody answers, what it would have judged is refused. What it need not judge is therefore left out by `conditions`, which the API
server evaluates by itself: a request that meets not all of them never reaches the webhook.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from muster.machinery.clock import SYSTEM, Clock
from muster.machinery.logs import get_logger
from muster.machinery.objects import GVR, Object
from muster.runtime.client.base import KubeClient
from muster.runtime.client.errors import NotFound
from muster.runtime.webhook.certificates import inject_ca_bundle

log = get_logger("muster.runtime.webhook.configuration")


@dataclass(frozen=True)
class Endpoint:
    """Where the API server finds webhooks, and whom it trusts there. `url` has no path; empty: the Service is called."""

    ca: bytes
    url: str = ""
    namespace: str = ""
    port: int = 9443
    service: str = ""

    @property
    def bundle(self) -> str:
        return base64.b64encode(self.ca).decode()

    def client_config(self, path: str) -> Object:
        if self.url:
            return {"url": self.url + path, "caBundle": self.bundle}
        service = {"name": self.service, "namespace": self.namespace, "path": path, "port": self.port}
        return {"service": service, "caBundle": self.bundle}


@dataclass(frozen=True)
class Hook:
    """A webhook configuration with its one webhook, which has the same name. `conditions` are expressions by name."""

    resource: GVR
    name: str
    path: str
    group: str
    versions: tuple[str, ...]
    plural: str
    conditions: tuple[tuple[str, str], ...] = ()

    def document(self, endpoint: Endpoint) -> Object:
        rule = {"apiGroups": [self.group], "apiVersions": list(self.versions), "resources": [self.plural], "scope": "*"}
        webhook: dict[str, Any] = {
            "name": self.name,
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "timeoutSeconds": 10,
            "admissionReviewVersions": ["v1"],
            "clientConfig": endpoint.client_config(self.path),
            "rules": [{**rule, "operations": ["CREATE", "UPDATE"]}],
        }
        if self.conditions:
            webhook["matchConditions"] = [{"name": name, "expression": expression} for name, expression in self.conditions]
        return {"metadata": {"name": self.name}, "webhooks": [webhook]}


async def trust_webhooks(client: KubeClient, targets: Iterable[tuple[GVR, str]], ca: bytes, *, clock: Clock = SYSTEM) -> None:
    """Tell the API server whom to trust when it calls webhooks; configurations that are not there are left so."""
    for resource, name in targets:
        try:
            await inject_ca_bundle(client, resource, name, ca, clock=clock)
        except NotFound:
            log.warning("webhook is not installed", configuration=name)


async def configure(client: KubeClient, hooks: Iterable[Hook], endpoint: Endpoint | None, manager: str) -> None:
    """Have these webhooks called at the endpoint; without one, have them not called."""
    for hook in hooks:
        if endpoint is not None:
            await client.apply(hook.resource, hook.document(endpoint), manager=manager)
            continue
        try:
            await client.delete(hook.resource, hook.name)
        except NotFound:
            continue
