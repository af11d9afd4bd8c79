"""The kinds of Operator Lifecycle Manager (OLM), and its and the policies' labels and annotations on them."""

from __future__ import annotations

from typing import Any, Final

from muster.machinery.objects import GVR, Object

OLM_GROUP: Final = "operators.coreos.com"
OPERATOR_GROUPS: Final = GVR(f"{OLM_GROUP}/v1", "operatorgroups", "OperatorGroup")
SUBSCRIPTIONS: Final = GVR(f"{OLM_GROUP}/v1alpha1", "subscriptions", "Subscription")
INSTALL_PLANS: Final = GVR(f"{OLM_GROUP}/v1alpha1", "installplans", "InstallPlan")
CSVS: Final = GVR(f"{OLM_GROUP}/v1alpha1", "clusterserviceversions", "ClusterServiceVersion")
CATALOG_SOURCES: Final = GVR(f"{OLM_GROUP}/v1alpha1", "catalogsources", "CatalogSource")
PACKAGE_MANIFESTS: Final = GVR("packages.operators.coreos.com/v1", "packagemanifests", "PackageManifest")
PACKAGE_NAMESPACE: Final = "default"
"""PackageManifests are the same in every namespace; any one will do."""

MANAGED_KEY: Final = "operatorpolicy.policy.open-cluster-management.io/managed"
"""Label (empty) and annotation (`<namespace>.<name>` of the policy) of Subscriptions that a policy manages."""
CLUSTER_NAME_LABEL: Final = "policy.open-cluster-management.io/cluster-name"
CLUSTER_NAMESPACE_LABEL: Final = "policy.open-cluster-management.io/cluster-namespace"
_LABEL_LENGTH: Final = 63


def subscription_label(name: str, namespace: str) -> str:
    """OLM's label for objects that belong to a Subscription; truncated to a label's length, and ending with a letter or digit."""
    label = f"{name}.{namespace}"
    return label if len(label) <= _LABEL_LENGTH else label[:_LABEL_LENGTH].rstrip("._-")


def operator_selector(subscription: Object) -> str:
    """Selects the objects that OLM has created for a Subscription, even after that was deleted."""
    return f"{OLM_GROUP}/{subscription_label(name_of(subscription), namespace_of(subscription))}"


def value_at(obj: Any, *path: str) -> Any:
    """The value at a path; None if it is absent, or a parent is not an object."""
    for step in path:
        if not isinstance(obj, dict):
            return None
        obj = obj.get(step)
    return obj


def text_at(obj: Any, *path: str) -> str:
    """The string at a path; empty if absent."""
    found = value_at(obj, *path)
    return found if isinstance(found, str) else ""


def list_at(obj: Any, *path: str) -> list[Any]:
    found = value_at(obj, *path)
    return found if isinstance(found, list) else []


def objects_at(obj: Any, *path: str) -> list[Object]:
    """The objects in the list at a path; other items are skipped."""
    return [one for one in list_at(obj, *path) if isinstance(one, dict)]


def name_of(obj: Object) -> str:
    return text_at(obj, "metadata", "name")


def namespace_of(obj: Object) -> str:
    return text_at(obj, "metadata", "namespace")


def uid_of(obj: Object) -> str:
    return text_at(obj, "metadata", "uid")


def is_terminating(obj: Object) -> bool:
    return bool(value_at(obj, "metadata", "deletionTimestamp"))
