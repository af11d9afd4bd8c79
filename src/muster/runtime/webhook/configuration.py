"""Webhook configurations: the address of webhooks, the CA to trust, and when they are called.

A `Hook` is a configuration with one webhook; its document is made for an `Endpoint`. Every hook has failurePolicy Fail: while the
server is unavailable, matching requests are refused. `conditions` (matchConditions) therefore exclude requests that need no review:
the API server evaluates them itself and does not call the webhook.
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
    """How the API server connects to webhooks, and the CA that it trusts. `url` has no path; empty: the Service is called."""

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
    """Write the CA into existing webhook configurations; missing ones are not created."""
    for resource, name in targets:
        try:
            await inject_ca_bundle(client, resource, name, ca, clock=clock)
        except NotFound:
            log.warning("webhook is not installed", configuration=name)


async def configure(client: KubeClient, hooks: Iterable[Hook], endpoint: Endpoint | None, manager: str) -> None:
    """Apply the configurations of these webhooks for the endpoint; without one, delete them."""
    for hook in hooks:
        if endpoint is not None:
            await client.apply(hook.resource, hook.document(endpoint), manager=manager)
            continue
        try:
            await client.delete(hook.resource, hook.name)
        except NotFound:
            continue
