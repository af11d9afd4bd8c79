"""Parses a policy's text into statements, or refuses it with the reason.

An identity policy has the actions that its holder may take on which resources; a trust policy has the principals that may assume a
role. Each has elements that the other must not have. Unknown elements, operators and actions are refused: ignoring one would grant
or deny something else than its author meant.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from muster.fleet.aws.errors import MalformedPolicy
from muster.fleet.aws.policy.conditions import Condition, operator
from muster.fleet.aws.policy.patterns import is_arn
from muster.fleet.aws.policy.variables import UNSUPPORTED

VARIABLES_SINCE: Final = "2012-10-17"
VERSIONS: Final = ("2008-10-17", VARIABLES_SINCE)
ASSUME_ACTIONS: Final = ("sts:AssumeRole", "sts:AssumeRoleWithWebIdentity", "sts:AssumeRoleWithSAML", "sts:TagSession")
ANYBODY: Final = "*"
PRINCIPALS: Final = ("AWS", "Federated", "Service")

_ACTION: Final = re.compile(r"\*|[A-Za-z0-9-]+:[A-Za-z0-9*?]+", re.ASCII)
_SID: Final = re.compile(r"[A-Za-z0-9]*", re.ASCII)
_SHARED: Final = frozenset({"Sid", "Effect", "Action", "NotAction", "Condition"})
_IDENTITY: Final = _SHARED | {"Resource", "NotResource"}
_TRUST: Final = _SHARED | {"Principal"}


@dataclass(frozen=True)
class Principal:
    kind: str
    """AWS, Federated or Service."""
    name: str


@dataclass(frozen=True)
class Statement:
    allows: bool
    actions: tuple[str, ...]
    except_actions: bool
    """Whether it is NotAction: all actions but these; likewise of resources."""
    resources: tuple[str, ...] = (ANYBODY,)
    except_resources: bool = False
    principals: tuple[Principal, ...] = ()
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True)
class Policy:
    statements: tuple[Statement, ...]
    variables: bool


@lru_cache(maxsize=4096)
def identity_policy(text: str) -> Policy:
    """Raises MalformedPolicy."""
    return _read(text, _IDENTITY, _identity_statement)


@lru_cache(maxsize=4096)
def trust_policy(text: str) -> Policy:
    """Raises MalformedPolicy."""
    return _read(text, _TRUST, _trust_statement)


def _read(text: str, elements: frozenset[str], read: Callable[[Mapping[str, Any]], Statement]) -> Policy:
    try:
        document = json.loads(text, object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError):
        raise MalformedPolicy("This policy contains invalid Json") from None
    if not isinstance(document, dict) or document.keys() - {"Version", "Id", "Statement"}:
        raise MalformedPolicy("Syntax errors in policy.")
    version = document.get("Version", VERSIONS[0])
    if version not in VERSIONS:
        raise MalformedPolicy(f"The policy must contain a valid version string: {', '.join(VERSIONS)}")
    statements = _listed(document.get("Statement"))
    if not statements:
        raise MalformedPolicy("Syntax errors in policy: Statement is missing or empty.")
    variables = version == VARIABLES_SINCE
    if variables and any(one in text for one in UNSUPPORTED):
        raise MalformedPolicy("the local AWS does not know ${*} and ${?}")
    sids: set[str] = set()
    for statement in statements:
        if not isinstance(statement, dict):
            raise MalformedPolicy("Syntax errors in policy: a statement is no object.")
        _check_elements(statement, elements, sids)
    return Policy(tuple(map(read, statements)), variables)


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a name occurs twice")
    return made


def _check_elements(statement: Mapping[str, Any], elements: frozenset[str], sids: set[str]) -> None:
    for name in statement.keys() - elements:
        if name in _IDENTITY | _TRUST | {"NotPrincipal"}:
            raise MalformedPolicy(f"Has prohibited field {name}")
        raise MalformedPolicy(f"Syntax errors in policy: {name[:100]!r} is no element of a statement.")
    sid = statement.get("Sid", "")
    if not isinstance(sid, str) or not _SID.fullmatch(sid):
        raise MalformedPolicy("Statement IDs (SID) must be alpha-numeric.")
    if sid and sid in sids:
        raise MalformedPolicy("Statement IDs (SID) in a single policy must be unique.")
    sids.add(sid)
    if statement.get("Effect") not in ("Allow", "Deny"):
        raise MalformedPolicy("Syntax errors in policy: Effect must be Allow or Deny.")


def _identity_statement(statement: Mapping[str, Any]) -> Statement:
    actions, except_actions = _actions(statement)
    resources, except_resources = _either(statement, "Resource", "NotResource")
    for resource in resources:
        if resource != "*" and not is_arn(resource):
            raise MalformedPolicy(f'Resource {resource[:200]} must be in ARN format or "*".')
    return Statement(
        statement["Effect"] == "Allow",
        actions,
        except_actions,
        resources,
        except_resources,
        conditions=_conditions(statement.get("Condition")),
    )


def _trust_statement(statement: Mapping[str, Any]) -> Statement:
    actions, except_actions = _actions(statement)
    known = {one.lower() for one in ASSUME_ACTIONS}
    for action in actions:
        if action.lower() not in known and action.lower() != "sts:*":
            raise MalformedPolicy("AssumeRole policy may only specify STS AssumeRole actions.")
    return Statement(
        statement["Effect"] == "Allow",
        actions,
        except_actions,
        principals=_principals(statement.get("Principal")),
        conditions=_conditions(statement.get("Condition")),
    )


def _actions(statement: Mapping[str, Any]) -> tuple[tuple[str, ...], bool]:
    actions, negated = _either(statement, "Action", "NotAction")
    for action in actions:
        if not _ACTION.fullmatch(action):
            raise MalformedPolicy(f"Actions/Conditions must be prefaced by a vendor, e.g., iam, sdb, ec2, etc.: {action[:100]!r}")
    return actions, negated


def _either(statement: Mapping[str, Any], name: str, negated: str) -> tuple[tuple[str, ...], bool]:
    if (name in statement) == (negated in statement):
        raise MalformedPolicy(f"Policy statement must contain {name.lower()}s: one of {name} and {negated}.")
    used = name if name in statement else negated
    return _texts(statement[used], used), used == negated


def _principals(given: Any) -> tuple[Principal, ...]:
    if given == ANYBODY:
        return (Principal("AWS", ANYBODY),)
    if not isinstance(given, dict) or not given:
        raise MalformedPolicy("Missing required field Principal")
    found = []
    for kind, names in given.items():
        if kind not in PRINCIPALS:
            raise MalformedPolicy(f"Invalid principal in policy: {kind[:50]!r} is none of {', '.join(PRINCIPALS)}")
        found += [Principal(kind, name) for name in _texts(names, "Principal")]
    return tuple(found)


def _conditions(given: Any) -> tuple[Condition, ...]:
    if given is None:
        return ()
    if not isinstance(given, dict):
        raise MalformedPolicy("Syntax errors in policy: Condition is no object.")
    found = []
    for name, keys in given.items():
        known = operator(name)
        if known is None:
            raise MalformedPolicy(f"Invalid Condition type : {name[:100]}.")
        if not isinstance(keys, dict) or not keys:
            raise MalformedPolicy(f"Syntax errors in policy: {name} has no keys.")
        for key, wanted in keys.items():
            if ":" not in key:
                raise MalformedPolicy(f"Actions/Conditions must be prefaced by a vendor, e.g., iam, sdb, ec2, etc.: {key[:100]!r}")
            found.append(Condition(known, key.lower(), _texts(wanted, key, plain=True)))
    return tuple(found)


def _texts(given: Any, where: str, *, plain: bool = False) -> tuple[str, ...]:
    """One text or a list of them; with `plain`, numbers and booleans are converted to their JSON."""
    found = []
    for one in _listed(given):
        if plain and isinstance(one, bool | int | float):
            one = json.dumps(one)
        if not isinstance(one, str):
            raise MalformedPolicy(f"Syntax errors in policy: {where} must be a string or a list of strings.")
        found.append(one)
    if not found and not plain:
        raise MalformedPolicy(f"Syntax errors in policy: {where} is empty.")
    return tuple(found)


def _listed(given: Any) -> list[Any]:
    if given is None:
        return []
    return given if isinstance(given, list) else [given]
