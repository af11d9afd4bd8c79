"""EKS: clusters, which are registered by the methods of `server.py`, and the access entries that map IAM identities to their users.

An entry is for the role or user that its ARN named when it was created, by id. Clusters with authentication mode CONFIG_MAP have no
entries. Names that Kubernetes, EKS and AWS reserve are refused.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from muster.fleet.aws import identifiers
from muster.fleet.aws.errors import AwsRefusal
from muster.fleet.aws.model import Cluster, Entry
from muster.fleet.aws.services.operation import Call, Operation, Result, Services, page
from muster.fleet.aws.services.parameters import MOST_TAGS
from muster.fleet.aws.world import Identity, replaced

NAME: Final = re.compile(r"[0-9A-Za-z][A-Za-z0-9_-]*")
RESERVED: Final = ("system:", "eks:", "aws:", "amazon:", "iam:")
MOST_GROUPS: Final = 50
_WITH_ENTRIES: Final = ("API", "API_AND_CONFIG_MAP")


async def describe_cluster(services: Services, call: Call) -> Result:
    return {"cluster": _shown_cluster(_cluster(services, call, "eks:DescribeCluster"))}


async def list_clusters(services: Services, call: Call) -> Result:
    account = call.signer.account
    services.require(call, "eks:ListClusters", services.world.cluster_arn(account, call.region, "*"))
    clusters = services.world.state.clusters.values()
    names = sorted(cluster.name for cluster in clusters if (cluster.account, cluster.region) == (account, call.region))
    return _next(call, "clusters", names)


async def create_access_entry(services: Services, call: Call) -> Result:
    principal = call.parameters.text("principalArn", longest=2048)
    kind = call.parameters.text("type", default="STANDARD")
    groups = call.parameters.texts("kubernetesGroups", most=MOST_GROUPS)
    username = call.parameters.text("username", default="", shortest=0, longest=2048)
    tags = call.parameters.mapping("tags")
    values = {
        "eks:principalarn": (principal,),
        "eks:accessentrytype": (kind,),
        "eks:kubernetesgroups": groups,
        "eks:username": (username,) if username else (),
    }
    cluster = _cluster(services, call, "eks:CreateAccessEntry", request_tags=tags, values=values)
    arn = _entry_arn(services, cluster, principal)
    if tags:
        services.require(call, "eks:TagResource", arn, request_tags=tags)
    _require_entries(cluster)
    if kind != "STANDARD":
        raise _parameter(f"The type {kind[:50]} is not one that the local AWS has: use STANDARD")
    _check_names(username, groups)
    identity = _principal(services, principal)
    if principal in cluster.entries:
        raise AwsRefusal("ResourceInUseException", "The specified access entry resource is already in use on this cluster.", 409)
    now = services.world.clock.now().replace(microsecond=0)
    entry = Entry(
        arn=arn,
        principal_arn=principal,
        principal_id=identity.unique_id,
        username=username or _usual_name(services, identity),
        groups=groups,
        created=now,
        modified=now,
        tags=tags,
    )
    services.world.put_entry(cluster, entry)
    return {"accessEntry": _shown_entry(cluster, entry)}


async def describe_access_entry(services: Services, call: Call) -> Result:
    cluster, entry = _entry(services, call, "eks:DescribeAccessEntry")
    return {"accessEntry": _shown_entry(cluster, entry)}


async def list_access_entries(services: Services, call: Call) -> Result:
    call.parameters.refuse("associatedPolicyArn")
    cluster = _cluster(services, call, "eks:ListAccessEntries")
    _require_entries(cluster)
    return _next(call, "accessEntries", sorted(cluster.entries))


async def update_access_entry(services: Services, call: Call) -> Result:
    cluster, entry = _entry(services, call, "eks:UpdateAccessEntry")
    username, groups = entry.username, entry.groups
    if call.parameters.value("username") is not None:
        username = call.parameters.text("username", shortest=1, longest=2048)
    if call.parameters.value("kubernetesGroups") is not None:
        groups = call.parameters.texts("kubernetesGroups", most=MOST_GROUPS)
    _check_names(username if username != entry.username else "", groups)
    now = services.world.clock.now().replace(microsecond=0)
    changed = replaced(entry, username=username, groups=groups, modified=now)
    services.world.put_entry(cluster, changed)
    return {"accessEntry": _shown_entry(cluster, changed)}


async def delete_access_entry(services: Services, call: Call) -> Result:
    cluster, entry = _entry(services, call, "eks:DeleteAccessEntry")
    services.world.drop_entry(cluster, entry.principal_arn)
    return {}


async def tag_resource(services: Services, call: Call) -> Result:
    added = call.parameters.mapping("tags")
    arn = call.parameters.text("resourceArn")
    cluster, entry = _tagged(services, arn)
    present = entry.tags if entry is not None else cluster.tags if cluster is not None else {}
    services.require(call, "eks:TagResource", arn, resource_tags=present, request_tags=added)
    if cluster is None or cluster.account != call.signer.account:
        raise AwsRefusal("NotFoundException", f"Resource was not found with ARN: {arn[:300]}", 404)
    tags = {**present, **added}
    if len(tags) > MOST_TAGS:
        raise AwsRefusal("BadRequestException", f"a resource has {MOST_TAGS} tags at most")
    if entry is not None:
        services.world.put_entry(cluster, replaced(entry, tags=tags))
    else:
        services.world.state.clusters[cluster.arn] = replaced(cluster, tags=tags)
    return {}


def _cluster(
    services: Services,
    call: Call,
    action: str,
    *,
    request_tags: Mapping[str, str] | None = None,
    values: Mapping[str, Sequence[str]] | None = None,
) -> Cluster:
    """The caller's cluster of that name in the called region. Raises AwsRefusal."""
    name = call.parameters.text("name", pattern=NAME, longest=100)
    account = call.signer.account
    found = services.world.cluster(account, call.region, name)
    arn = services.world.cluster_arn(account, call.region, name)
    tags = found.tags if found is not None else {}
    services.require(call, action, arn, resource_tags=tags, request_tags=request_tags, values=values)
    if found is None:
        raise AwsRefusal("ResourceNotFoundException", f"No cluster found for name: {name}.", 404, {"clusterName": name})
    return found


