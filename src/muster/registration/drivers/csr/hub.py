"""The hub's side: whose clusters these are, and whether somebody trusted vouches for one that is not accepted yet.

Certificates are all that an agent of this driver needs, and the approver sees to them, so there is nothing to grant beyond the RBAC
that all drivers share. Revoking needs nothing either: without `renew` in its role an agent gets no further certificate.
"""

from __future__ import annotations

from muster.api.cluster.v1 import ManagedCluster
from muster.registration.drivers.certificates.approval import Approver
from muster.registration.drivers.csr.options import NAME, approved_users
from muster.registration.drivers.interfaces import NOTHING_TO_DO, GrantResult, HubContext, Vote
from muster.registration.names import DRIVER_ANNOTATION


class CsrHub:
    def __init__(self, context: HubContext) -> None:
        self._approver = Approver(context, approved_users(context.options))
        self._claimed = context.claimed

    def owns(self, cluster: ManagedCluster) -> bool:
        """Every cluster that no other driver has marked: agents of this one leave no mark, upstream's included."""
        return not self._claimed(cluster) and cluster.metadata.annotations.get(DRIVER_ANNOTATION, NAME) == NAME

    def vote(self, cluster: ManagedCluster) -> Vote:
        """A trusted identity's valid request is what speaks for a cluster; without one, nothing does."""
        vouched = self.owns(cluster) and self._approver.vouched_for(cluster)
        return Vote.ALLOW if vouched else Vote.ABSTAIN

    def agents(self, cluster: ManagedCluster) -> frozenset[str]:
        return self._approver.agents(cluster)

    async def grant(self, cluster: ManagedCluster) -> GrantResult:
        return NOTHING_TO_DO

    async def revoke(self, cluster: ManagedCluster) -> GrantResult:
        return NOTHING_TO_DO

    async def run(self) -> None:
        await self._approver.run()
