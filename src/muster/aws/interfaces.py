"""The calls to AWS that registration makes, as async methods that return a value or raise an `AwsError`.

Callers depend on the Protocol with the calls that they need, so that a test need not implement all of AWS. Policy documents are
decoded JSON in both directions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

PolicyDocument = Mapping[str, Any]


@dataclass(frozen=True)
class AwsCredentials:
    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str = field(default="", repr=False)
    expires: datetime | None = None
    """None: they do not expire."""


class CredentialSource(Protocol):
    """A source of credentials. They change during the lifetime of a process, so they are read for each call."""

    async def credentials(self) -> AwsCredentials:
        """The current credentials. Raises AwsError."""
        ...

    def discard(self, credentials: AwsCredentials) -> None:
        """AWS refuses them: if they are still current, others are needed."""
        ...


@dataclass(frozen=True)
class CallerIdentity:
    account: str
    arn: str
    user_id: str


@dataclass(frozen=True)
class RoleDescription:
    name: str
    arn: str
    role_id: str
    trust: PolicyDocument
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class AccessEntry:
    principal_arn: str
    username: str
    groups: tuple[str, ...]
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ClusterDescription:
    arn: str
    endpoint: str
    authority: bytes
    authentication_mode: str
    """API, API_AND_CONFIG_MAP or CONFIG_MAP."""
    issuer: str
    """The issuer URL of its service account tokens; empty if there is none."""


class Sts(Protocol):
    async def caller_identity(self) -> CallerIdentity: ...

    async def assume_role(self, role_arn: str, session: str, seconds: int = 3600) -> AwsCredentials: ...

    async def assume_role_with_web_identity(self, role_arn: str, session: str, token: str, seconds: int = 3600) -> AwsCredentials:
        """The only call without credentials."""
        ...


class Iam(Protocol):
    async def create_role(
        self, name: str, trust: PolicyDocument, tags: Mapping[str, str], description: str = ""
    ) -> RoleDescription: ...

    async def get_role(self, name: str) -> RoleDescription: ...

    async def list_roles(self) -> Sequence[RoleDescription]:
        """All roles of the account, without their tags."""
        ...

    async def update_trust(self, name: str, trust: PolicyDocument) -> None: ...

    async def tag_role(self, name: str, tags: Mapping[str, str]) -> None: ...

    async def delete_role(self, name: str) -> None: ...

    async def put_role_policy(self, name: str, policy: str, document: PolicyDocument) -> None: ...

    async def get_role_policy(self, name: str, policy: str) -> PolicyDocument: ...

    async def list_role_policies(self, name: str) -> Sequence[str]:
        """The names of inline policies."""
        ...

    async def delete_role_policy(self, name: str, policy: str) -> None: ...

    async def list_attached_role_policies(self, name: str) -> Sequence[str]:
        """The ARNs of managed policies."""
        ...

    async def detach_role_policy(self, name: str, policy_arn: str) -> None: ...


class Eks(Protocol):
    async def describe_cluster(self, name: str) -> ClusterDescription: ...

    async def create_access_entry(self, cluster: str, entry: AccessEntry) -> None: ...

    async def describe_access_entry(self, cluster: str, principal_arn: str) -> AccessEntry: ...

    async def update_access_entry(self, cluster: str, entry: AccessEntry) -> None: ...

    async def delete_access_entry(self, cluster: str, principal_arn: str) -> None: ...


class Aws(Sts, Iam, Eks, Protocol):
    """All calls, with one identity in one region."""

    async def close(self) -> None: ...
