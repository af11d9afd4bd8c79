"""Authentication of webhook callers: only the API server, if it has a client certificate.

A review contains a user, and its response reveals what that user may do. So if the API server's client certificate is known, other
callers are refused. It is announced by the server in ConfigMap kube-system/webhook-client-authentication (the embedded server), or
configured by an administrator who has given the server one (`--admission-control-config-file` of kube-apiserver). Without that,
callers are not authenticated, as in Kubernetes by default.
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
    """Certificates of the CA `ca`, with one of these names if there are any."""

    ca: bytes
    names: frozenset[str] = frozenset()

    def problem(self, certificate: bytes | None, now: datetime) -> str:
        """Why the owner of this verified certificate is refused; empty if it is accepted."""
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
    """The client certificates that the API server announces; None if it announces none."""
    try:
        data = (await client.get(CONFIG_MAPS, CONFIG_MAP, NAMESPACE)).get("data") or {}
    except NotFound:
        return None
    except Forbidden as error:
        log.warning("callers of webhooks are not verified: the server's certificate is not known", error=str(error))
        return None
    return WebhookClients(str(data["client-ca-file"]).encode(), frozenset(orjson.loads(data["allowed-names"])))
