"""Evaluates policies for one request: allowed, denied, or neither.

An explicit deny in any policy overrides all that allow; without an allow the request is refused. Assuming a role is checked against
the role's trust policy and the caller's own policies (`may_assume`): across accounts both must allow it. Within one account a trust
policy that names the caller itself is enough, while one that names the account leaves it to the account's policies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum

from muster.fleet.aws.policy.conditions import Values
from muster.fleet.aws.policy.document import Policy, Principal, Statement
from muster.fleet.aws.policy.patterns import matches, resource_matches
from muster.fleet.aws.policy.variables import substituted


class Verdict(Enum):
    DENIED = "denied"
    SILENT = "silent"
    ALLOWED = "allowed"


class Trust(Enum):
    """How a trust policy covers a caller."""

    DENIED = "denied"
    STRANGER = "stranger"
    BY_ACCOUNT = "by account"
    BY_NAME = "by name"


class Match(Enum):
    """How one principal of a statement covers a caller."""

    NO = 0
    ACCOUNT = 1
    NAME = 2


@dataclass(frozen=True)
class PolicyRequest:
    action: str
    resource: str
    values: Values


def evaluate(policies: Iterable[Policy], request: PolicyRequest) -> Verdict:
    verdict = Verdict.SILENT
    for policy in policies:
        for statement in policy.statements:
            if not _applies(statement, policy.variables, request):
                continue
            if not statement.allows:
                return Verdict.DENIED
            verdict = Verdict.ALLOWED
    return verdict


def trust(policy: Policy, request: PolicyRequest, covers: Callable[[Principal], Match]) -> Trust:
    found = Trust.STRANGER
    for statement in policy.statements:
        match = max((covers(principal) for principal in statement.principals), key=lambda one: one.value, default=Match.NO)
        if match is Match.NO or not _applies(statement, policy.variables, request):
            continue
        if not statement.allows:
            return Trust.DENIED
        if match is Match.NAME or found is Trust.BY_NAME:
            found = Trust.BY_NAME
        else:
            found = Trust.BY_ACCOUNT
    return found


def may_assume(role: Trust, caller: Verdict, *, same_account: bool) -> bool:
    if role in (Trust.DENIED, Trust.STRANGER) or caller is Verdict.DENIED:
        return False
    return caller is Verdict.ALLOWED or (same_account and role is Trust.BY_NAME)


def _applies(statement: Statement, variables: bool, request: PolicyRequest) -> bool:
    named = any(matches(action, request.action, ignore_case=True) for action in statement.actions)
    if named == statement.except_actions:
        return False
    resources = [substituted(one, request.values) if variables else one for one in statement.resources]
    covered = any(resource is not None and resource_matches(resource, request.resource) for resource in resources)
    if covered == statement.except_resources:
        return False
    return all(condition.holds(request.values, variables) for condition in statement.conditions)
