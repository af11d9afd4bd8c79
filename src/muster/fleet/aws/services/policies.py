"""IAM's policies: inline policies of roles, and managed policies that are attached."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from muster.fleet.aws import identifiers
from muster.fleet.aws.errors import MalformedPolicy, already_exists, delete_conflict, limit_exceeded, malformed, no_such_entity
from muster.fleet.aws.model import Account, ManagedPolicy
from muster.fleet.aws.policy.document import identity_policy
from muster.fleet.aws.services.operation import Call, Operation, Result, Services, marked
from muster.fleet.aws.services.parameters import NAME
from muster.fleet.aws.services.roles import PATH, characters, existing_role, shown_tags
from muster.fleet.aws.world import replaced

LONGEST_INLINE: Final = 10_240
"""The limit in characters of all inline policies of a role together."""
LONGEST_MANAGED: Final = 6_144
MOST_ATTACHED: Final = 10
MOST_POLICIES: Final = 1500


async def put_role_policy(services: Services, call: Call) -> Result:
    name, text = _name(call), _document(call)
    account, role = existing_role(services, call, "iam:PutRolePolicy")
    _check(text)
    inline = {**role.inline, name: text}
    if sum(map(characters, inline.values())) > LONGEST_INLINE:
        raise limit_exceeded(f"Maximum policy size of {LONGEST_INLINE} bytes exceeded for role {role.name}")
    services.world.put_role(account, replaced(role, inline=inline))
    return None


async def get_role_policy(services: Services, call: Call) -> Result:
    name = _name(call)
    _, role = existing_role(services, call, "iam:GetRolePolicy")
    if name not in role.inline:
        raise no_such_entity(f"The role policy with name {name} cannot be found.")
    return {"RoleName": role.name, "PolicyName": name, "PolicyDocument": quote(role.inline[name], safe="")}


async def list_role_policies(services: Services, call: Call) -> Result:
    _, role = existing_role(services, call, "iam:ListRolePolicies")
    return marked(call, "PolicyNames", sorted(role.inline))


async def delete_role_policy(services: Services, call: Call) -> Result:
    name = _name(call)
    account, role = existing_role(services, call, "iam:DeleteRolePolicy")
    if name not in role.inline:
        raise no_such_entity(f"The role policy with name {name} cannot be found.")
    inline = {key: text for key, text in role.inline.items() if key != name}
    services.world.put_role(account, replaced(role, inline=inline))
    return None


async def create_policy(services: Services, call: Call) -> Result:
    name, text = _name(call), _document(call)
    path = call.parameters.text("Path", pattern=PATH, longest=512, default="/")
    description = call.parameters.text("Description", shortest=0, longest=1000, default="")
    tags = call.parameters.pairs("Tags")
    account = services.account(call)
    arn = services.world.iam_arn(account.number, f"policy{path}{name}")
    services.require(call, "iam:CreatePolicy", arn, request_tags=tags)
    if tags:
        services.require(call, "iam:TagPolicy", arn, request_tags=tags)
    if any(known.name.lower() == name.lower() for known in account.policies.values()):
        raise already_exists(f"A policy called {name} already exists. Duplicate names are not allowed.")
    _check(text)
    if characters(text) > LONGEST_MANAGED:
        raise limit_exceeded(f"Cannot exceed quota for PolicySize: {LONGEST_MANAGED}")
    if len(account.policies) >= MOST_POLICIES:
        raise limit_exceeded(f"Cannot exceed quota for PoliciesPerAccount: {MOST_POLICIES}")
    policy = ManagedPolicy(
        name=name,
        path=path,
        policy_id=services.world.unique_id(identifiers.POLICY),
        created=services.world.clock.now().replace(microsecond=0),
        text=text,
        description=description,
        tags=tags,
    )
    account.policies[arn] = policy
    return {"Policy": _shown(account, arn, policy)}


async def get_policy(services: Services, call: Call) -> Result:
    account, arn, policy = _existing(services, call, "iam:GetPolicy")
    return {"Policy": _shown(account, arn, policy)}


async def delete_policy(services: Services, call: Call) -> Result:
    account, arn, _ = _existing(services, call, "iam:DeletePolicy")
    if any(arn in role.attached for role in account.roles.values()):
        raise delete_conflict("Cannot delete a policy attached to entities.")
    del account.policies[arn]
    return None


async def attach_role_policy(services: Services, call: Call) -> Result:
    arn = _arn(call)
    account, role = existing_role(services, call, "iam:AttachRolePolicy", values={"iam:policyarn": (arn,)})
    if arn not in account.policies:
        raise no_such_entity(f"Policy {arn} does not exist or is not attachable.")
    if arn not in role.attached:
        if len(role.attached) >= MOST_ATTACHED:
            raise limit_exceeded(f"Cannot exceed quota for PoliciesPerRole: {MOST_ATTACHED}")
        services.world.put_role(account, replaced(role, attached=(*role.attached, arn)))
    return None


async def detach_role_policy(services: Services, call: Call) -> Result:
    arn = _arn(call)
    account, role = existing_role(services, call, "iam:DetachRolePolicy", values={"iam:policyarn": (arn,)})
    if arn not in role.attached:
        raise no_such_entity(f"Policy {arn} was not found.")
    services.world.put_role(account, replaced(role, attached=tuple(one for one in role.attached if one != arn)))
    return None


async def list_attached_role_policies(services: Services, call: Call) -> Result:
    _, role = existing_role(services, call, "iam:ListAttachedRolePolicies")
    attached = [{"PolicyName": arn.rpartition("/")[2], "PolicyArn": arn} for arn in role.attached]
    return marked(call, "AttachedPolicies", attached)


def _existing(services: Services, call: Call, action: str) -> tuple[Account, str, ManagedPolicy]:
    arn = _arn(call)
    account = services.account(call)
    policy = account.policies.get(arn)
    services.require(call, action, arn, resource_tags=policy.tags if policy is not None else {})
    if policy is None:
        raise no_such_entity(f"Policy {arn} was not found.")
    return account, arn, policy


def _shown(account: Account, arn: str, policy: ManagedPolicy) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "PolicyName": policy.name,
        "PolicyId": policy.policy_id,
        "Arn": arn,
        "Path": policy.path,
        "DefaultVersionId": "v1",
        "AttachmentCount": sum(arn in role.attached for role in account.roles.values()),
        "PermissionsBoundaryUsageCount": 0,
        "IsAttachable": True,
        "CreateDate": policy.created,
        "UpdateDate": policy.created,
    }
    if policy.description:
        shown["Description"] = policy.description
    if policy.tags:
        shown["Tags"] = shown_tags(policy.tags)
    return shown


def _name(call: Call) -> str:
    return call.parameters.text("PolicyName", pattern=NAME, longest=128)


def _arn(call: Call) -> str:
    return call.parameters.text("PolicyArn", shortest=20, longest=2048)


def _document(call: Call) -> str:
    return call.parameters.text("PolicyDocument", longest=131_072)


def _check(text: str) -> None:
    try:
        identity_policy(text)
    except MalformedPolicy as problem:
        raise malformed(str(problem)) from None


OPERATIONS: Final[Mapping[str, Operation]] = {
    "PutRolePolicy": Operation(put_role_policy, changes=True),
    "GetRolePolicy": Operation(get_role_policy),
    "ListRolePolicies": Operation(list_role_policies),
    "DeleteRolePolicy": Operation(delete_role_policy, changes=True),
    "CreatePolicy": Operation(create_policy, changes=True),
    "GetPolicy": Operation(get_policy),
    "DeletePolicy": Operation(delete_policy, changes=True),
    "AttachRolePolicy": Operation(attach_role_policy, changes=True),
    "DetachRolePolicy": Operation(detach_role_policy, changes=True),
    "ListAttachedRolePolicies": Operation(list_attached_role_policies),
}
