"""Principals of trust policies: validated and bound to ids when a policy is written, and shown by name when it is read.

An account number is shown as the ARN of its root. A principal that does not exist is refused. A principal that is deleted later is
shown by its id, and matches no identity any more, also if one is created under its name again: the policy has to be written again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final

from muster.fleet.aws.callers import Caller
from muster.fleet.aws.errors import MalformedPolicy
from muster.fleet.aws.model import Trust
from muster.fleet.aws.policy.document import ANYBODY, Principal, trust_policy
from muster.fleet.aws.policy.evaluation import Match
from muster.fleet.aws.world import World

_ACCOUNT: Final = re.compile(r"[0-9]{12}")
_ROOT: Final = re.compile(r"arn:[a-z-]+:iam::([0-9]{12}):root")
_SESSION: Final = re.compile(r"arn:([a-z-]+):sts::([0-9]{12}):assumed-role/([^/]+)/[^/]+")
_UNIQUE_ID: Final = re.compile(r"(?:AROA|AIDA)[A-Z2-7]{17}")
_SERVICE: Final = re.compile(r"[a-z0-9.-]+\.amazonaws\.com(?:\.cn)?")


def bound_trust(world: World, text: str) -> Trust:
    """Raises MalformedPolicy."""
    bound: dict[str, str] = {}
    for statement in trust_policy(text).statements:
        for principal in statement.principals:
            found = _bind(world, principal)
            if found:
                bound[principal.name] = found
    return Trust(text, bound)


def _bind(world: World, principal: Principal) -> str:
    """The id of the principal, empty if it has none. Raises MalformedPolicy."""
    name = principal.name
    if principal.kind == "Service" and _SERVICE.fullmatch(name):
        return ""
    if principal.kind == "Federated" and name.startswith(f"arn:{world.partition}:iam::") and ":oidc-provider/" in name:
        return ""
    if principal.kind == "AWS":
        if name == ANYBODY:
            return ""
        account = _account(name)
        if account and world.account(account) is not None:
            return ""
        unique_id = _principal_id(world, name)
        if unique_id:
            return unique_id
    raise MalformedPolicy(f'Invalid principal in policy: "{principal.kind}":"{name[:200]}"')


def _principal_id(world: World, name: str) -> str:
    if _UNIQUE_ID.fullmatch(name):
        found = world.by_id(name)
        return found.unique_id if found is not None else ""
    session = _SESSION.fullmatch(name)
    if session is not None:
        role = world.seen_role(session[2], session[3]) if session[1] == world.partition else None
        return role.role_id if role is not None else ""
    identity = world.seen_identity(name)
    return identity.unique_id if identity is not None else ""


def _account(name: str) -> str:
    if _ACCOUNT.fullmatch(name):
        return name
    root = _ROOT.fullmatch(name)
    return root[1] if root is not None else ""


def shown_trust(world: World, trust: Trust) -> str:
    """The policy's text as it reads now."""
    names = {name: unique_id for name, unique_id in trust.bound.items() if not _SESSION.fullmatch(name)}
    now = {name: _shown(world, unique_id) for name, unique_id in names.items()}
    for statement in trust_policy(trust.text).statements:
        numbers = (principal.name for principal in statement.principals if _ACCOUNT.fullmatch(principal.name))
        now |= {number: world.iam_arn(number, "root") for number in numbers}
    if all(name == shown for name, shown in now.items()):
        return trust.text
    document = json.loads(trust.text)
    statements = document["Statement"] if isinstance(document["Statement"], list) else [document["Statement"]]
    for statement in statements:
        principals = statement["Principal"]
        if isinstance(principals, dict) and "AWS" in principals:
            principals["AWS"] = _renamed(principals["AWS"], now)
    return json.dumps(document)


def _shown(world: World, unique_id: str) -> str:
    found = world.by_id(unique_id)
    return found.arn if found is not None else unique_id


def _renamed(names: Any, now: dict[str, str]) -> Any:
    return [now.get(name, name) for name in names] if isinstance(names, list) else now.get(names, names)


def covers_caller(trust: Trust, caller: Caller) -> Callable[[Principal], Match]:
    def covers(principal: Principal) -> Match:
        if principal.kind != "AWS":
            return Match.NO
        if principal.name == ANYBODY:
            return Match.NAME
        account = _account(principal.name)
        if account:
            return Match.ACCOUNT if account == caller.account else Match.NO
        if trust.bound.get(principal.name) != caller.identity.unique_id:
            return Match.NO
        if _SESSION.fullmatch(principal.name) and principal.name != caller.arn:
            return Match.NO
        return Match.NAME

    return covers


def covers_provider(provider_arn: str) -> Callable[[Principal], Match]:
    def covers(principal: Principal) -> Match:
        # "*" matches AWS identities only: a token needs a statement that names its provider.
        return Match.NAME if principal.kind == "Federated" and principal.name == provider_arn else Match.NO

    return covers
