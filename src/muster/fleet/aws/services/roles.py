"""IAM's roles: create, read, change the trust policy, tag and delete."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from muster.fleet.aws import identifiers
from muster.fleet.aws.errors import (
    AwsRefusal,
    MalformedPolicy,
    already_exists,
    delete_conflict,
    limit_exceeded,
    malformed,
    no_such_entity,
)
from muster.fleet.aws.model import Account, Role, Tags, Trust
from muster.fleet.aws.services.operation import Call, Operation, Result, Services, marked
from muster.fleet.aws.services.parameters import MOST_TAGS, NAME
from muster.fleet.aws.trusts import bound_trust, shown_trust
from muster.fleet.aws.world import replaced

LONGEST_NAME: Final = 64
LONGEST_TRUST: Final = 2048
"""The limit in characters, without white space."""
MOST_ROLES: Final = 1000
PATH: Final = re.compile(r"/|/[!-~]+/")


async def create_role(services: Services, call: Call) -> Result:
    call.parameters.refuse("PermissionsBoundary")
    name = _name(call)
    path = call.parameters.text("Path", pattern=PATH, longest=512, default="/")
    description = call.parameters.text("Description", shortest=0, longest=1000, default="")
    longest = call.parameters.number("MaxSessionDuration", 3600, 43_200, 3600)
    tags = call.parameters.pairs("Tags")
    text = _document(call, "AssumeRolePolicyDocument")
    account = services.account(call)
    arn = services.world.iam_arn(account.number, f"role{path}{name}")
    services.require(call, "iam:CreateRole", arn, request_tags=tags)
    if tags:
        services.require(call, "iam:TagRole", arn, request_tags=tags)
    if any(known.lower() == name.lower() for known in account.roles):
        raise already_exists(f"Role with name {name} already exists.")
    trust = _bound(services, text)
    if len(account.roles) >= MOST_ROLES:
        raise limit_exceeded(f"Cannot exceed quota for RolesPerAccount: {MOST_ROLES}.")
    role = Role(
        name=name,
        path=path,
        role_id=services.world.unique_id(identifiers.ROLE),
        created=services.world.clock.now().replace(microsecond=0),
        trust=trust,
        description=description,
        longest_session=longest,
        tags=tags,
    )
    services.world.put_role(account, role)
    return {"Role": shown_role(services, account, role)}


async def get_role(services: Services, call: Call) -> Result:
    account, role = existing_role(services, call, "iam:GetRole")
    return {"Role": shown_role(services, account, role)}


async def list_roles(services: Services, call: Call) -> Result:
    prefix = call.parameters.text("PathPrefix", longest=512, default="/")
    account = services.account(call)
    services.require(call, "iam:ListRoles", services.world.iam_arn(account.number, f"role{prefix}"))
    roles = [role for _, role in sorted(account.roles.items()) if role.path.startswith(prefix)]
    return marked(call, "Roles", [shown_role(services, account, role, tags=False) for role in roles])


async def update_assume_role_policy(services: Services, call: Call) -> Result:
    text = _document(call, "PolicyDocument")
    account, role = existing_role(services, call, "iam:UpdateAssumeRolePolicy")
    services.world.put_role(account, replaced(role, trust=_bound(services, text)))
    return None


async def tag_role(services: Services, call: Call) -> Result:
    added = call.parameters.pairs("Tags")
    account, role = existing_role(services, call, "iam:TagRole", request_tags=added)
    tags = _without(role.tags, added) | added
    if len(tags) > MOST_TAGS:
        raise limit_exceeded(f"The number of tags has reached the maximum limit: {MOST_TAGS}.")
    services.world.put_role(account, replaced(role, tags=tags))
    return None


async def untag_role(services: Services, call: Call) -> Result:
    keys = call.parameters.texts("TagKeys", most=MOST_TAGS, longest=128)
    account, role = existing_role(services, call, "iam:UntagRole")
    services.world.put_role(account, replaced(role, tags=_without(role.tags, keys)))
    return None


async def list_role_tags(services: Services, call: Call) -> Result:
    _, role = existing_role(services, call, "iam:ListRoleTags")
    return marked(call, "Tags", shown_tags(role.tags))


async def delete_role(services: Services, call: Call) -> Result:
    account, role = existing_role(services, call, "iam:DeleteRole")
    if role.attached:
        raise delete_conflict("Cannot delete entity, must detach all policies first.")
    if role.inline:
        raise delete_conflict("Cannot delete entity, must delete policies first.")
    services.world.drop_role(account, role.name)
    return None


def existing_role(
    services: Services,
    call: Call,
    action: str,
    *,
    request_tags: Mapping[str, str] | None = None,
    values: Mapping[str, tuple[str, ...]] | None = None,
) -> tuple[Account, Role]:
    """The role that the call names, once the caller's permission is checked. Raises AwsRefusal."""
    name = _name(call)
    account = services.account(call)
    role = account.roles.get(name)
    world = services.world
    arn = world.iam_arn(account.number, f"role/{name}") if role is None else world.role_arn(account.number, role)
    tags = role.tags if role is not None else {}
    services.require(call, action, arn, resource_tags=tags, request_tags=request_tags, values=values)
    if role is None:
        raise no_such_entity(f"The role with name {name} cannot be found.")
    return account, role


def shown_role(services: Services, account: Account, role: Role, *, tags: bool = True) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "Path": role.path,
        "RoleName": role.name,
        "RoleId": role.role_id,
        "Arn": services.world.role_arn(account.number, role),
        "CreateDate": role.created,
        "AssumeRolePolicyDocument": quote(shown_trust(services.world, role.trust), safe=""),
        "MaxSessionDuration": role.longest_session,
    }
    if role.description:
        shown["Description"] = role.description
    if tags and role.tags:
        shown["Tags"] = shown_tags(role.tags)
    return shown


def shown_tags(tags: Tags) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in sorted(tags.items())]


def _without(tags: Tags, keys: Mapping[str, str] | tuple[str, ...]) -> Tags:
    """Keys are compared case-insensitively."""
    gone = {key.lower() for key in keys}
    return {key: value for key, value in tags.items() if key.lower() not in gone}


def _name(call: Call) -> str:
    return call.parameters.text("RoleName", pattern=NAME, longest=LONGEST_NAME)


def _document(call: Call, name: str) -> str:
    return call.parameters.text(name, longest=131_072)


def _bound(services: Services, text: str) -> Trust:
    try:
        trust = bound_trust(services.world, text)
    except MalformedPolicy as problem:
        raise malformed(str(problem)) from None
    if characters(text) > LONGEST_TRUST:
        raise AwsRefusal("LimitExceeded", f"Cannot exceed quota for ACLSizePerRole: {LONGEST_TRUST}", 409)
    return trust


def characters(text: str) -> int:
    """The length by which quotas count."""
    return len("".join(text.split()))


OPERATIONS: Final[Mapping[str, Operation]] = {
    "CreateRole": Operation(create_role, changes=True),
    "GetRole": Operation(get_role),
    "ListRoles": Operation(list_roles),
    "UpdateAssumeRolePolicy": Operation(update_assume_role_policy, changes=True),
    "TagRole": Operation(tag_role, changes=True),
    "UntagRole": Operation(untag_role, changes=True),
    "ListRoleTags": Operation(list_role_tags),
    "DeleteRole": Operation(delete_role, changes=True),
}
