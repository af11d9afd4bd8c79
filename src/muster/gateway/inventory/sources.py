"""The hub's objects for a cluster, reduced to what the gateway needs: the ManagedCluster, Secrets, the ManagedServiceAccount.

Agents write parts of these objects, so they are parsed leniently: a field of the wrong type counts as absent. An informer keeps
the last good version of an object that cannot be decoded, so strict parsing would be unsafe: a cluster that is no longer accepted
must not remain accepted because of an invalid field beside it. Caches keep only what `reduce_…` leaves of an object, which saves
memory, and unused data (managedFields, Secrets without our labels) are never cached.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
import orjson

from muster.accounts.names import ACCOUNT_LABEL
from muster.gateway.names import CREDENTIAL_TYPE, ENDPOINT_TYPE, OAM_CREDENTIAL_TYPE, OAM_ENDPOINT_TYPE
from muster.machinery.objects import Object

PLATFORM_CLAIM: Final = "platform.open-cluster-management.io"
PRODUCT_CLAIM: Final = "product.open-cluster-management.io"
MAX_CLIENT_CONFIGS: Final = 8
"""Addresses of a ManagedCluster that are used; further ones are ignored."""

ENDPOINT: Final = "endpoint"
CA: Final = "ca.crt"
CA_SHORT: Final = "ca"
TOKEN: Final = "token"
CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
PROXY_URL: Final = "proxy-url"
SERVER_NAME: Final = "tls-server-name"
INSECURE: Final = "insecure"
CREDENTIAL_KEYS: Final = (ENDPOINT, CA, CA_SHORT, TOKEN, CERTIFICATE, KEY, PROXY_URL, SERVER_NAME, INSECURE)
"""Keys of an administrator's Secret that are used."""
ACCOUNT_KEYS: Final = (CA, TOKEN)
"""Keys of a ManagedServiceAccount's Secret that are used; the cluster's agent writes it."""

_HIDDEN_ANNOTATIONS: Final = frozenset(("kubectl.kubernetes.io/last-applied-configuration", "kapp.k14s.io/original"))
"""Annotations that contain the object itself, including a Secret's data."""


class Metadata(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str = ""
    deletion_timestamp: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class ClientConfig(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    url: str = ""
    ca: str = ""
    """base64."""


class ClusterSource(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A ManagedCluster; its agent may have written every field except `accepted`."""

    metadata: Metadata
    accepted: bool = False
    configs: tuple[ClientConfig, ...] = ()
    provider: str = ""

    @property
    def admitted(self) -> bool:
        """Whether the hub has accepted the cluster and is not deleting it."""
        return self.accepted and not self.metadata.deletion_timestamp


class SecretSource(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """`data` is base64, as it was read, without unused keys."""

    metadata: Metadata
    credential_type: str = ""
    endpoint_type: str = ""
    data: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"<Secret {self.metadata.namespace}/{self.metadata.name}>"


class AccountSource(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A ManagedServiceAccount; its status is written by the agent."""

    metadata: Metadata
    expires: str = ""


def reduce_cluster(raw: bytes) -> bytes:
    document = _object(raw)
    spec, status = _mapping(document.get("spec")), _mapping(document.get("status"))
    configs = [_mapping(one) for one in _items(spec.get("managedClusterClientConfigs"))[:MAX_CLIENT_CONFIGS]]
    claims = {_text(claim.get("name")): _text(claim.get("value")) for claim in map(_mapping, _items(status.get("clusterClaims")))}
    cluster = ClusterSource(
        _metadata(document),
        spec.get("hubAcceptsClient") is True,
        tuple(ClientConfig(_text(one.get("url")), _text(one.get("caBundle"))) for one in configs),
        claims.get(PLATFORM_CLAIM) or claims.get(PRODUCT_CLAIM) or "",
    )
    return msgspec.json.encode(cluster)


def reduce_credential(raw: bytes) -> bytes:
    """A Secret of `managed-cluster-credentials`. Without a label that marks it as a credential, only its name is kept."""
    document = _object(raw)
    metadata = _metadata(document)
    labels = metadata.labels
    kind = labels.get(CREDENTIAL_TYPE) or labels.get(OAM_CREDENTIAL_TYPE) or ""
    if not kind:
        secret = SecretSource(_identity(metadata))
    else:
        endpoint = labels.get(ENDPOINT_TYPE) or labels.get(OAM_ENDPOINT_TYPE) or ""
        secret = SecretSource(metadata, kind, endpoint, _texts(document.get("data"), CREDENTIAL_KEYS))
    return msgspec.json.encode(secret)


def reduce_account_secret(raw: bytes) -> bytes:
    """The Secret of a ManagedServiceAccount. Without its label it is ignored."""
    document = _object(raw)
    metadata = _metadata(document)
    kept = _texts(document.get("data"), ACCOUNT_KEYS) if metadata.labels.get(ACCOUNT_LABEL) == "true" else {}
    return msgspec.json.encode(SecretSource(_identity(metadata), data=kept))


def reduce_account(raw: bytes) -> bytes:
    document = _object(raw)
    expires = _text(_mapping(document.get("status")).get("expirationTimestamp"))
    return msgspec.json.encode(AccountSource(_metadata(document), expires))


decode_cluster: Final[Callable[[bytes], ClusterSource]] = msgspec.json.Decoder(ClusterSource).decode
decode_secret: Final[Callable[[bytes], SecretSource]] = msgspec.json.Decoder(SecretSource).decode
decode_account: Final[Callable[[bytes], AccountSource]] = msgspec.json.Decoder(AccountSource).decode


def _object(raw: bytes) -> Object:
    try:
        return _mapping(orjson.loads(raw))
    except orjson.JSONDecodeError:
        # An informer would log the beginning of an object that cannot be decoded, and this may be a Secret.
        return {}


def _identity(metadata: Metadata) -> Metadata:
    return Metadata(metadata.name, metadata.namespace, metadata.uid, metadata.resource_version)


def _metadata(document: Object) -> Metadata:
    found = _mapping(document.get("metadata"))
    annotations = _texts(found.get("annotations"))
    deletion = found.get("deletionTimestamp")
    return Metadata(
        _text(found.get("name")),
        _text(found.get("namespace")),
        _text(found.get("uid")),
        _text(found.get("resourceVersion")),
        _text(found.get("creationTimestamp")),
        # Whatever the value is: the object is being deleted.
        _text(deletion) or ("unreadable" if deletion else ""),
        _texts(found.get("labels")),
        {name: value for name, value in annotations.items() if name not in _HIDDEN_ANNOTATIONS},
    )


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _items(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: object, keys: tuple[str, ...] = ()) -> dict[str, str]:
    found: Mapping[str, object] = _mapping(value)
    return {name: text for name, text in found.items() if isinstance(text, str) and (not keys or name in keys)}
