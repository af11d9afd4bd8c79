"""Creates or corrects a role on AWS.

Creating it costs one call. An existing one is compared by its decoded documents: a trust policy with a principal's id (`AROA…`)
differs from one with its ARN, so it is written again. Tags of others stay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from muster.aws.errors import AlreadyExists
from muster.aws.interfaces import Iam, PolicyDocument, RoleDescription


def _anybody(found: RoleDescription) -> None:
    return None


@dataclass(frozen=True)
class RoleState:
    """The resulting role."""

    role_id: str
    is_new: bool = False
    had_other_trust: bool = False


@dataclass(frozen=True)
class WantedTrust:
    """The trust policy and the tags of a role."""

    name: str
    trust: PolicyDocument
    tags: Mapping[str, str] = field(default_factory=dict)
    description: str = ""

    async def ensure(self, iam: Iam, check: Callable[[RoleDescription], None] = _anybody) -> RoleState:
        """`check` may raise to refuse a change of an existing role. Raises AwsError."""
        try:
            made = await iam.create_role(self.name, self.trust, self.tags, self.description)
        except AlreadyExists:
            return await self.correct(iam, check)
        return RoleState(made.role_id, is_new=True)

    async def correct(self, iam: Iam, check: Callable[[RoleDescription], None] = _anybody) -> RoleState:
        """Raises NotFound and AwsError."""
        found = await iam.get_role(self.name)
        check(found)
        had_other_trust = found.trust != self.trust
        if had_other_trust:
            await iam.update_trust(self.name, self.trust)
        missing = {key: value for key, value in self.tags.items() if found.tags.get(key) != value}
        if missing:
            await iam.tag_role(self.name, missing)
        return RoleState(found.role_id, had_other_trust=had_other_trust)
