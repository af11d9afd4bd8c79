"""Finds and removes this hub's roles that no cluster uses any more, with an administrator's AWS identity.

A role is this hub's by its tag, and in use by the record of an existing cluster. Unused are those with records that a hub without
an AWS identity could not revoke, and those whose record was deleted. The mapping is removed first, then the role, then the record.
Roles without the tag and roles of another hub are left alone; what others attached to a role is detached and reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from muster.aws.arns import EksCluster
from muster.aws.errors import InvalidRequest
from muster.aws.errors import NotFound as NotOnAws
from muster.aws.interfaces import Aws
from muster.aws.role_names import CLUSTER_TAG, HUB_ARN_TAG, HUB_ROLE
from muster.registration.drivers.awsirsa.access_entries import remove_entry
from muster.registration.drivers.awsirsa.aws_auth_edit import take_out
from muster.registration.drivers.awsirsa.records import RECORD_LABEL, Mapping, Phase, Record, document, recorded
from muster.registration.drivers.awsirsa.roles import remove_role
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.runtime.client import KubeClient, NotFound
from muster.runtime.client.builtin import CONFIG_MAPS


@dataclass(frozen=True)
class Unclaimed:
    role: str
    arn: str
    cluster: str
    record: str = ""
    """The ConfigMap with its record; empty if there is none."""


async def unclaimed(client: KubeClient, aws: Aws, hub: EksCluster, namespace: str) -> list[Unclaimed]:
    """The roles that no cluster uses. Raises AwsError and KubeError."""
    records = await records_of(client, namespace)
    clusters = await _clusters(client)
    found: list[Unclaimed] = []
    for role in await aws.list_roles():
        if not role.name.startswith(HUB_ROLE):
            continue
        record = records.get(role.name)
        if record is not None and record.phase is not Phase.LEFT and clusters.get(record.cluster) == record.uid:
            continue
        with suppress(NotOnAws):
            tags = (await aws.get_role(role.name)).tags
            if tags.get(HUB_ARN_TAG) == str(hub):
                found.append(Unclaimed(role.name, role.arn, tags.get(CLUSTER_TAG, ""), record.role if record else ""))
    on_aws = {one.role for one in found}
    left = (one for one in records.values() if one.phase is Phase.LEFT and one.role not in on_aws)
    return [*found, *(Unclaimed(one.role, one.role_arn, one.cluster, one.role) for one in left)]


async def remove(
    client: KubeClient, aws: Aws, hub: EksCluster, one: Unclaimed, namespace: str, info: Callable[[str], None]
) -> None:
    """Remove one of them. Raises AwsError and KubeError."""
    await take_out(client, one.arn)
    with suppress(InvalidRequest):
        # An EKS cluster without access entries has none to remove.
        await remove_entry(aws, hub.name, one.arn)
    await remove_role(aws, one.role, lambda reason, note: info(note))
    if one.record:
        with suppress(NotFound):
            await client.delete(CONFIG_MAPS, one.record, namespace)


def moved(records: Iterable[Record]) -> list[Record]:
    """Records of clusters that have an access entry now and an entry in aws-auth left: a hub that creates access entries may not
    edit aws-auth.
    """
    return [
        record
        for record in records
        if record.mapping is Mapping.ACCESS_ENTRY and record.other is Mapping.AWS_AUTH and record.phase is Phase.GRANTED
    ]


async def remove_other(client: KubeClient, one: Record, namespace: str) -> None:
    """Remove the entry in aws-auth. Raises Unreadable and KubeError."""
    await take_out(client, one.role_arn)
    found = await client.get(CONFIG_MAPS, one.role, namespace)
    if (record := recorded(found)) is not None and record.mapping is Mapping.ACCESS_ENTRY:
        settled = msgspec.structs.replace(record, other=None)
        await client.update(CONFIG_MAPS, {**found, "data": document(settled, namespace)["data"]})


async def records_of(client: KubeClient, namespace: str) -> dict[str, Record]:
    """The records of a hub, by role. Raises KubeError."""
    found = await client.list(CONFIG_MAPS, namespace, label_selector=RECORD_LABEL)
    read = (recorded(one) for one in found.items)
    return {record.role: record for record in read if record is not None}


async def _clusters(client: KubeClient) -> dict[str, str]:
    """Names and uids of the clusters; none if the hub does not exist any more."""
    try:
        found = (await client.list(MANAGED_CLUSTERS)).items
    except NotFound:
        return {}
    return {one["metadata"]["name"]: one["metadata"]["uid"] for one in found}
