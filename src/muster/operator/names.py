"""Names shared by operators, their components, and `clusteradm`. All are OCM's except the image's.

Every object that an operator creates has a label with the name of the object that it was created for. By that label the operator
finds it again, and owners with different names never change each other's objects.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Final

from muster.api.operator.v1 import GROUP, ClusterManager, Klusterlet
from muster.runtime.client import served

CLUSTER_MANAGERS: Final = served(ClusterManager)
KLUSTERLETS: Final = served(Klusterlet)

OPERATOR_NAMESPACE: Final = "open-cluster-management"
ADDON_NAMESPACE: Final = "open-cluster-management-agent-addon"
"""The default namespace of addons on managed clusters."""
CLUSTER_MANAGER: Final = "cluster-manager"
"""The name of the ClusterManager that `clusteradm` creates, and of its operator's Deployment, account and role."""
KLUSTERLET: Final = "klusterlet"

CLUSTER_MANAGER_LABEL: Final = f"{GROUP}/cluster-manager"
KLUSTERLET_LABEL: Final = f"{GROUP}/klusterlet"
UPSTREAM_CLUSTER_MANAGER_LABEL: Final = "open-cluster-management.io/created-by-clustermanager"
UPSTREAM_KLUSTERLET_LABEL: Final = "open-cluster-management.io/created-by-klusterlet"
"""The label of objects that upstream's operators create."""
CLUSTER_MANAGER_FINALIZER: Final = f"{GROUP}/cluster-manager-cleanup"
KLUSTERLET_FINALIZER: Final = f"{GROUP}/klusterlet-cleanup"
KLUSTERLET_HOSTED_FINALIZER: Final = f"{GROUP}/klusterlet-hosted-cleanup"
EVICTION_ANNOTATION: Final = f"{GROUP}/managed-resources-eviction-timestamp"

CLUSTER_MANAGER_FIELDS: Final = "cluster-manager-operator"
"""The field manager of the ClusterManager operator."""
KLUSTERLET_FIELDS: Final = "klusterlet-operator"

EXTERNAL_HUB_SECRET: Final = "external-hub-kubeconfig"
EXTERNAL_MANAGED_SECRET: Final = "external-managed-kubeconfig"
PULL_SECRET: Final = "open-cluster-management-image-pull-credentials"
KUBECONFIG_KEY: Final = "kubeconfig"

UPSTREAM_IMAGES: Final = "quay.io/open-cluster-management/"
IMAGE_NAME: Final = "muster"


def image(registry: str = "", tag: str = "") -> str:
    """Muster's image: by default of this version, and without a registry, so that the cluster's default is used."""
    prefix = f"{registry.rstrip('/')}/" if registry else ""
    return f"{prefix}{IMAGE_NAME}:{tag or version('muster')}"


def chosen_image(pull_spec: str, own: str) -> str:
    """The image for a spec's pull spec: upstream's images, which are its defaults, are replaced by ours."""
    return own if not pull_spec or pull_spec.startswith(UPSTREAM_IMAGES) else pull_spec


def operator_lock(operator: str) -> str:
    """The Lease of an operator. If its namespace stays when the operator is removed, the Lease must be deleted: the next operator
    would wait for a holder that is gone."""
    return f"{operator}-lock"
