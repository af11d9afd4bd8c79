"""All accounts and clusters: their lookup and their changes.

Operations read and replace values through this. Roles and access entries have two lookups: as their own service sees them, and as
other services see them (`seen_role`, `seen_entries`), possibly later. An id always is one role or user; an ARN is the one that has
that name now.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from muster.fleet.aws import identifiers
from muster.fleet.aws.identifiers import RandomBytes
from muster.fleet.aws.model import Account, Cluster, Entry, ManagedPolicy, Role, State, User
from muster.fleet.aws.visibility import Visibility
from muster.machinery.clock import Clock

T = TypeVar("T", bound=msgspec.Struct)


@dataclass(frozen=True)
class Identity:
    """A role or user of an account."""

    account: str
    arn: str
    unique_id: str
    holder: Role | User


class World:
    def __init__(self, state: State, clock: Clock, random: RandomBytes = secrets.token_bytes) -> None:
        self.state = state
        self.clock = clock
        self.random = random
        self.roles_seen: Visibility[Role] = Visibility(clock)
        self.entries_seen: Visibility[Entry] = Visibility(clock)
        self._ids: dict[str, tuple[str, str, str]] = {}
        """Account, kind and name by id."""
        for number, account in state.accounts.items():
            self._ids |= {role.role_id: (number, "role", role.name) for role in account.roles.values()}
            self._ids |= {user.user_id: (number, "user", user.name) for user in account.users.values()}

    @property
    def partition(self) -> str:
        return self.state.partition

    def unique_id(self, prefix: str) -> str:
        return identifiers.unique_id(prefix, self.random)

    # Accounts

    def account(self, number: str) -> Account | None:
        return self.state.accounts.get(number)

    def iam_arn(self, account: str, resource: str) -> str:
        return f"arn:{self.partition}:iam::{account}:{resource}"

    def role_arn(self, account: str, role: Role) -> str:
        return self.iam_arn(account, f"role{role.path}{role.name}")

    def user_arn(self, account: str, user: User) -> str:
        return self.iam_arn(account, f"user/{user.name}")

    # Roles and users

    def put_role(self, account: Account, role: Role) -> None:
        self.roles_seen.changing(f"{account.number}/{role.name}", account.roles.get(role.name))
        account.roles[role.name] = role
        self._ids[role.role_id] = (account.number, "role", role.name)

    def drop_role(self, account: Account, name: str) -> None:
        role = account.roles.pop(name)
        self.roles_seen.changing(f"{account.number}/{name}", role)
        del self._ids[role.role_id]

    def put_user(self, account: Account, user: User) -> None:
        before = account.users.get(user.name)
        if before is not None:
            del self._ids[before.user_id]
        account.users[user.name] = user
        self._ids[user.user_id] = (account.number, "user", user.name)

    def seen_role(self, account: str, name: str) -> Role | None:
        """The role as services other than IAM see it."""
        known = self.account(account)
        present = known.roles.get(name) if known is not None else None
        return self.roles_seen.seen(f"{account}/{name}", present)

    def by_id(self, unique_id: str) -> Identity | None:
        found = self._ids.get(unique_id)
        return None if found is None else self.identity_of(*found)

    def identity_of(self, account: str, kind: str, name: str) -> Identity | None:
        """The identity that has this name now; `kind` is role or user."""
        known = self.account(account)
        if known is None:
            return None
        if kind == "role":
            role = known.roles.get(name)
            return None if role is None else Identity(account, self.role_arn(account, role), role.role_id, role)
        user = known.users.get(name)
        return None if user is None else Identity(account, self.user_arn(account, user), user.user_id, user)

    def seen_identity(self, arn: str) -> Identity | None:
        """The identity that services other than IAM find under an ARN, which includes the path."""
        parts = arn.split(":", 5)
        if len(parts) != 6 or parts[0] != "arn" or parts[1] != self.partition or parts[2] != "iam" or parts[3]:
            return None
        account, resource = parts[4], parts[5]
        kind, _, name = resource.partition("/")
        if kind == "user":
            return self.identity_of(account, kind, name)
        role = self.seen_role(account, name.rpartition("/")[2]) if kind == "role" else None
        if role is None or self.role_arn(account, role) != arn:
            return None
        return Identity(account, arn, role.role_id, role)

    def policies_of(self, identity: Identity) -> list[str]:
        """Texts of all policies of the identity."""
        texts = list(identity.holder.inline.values())
        if isinstance(identity.holder, Role):
            found = (self.managed_policy(identity.account, arn) for arn in identity.holder.attached)
            texts += [policy.text for policy in found if policy is not None]
        return texts

    def managed_policy(self, account: str, arn: str) -> ManagedPolicy | None:
        known = self.account(account)
        return known.policies.get(arn) if known is not None else None

    # Clusters

    def cluster(self, account: str, region: str, name: str) -> Cluster | None:
        return self.state.clusters.get(self.cluster_arn(account, region, name))

    def cluster_arn(self, account: str, region: str, name: str) -> str:
        return f"arn:{self.partition}:eks:{region}:{account}:cluster/{name}"

    def put_entry(self, cluster: Cluster, entry: Entry) -> None:
        self.entries_seen.changing(_entry_key(cluster, entry.principal_arn), cluster.entries.get(entry.principal_arn))
        cluster.entries[entry.principal_arn] = entry

    def drop_entry(self, cluster: Cluster, principal: str) -> None:
        self.entries_seen.changing(_entry_key(cluster, principal), cluster.entries.get(principal))
        del cluster.entries[principal]

    def seen_entries(self, cluster: Cluster) -> Iterator[Entry]:
        """The entries as the cluster's authenticator sees them, including those that were just removed."""
        prefix = _entry_key(cluster, "")
        gone = (key.removeprefix(prefix) for key in self.entries_seen.pending() if key.startswith(prefix))
        for principal in dict.fromkeys((*cluster.entries, *gone)):
            entry = self.entries_seen.seen(prefix + principal, cluster.entries.get(principal))
            if entry is not None:
                yield entry


def _entry_key(cluster: Cluster, principal: str) -> str:
    return f"{cluster.arn} {principal}"


def replaced(value: T, **fields: object) -> T:
    return msgspec.structs.replace(value, **fields)
