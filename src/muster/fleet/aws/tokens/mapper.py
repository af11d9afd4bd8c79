"""The Kubernetes user of an IAM identity in a cluster: by access entries, by `aws-auth`, or by both, depending on the
authentication mode.

An access entry precedes the ConfigMap and is only valid for the role or user that it was created for. The ConfigMap has only ARNs,
those of roles without their paths. Templates in names are filled with what AWS proves about the caller; the caller chooses the name
of its session.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from muster.fleet.aws.model import Cluster
from muster.fleet.aws.tokens.aws_auth import AwsAuth, Mapped
from muster.fleet.aws.world import World

_TEMPLATE: Final = re.compile(r"\{\{([A-Za-z0-9]+)\}\}")
_SESSION: Final = re.compile(r"arn:(?P<partition>[a-z-]+):sts::(?P<account>[0-9]{12}):assumed-role/(?P<role>[^/]+)/[^/]+")


@dataclass(frozen=True)
class ProvenIdentity:
    """The caller of a token, according to STS."""

    account: str
    arn: str
    user_id: str
    access_key: str

    @property
    def canonical_arn(self) -> str:
        """The ARN; that of the role if the caller is a session of one."""
        found = _SESSION.fullmatch(self.arn)
        return self.arn if found is None else f"arn:{found['partition']}:iam::{found['account']}:role/{found['role']}"

    @property
    def principal_id(self) -> str:
        return self.user_id.partition(":")[0]

    @property
    def session(self) -> str:
        return self.user_id.partition(":")[2]


class Unmapped(Exception):
    """The identity has no user in this cluster; the text is the reason."""


def mapped(world: World, cluster: Cluster, aws_auth: AwsAuth, identity: ProvenIdentity) -> Mapped:
    """Raises Unmapped."""
    found = None
    if cluster.mode != "CONFIG_MAP":
        found = _by_entry(world, cluster, identity)
    if found is None and cluster.mode != "API":
        found = _by_config_map(aws_auth, identity)
    if found is None:
        raise Unmapped(f"{identity.canonical_arn} is not mapped")
    values = {
        "AccountID": identity.account,
        "SessionName": identity.session.replace("@", "-"),
        "SessionNameRaw": identity.session,
        "AccessKeyID": identity.access_key,
    }
    username = _filled(found.username, values)
    if not username:
        raise Unmapped(f"{identity.canonical_arn} is mapped without a username")
    return Mapped(username, tuple(_filled(group, values) for group in found.groups))


def _by_entry(world: World, cluster: Cluster, identity: ProvenIdentity) -> Mapped | None:
    found = (entry for entry in world.seen_entries(cluster) if entry.principal_id == identity.principal_id)
    return next((Mapped(entry.username, entry.groups) for entry in found), None)


def _by_config_map(aws_auth: AwsAuth, identity: ProvenIdentity) -> Mapped | None:
    arn = identity.canonical_arn.lower()
    found = aws_auth.roles.get(arn) or aws_auth.users.get(arn)
    if found is None and identity.account in aws_auth.accounts:
        return Mapped(identity.canonical_arn)
    return found


def _filled(text: str, values: Mapping[str, str]) -> str:
    def fill(match: re.Match[str]) -> str:
        if match[1] not in values:
            raise Unmapped(f"the template {match[0][:50]} is not known here")
        return values[match[1]]

    return _TEMPLATE.sub(fill, text)
