"""The ClusterGateway that people see of a cluster. Tokens and private keys are never part of it.

Labels and annotations are those of the object that the gateway stands for. Who writes them may have repeated a secret there, as
some tools do with a whole Secret; what has the token or the key in it is left out.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import datetime
from typing import Final

from muster.api import Document
from muster.api.proxy.v1alpha1 import MANAGED_SERVICE_ACCOUNT, SERVICE_ACCOUNT_TOKEN, X509_CERTIFICATE, ClusterGateway
from muster.gateway.inventory.health import HealthStatus, unhealthy
from muster.gateway.inventory.join import Joined, expired
from muster.gateway.inventory.sources import CA, INSECURE
from muster.gateway.names import COMPONENT
from muster.gateway.target import BearerToken, ClientCertificate, Credential, Target
from muster.machinery.golang.timestamps import format_time

_KEYS: Final = ("PRIVATE KEY-----", "UFJJVkFURSBLRVkt", "BSSVZBVEUgS0VZLS", "QUklWQVRFIEtFWS0t")
"""By which every private key in PEM is known, also as base64 at whatever offset."""
_INSECURE: Final = HealthStatus(True, f"Insecure: the certificate is not verified; replace {INSECURE} by {CA} in the Secret")


def document(joined: Joined, health: HealthStatus, now: datetime) -> Document:
    """What is shown of a cluster now."""
    target = joined.target if not joined.expired(now) or joined.target.problem else expired(joined)
    shown = health if target.problem is None else unhealthy(target.problem)
    if shown.healthy and target.trust.insecure:
        shown = _INSECURE
    resource = ClusterGateway.resource
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": _metadata(joined),
        "spec": {"provider": joined.provider, "access": _access(joined)},
        "status": _status(joined, shown),
    }


def _metadata(joined: Joined) -> Document:
    source = joined.metadata
    secrets = _secrets(joined.target.credential)
    metadata: Document = {"name": joined.target.cluster}
    if source.uid:
        metadata["uid"] = source.uid
    if source.creation_timestamp:
        metadata["creationTimestamp"] = source.creation_timestamp
    for field, values in (("labels", source.labels), ("annotations", source.annotations)):
        if shown := _without(values, secrets):
            metadata[field] = shown
    return metadata


def _access(joined: Joined) -> Document:
    target = joined.target
    access: Document = {
        "endpoint": target.endpoints[0].url if target.endpoints else "",
        "caBundle": base64.b64encode(target.trust.authorities).decode(),
    }
    if joined.credential_type:
        access["credential"] = {"type": joined.credential_type, **_credential(joined.credential_type, target)}
    return access


def _credential(kind: str, target: Target) -> Document:
    if kind == MANAGED_SERVICE_ACCOUNT:
        return {"managedServiceAccount": {"namespace": target.cluster, "name": COMPONENT}}
    if kind == X509_CERTIFICATE:
        read = target.credential.certificate if isinstance(target.credential, ClientCertificate) else b""
        return {"x509Certificate": {"certificate": read.decode("ascii"), "privateKey": ""}}
    assert kind == SERVICE_ACCOUNT_TOKEN, "there are three"
    return {"serviceAccountToken": {"token": ""}}


def _status(joined: Joined, health: HealthStatus) -> Document:
    status: Document = {"healthy": health.healthy, "healthyReason": health.reason}
    if joined.expires is not None:
        status["expirationTimestamp"] = format_time(joined.expires)
    return status


def _secrets(credential: Credential | None) -> tuple[str, ...]:
    """Texts that betray a credential, in the forms in which they are found in objects."""
    if not isinstance(credential, BearerToken):
        return _KEYS
    # The last characters of base64 depend on what follows.
    return *_KEYS, credential.token, base64.b64encode(credential.token.encode()).decode().rstrip("=")[:-1]


def _without(values: Mapping[str, str], secrets: tuple[str, ...]) -> dict[str, str]:
    return {name: value for name, value in values.items() if not any(secret in value for secret in secrets)}
