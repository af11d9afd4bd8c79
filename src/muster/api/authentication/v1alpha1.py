"""authentication.open-cluster-management.io/v1alpha1: who on the hub may act as which managed service account.

`ManagedServiceAccountBinding` is cluster-scoped: the account it names has a namespace of its own, that of its cluster. The older
version of ManagedServiceAccount is served for those who still ask for it; its fields are those of v1beta1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final

from muster.api.authentication import v1beta1
from muster.api.authentication.v1beta1 import GROUP
from muster.api.markers import NonEmpty, one_of, schema
from muster.api.meta import Conditions
from muster.api.resource import AGE, Column, Record, ResourceType, TypedObject, condition_column

VERSION: Final = "v1alpha1"
REF_FOUND: Final = "RefFound"
ACCEPTED: Final = "Accepted"


class ManagedServiceAccount(TypedObject):
    """A service account on one managed cluster, in that cluster's namespace on the hub; the hub gets its token."""

    resource = ResourceType(
        GROUP,
        VERSION,
        "ManagedServiceAccount",
        "managedserviceaccounts",
        "Namespaced",
        deprecation=f"{GROUP}/{VERSION} ManagedServiceAccount is deprecated; use {GROUP}/v1beta1 ManagedServiceAccount",
    )

    spec: v1beta1.ManagedServiceAccountSpec | None = None
    status: v1beta1.ManagedServiceAccountStatus = v1beta1.ManagedServiceAccountStatus()


class ManagedServiceAccountReference(Record):
    """A ManagedServiceAccount; its namespace is that of its cluster."""

    namespace: NonEmpty
    name: NonEmpty


class BindingSubject(Record):
    """A user, group or service account of the hub."""

    keywords: ClassVar[Mapping[str, Any]] = {
        "x-kubernetes-map-type": "atomic",
        "x-kubernetes-validations": [
            {
                "rule": "self.kind == 'ServiceAccount' ? has(self.__namespace__) : !has(self.__namespace__)",
                "message": "a ServiceAccount needs a namespace, a User or Group has none",
            }
        ],
    }

    kind: Annotated[str, one_of("User", "Group", "ServiceAccount")]
    name: NonEmpty
    namespace: NonEmpty = ""
    api_group: str = ""


class ManagedServiceAccountBindingSpec(Record):
    """The account, and the subjects that may act as it."""

    ref: ManagedServiceAccountReference
    subjects: Annotated[tuple[BindingSubject, ...], schema(maxItems=1000)] = ()


class ManagedServiceAccountBindingStatus(Record):
    """Whether the account exists and the binding is in effect."""

    conditions: Conditions = ()


class ManagedServiceAccountBinding(TypedObject):
    """Lets users of the hub create works that run as a managed service account."""

    resource = ResourceType(
        GROUP,
        VERSION,
        "ManagedServiceAccountBinding",
        "managedserviceaccountbindings",
        "Cluster",
        columns=(
            Column("Cluster", ".spec.ref.namespace"),
            Column("Account", ".spec.ref.name"),
            condition_column("Accepted", ACCEPTED),
            AGE,
        ),
    )

    spec: ManagedServiceAccountBindingSpec
    status: ManagedServiceAccountBindingStatus = ManagedServiceAccountBindingStatus()
