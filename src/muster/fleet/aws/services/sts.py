"""STS: the caller's identity, and temporary credentials for a role, by an AWS identity or by a token of an identity provider."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from muster.aws.arns import BadArn
from muster.aws.arns import RoleArn as RoleArn
from muster.aws.arns import parse_role_arn as role_arn
from muster.aws.interfaces import AwsCredentials
from muster.fleet.aws.authorization import Wanted
from muster.fleet.aws.errors import access_denied, invalid
from muster.fleet.aws.model import Role
from muster.fleet.aws.services.operation import Call, Operation, Result, Services

SHORTEST_SESSION: Final = 900
CHAINED_SESSION: Final = 3600
_SESSION_NAME: Final = re.compile(r"[A-Za-z0-9_+=,.@-]{2,64}")


async def get_caller_identity(services: Services, call: Call) -> Result:
    """Needs no permission: even a caller with an explicit deny gets an answer."""
    caller = call.signer
    return {"UserId": caller.user_id, "Account": caller.account, "Arn": caller.arn}


async def assume_role(services: Services, call: Call) -> Result:
    call.parameters.refuse("Policy", "PolicyArns", "Tags", "TransitiveTagKeys", "SerialNumber", "TokenCode", "SourceIdentity")
    wanted, session, seconds = _read(call)
    caller = call.signer
    external = call.parameters.text("ExternalId", default="", shortest=0, longest=1224)
    values = {"sts:rolesessionname": (session,), **({"sts:externalid": (external,)} if external else {})}
    role = _role(services, wanted)
    refusal = access_denied(f"User: {caller.arn} is not authorized to perform: sts:AssumeRole on resource: {wanted}")
    if role is None:
        raise refusal
    call.needed.append(("sts:AssumeRole", str(wanted)))
    access = Wanted("sts:AssumeRole", str(wanted), role.tags, None, values)
    if not services.authorizer.may_take(caller, wanted.account, role, access, call.region):
        raise refusal
    if caller.session and seconds > CHAINED_SESSION:
        raise invalid("The requested DurationSeconds exceeds the 1 hour session limit for roles assumed by role chaining.")
    return _opened(services, wanted, role, session, seconds)


async def assume_role_with_web_identity(services: Services, call: Call) -> Result:
    call.parameters.refuse("Policy", "PolicyArns", "ProviderId")
    wanted, session, seconds = _read(call)
    token = call.parameters.text("WebIdentityToken", shortest=4, longest=20_000)
    identity = await services.web_identities.verify(wanted.account, token)
    provider = identity.provider
    role = _role(services, wanted)
    values = {
        f"{provider.url}:sub".lower(): (identity.subject,),
        f"{provider.url}:aud".lower(): identity.audiences,
        "sts:rolesessionname": (session,),
    }
    provider_arn = services.world.iam_arn(wanted.account, f"oidc-provider/{provider.url}")
    access = Wanted("sts:AssumeRoleWithWebIdentity", str(wanted), role.tags if role is not None else {}, None, values)
    if role is None or not services.authorizer.may_take_by_provider(role, provider_arn, access):
        raise access_denied("Not authorized to perform sts:AssumeRoleWithWebIdentity")
    claims = {"SubjectFromWebIdentityToken": identity.subject, "Audience": identity.audiences[0], "Provider": provider_arn}
    return {**_opened(services, wanted, role, session, seconds), **claims}


def _read(call: Call) -> tuple[RoleArn, str, int]:
    given = call.parameters.text("RoleArn", shortest=20, longest=2048)
    try:
        wanted = role_arn(given)
    except BadArn:
        raise invalid("RoleArn is invalid: it must be the ARN of a role") from None
    session = call.parameters.text("RoleSessionName", pattern=_SESSION_NAME, shortest=2, longest=64)
    return wanted, session, call.parameters.number("DurationSeconds", SHORTEST_SESSION, 43_200, 3600)


def _role(services: Services, wanted: RoleArn) -> Role | None:
    """The role with exactly this ARN, as far as STS sees it yet."""
    role = services.world.seen_role(wanted.account, wanted.name)
    return role if role is not None and services.world.role_arn(wanted.account, role) == str(wanted) else None


def _opened(services: Services, wanted: RoleArn, role: Role, session: str, seconds: int) -> dict[str, Any]:
    if seconds > role.longest_session:
        raise invalid("The requested DurationSeconds exceeds the MaxSessionDuration set for this role.")
    seconds = min(seconds, services.behaviour.longest_session or seconds)
    credentials = services.sessions.open(wanted.account, role.role_id, role.name, session, seconds)
    arn = f"arn:{services.world.partition}:sts::{wanted.account}:assumed-role/{role.name}/{session}"
    return {
        "Credentials": _credentials(credentials),
        "AssumedRoleUser": {"AssumedRoleId": f"{role.role_id}:{session}", "Arn": arn},
    }


def _credentials(credentials: AwsCredentials) -> dict[str, Any]:
    return {
        "AccessKeyId": credentials.access_key_id,
        "SecretAccessKey": credentials.secret_access_key,
        "SessionToken": credentials.session_token,
        "Expiration": credentials.expires,
    }


OPERATIONS: Final[Mapping[str, Operation]] = {
    "GetCallerIdentity": Operation(get_caller_identity),
    "AssumeRole": Operation(assume_role),
    "AssumeRoleWithWebIdentity": Operation(assume_role_with_web_identity, signed=False),
}
