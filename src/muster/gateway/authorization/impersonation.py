"""The user of an authorized request on the cluster: the gateway's account, or the caller by impersonation.

`shared` is the default: every request is made as the gateway's account, and only the hub authorizes it. With `impersonate` the
cluster authorizes it too, by its own RBAC, and its audit log has the caller. That requires permission to impersonate on the cluster
(`missing_grants`), and a mapping that cannot be abused, because a name on the hub may belong to another user on the cluster:

- no caller is mapped to a `system:` user, and `system:` groups are dropped; `system:authenticated` is added for every caller
- a service account of the hub is mapped to `cluster:hub:system:serviceaccount:<namespace>:<name>`, which is no account of the
  cluster; a caller whose name already has this prefix is refused
- names are sent in header fields, which lose blanks at their ends: a name with such blanks is refused
- whatever the caller is mapped to, the extra key `proxy.open-cluster-management.io/original-user` has the original name

The file (every field is optional):

    mode: impersonate          # if no rule matches: shared (the default) or impersonate
    rules:                     # the first matching rule applies
    - clusters: ["prod-.*"]    # regular expressions for the whole name; default: any
      users: ["alice"]
      groups: ["ops"]          # one of the caller's groups must match
      mode: impersonate        # default: impersonate
      user: operator           # default: the caller
      asGroups: [operators]    # default: the caller's

With an invalid file the gateway does not start. If a valid file is later replaced by an invalid one, nothing is forwarded until it
is corrected, because the administrator's intent is not known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Final, Literal

import msgspec
import orjson

from muster.api.proxy.v1alpha1 import GROUP
from muster.gateway import refusals
from muster.gateway.names import COMPONENT
from muster.http import Answer, Response
from muster.kube.yaml import YAMLError, load
from muster.machinery.authentication import AUTHENTICATED, UserInfo
from muster.machinery.objects import Object

HUB_PREFIX: Final = "cluster:hub:"
ORIGINAL_USER: Final = f"{GROUP}/original-user"
_SYSTEM: Final = "system:"
_ACCOUNT: Final = "system:serviceaccount:"
_UNSENDABLE: Final = re.compile(r"[\x00-\x1f\x7f]|^\s|\s$")

Mode = Literal["shared", "impersonate"]


class ConfigurationError(ValueError):
    """The impersonation rules are invalid; the message names the field and the expected value."""


class NotImpersonated(Exception):
    """The caller cannot be mapped; `misconfigured` if the configuration is the cause, not the caller."""

    def __init__(self, message: str, *, misconfigured: bool = False) -> None:
        super().__init__(message)
        self.misconfigured = misconfigured


class _Rule(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    clusters: list[str] | None = None
    users: list[str] | None = None
    groups: list[str] | None = None
    mode: Mode = "impersonate"
    user: str | None = None
    as_groups: list[str] | None = None


class _File(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    mode: Mode = "shared"
    rules: list[_Rule] = []


_Matches = Callable[[str], object]


class _CompiledRule:
    def __init__(self, rule: _Rule, field: str) -> None:
        self._clusters = _patterns(rule.clusters, f"{field}.clusters")
        self._users = _patterns(rule.users, f"{field}.users")
        self._groups = _patterns(rule.groups, f"{field}.groups")
        self.mode = rule.mode
        self.user = rule.user
        self.groups = None if rule.as_groups is None else tuple(rule.as_groups)
        if rule.mode == "shared" and (rule.user is not None or rule.as_groups is not None):
            raise ConfigurationError(f"{field}: user and asGroups are for mode impersonate; leave them out or change the mode")
        if rule.user is not None:
            _check_name(rule.user, f"{field}.user")
        for index, group in enumerate(rule.as_groups or ()):
            _check_name(group, f"{field}.asGroups[{index}]")

    def matches(self, who: UserInfo, cluster: str) -> bool:
        return _any(self._clusters, (cluster,)) and _any(self._users, (who.name,)) and _any(self._groups, who.groups)


def _any(patterns: tuple[_Matches, ...] | None, names: Iterable[str]) -> bool:
    return patterns is None or any(matches(name) for name in names for matches in patterns)


def _patterns(texts: list[str] | None, field: str) -> tuple[_Matches, ...] | None:
    if texts is None:
        return None
    if not texts:
        raise ConfigurationError(f"{field}: an empty list matches nothing; leave it out to match everything")
    found: list[_Matches] = []
    for index, text in enumerate(texts):
        try:
            found.append(re.compile(text).fullmatch)
        except re.error as problem:
            raise ConfigurationError(f'{field}[{index}]: "{text}" is not a regular expression: {problem}') from None
    return tuple(found)


def _check_name(name: str, field: str) -> None:
    if not name or _UNSENDABLE.search(name):
        raise ConfigurationError(f'{field}: "{name}" cannot be sent as a name: no blanks at its ends, no control characters')
    if name.startswith(_SYSTEM):
        raise ConfigurationError(f'{field}: "{name}" begins with {_SYSTEM}, to which no user is ever mapped; choose another name')


class Impersonation:
    """The current rules; `replace` sets the next content of the file."""

    def __init__(self, text: bytes = b"") -> None:
        """Raises ConfigurationError."""
        self._problem = ""
        self._mode: Mode
        self._rules: tuple[_CompiledRule, ...]
        self._mode, self._rules = _read(text)

    @property
    def problem(self) -> str:
        """Why nothing is forwarded, or empty."""
        return self._problem

    def replace(self, text: bytes) -> None:
        """Use these rules from now on. If they are invalid, no caller is mapped."""
        try:
            self._mode, self._rules = _read(text)
            self._problem = ""
        except ConfigurationError as problem:
            self._problem = str(problem)

    def map_user(self, who: UserInfo, cluster: str) -> UserInfo | None:
        """The user on the cluster; None for the gateway's own account. Raises NotImpersonated."""
        if self._problem:
            raise NotImpersonated(f"the gateway's impersonation rules are not valid: {self._problem}", misconfigured=True)
        rule = next((rule for rule in self._rules if rule.matches(who, cluster)), None)
        if (self._mode if rule is None else rule.mode) == "shared":
            return None
        name = _mapped_name(who.name) if rule is None or rule.user is None else rule.user
        groups = _mapped_groups(who.groups) if rule is None or rule.groups is None else rule.groups
        if _UNSENDABLE.search(who.name):
            raise NotImpersonated("the name has blanks at its ends or control characters in it")
        return UserInfo(name, groups=(*dict.fromkeys(groups), AUTHENTICATED), extra={ORIGINAL_USER: (who.name,)})


