"""Controllers that live in the server: functions of the store's event stream, run by one manager for all clusters, and where
several servers share a database by one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.apiserver.controllers.apiservices import ApiServices
from muster.apiserver.controllers.certificates import CertificateController
from muster.apiserver.controllers.clusterrole_aggregation import RoleAggregation
from muster.apiserver.controllers.definitions import DefinitionController
from muster.apiserver.controllers.election import Election
from muster.apiserver.controllers.expiry import BootstrapTokenExpiry, EventExpiry
from muster.apiserver.controllers.garbage import GarbageCollector
from muster.apiserver.controllers.manager import Controller, ControllerManager
from muster.apiserver.controllers.namespaces import NamespaceController
from muster.apiserver.controllers.policystatus import PolicyStatus
from muster.apiserver.controllers.tokensecrets import TokenSecrets

if TYPE_CHECKING:
    from muster.apiserver.server import ApiServer


LEASE = "builtin-controllers"


def builtin_controllers(server: ApiServer, cluster: str) -> ControllerManager:
    """`cluster` is where servers that share a store keep what they agree upon."""
    controllers: list[Controller] = [
        DefinitionController(server),
        NamespaceController(server),
        GarbageCollector(server),
        RoleAggregation(server),
        CertificateController(server),
        PolicyStatus(server),
        TokenSecrets(server),
        EventExpiry(server),
        BootstrapTokenExpiry(server),
    ]
    election = Election(server.store, cluster, LEASE) if server.store.shared else None
    return ControllerManager(server, controllers, in_every_server=[ApiServices(server)], election=election)
