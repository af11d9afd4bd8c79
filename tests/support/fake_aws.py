"""An AWS for unit tests: one account's roles and one cluster's access entries in memory, a log of calls, and faults on demand.

It refuses what decides the order of steps (what is there, what is not, what is still attached) and judges no policy: the local AWS
of `muster up` does. Its answers are the room's types, so nothing of botocore is needed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from muster.aws import errors
from muster.aws.interfaces import (
    AccessEntry,
    AwsCredentials,
    CallerIdentity,
    ClusterDescription,
    PolicyDocument,
    RoleDescription,
)

Fault = Callable[[str], BaseException | None]


class NoAnswer(Exception):
    """Of a fault: the call is never answered, for as long as its caller lives."""


@dataclass
class FakeAws:
    account: str = "111111111111"
    mode: str = "API_AND_CONFIG_MAP"
    principals: set[str] | None = None
    """Roles elsewhere that exist; None: whichever is named."""
    roles: dict[str, RoleDescription] = field(default_factory=dict)
    inline: dict[str, dict[str, PolicyDocument]] = field(default_factory=dict)
    attached: dict[str, list[str]] = field(default_factory=dict)
    entries: dict[str, tuple[AccessEntry, str]] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    fault: Fault = lambda operation: None
    after: Fault = lambda operation: None
    """The same once the deed is done: an answer that is lost."""
    gate: asyncio.Event | None = None
    is_closed: bool = False
    _made: int = 0

    async def _called(self, operation: str) -> None:
        self.calls.append(operation)
        if self.gate is not None:
            await self.gate.wait()
        await _met(self.fault(operation))

    async def _done(self, operation: str) -> None:
        await _met(self.after(operation))

    def counted(self) -> list[str]:
        """The calls since the last look."""
        found, self.calls = self.calls, []
        return found

    async def close(self) -> None:
        self.is_closed = True

    async def caller_identity(self) -> CallerIdentity:
        await self._called("GetCallerIdentity")
        return CallerIdentity(self.account, f"arn:aws:sts::{self.account}:assumed-role/creator/me", "AROA:me")

    async def assume_role(self, role_arn: str, session: str, seconds: int = 3600) -> AwsCredentials:
        await self._called("AssumeRole")
        return AwsCredentials("ASIA", "secret", "token")

    async def assume_role_with_web_identity(self, role_arn: str, session: str, token: str, seconds: int = 3600) -> AwsCredentials:
        await self._called("AssumeRoleWithWebIdentity")
        return AwsCredentials("ASIA", "secret", "token")

    def _role(self, operation: str, name: str) -> RoleDescription:
        if name not in self.roles:
            raise errors.NotFound(operation, "NoSuchEntity", name)
        return self.roles[name]

    def _check_principal(self, operation: str, trust: PolicyDocument) -> None:
        named = trust["Statement"][0]["Principal"].get("AWS")
        if self.principals is not None and named and named not in self.principals:
            raise errors.Malformed(operation, "MalformedPolicyDocument", f"Invalid principal in policy: {named}")

    async def create_role(
        self, name: str, trust: PolicyDocument, tags: Mapping[str, str], description: str = ""
    ) -> RoleDescription:
        await self._called("CreateRole")
        if name in self.roles:
            raise errors.AlreadyExists("CreateRole", "EntityAlreadyExists", name)
        self._check_principal("CreateRole", trust)
        self._made += 1
        made = RoleDescription(name, f"arn:aws:iam::{self.account}:role/{name}", f"AROA{self._made}", trust, dict(tags))
        self.roles[name] = made
        await self._done("CreateRole")
        return made

    async def get_role(self, name: str) -> RoleDescription:
        await self._called("GetRole")
        return self._role("GetRole", name)

    async def list_roles(self) -> Sequence[RoleDescription]:
        await self._called("ListRoles")
        return [replace(role, tags={}) for role in self.roles.values()]

    async def update_trust(self, name: str, trust: PolicyDocument) -> None:
        await self._called("UpdateAssumeRolePolicy")
        self._check_principal("UpdateAssumeRolePolicy", trust)
        self.roles[name] = replace(self._role("UpdateAssumeRolePolicy", name), trust=trust)
        await self._done("UpdateAssumeRolePolicy")

    async def tag_role(self, name: str, tags: Mapping[str, str]) -> None:
        await self._called("TagRole")
        role = self._role("TagRole", name)
        self.roles[name] = replace(role, tags={**role.tags, **tags})
        await self._done("TagRole")

    async def delete_role(self, name: str) -> None:
        await self._called("DeleteRole")
        self._role("DeleteRole", name)
        if self.inline.get(name) or self.attached.get(name):
            raise errors.Conflict("DeleteRole", "DeleteConflict", name)
        del self.roles[name]
        await self._done("DeleteRole")

    async def put_role_policy(self, name: str, policy: str, document: PolicyDocument) -> None:
        await self._called("PutRolePolicy")
        self._role("PutRolePolicy", name)
        self.inline.setdefault(name, {})[policy] = document
        await self._done("PutRolePolicy")

    async def get_role_policy(self, name: str, policy: str) -> PolicyDocument:
        await self._called("GetRolePolicy")
        found = self.inline.get(name, {})
        if policy not in found:
            raise errors.NotFound("GetRolePolicy", "NoSuchEntity", policy)
        return found[policy]

    async def list_role_policies(self, name: str) -> Sequence[str]:
        await self._called("ListRolePolicies")
        self._role("ListRolePolicies", name)
        return list(self.inline.get(name, {}))

    async def delete_role_policy(self, name: str, policy: str) -> None:
        await self._called("DeleteRolePolicy")
        if self.inline.get(name, {}).pop(policy, None) is None:
            raise errors.NotFound("DeleteRolePolicy", "NoSuchEntity", policy)
        await self._done("DeleteRolePolicy")

    async def list_attached_role_policies(self, name: str) -> Sequence[str]:
        await self._called("ListAttachedRolePolicies")
        self._role("ListAttachedRolePolicies", name)
        return list(self.attached.get(name, []))

    async def detach_role_policy(self, name: str, policy_arn: str) -> None:
        await self._called("DetachRolePolicy")
        if policy_arn not in self.attached.get(name, []):
            raise errors.NotFound("DetachRolePolicy", "NoSuchEntity", policy_arn)
        self.attached[name].remove(policy_arn)
        await self._done("DetachRolePolicy")

    async def describe_cluster(self, name: str) -> ClusterDescription:
        await self._called("DescribeCluster")
        return ClusterDescription(f"arn:aws:eks:us-west-2:{self.account}:cluster/{name}", "https://hub", b"", self.mode, "")

    async def create_access_entry(self, cluster: str, entry: AccessEntry) -> None:
        await self._called("CreateAccessEntry")
        if entry.principal_arn in self.entries:
            raise errors.AlreadyExists("CreateAccessEntry", "ResourceInUseException", entry.principal_arn)
        role = self.roles.get(entry.principal_arn.rpartition("/")[2])
        if role is None:
            raise errors.InvalidParameter("CreateAccessEntry", "InvalidParameterException", "no such principal")
        self.entries[entry.principal_arn] = (entry, role.role_id)
        await self._done("CreateAccessEntry")

    async def describe_access_entry(self, cluster: str, principal_arn: str) -> AccessEntry:
        await self._called("DescribeAccessEntry")
        if principal_arn not in self.entries:
            raise errors.NotFound("DescribeAccessEntry", "ResourceNotFoundException", principal_arn)
        return self.entries[principal_arn][0]

    async def update_access_entry(self, cluster: str, entry: AccessEntry) -> None:
        await self._called("UpdateAccessEntry")
        self.entries[entry.principal_arn] = (entry, self.entries[entry.principal_arn][1])
        await self._done("UpdateAccessEntry")

    async def delete_access_entry(self, cluster: str, principal_arn: str) -> None:
        await self._called("DeleteAccessEntry")
        if self.entries.pop(principal_arn, None) is None:
            raise errors.NotFound("DeleteAccessEntry", "ResourceNotFoundException", principal_arn)
        await self._done("DeleteAccessEntry")


async def _met(fault: BaseException | None) -> None:
    if isinstance(fault, NoAnswer):
        await asyncio.get_running_loop().create_future()
    if fault is not None:
        raise fault
