"""Access entries of EKS: they map a role to a user of the hub where its authentication mode excludes aws-auth.

An entry is bound to the id of its role, but does not show that id. If the role may have been recreated since, an existing entry of
its name may be useless: it is deleted and created again. Groups of entries must not begin with `system:`, so entries use the other
group of a cluster's agents.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from muster.aws.errors import AlreadyExists, NotFound
from muster.aws.interfaces import AccessEntry, Eks
from muster.registration.drivers.awsirsa.aws_auth_map import user_of
from muster.registration.drivers.awsirsa.records import Record
from muster.registration.names import external_group


def entry_of(record: Record, tags: Mapping[str, str]) -> AccessEntry:
    return AccessEntry(record.role_arn, user_of(record.cluster), (external_group(record.cluster),), tags)


async def ensure_entry(eks: Eks, hub: str, entry: AccessEntry, *, is_of_this_role: bool) -> None:
    """Create the entry, or correct it.

    `is_of_this_role`: an existing entry is known to be bound to the current role. Raises AwsError.
    """
    try:
        await eks.create_access_entry(hub, entry)
    except AlreadyExists:
        if is_of_this_role:
            await correct_entry(eks, hub, entry)
        else:
            await remove_entry(eks, hub, entry.principal_arn)
            await eks.create_access_entry(hub, entry)


async def correct_entry(eks: Eks, hub: str, entry: AccessEntry) -> None:
    """Raises NotFound and AwsError."""
    found = await eks.describe_access_entry(hub, entry.principal_arn)
    if (found.username, found.groups) != (entry.username, entry.groups):
        await eks.update_access_entry(hub, entry)


async def remove_entry(eks: Eks, hub: str, principal_arn: str) -> None:
    """Delete the entry; a missing entry is success. Raises AwsError."""
    with suppress(NotFound):
        await eks.delete_access_entry(hub, principal_arn)
