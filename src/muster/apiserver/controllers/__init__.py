"""The controllers inside the server: driven by the store's events, run by one manager for all clusters, and, if several servers
share a database, in one of them (leader election)."""

from __future__ import annotations

from muster.apiserver.controllers.apiservices import ApiServices
from muster.apiserver.controllers.certificates import CertificateController
from muster.apiserver.controllers.clusterrole_aggregation import RoleAggregation
from muster.apiserver.controllers.crds import CRDController
from muster.apiserver.controllers.election import Election
from muster.apiserver.controllers.expiry import BootstrapTokenExpiry, EventExpiry
from muster.apiserver.controllers.garbage_collector import GarbageCollector
from muster.apiserver.controllers.in_use_protection import InUseProtection
from muster.apiserver.controllers.manager import Controller, ControllerContext, ControllerManager
from muster.apiserver.controllers.namespaces import NamespaceController
from muster.apiserver.controllers.policystatus import PolicyStatus
from muster.apiserver.controllers.resource_quotas import ResourceQuotas
from muster.apiserver.controllers.service_network import ServiceNetwork
from muster.apiserver.controllers.tokensecrets import TokenSecrets

LEASE = "builtin-controllers"


def builtin_controllers(context: ControllerContext, cluster: str, namespace_grace_period: float) -> ControllerManager:
    """The manager of all controllers. `cluster` is the one that holds the lease of the leader election."""
    controllers: list[Controller] = [
        CRDController(context),
        NamespaceController(context, namespace_grace_period),
        GarbageCollector(context),
        InUseProtection(context),
        RoleAggregation(context),
        CertificateController(context),
        PolicyStatus(context),
        ServiceNetwork(context),
        ResourceQuotas(context),
        TokenSecrets(context),
        EventExpiry(context),
        BootstrapTokenExpiry(context),
    ]
    election = Election(context.store, cluster, LEASE) if context.store.shared else None
    return ControllerManager(context, controllers, in_every_server=[ApiServices(context)], election=election)
