"""The hub's admission webhooks for ManagedClusters and ManagedClusterSetBindings, and the conversion webhook for addons.

`register` adds all of them to a webhook server under the paths that upstream's configurations use, so that upstream's
configurations work with this server and ours with upstream's. Allowed access reviews are cached for seconds, denied ones are not: a
new permission takes effect at once.
"""

from __future__ import annotations

from typing import Final

from muster.api.addon.conversion import ConversionError, convert
from muster.machinery.clock import SYSTEM, Clock
from muster.machinery.objects import Object
from muster.registration.hub.webhooks.managed_cluster import ManagedClusterWebhook
from muster.registration.hub.webhooks.set_binding import SetBindingWebhook
from muster.registration.names import HUB_NAMESPACE
from muster.runtime.auth import AccessReviewer
from muster.runtime.client import KubeClient
from muster.runtime.webhook import Denied, WebhookServer

MUTATE_CLUSTER: Final = "/mutate-cluster-open-cluster-management-io-v1-managedcluster"
VALIDATE_CLUSTER: Final = "/validate-cluster-open-cluster-management-io-v1-managedcluster"
VALIDATE_BINDING: Final = "/validate-cluster-open-cluster-management-io-v1beta2-managedclustersetbinding"
CONVERT: Final = "/convert"

CLUSTER_MUTATOR: Final = "managedclustermutators.admission.cluster.open-cluster-management.io"
CLUSTER_VALIDATOR: Final = "managedclustervalidators.admission.cluster.open-cluster-management.io"
BINDING_VALIDATOR: Final = "managedclustersetbindingvalidators.admission.cluster.open-cluster-management.io"
"""Names of the configurations, and of the only webhook in each."""

__all__ = [
    "BINDING_VALIDATOR",
    "CLUSTER_MUTATOR",
    "CLUSTER_VALIDATOR",
    "CONVERT",
    "MUTATE_CLUSTER",
    "VALIDATE_BINDING",
    "VALIDATE_CLUSTER",
    "register",
]


def register(
    server: WebhookServer,
    client: KubeClient,
    *,
    default_cluster_set: bool = True,
    agent_restriction: bool = False,
    hub_namespace: str = HUB_NAMESPACE,
    clock: Clock = SYSTEM,
) -> None:
    """`client` is the hub's own: it creates SubjectAccessReviews and reads namespaces."""
    reviewer = AccessReviewer(client, refused_for=0.0, clock=clock)
    cluster = ManagedClusterWebhook(
        client,
        reviewer,
        clock,
        default_cluster_set=default_cluster_set,
        agent_restriction=agent_restriction,
        hub_namespace=hub_namespace,
    )
    server.admission(MUTATE_CLUSTER, cluster.mutate)
    server.admission(VALIDATE_CLUSTER, cluster.validate)
    server.admission(VALIDATE_BINDING, SetBindingWebhook(reviewer).validate)
    server.conversion(CONVERT, _convert)


async def _convert(document: Object, api_version: str) -> Object:
    try:
        return convert(document, api_version)
    except ConversionError as error:
        raise Denied(str(error), 400, "BadRequest") from error
