"""The hub's side: which clusters belong to this driver, and whether a trusted identity has requested a certificate for one.

Agents of this driver need only certificates, which the approver handles, so nothing is granted beyond the RBAC that all drivers
share. Nothing is revoked either: without `renew` in its role an agent gets no further certificate.
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
        """Owns every cluster without the annotation of another driver: agents of this driver set none, upstream's neither."""
        return not self._claimed(cluster) and cluster.metadata.annotations.get(DRIVER_ANNOTATION, NAME) == NAME

    def vote(self, cluster: ManagedCluster) -> Vote:
        """ALLOW if a trusted identity has a valid request for the cluster, ABSTAIN otherwise."""
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
