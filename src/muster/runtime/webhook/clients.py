"""Who may call webhooks: the API server alone, where it has a certificate to show.

A review says in whose name something is asked, and whoever sends one learns from the answer what that user may do. So where the API
server is known by a certificate, others are not answered. By which one is said by the server itself, in ConfigMap
kube-system/webhook-client-authentication (the embedded server's), or by an administrator who has given the server one
(`--admission-control-config-file` of kube-apiserver). A server that shows none is believed, as Kubernetes does.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

import orjson
from cryptography import x509

from muster.kube.certificates import common_name
from muster.machinery.confinement import read
from muster.machinery.logs import get_logger
from muster.runtime.client.base import KubeClient
from muster.runtime.client.builtin import CONFIG_MAPS
from muster.runtime.client.errors import Forbidden, NotFound

log = get_logger("muster.runtime.webhook.clients")

CONFIG_MAP: Final = "webhook-client-authentication"
NAMESPACE: Final = "kube-system"


@dataclass(frozen=True)
class WebhookClients:
    """Certificates of `ca`, and of these names if any are given."""

    ca: bytes
    names: frozenset[str] = frozenset()

    def problem(self, certificate: bytes | None, now: datetime) -> str:
        """Why the owner of this verified certificate is not answered; empty when it is."""
        if certificate is None:
            return "webhooks are called by the API server, which shows its certificate"
        shown = x509.load_der_x509_certificate(certificate)
        if not shown.not_valid_before_utc <= now <= shown.not_valid_after_utc:
            return "the certificate is not valid at this time"
        if self.names and common_name(shown.subject) not in self.names:
            return "the certificate is not the API server's"
        return ""


def clients_in_file(path: Path, names: tuple[str, ...]) -> WebhookClients:
    """Raises OSError."""
    return WebhookClients(read(path), frozenset(names))


async def announced_clients(client: KubeClient) -> WebhookClients | None:
    """By what the API server says it is known; None when it says nothing."""
    try:
        data = (await client.get(CONFIG_MAPS, CONFIG_MAP, NAMESPACE)).get("data") or {}
    except NotFound:
        return None
    except Forbidden as error:
        log.warning("callers of webhooks are not verified: the server's certificate is not known", error=str(error))
        return None
    return WebhookClients(str(data["client-ca-file"]).encode(), frozenset(orjson.loads(data["allowed-names"])))