def _entry(services: Services, call: Call, action: str) -> tuple[Cluster, Entry]:
    name = call.parameters.text("name", pattern=NAME, longest=100)
    principal = call.parameters.text("principalArn", longest=2048)
    account = call.signer.account
    cluster = services.world.cluster(account, call.region, name)
    entry = cluster.entries.get(principal) if cluster is not None else None
    arn = entry.arn if entry is not None else _new_arn(services, account, call.region, name, principal)
    tags = entry.tags if entry is not None else {}
    services.require(call, action, arn, resource_tags=tags, values={"eks:principalarn": (principal,)})
    if cluster is None:
        raise AwsRefusal("ResourceNotFoundException", f"No cluster found for name: {name}.", 404, {"clusterName": name})
    _require_entries(cluster)
    if entry is None:
        text = f"The specified principalArn could not be found in the access entries of the cluster: {principal[:300]}"
        raise AwsRefusal("ResourceNotFoundException", text, 404)
    return cluster, entry


def _tagged(services: Services, arn: str) -> tuple[Cluster | None, Entry | None]:
    for cluster in services.world.state.clusters.values():
        if cluster.arn == arn:
            return cluster, None
        for entry in cluster.entries.values():
            if entry.arn == arn:
                return cluster, entry
    return None, None


def _require_entries(cluster: Cluster) -> None:
    if cluster.mode not in _WITH_ENTRIES:
        modes = ", ".join(_WITH_ENTRIES)
        text = f"The cluster's authentication mode must be set to one of [{modes}] to perform this operation."
        raise AwsRefusal("InvalidRequestException", text)


