"""The ClusterGateway object of a cluster. It never contains tokens or private keys.

Labels and annotations are those of the underlying object. Their authors may have copied a secret into them, as some tools do with
a whole Secret; values that contain the token or the key are left out.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import datetime
from typing import Final

from muster.api import Document
from muster.api.proxy.v1alpha1 import MANAGED_SERVICE_ACCOUNT, SERVICE_ACCOUNT_TOKEN, X509_CERTIFICATE, ClusterGateway
from muster.gateway.inventory.health import HealthStatus, unhealthy
from muster.gateway.inventory.resolution import ResolvedCluster, expired
from muster.gateway.inventory.sources import CA, INSECURE
from muster.gateway.names import COMPONENT
from muster.gateway.target import BearerToken, ClientCertificate, Credential, Target
from muster.machinery.golang.timestamps import format_time

_KEYS: Final = ("PRIVATE KEY-----", "UFJJVkFURSBLRVkt", "BSSVZBVEUgS0VZLS", "QUklWQVRFIEtFWS0t")
"""Parts of every private key in PEM, also as base64 at any offset."""
_INSECURE: Final = HealthStatus(True, f"Insecure: the certificate is not verified; replace {INSECURE} by {CA} in the Secret")


def document(resolved: ResolvedCluster, health: HealthStatus, now: datetime) -> Document:
    """The current ClusterGateway of a cluster."""
    target = resolved.target if not resolved.expired(now) or resolved.target.problem else expired(resolved)
    shown = health if target.problem is None else unhealthy(target.problem)
    if shown.healthy and target.trust.insecure:
        shown = _INSECURE
    resource = ClusterGateway.resource
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": _metadata(resolved),
        "spec": {"provider": resolved.provider, "access": _access(resolved)},
        "status": _status(resolved, shown),
    }


def _metadata(resolved: ResolvedCluster) -> Document:
    source = resolved.metadata
    secrets = _secrets(resolved.target.credential)
    metadata: Document = {"name": resolved.target.cluster}
    if source.uid:
        metadata["uid"] = source.uid
    if source.creation_timestamp:
        metadata["creationTimestamp"] = source.creation_timestamp
    for field, values in (("labels", source.labels), ("annotations", source.annotations)):
        if shown := _without(values, secrets):
            metadata[field] = shown
    return metadata


def _access(resolved: ResolvedCluster) -> Document:
    target = resolved.target
    access: Document = {
        "endpoint": target.endpoints[0].url if target.endpoints else "",
        "caBundle": base64.b64encode(target.trust.authorities).decode(),
    }
    if resolved.credential_type:
        access["credential"] = {"type": resolved.credential_type, **_credential(resolved.credential_type, target)}
    return access


def _credential(kind: str, target: Target) -> Document:
    if kind == MANAGED_SERVICE_ACCOUNT:
        return {"managedServiceAccount": {"namespace": target.cluster, "name": COMPONENT}}
    if kind == X509_CERTIFICATE:
        read = target.credential.certificate if isinstance(target.credential, ClientCertificate) else b""
        return {"x509Certificate": {"certificate": read.decode("ascii"), "privateKey": ""}}
    assert kind == SERVICE_ACCOUNT_TOKEN, "the API has three types"
    return {"serviceAccountToken": {"token": ""}}


def _status(resolved: ResolvedCluster, health: HealthStatus) -> Document:
    status: Document = {"healthy": health.healthy, "healthyReason": health.reason}
    if resolved.expires is not None:
        status["expirationTimestamp"] = format_time(resolved.expires)
    return status


def _secrets(credential: Credential | None) -> tuple[str, ...]:
    """Texts by which a credential is recognized, in all forms in which objects contain it."""
    if not isinstance(credential, BearerToken):
        return _KEYS
    # The last characters of base64 depend on the following bytes.
    return *_KEYS, credential.token, base64.b64encode(credential.token.encode()).decode().rstrip("=")[:-1]


def _without(values: Mapping[str, str], secrets: tuple[str, ...]) -> dict[str, str]:
    return {name: value for name, value in values.items() if not any(secret in value for secret in secrets)}