def _mapped_name(name: str) -> str:
    if not name or _UNSENDABLE.search(name):
        raise NotImpersonated("the name has blanks at its ends or control characters in it, or is empty")
    if name.startswith(HUB_PREFIX):
        raise NotImpersonated(f"names that begin with {HUB_PREFIX} are reserved for the hub's service accounts")
    if name.startswith(_ACCOUNT):
        return f"{HUB_PREFIX}{name}"
    if name.startswith(_SYSTEM):
        raise NotImpersonated(f"a {_SYSTEM} user of the hub is never one of a cluster; map it to another name, or to mode shared")
    return name


def _mapped_groups(groups: tuple[str, ...]) -> tuple[str, ...]:
    kept = tuple(group for group in groups if not group.startswith(_SYSTEM))
    for group in kept:
        if not group or _UNSENDABLE.search(group):
            raise NotImpersonated("the name of a group has blanks at its ends or control characters in it, or is empty")
    return kept


def _read(text: bytes) -> tuple[Mode, tuple[_CompiledRule, ...]]:
    duplicates: list[str] = []
    try:
        found = load(text, duplicates)
    except YAMLError as problem:
        raise ConfigurationError(f"the impersonation rules are not YAML: {problem}") from None
    if duplicates:
        raise ConfigurationError(f"the impersonation rules have a key twice: {duplicates[0]}")
    try:
        file = msgspec.convert({} if found is None else found, _File)
    except msgspec.ValidationError as problem:
        raise ConfigurationError(f"the impersonation rules are invalid: {problem}") from None
    return file.mode, tuple(_CompiledRule(rule, f"rules[{index}]") for index, rule in enumerate(file.rules))


SHARED_FOR_ALL: Final = Impersonation()


def missing_grants(impersonated: UserInfo) -> list[Object]:
    """RBAC rules that the gateway's account needs on a cluster to impersonate this user."""
    return [
        {"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"], "resourceNames": [impersonated.name]},
        {"apiGroups": [""], "resources": ["groups"], "verbs": ["impersonate"], "resourceNames": list(impersonated.groups)},
        *(
            {"apiGroups": ["authentication.k8s.io"], "resources": [f"userextras/{key}"], "verbs": ["impersonate"]}
            for key in impersonated.extra
        ),
    ]


_IMPERSONATED_KINDS: Final = frozenset({("", "users"), ("", "groups"), ("authentication.k8s.io", "userextras")})


def explain_refusal(impersonated: UserInfo | None, answer: Answer) -> Answer:
    """The cluster's answer, with a Warning if the cluster did not allow the gateway to impersonate.

    A cluster does not serve these resources, so a refusal whose details name one of them can have no other reason.
    """
    if impersonated is None or not isinstance(answer, Response) or answer.status != HTTPStatus.FORBIDDEN:
        return answer
    body = answer.body if isinstance(answer.body, bytes) else b"".join(answer.body)
    if _refused_kind(body) not in _IMPERSONATED_KINDS:
        return answer
    needed = "; ".join(
        f'{rule["resources"][0]} in API group "{rule["apiGroups"][0]}"'
        + (f" named {', '.join(rule['resourceNames'])}" if "resourceNames" in rule else "")
        for rule in missing_grants(impersonated)
    )
    text = f"{COMPONENT}: the gateway's account may not impersonate on this cluster; it needs the verb impersonate on: {needed}"
    return Response(answer.status, answer.body, [*answer.headers, refusals.warning(text)], answer.content_type)


def _refused_kind(body: bytes) -> tuple[str, str] | None:
    try:
        details = orjson.loads(body).get("details") or {}
        return str(details.get("group") or ""), str(details.get("kind") or "")
    except (orjson.JSONDecodeError, AttributeError):
        return None
