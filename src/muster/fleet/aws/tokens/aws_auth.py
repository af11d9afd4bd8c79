"""The ConfigMap `kube-system/aws-auth`: the users and groups of AWS roles, users and accounts in a cluster.

Follows aws-iam-authenticator's `EKSConfigMap` backend, including its harsh handling of errors: a part (`mapRoles`, `mapUsers`,
`mapAccounts`) that is not YAML, or not a list, is dropped as a whole, and its identities lose access. Within a list the valid
entries are used, as Go's JSON decoder does: an entry that is no mapping or has no ARN is dropped alone, as is a role that is also
an AWS SSO role; a field of another type counts as missing, also if another spelling of its name has a value of the right one, and
field names are case-insensitive. Of two entries for one ARN the last is used. ARNs are compared case-insensitively.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from muster.kube.yaml import YAMLError, load
from muster.machinery.logs import get_logger
from muster.machinery.objects import GVR

log = get_logger(__name__)
NAMESPACE: Final = "kube-system"
NAME: Final = "aws-auth"


@dataclass(frozen=True)
class Mapped:
    username: str
    groups: tuple[str, ...] = ()


@dataclass(frozen=True)
class AwsAuth:
    roles: Mapping[str, Mapped] = field(default_factory=dict)
    """By ARN in lower case."""
    users: Mapping[str, Mapped] = field(default_factory=dict)
    accounts: frozenset[str] = frozenset()


EMPTY: Final = AwsAuth()


def decode(raw: bytes) -> AwsAuth:
    return parse(GVR.decode(raw).get("data") or {})


def parse(data: Mapping[str, str]) -> AwsAuth:
    return AwsAuth(_entries(data, "mapRoles", "rolearn"), _entries(data, "mapUsers", "userarn"), _accounts(data))


def _entries(data: Mapping[str, str], part: str, arn: str) -> dict[str, Mapped]:
    found: dict[str, Mapped] = {}
    for one in _listed(data, part):
        fields = _fields(one)
        name = _text(fields.get(arn, ()))
        if name and part == "mapRoles" and fields.get("sso", [None])[-1] is not None:
            log.warning("an entry of aws-auth is dropped: rolearn and sso exclude each other", part=part)
        elif name:
            found[name.lower()] = Mapped(_text(fields.get("username", ())), _texts(fields.get("groups", ())))
        else:
            log.warning("an entry of aws-auth is ignored: it has no user name", part=part)
    return found


def _fields(entry: Any) -> dict[str, list[Any]]:
    """The values of each field by its name in lower case; of spellings that differ only in case, the lower case one comes last."""
    found: dict[str, list[Any]] = {}
    for name, value in sorted(entry.items()) if isinstance(entry, dict) else ():
        found.setdefault(name.lower(), []).append(value)
    return found


def _text(values: Sequence[Any]) -> str:
    """The last string. Names that YAML parses as numbers or booleans (`no`) are no names: they have to be quoted."""
    return next((value for value in reversed(values) if isinstance(value, str)), "")


def _texts(values: Sequence[Any]) -> tuple[str, ...]:
    """The last list. An element that is no string keeps what the list before it had in its place."""
    found: tuple[str, ...] = ()
    for value in values:
        if isinstance(value, list):
            former = (*found, *[""] * len(value))
            found = tuple(new if isinstance(new, str) else old for new, old in zip(value, former, strict=False))
        elif value is None:
            found = ()
    return found


def _accounts(data: Mapping[str, str]) -> frozenset[str]:
    return frozenset(str(one) for one in _listed(data, "mapAccounts"))


def _listed(data: Mapping[str, str], part: str) -> list[Any]:
    try:
        # Of a duplicate field the last one is used.
        listed = load(data.get(part, "").encode(), duplicates=[])
    except YAMLError:
        log.warning("aws-auth is dropped in part: not YAML", part=part)
        return []
    if listed is not None and not isinstance(listed, list):
        log.warning("aws-auth is dropped in part: not a list", part=part)
    return listed if isinstance(listed, list) else []
