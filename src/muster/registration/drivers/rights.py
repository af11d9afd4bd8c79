"""The permissions that an agent needs on its hub: to introduce its cluster, and after its registration.

All agents need the same, plus what their driver's profile adds. These are permissions on Kubernetes resources, for every transport:
a hub's gRPC server checks the same RBAC.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from muster.registration.kinds import MANAGED_CLUSTERS, MANIFEST_WORKS
from muster.registration.names import LEASE
from muster.runtime.auth import rights
from muster.runtime.client.builtin import LEASES

if TYPE_CHECKING:
    from muster.machinery.authorization import AccessAttributes
    from muster.registration.drivers.profile import Profile

_INTRODUCE: Final = rights(MANAGED_CLUSTERS.group, MANAGED_CLUSTERS.plural, "create", "get")


def needed_to_register(driver: Profile) -> tuple[AccessAttributes, ...]:
    """The permissions that a bootstrap identity needs."""
    return _INTRODUCE + driver.bootstrap_rights()


def needed_to_serve(driver: Profile, cluster: str) -> tuple[AccessAttributes, ...]:
    """The permissions that an agent's own identity needs."""
    group, plural = MANAGED_CLUSTERS.group, MANAGED_CLUSTERS.plural
    return (
        *driver.agent_rights(),
        *rights(group, plural, "get", "list", "update", "watch", name=cluster),
        *rights(group, plural, "patch", "update", subresource="status", name=cluster),
        *rights(LEASES.group, LEASES.plural, "get", "update", name=LEASE, namespace=cluster),
        *rights(MANIFEST_WORKS.group, MANIFEST_WORKS.plural, "get", "list", "watch", "update", namespace=cluster),
        *rights(MANIFEST_WORKS.group, MANIFEST_WORKS.plural, "patch", "update", subresource="status", namespace=cluster),
    )
