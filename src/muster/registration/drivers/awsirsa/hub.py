"""The hub's side: for each accepted cluster a role in the hub's account, and its mapping to a user of the hub.

`grant` and `revoke` send no requests to AWS. They report the state from the records; the work is done by a queue of this driver
(`Identities`), which requeues the cluster's acceptance after each result. So an AWS call that hangs delays only the clusters that
wait for it, and neither a restart nor status updates cost an AWS call.

The identity of a cluster is fixed by its ManagedCluster at the time of acceptance: the record keeps it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.machinery.tasks import run_all
from muster.registration.drivers.awsirsa import PROFILE
from muster.registration.drivers.awsirsa.aws_auth_map import user_of
from muster.registration.drivers.awsirsa.claims import BadClaim, pair_of, reports_arn
from muster.registration.drivers.awsirsa.identities import DesiredIdentity, Identities
from muster.registration.drivers.awsirsa.options import hub_side
from muster.registration.drivers.awsirsa.records import Phase, Record
from muster.registration.drivers.interfaces import NOTHING_TO_DO, GrantResult, GrantStep, HubContext, Vote

if TYPE_CHECKING:
    from muster.api.cluster.v1 import ManagedCluster
    from muster.aws.role_names import RoleNames
    from muster.registration.drivers.awsirsa.identities import Connect

IDENTITY = "identity"
"""Name of the step that checks the cluster's annotations."""


class AwsHub:
    """Raises DriverConfigError."""

    def __init__(self, context: HubContext, connect: Connect | None = None) -> None:
        self._side = hub_side(context.options)
        self._claimed = context.claimed
        self._identities = Identities(context, self._side, connect)
        self._records = self._identities.records

    def owns(self, cluster: ManagedCluster) -> bool:
        """Whether the cluster has this driver's annotations or a record: removing the annotations does not revoke its identity."""
        return PROFILE.marks(cluster) or any(one.uid == cluster.metadata.uid for one in self._records.of(cluster.metadata.name))

    def vote(self, cluster: ManagedCluster) -> Vote:
        """ALLOW if a pattern matches the cluster's whole ARN, DENY if its annotations are invalid; without patterns no cluster is
        allowed.
        """
        if not PROFILE.marks(cluster):
            return Vote.ABSTAIN
        try:
            self._pair(cluster)
        except BadClaim:
            return Vote.DENY
        arn = reports_arn(cluster)
        return Vote.ALLOW if any(pattern.fullmatch(arn) for pattern in self._side.patterns) else Vote.ABSTAIN

    def agents(self, cluster: ManagedCluster) -> frozenset[str]:
        return frozenset((user_of(cluster.metadata.name),))

    async def grant(self, cluster: ManagedCluster) -> GrantResult:
        name, uid = cluster.metadata.name, cluster.metadata.uid
        try:
            pair = self._pair(cluster)
            self._check_is_free(name, uid, pair)
        except BadClaim as error:
            return GrantResult((GrantStep(IDENTITY, str(error)),))
        record = self._records.get(pair.hub_role)
        desired = DesiredIdentity(uid, pair)
        if record is not None and record.uid == uid and record.phase is Phase.GRANTED:
            self._identities.keep(name, desired, record)
            return NOTHING_TO_DO
        return GrantResult((self._identities.want(name, desired),))

    async def revoke(self, cluster: ManagedCluster) -> GrantResult:
        name = cluster.metadata.name
        if all(record.phase is Phase.LEFT for record in self._records.of(name)):
            self._identities.forget(name)
            return NOTHING_TO_DO
        return GrantResult((self._identities.want(name, DesiredIdentity(cluster.metadata.uid, None)),))

    async def run(self) -> None:
        try:
            await run_all(self._identities.runnables())
        finally:
            await self._identities.close()

    def _pair(self, cluster: ManagedCluster) -> RoleNames:
        """Raises BadClaim."""
        if self._claimed(cluster):
            raise BadClaim("the cluster is marked as another registration driver's too: take one of the marks off")
        return pair_of(cluster, self._side.hub)

    def _check_is_free(self, name: str, uid: str, pair: RoleNames) -> None:
        """Raises BadClaim."""
        arn = str(pair.managed)
        own = self._records.get(pair.hub_role)
        if own is not None and own.cluster != name:
            region = "" if own.arn == arn else f", {own.arn}: clusters of one name and account share a role, whatever their region"
            raise BadClaim(f"{arn} has the role of cluster {own.cluster}{region}")
        pinned = next((one for one in self._records.of(name) if _pins(one, uid, arn)), None)
        if pinned is not None:
            raise BadClaim(
                f"the cluster was accepted as {pinned.arn} and says {arn} now: put the annotations back, or deny the cluster and "
                "accept it again"
            )


def _pins(record: Record, uid: str, arn: str) -> bool:
    return record.uid == uid and record.arn != arn and record.phase in (Phase.GRANTING, Phase.GRANTED)
