"""The state of the simulated AWS: accounts with roles, users, policies and providers, and EKS clusters with access entries.

All values are immutable and replaced as a whole, by `world.py`. They contain secrets (access keys, the key of session tokens), so
the state is written to a private file and never shown.

A policy with principals (`Trust`) stores beside its text, for each ARN, the id that the role or user had when it was written. A
principal that is deleted and created again has another id, and no longer matches.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

FORMAT: Final = 1
MODES: Final = ("API", "API_AND_CONFIG_MAP", "CONFIG_MAP")

Tags = dict[str, str]


class Trust(msgspec.Struct, frozen=True):
    text: str
    bound: dict[str, str] = {}
    """Ids by the ARNs in the text."""


class Role(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    path: str
    role_id: str
    created: datetime
    trust: Trust
    description: str = ""
    longest_session: int = 3600
    tags: Tags = {}
    inline: dict[str, str] = {}
    """Policy texts by name."""
    attached: tuple[str, ...] = ()
    """ARNs."""


class User(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    user_id: str
    created: datetime
    tags: Tags = {}
    inline: dict[str, str] = {}


class AccessKey(msgspec.Struct, frozen=True):
    key_id: str
    secret: str
    user: str

    def __repr__(self) -> str:
        return f"AccessKey({self.key_id!r}, user={self.user!r})"


class ManagedPolicy(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    path: str
    policy_id: str
    created: datetime
    text: str
    description: str = ""
    tags: Tags = {}


class OidcProvider(msgspec.Struct, frozen=True, kw_only=True):
    url: str
    """The issuer's URL without https://."""
    audiences: tuple[str, ...]
    created: datetime
    thumbprints: tuple[str, ...] = ()
    tags: Tags = {}


class Account(msgspec.Struct):
    number: str
    roles: dict[str, Role] = {}
    users: dict[str, User] = {}
    keys: dict[str, AccessKey] = {}
    policies: dict[str, ManagedPolicy] = {}
    """By ARN."""
    providers: dict[str, OidcProvider] = {}
    """By URL."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """An access entry of a cluster."""

    arn: str
    principal_arn: str
    principal_id: str
    username: str
    groups: tuple[str, ...]
    created: datetime
    modified: datetime
    tags: Tags = {}


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    arn: str
    account: str
    region: str
    name: str
    endpoint: str
    authority: str
    """PEM of the CA of its API server, which also publishes its keys."""
    issuer: str
    """The issuer of its service accounts' tokens, with https://; empty if there is none."""
    mode: str
    created: datetime
    tags: Tags = {}
    entries: dict[str, Entry] = {}
    """By the ARN of their principal."""


class State(msgspec.Struct):
    partition: str
    session_key: str
    """Hexadecimal. Sessions and their secrets are derived from it."""
    authority: str
    """The CA of this server: certificate and key, PEM."""
    authority_key: str
    version: int = FORMAT
    port: int = 0
    """Clients remember endpoints, so the port does not change."""
    accounts: dict[str, Account] = {}
    clusters: dict[str, Cluster] = {}
    """By ARN."""

    def __repr__(self) -> str:
        return f"State(accounts={sorted(self.accounts)}, clusters={sorted(self.clusters)})"
