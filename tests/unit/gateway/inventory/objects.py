"""Objects of a hub that has clusters with gateways."""

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from muster.accounts.names import ACCOUNT_LABEL
from muster.gateway.inventory.resolution import Sources
from muster.gateway.inventory.sources import (
    decode_account,
    decode_cluster,
    decode_secret,
    reduce_account,
    reduce_account_secret,
    reduce_cluster,
    reduce_credential,
)
from muster.gateway.names import COMPONENT, CREDENTIAL_TYPE, CREDENTIALS_NAMESPACE
from muster.kube.certificates import CertificateAuthority, KeyPair

NOW = datetime(2026, 1, 1, tzinfo=UTC)
AUTHORITY = CertificateAuthority.create("cluster", NOW)
OTHER_AUTHORITY = CertificateAuthority.create("elsewhere", NOW)
URL = "https://api.c1.example:6443"

Object = dict[str, Any]


def b64(value: bytes | str) -> str:
    return base64.b64encode(value.encode() if isinstance(value, str) else value).decode()


def jwt(expires: object = None, subject: object = "system:serviceaccount:ocm:cluster-gateway", nonce: str = "") -> str:
    claims: Object = {"sub": subject, "nonce": nonce}
    if expires is not None:
        claims["exp"] = expires.timestamp() if isinstance(expires, datetime) else expires
    parts = (orjson.dumps({"alg": "ES256"}), orjson.dumps(claims), b"signature-of-the-cluster")
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


def client_pair(lifetime: timedelta = timedelta(days=30)) -> KeyPair:
    return AUTHORITY.issue("gateway", NOW, lifetime)


def managed_cluster(name: str = "c1", *configs: Object, accepted: bool = True, **metadata: object) -> Object:
    return {
        "apiVersion": "cluster.open-cluster-management.io/v1",
        "kind": "ManagedCluster",
        "metadata": {"name": name, **metadata},
        "spec": {
            "hubAcceptsClient": accepted,
            "managedClusterClientConfigs": list(configs) or [{"url": URL, "caBundle": b64(AUTHORITY.pem)}],
        },
    }


def credential(
    name: str = "c1",
    kind: str = "ServiceAccountToken",
    label: str = CREDENTIAL_TYPE,
    *,
    labels: Object | None = None,
    **data: object,
) -> Object:
    """A labelled Secret; underscores in keys are dashes, two of them dots."""
    values = {key.replace("__", ".").replace("_", "-"): value for key, value in data.items()}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": CREDENTIALS_NAMESPACE, "labels": {label: kind, **(labels or {})}},
        "data": {key: b64(value) for key, value in values.items() if isinstance(value, str | bytes)},
    }


def account(cluster: str = "c1", **status: object) -> Object:
    return {
        "apiVersion": "authentication.open-cluster-management.io/v1beta1",
        "kind": "ManagedServiceAccount",
        "metadata": {"name": COMPONENT, "namespace": cluster},
        "spec": {"rotation": {"enabled": True, "validity": "8640h0m0s"}},
        "status": status,
    }


def account_secret(cluster: str = "c1", **data: bytes | str) -> Object:
    values = {key.replace("__", ".").replace("_", "-"): value for key, value in data.items()}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": COMPONENT, "namespace": cluster, "labels": {ACCOUNT_LABEL: "true"}},
        "data": {key: b64(value) for key, value in values.items()},
    }


def sources(cluster: object = None, credential: object = None, account: object = None, token: object = None) -> Sources:
    """As informers read them."""
    return Sources(
        None if cluster is None else decode_cluster(reduce_cluster(orjson.dumps(cluster))),
        None if credential is None else decode_secret(reduce_credential(orjson.dumps(credential))),
        None if account is None else decode_account(reduce_account(orjson.dumps(account))),
        None if token is None else decode_secret(reduce_account_secret(orjson.dumps(token))),
    )
