"""As whom a granted request appears on a cluster: the gateway's account, or the caller by impersonation.

`shared` is the default, and what the gateway was designed for: every request is the gateway's account's, and the hub alone decides.
With `impersonate` a cluster decides a second time, by its own RBAC, and its audit log knows the caller. That needs the right to
impersonate on the cluster (`missing_grants` says which), and a mapping that cannot be abused, because a name that is somebody's on
the hub may be somebody else's on a cluster:

- nobody becomes a `system:` user, and nobody brings a `system:` group along; `system:authenticated` is added to everybody
- a service account of the hub appears as `cluster:hub:system:serviceaccount:<namespace>:<name>`, so that no account of the cluster
  is meant by it; who is called so already is refused
- names travel in header fields, at whose ends blanks are lost: a name for which that makes a difference is refused
- whatever the caller is mapped to, the extra key `proxy.open-cluster-management.io/original-user` says who it was

The file, all of it optional:

    mode: impersonate          # where no rule matches: shared (the default) or impersonate
    rules:                     # the first that matches counts
    - clusters: ["prod-.*"]    # regular expressions that must match the whole name; left out: any
      users: ["alice"]
      groups: ["ops"]          # one of the caller's groups must match
      mode: impersonate        # left out: impersonate
      user: operator           # left out: the caller
      asGroups: [operators]    # left out: the caller's

A file that cannot be understood stops the gateway at its start. One that is replaced by such a file later stops requests instead:
nothing is forwarded until it is mended, because what the administrator wanted is not known.
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
_SPOILED: Final = re.compile(r"[\x00-\x1f\x7f]|^\s|\s$")

Mode = Literal["shared", "impersonate"]


class ConfigurationError(ValueError):
    """The mapping cannot be understood; the message names the field and says what belongs there."""


class NotImpersonated(Exception):
    """The caller cannot be mapped; `misconfigured` if that is not the caller's doing."""

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
    def __init__(self, rule: _Rule, where: str) -> None:
        self._clusters = _patterns(rule.clusters, f"{where}.clusters")
        self._users = _patterns(rule.users, f"{where}.users")
        self._groups = _patterns(rule.groups, f"{where}.groups")
        self.mode = rule.mode
        self.user = rule.user
        self.groups = None if rule.as_groups is None else tuple(rule.as_groups)
        if rule.mode == "shared" and (rule.user is not None or rule.as_groups is not None):
            raise ConfigurationError(f"{where}: user and asGroups are for mode impersonate; leave them out or change the mode")
        if rule.user is not None:
            _check_name(rule.user, f"{where}.user")
        for index, group in enumerate(rule.as_groups or ()):
            _check_name(group, f"{where}.asGroups[{index}]")

    def matches(self, who: UserInfo, cluster: str) -> bool:
        return _any(self._clusters, (cluster,)) and _any(self._users, (who.name,)) and _any(self._groups, who.groups)


def _any(patterns: tuple[_Matches, ...] | None, names: Iterable[str]) -> bool:
    return patterns is None or any(matches(name) for name in names for matches in patterns)


def _patterns(texts: list[str] | None, where: str) -> tuple[_Matches, ...] | None:
    if texts is None:
        return None
    if not texts:
        raise ConfigurationError(f"{where}: an empty list matches nothing; leave it out to match everything")
    found: list[_Matches] = []
    for index, text in enumerate(texts):
        try:
            found.append(re.compile(text).fullmatch)
        except re.error as problem:
            raise ConfigurationError(f'{where}[{index}]: "{text}" is not a regular expression: {problem}') from None
    return tuple(found)


def _check_name(name: str, where: str) -> None:
    if not name or _SPOILED.search(name):
        raise ConfigurationError(f'{where}: "{name}" cannot be sent as a name: no blanks at its ends, no control characters')
    if name.startswith(_SYSTEM):
        raise ConfigurationError(f'{where}: "{name}" begins with {_SYSTEM}, which nobody is ever mapped to; choose another name')


class Impersonation:
    """The mapping as it is now; `replace` takes the file's next content."""

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
        """From now on this counts, also if it cannot be understood: then nobody is mapped."""
        try:
            self._mode, self._rules = _read(text)
            self._problem = ""
        except ConfigurationError as problem:
            self._problem = str(problem)

    def mapped(self, who: UserInfo, cluster: str) -> UserInfo | None:
        """As whom somebody is to appear; None: as the gateway's account. Raises NotImpersonated."""
        if self._problem:
            raise NotImpersonated(f"the gateway's impersonation rules are not valid: {self._problem}", misconfigured=True)
        rule = next((rule for rule in self._rules if rule.matches(who, cluster)), None)
        if (self._mode if rule is None else rule.mode) == "shared":
            return None
        name = _own_name(who.name) if rule is None or rule.user is None else rule.user
        groups = _own_groups(who.groups) if rule is None or rule.groups is None else rule.groups
        if _SPOILED.search(who.name):
            raise NotImpersonated("the name has blanks at its ends or control characters in it")
        return UserInfo(name, groups=(*dict.fromkeys(groups), AUTHENTICATED), extra={ORIGINAL_USER: (who.name,)})


def _own_name(name: str) -> str:
    if not name or _SPOILED.search(name):
        raise NotImpersonated("the name has blanks at its ends or control characters in it, or is empty")
    if name.startswith(HUB_PREFIX):
        raise NotImpersonated(f"names that begin with {HUB_PREFIX} stand for the hub's service accounts")
    if name.startswith(_ACCOUNT):
        return f"{HUB_PREFIX}{name}"
    if name.startswith(_SYSTEM):
        raise NotImpersonated(f"a {_SYSTEM} user of the hub is never one of a cluster; map it to another name, or to mode shared")
    return name


def _own_groups(groups: tuple[str, ...]) -> tuple[str, ...]:
    kept = tuple(group for group in groups if not group.startswith(_SYSTEM))
    for group in kept:
        if not group or _SPOILED.search(group):
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
        raise ConfigurationError(f"the impersonation rules cannot be understood: {problem}") from None
    return file.mode, tuple(_CompiledRule(rule, f"rules[{index}]") for index, rule in enumerate(file.rules))


SHARED_FOR_ALL: Final = Impersonation()


def missing_grants(impersonated: UserInfo) -> list[Object]:
    """The rules that the gateway's account needs on a cluster to appear as somebody."""
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
    """A cluster's answer, with a Warning if it refused to let the gateway impersonate.

    A cluster serves no such resources, so a refusal that names one as what it is about can mean nothing else.
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
