"""Names that operators, what they deploy, and `clusteradm` agree on. All are OCM's but the image's.

Every object that an operator makes carries the label of the object it was made for. By that label the operator finds it again,
and by its value two of them never touch each other's things.
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
"""Where addons run on managed clusters unless they say otherwise."""
CLUSTER_MANAGER: Final = "cluster-manager"
"""Of the ClusterManager that `clusteradm` makes, and of its operator's Deployment, account and role."""
KLUSTERLET: Final = "klusterlet"

CLUSTER_MANAGER_LABEL: Final = f"{GROUP}/cluster-manager"
KLUSTERLET_LABEL: Final = f"{GROUP}/klusterlet"
UPSTREAM_CLUSTER_MANAGER_LABEL: Final = "open-cluster-management.io/created-by-clustermanager"
UPSTREAM_KLUSTERLET_LABEL: Final = "open-cluster-management.io/created-by-klusterlet"
"""Of what upstream's operators make."""
CLUSTER_MANAGER_FINALIZER: Final = f"{GROUP}/cluster-manager-cleanup"
KLUSTERLET_FINALIZER: Final = f"{GROUP}/klusterlet-cleanup"
KLUSTERLET_HOSTED_FINALIZER: Final = f"{GROUP}/klusterlet-hosted-cleanup"
EVICTION_ANNOTATION: Final = f"{GROUP}/managed-resources-eviction-timestamp"

CLUSTER_MANAGER_FIELDS: Final = "cluster-manager-operator"
"""The field manager of all that the ClusterManager operator applies."""
KLUSTERLET_FIELDS: Final = "klusterlet-operator"

EXTERNAL_HUB_SECRET: Final = "external-hub-kubeconfig"
EXTERNAL_MANAGED_SECRET: Final = "external-managed-kubeconfig"
PULL_SECRET: Final = "open-cluster-management-image-pull-credentials"
KUBECONFIG_KEY: Final = "kubeconfig"

UPSTREAM_IMAGES: Final = "quay.io/open-cluster-management/"
IMAGE_NAME: Final = "muster"


def image(registry: str = "", tag: str = "") -> str:
    """Muster's image: of this version unless told otherwise, from wherever the cluster gets images without a registry's name."""
    prefix = f"{registry.rstrip('/')}/" if registry else ""
    return f"{prefix}{IMAGE_NAME}:{tag or version('muster')}"


def chosen_image(pull_spec: str, own: str) -> str:
    """What a spec's pull spec means: upstream's images, which are its defaults, stand for ours."""
    return own if not pull_spec or pull_spec.startswith(UPSTREAM_IMAGES) else pull_spec


def operator_lock(operator: str) -> str:
    """The Lease of an operator that leads. Where its namespace stays when it goes, the Lease has to go with it: the next one would
    wait for a holder that is not there."""
    return f"{operator}-lock"
