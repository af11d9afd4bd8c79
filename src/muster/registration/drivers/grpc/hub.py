"""The hub's side: which clusters reach it over gRPC, and their certificates, approved and signed.

Certificates are all that an agent of this driver needs, so there is nothing to grant beyond the RBAC that all drivers share.
Revoking needs nothing either: without `renew` in its role an agent gets no further certificate, and the gRPC server asks the hub's
rules before it does anything for one.
"""

from __future__ import annotations

from functools import partial

from muster.api.cluster.v1 import ManagedCluster
from muster.machinery.tasks import run_all
from muster.registration.drivers.certificates.approval import Approver
from muster.registration.drivers.flags import GRPC
from muster.registration.drivers.grpc.authority import SigningAuthority
from muster.registration.drivers.grpc.options import hub_side
from muster.registration.drivers.grpc.requests import read_grpc_request
from muster.registration.drivers.grpc.signing import Signer
from muster.registration.drivers.seam import NOTHING_TO_DO, HubContext, Outcome, Vote
from muster.registration.names import DRIVER_ANNOTATION


class GrpcHub:
    def __init__(self, context: HubContext) -> None:
        side = hub_side(context.options)
        read = partial(read_grpc_request, accounts=side.accounts)
        self._approver = Approver(context, side.approved_users, "grpc-approving", read)
        self._signer = Signer(context, SigningAuthority(side.ca_file, side.key_file), side.duration)

    def owns(self, cluster: ManagedCluster) -> bool:
        """Clusters that are marked so: the gRPC server marks every one that introduces itself there, upstream's agents' too."""
        return cluster.metadata.annotations.get(DRIVER_ANNOTATION) == GRPC

    def vote(self, cluster: ManagedCluster) -> Vote:
        """As for `csr`: a trusted identity's valid request is what speaks for a cluster; without one, nothing does."""
        vouched = self.owns(cluster) and self._approver.vouched_for(cluster)
        return Vote.ALLOW if vouched else Vote.ABSTAIN

    def agents(self, cluster: ManagedCluster) -> frozenset[str]:
        return self._approver.agents(cluster)

    async def grant(self, cluster: ManagedCluster) -> Outcome:
        return NOTHING_TO_DO

    async def revoke(self, cluster: ManagedCluster) -> Outcome:
        return NOTHING_TO_DO

    async def run(self) -> None:
        await run_all({"grpc-approving": self._approver.run, "grpc-signing": self._signer.run})
