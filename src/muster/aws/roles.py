"""A role as it is wanted, made or set right: for whoever has to have one on AWS.

Making one costs one call where there was none. One that is there already is compared as parsed documents: a trust that names a
principal by its id (`AROA…`) is another one than that which names it by ARN, so it is written again. Tags that others added stay.
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
    """What came of it."""

    role_id: str
    is_new: bool = False
    had_other_trust: bool = False


@dataclass(frozen=True)
class WantedTrust:
    """Who may take a role, and what it is tagged with."""

    name: str
    trust: PolicyDocument
    tags: Mapping[str, str] = field(default_factory=dict)
    description: str = ""

    async def ensure(self, iam: Iam, check: Callable[[RoleDescription], None] = _anybody) -> RoleState:
        """`check` may refuse, by raising, to touch a role that is there. Raises AwsError."""
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
