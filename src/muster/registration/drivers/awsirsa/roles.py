"""The role that a managed cluster assumes in the hub's account: created, checked and deleted, step by step.

Creating one costs two calls. An existing one is corrected; if its tags name another hub, or another cluster of this hub, it is left
alone. If its trust policy names a principal by id (`AROA…`), the managed cluster's role was deleted and recreated since: writing
the trust policy again repairs that.

Deleting one costs two calls if nothing is attached to it; attached policies of others are detached first, and reported.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Protocol

from muster.aws import policies
from muster.aws.errors import Conflict, NotFound
from muster.aws.interfaces import Iam, PolicyDocument, RoleDescription
from muster.aws.role_names import CLUSTER_TAG, HUB_ARN_TAG, RoleNames
from muster.aws.roles import RoleState, WantedTrust

DESCRIPTION: Final = "Lets a managed cluster of Open Cluster Management reach its hub"


class AnothersRole(Exception):
    """A role of this name exists and belongs to another hub or cluster."""


class StepReport(Protocol):
    def __call__(self, reason: str, note: str) -> None: ...


@dataclass(frozen=True)
class HubRole:
    """The role of one managed cluster on this hub."""

    pair: RoleNames
    cluster: str
    """The name of the managed cluster on the hub."""
    tags: Mapping[str, str] = field(default_factory=dict)
    """Tags that the administrator configured."""

    @property
    def all_tags(self) -> Mapping[str, str]:
        return {**self.tags, HUB_ARN_TAG: str(self.pair.hub), CLUSTER_TAG: self.cluster}

    async def ensure(self, iam: Iam, record_step: StepReport) -> RoleState:
        """Create or correct the role with its trust policy and its tags. Raises AnothersRole and AwsError."""
        return self._record_correction(await self._wanted.ensure(iam, self.check), record_step)

    async def correct(self, iam: Iam, record_step: StepReport) -> RoleState:
        """Raises NotFound, AnothersRole and AwsError."""
        return self._record_correction(await self._wanted.correct(iam, self.check), record_step)

    @property
    def _wanted(self) -> WantedTrust:
        return WantedTrust(self.pair.hub_role, policies.hub_trust(self.pair), self.all_tags, DESCRIPTION)

    def _record_correction(self, state: RoleState, record_step: StepReport) -> RoleState:
        if state.had_other_trust:
            arn = self.pair.hub_role_arn
            record_step("AwsRoleCorrected", f"role {arn} trusted another principal than this cluster's role, and was corrected")
        return state

    async def ensure_access(self, iam: Iam) -> None:
        """Raises AwsError."""
        await iam.put_role_policy(self.pair.hub_role, policies.ACCESS_POLICY, policies.hub_access(self.pair.hub))

    async def correct_access(self, iam: Iam, record_step: StepReport) -> None:
        """Raises AwsError."""
        wanted = policies.hub_access(self.pair.hub)
        found: PolicyDocument | None = None
        with suppress(NotFound):
            found = await iam.get_role_policy(self.pair.hub_role, policies.ACCESS_POLICY)
        if found != wanted:
            await self.ensure_access(iam)
            record_step("AwsRoleCorrected", f"policy {policies.ACCESS_POLICY} of role {self.pair.hub_role_arn} was corrected")

    def check(self, found: RoleDescription) -> None:
        """Check that an existing role belongs to this hub and cluster. Raises AnothersRole."""
        hub, cluster = found.tags.get(HUB_ARN_TAG, str(self.pair.hub)), found.tags.get(CLUSTER_TAG, self.cluster)
        if hub != str(self.pair.hub):
            raise AnothersRole(
                f"role {found.arn} belongs to the hub {hub}: clusters of equal names in two regions share a role's name"
            )
        if cluster != self.cluster:
            raise AnothersRole(f"role {found.arn} belongs to this hub's cluster {cluster}; if that is gone: clusteradm aws cleanup")


async def remove_role(iam: Iam, name: str, record_step: StepReport) -> None:
    """Delete the role; a missing role is success. Raises AwsError."""
    await _unless_gone(iam.delete_role_policy(name, policies.ACCESS_POLICY))
    try:
        await _unless_gone(iam.delete_role(name))
    except Conflict:
        await _strip(iam, name, record_step)
        await _unless_gone(iam.delete_role(name))


async def _strip(iam: Iam, name: str, record_step: StepReport) -> None:
    """Detach from the role what others have attached to it."""
    foreign = []
    with suppress(NotFound):
        for policy in await iam.list_attached_role_policies(name):
            await _unless_gone(iam.detach_role_policy(name, policy))
            foreign.append(policy)
        for policy in await iam.list_role_policies(name):
            await _unless_gone(iam.delete_role_policy(name, policy))
            foreign.append(policy)
    if foreign:
        record_step(
            "AwsPoliciesDetached", f"role {name} had policies that the hub did not make; they are detached: {', '.join(foreign)}"
        )


async def _unless_gone(call: Awaitable[None]) -> None:
    with suppress(NotFound):
        await call