def _principal(services: Services, arn: str) -> Identity:
    identity = services.world.seen_identity(arn)
    if identity is None:
        raise _parameter("The specified principalArn is invalid: invalid principal.")
    return identity


def _check_names(username: str, groups: Sequence[str]) -> None:
    if username.startswith(RESERVED):
        raise _parameter(f"The username must not start with any of {', '.join(RESERVED)}")
    if "{{SessionName" in username and ":" not in username.partition("{{SessionName")[0]:
        raise _parameter("The username must have a colon before {{SessionName}}")
    for group in groups:
        if not group or group.startswith(RESERVED):
            raise _parameter(
                f"The kubernetes group name {group[:100]!r} is invalid, it cannot start with any of {', '.join(RESERVED)}"
            )


def _usual_name(services: Services, identity: Identity) -> str:
    kind = identity.arn.split(":", 5)[5].partition("/")[0]
    if kind == "user":
        return identity.arn
    return f"arn:{services.world.partition}:sts::{identity.account}:assumed-role/{identity.holder.name}/{{{{SessionName}}}}"


def _entry_arn(services: Services, cluster: Cluster, principal: str) -> str:
    return _new_arn(services, cluster.account, cluster.region, cluster.name, principal)


def _new_arn(services: Services, account: str, region: str, cluster: str, principal: str) -> str:
    parts = principal.split(":", 5)
    owner, resource = (parts[4], parts[5]) if len(parts) == 6 else ("", principal)
    kind, _, name = resource.partition("/")
    uuid = identifiers.uuid(services.world.random)
    return f"arn:{services.world.partition}:eks:{region}:{account}:access-entry/{cluster}/{kind}/{owner}/{name}/{uuid}"


def _shown_cluster(cluster: Cluster) -> dict[str, Any]:
    identity = {"identity": {"oidc": {"issuer": cluster.issuer}}} if cluster.issuer else {}
    return {
        "name": cluster.name,
        "arn": cluster.arn,
        "createdAt": cluster.created,
        "endpoint": cluster.endpoint,
        "status": "ACTIVE",
        "certificateAuthority": {"data": base64.b64encode(cluster.authority.encode()).decode()},
        "accessConfig": {"authenticationMode": cluster.mode},
        "tags": cluster.tags,
        **identity,
    }


def _shown_entry(cluster: Cluster, entry: Entry) -> dict[str, Any]:
    return {
        "clusterName": cluster.name,
        "principalArn": entry.principal_arn,
        "kubernetesGroups": list(entry.groups),
        "accessEntryArn": entry.arn,
        "createdAt": entry.created,
        "modifiedAt": entry.modified,
        "tags": entry.tags,
        "username": entry.username,
        "type": "STANDARD",
    }


def _next(call: Call, name: str, items: Sequence[str]) -> dict[str, Any]:
    marker = call.parameters.text("nextToken", default="", shortest=0)
    shown, more = page(call, items, marker, call.parameters.number("maxResults", 1, 100, 100))
    return {name: list(shown), **({"nextToken": more} if more else {})}


def _parameter(text: str) -> AwsRefusal:
    return AwsRefusal("InvalidParameterException", text)


OPERATIONS: Final[Mapping[str, Operation]] = {
    "DescribeCluster": Operation(describe_cluster),
    "ListClusters": Operation(list_clusters),
    "CreateAccessEntry": Operation(create_access_entry, changes=True),
    "DescribeAccessEntry": Operation(describe_access_entry),
    "ListAccessEntries": Operation(list_access_entries),
    "UpdateAccessEntry": Operation(update_access_entry, changes=True),
    "DeleteAccessEntry": Operation(delete_access_entry, changes=True),
    "TagResource": Operation(tag_resource, changes=True),
}
