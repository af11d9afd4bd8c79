"""Access entries of EKS: whom a role is on the hub, where its authentication mode has no aws-auth.

An entry is bound to its role's id, and does not say to which. Where the role may have been made anew since, an entry of its name
is perhaps of no use: it is deleted and made again. Groups may not begin with `system:` there, so it is the other group of a
cluster's agents.
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
    """`is_of_this_role`: an entry that is there is known to have been made for the role as it is. Raises AwsError."""
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
    """Gone is success. Raises AwsError."""
    with suppress(NotFound):
        await eks.delete_access_entry(hub, principal_arn)
