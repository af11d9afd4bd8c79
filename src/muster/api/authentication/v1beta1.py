"""authentication.open-cluster-management.io/v1beta1: service accounts of managed clusters, with their tokens on the hub."""

from __future__ import annotations

from typing import Annotated, Final

from muster.api.markers import Int32, Time, schema
from muster.api.meta import Condition
from muster.api.resource import Record, ResourceType, TypedObject

GROUP: Final = "authentication.open-cluster-management.io"
SECRET_CREATED: Final = "SecretCreated"
TOKEN_REPORTED: Final = "TokenReported"


class Rotation(Record):
    """How long a token is valid, and whether it is renewed."""

    enabled: bool = True
    validity: str = "8640h0m0s"


class ManagedServiceAccountSpec(Record):
    """How the token is renewed, and when the account is deleted."""

    rotation: Rotation
    ttl_seconds_after_creation: Annotated[Int32, schema(minimum=0, exclusiveMinimum=True)] | None = None


class TokenSecretRef(Record):
    """The secret with the token."""

    name: str
    last_refresh_timestamp: Time


class ManagedServiceAccountStatus(Record):
    """Whether the token exists, and until when it is valid."""

    conditions: tuple[Condition, ...] = ()
    expiration_timestamp: Time = ""
    token_secret_ref: TokenSecretRef | None = None


class ManagedServiceAccount(TypedObject):
    """A service account on one managed cluster, in that cluster's namespace on the hub; the hub gets its token."""

    resource = ResourceType(GROUP, "v1beta1", "ManagedServiceAccount", "managedserviceaccounts", "Namespaced")

    spec: ManagedServiceAccountSpec | None = None
    status: ManagedServiceAccountStatus = ManagedServiceAccountStatus()
