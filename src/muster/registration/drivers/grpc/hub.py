"""The hub's side: which clusters use gRPC, and their certificates, approved and signed.

Agents of this driver need only certificates, so nothing is granted beyond the RBAC that all drivers share. Nothing is revoked
either: without `renew` in its role an agent gets no further certificate, and the gRPC server authorizes each request of an agent by
the hub's RBAC.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from muster.api.cluster.v1 import ManagedCluster
from muster.machinery.tasks import run_all
from muster.registration.drivers.certificates.approval import Approver
from muster.registration.drivers.flags import GRPC
from muster.registration.drivers.grpc.authority import SigningAuthority
from muster.registration.drivers.grpc.options import hub_side
from muster.registration.drivers.grpc.requests import read_grpc_request
from muster.registration.drivers.grpc.signer import Signer
from muster.registration.drivers.interfaces import NOTHING_TO_DO, GrantResult, HubContext, Vote
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import DRIVER_ANNOTATION
from muster.runtime.client import NotFound


class GrpcHub:
    def __init__(self, context: HubContext) -> None:
        side = hub_side(context.options)
        read = partial(read_grpc_request, accounts=side.accounts)
        self._client = context.client
        self._claimed = context.claimed
        self._approver = Approver(context, side.approved_users, "grpc-approving", read, self._mark)
        self._signer = Signer(context, SigningAuthority(side.ca_file, side.key_file), side.duration)

    def owns(self, cluster: ManagedCluster) -> bool:
        """Owns clusters with this driver's annotation: the gRPC server sets it on every cluster that is created through it,
        upstream's agents' included, and this driver sets it on an existing cluster once one of its agents was approved.
        """
        return cluster.metadata.annotations.get(DRIVER_ANNOTATION) == GRPC

    async def _mark(self, cluster: ManagedCluster) -> None:
        """Annotate a cluster that existed before its agent used gRPC and that no driver has marked.

        Without the annotation it would belong to the default driver, which does not know the agent that was accepted.
        """
        metadata = cluster.metadata
        if DRIVER_ANNOTATION in metadata.annotations or self._claimed(cluster) or metadata.deletion_timestamp:
            return
        change = {"resourceVersion": metadata.resource_version, "annotations": {DRIVER_ANNOTATION: GRPC}}
        with suppress(NotFound):
            await self._client.patch(MANAGED_CLUSTERS, metadata.name, {"metadata": change})

    def vote(self, cluster: ManagedCluster) -> Vote:
        """As for `csr`: ALLOW if a trusted identity has a valid request for the cluster, ABSTAIN otherwise."""
        vouched = self.owns(cluster) and self._approver.vouched_for(cluster)
        return Vote.ALLOW if vouched else Vote.ABSTAIN

    def agents(self, cluster: ManagedCluster) -> frozenset[str]:
        return self._approver.agents(cluster)

    async def grant(self, cluster: ManagedCluster) -> GrantResult:
        return NOTHING_TO_DO

    async def revoke(self, cluster: ManagedCluster) -> GrantResult:
        return NOTHING_TO_DO

    async def run(self) -> None:
        await run_all({"grpc-approving": self._approver.run, "grpc-signing": self._signer.run})
