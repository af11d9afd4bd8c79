"""RBAC as pure functions and one index: evaluation of rules, their subjects, and coverage.

Rules only allow. `Grants` is the index from subject to granted rules over roles and bindings of a store or informers: it reads them
through one function and is notified of changes. A changed binding is removed and added again, a changed role does so with the
bindings that refer to it, so a change costs what it affects. Each change returns the affected subjects, including former ones; a
change that affects no permissions (a label, the same rules again) returns none. Compiled rules are shared by content: most clusters
have the same roles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import orjson

from muster.kube.rule_cover import RawRule as RawRule
from muster.kube.rule_cover import path_matches
from muster.kube.rule_cover import uncovered as uncovered
from muster.machinery.authentication import UserInfo
from muster.machinery.authorization import NO_OPINION, AccessAttributes, AccessDecision
from muster.machinery.memo import memoized

API_GROUP: Final = "rbac.authorization.k8s.io"
_SERVICE_ACCOUNT: Final = "system:serviceaccount:"

Subject = tuple[str, str]
"""("User" | "Group", name); a service account is its user name."""


class Rule:
    """A compiled PolicyRule."""

    __slots__ = ("groups", "names", "paths", "raw", "resources", "verbs")

    def __init__(self, raw: RawRule) -> None:
        self.raw = raw
        self.verbs = frozenset(raw.get("verbs") or ())
        self.groups = frozenset(raw.get("apiGroups") or ())
        self.resources = frozenset(raw.get("resources") or ())
        self.names = frozenset(raw.get("resourceNames") or ())
        self.paths = tuple(raw.get("nonResourceURLs") or ())

    def allows(self, attributes: AccessAttributes) -> bool:
        if attributes.verb not in self.verbs and "*" not in self.verbs:
            return False
        if not attributes.resource:
            return any(path_matches(pattern, attributes.path) for pattern in self.paths)
        if attributes.group not in self.groups and "*" not in self.groups:
            return False
        if self.names and attributes.name not in self.names:
            return False
        resources, subresource = self.resources, attributes.subresource
        if "*" in resources:
            return True
        if not subresource:
            return attributes.resource in resources
        return f"{attributes.resource}/{subresource}" in resources or f"*/{subresource}" in resources


EVERYTHING: Final = (
    Rule({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}),
    Rule({"verbs": ["*"], "nonResourceURLs": ["*"]}),
)


@memoized(4096, 65536)
def _compiled(rules: bytes) -> tuple[Rule, ...]:
    return tuple(Rule(rule) for rule in orjson.loads(rules))


def shown(atoms: Iterable[RawRule]) -> list[str]:
    """Atoms as the API server prints them, those that differ in the verb only as one."""
    found: dict[str, tuple[RawRule, dict[str, None]]] = {}
    for atom in atoms:
        target = {key: list(value) for key, value in atom.items() if key != "verbs"}
        _, verbs = found.setdefault(repr(sorted(target.items())), (target, {}))
        verbs.update(dict.fromkeys(atom["verbs"]))
    return sorted({_compact({**target, "verbs": list(verbs)}) for target, verbs in found.values()})


_SHOWN = (
    ("APIGroups", "apiGroups"),
    ("Resources", "resources"),
    ("ResourceNames", "resourceNames"),
    ("NonResourceURLs", "nonResourceURLs"),
    ("Verbs", "verbs"),
)


def _compact(rule: RawRule) -> str:
    parts = []
    for name, key in _SHOWN:
        values = rule.get(key)
        if values:
            parts.append(f"{name}:[" + " ".join(f'"{value}"' for value in values) + "]")
    return "{" + ", ".join(parts) + "}"


class RbacRef(NamedTuple):
    """One of the four kinds of objects; `namespace` is empty for those without."""

    kind: str
    namespace: str
    name: str


@dataclass(slots=True)
class Grant:
    """The rules that one binding grants a subject; `description` is the reason of an allowed request, `problem` why there are no
    rules."""

    rules: tuple[Rule, ...]
    description: str
    problem: str = ""


Table = dict[Subject, dict[RbacRef, Grant]]
"""By subject: the grants of each binding."""


class _Binding:
    """An indexed binding, with what must be removed when it changes."""

    __slots__ = ("role", "rules", "subjects")

    def __init__(self, role: RbacRef, rules: tuple[Rule, ...]) -> None:
        self.role = role
        self.rules = rules
        self.subjects: list[Subject] = []


class Grants:
    """The index of subjects and their rules. `read` returns the current role or binding, or None."""

    def __init__(self, read: Callable[[RbacRef], Mapping[str, Any] | None]) -> None:
        self._read = read
        self._cluster_wide: Table = {}
        self._namespaced: dict[str, Table] = {}
        self._bindings: dict[RbacRef, _Binding] = {}
        self._bound: dict[RbacRef, set[RbacRef]] = {}
        """Role → bindings that refer to it, whether it exists or not."""

    def decide(self, user: UserInfo, attributes: AccessAttributes) -> AccessDecision:
        problems: dict[str, None] = {}
        for grant in self.held(user, attributes.namespace):
            if grant.problem:
                problems[grant.problem] = None
            for rule in grant.rules:
                if rule.allows(attributes):
                    return AccessDecision(True, f"RBAC: allowed by {grant.description}")
        if not problems:
            return NO_OPINION
        return AccessDecision(False, "RBAC: " + (", ".join(problems) if len(problems) == 1 else f"[{', '.join(problems)}]"))

    def held(self, user: UserInfo, namespace: str) -> Iterator[Grant]:
        """Everything granted to a user cluster-wide and, if one is given, in the namespace."""
        subjects = subjects_of(user)
        tables = [self._cluster_wide]
        if namespace and namespace in self._namespaced:
            tables.append(self._namespaced[namespace])
        for table in tables:
            for subject in subjects:
                held = table.get(subject)
                if held:
                    yield from held.values()

    def rules_for(self, user: UserInfo, namespace: str) -> list[Rule]:
        """Every rule a user has in the namespace (cluster-wide ones included); "" for cluster-wide only."""
        return [rule for grant in self.held(user, namespace) for rule in grant.rules]

    def role_rules(self, kind: str, namespace: str, name: str) -> list[RawRule] | None:
        """The rules of a (Cluster)Role, or None if there is no such role."""
        role = self._read(role_ref(kind, namespace, name))
        return None if role is None else list(role.get("rules") or ())

    def changed(self, binding_ref: RbacRef) -> set[Subject]:
        """A role or binding was added, changed or deleted. Returns the subjects whose permissions changed."""
        if binding_ref.kind in ("RoleBinding", "ClusterRoleBinding"):
            return self._renew(binding_ref)
        touched: set[Subject] = set()
        for binding in tuple(self._bound.get(binding_ref, ())):
            touched |= self._renew(binding)
        return touched

    def _renew(self, binding_ref: RbacRef) -> set[Subject]:
        former = self._take(binding_ref)
        now = self._put(binding_ref)
        before = set(former.subjects) if former is not None else set()
        after = set(now.subjects) if now is not None else set()
        same = former is not None and now is not None and _same(former.rules, now.rules)
        return before ^ after if same else before | after

    def _take(self, binding_ref: RbacRef) -> _Binding | None:
        known = self._bindings.pop(binding_ref, None)
        if known is None:
            return None
        table = self._namespaced.get(binding_ref.namespace, {}) if binding_ref.namespace else self._cluster_wide
        for subject in known.subjects:
            held = table.get(subject)
            if held is not None:
                held.pop(binding_ref, None)
                if not held:
                    del table[subject]
        referring = self._bound[known.role]
        referring.discard(binding_ref)
        if not referring:
            del self._bound[known.role]
        if not table:
            self._namespaced.pop(binding_ref.namespace, None)
        return known

    def _put(self, binding_ref: RbacRef) -> _Binding | None:
        binding = self._read(binding_ref)
        if binding is None:
            return None
        namespace = binding_ref.namespace
        ref = binding.get("roleRef") or {}
        kind, name = str(ref.get("kind", "")), str(ref.get("name", ""))
        raw = self.role_rules(kind, namespace, name)
        problem = "" if raw is not None else f'{kind.lower()}.rbac.authorization.k8s.io "{name}" not found'
        rules = _compiled(orjson.dumps(raw or ()))
        known = self._bindings[binding_ref] = _Binding(role_ref(kind, namespace, name), rules)
        self._bound.setdefault(known.role, set()).add(binding_ref)
        for subject in binding.get("subjects") or ():
            key = subject_key(subject, namespace)
            known.subjects.append(key)
            table = self._namespaced.setdefault(namespace, {}) if namespace else self._cluster_wide
            table.setdefault(key, {})[binding_ref] = Grant(rules, _describe(binding, subject, namespace), problem)
        return known


def _same(one: tuple[Rule, ...], other: tuple[Rule, ...]) -> bool:
    return one is other or [rule.raw for rule in one] == [rule.raw for rule in other]


def role_ref(kind: str, namespace: str, name: str) -> RbacRef:
    """The role of a roleRef in a namespace."""
    return RbacRef("ClusterRole", "", name) if kind == "ClusterRole" else RbacRef("Role", namespace, name)


def subjects_of(user: UserInfo) -> list[Subject]:
    """The subjects that match a user."""
    return [("User", user.name), *(("Group", group) for group in user.groups)]


def subject_key(subject: Mapping[str, Any], namespace: str) -> Subject:
    """The subject of a binding in `namespace`."""
    if subject.get("kind") == "ServiceAccount":
        return "User", f"{_SERVICE_ACCOUNT}{subject.get('namespace') or namespace}:{subject.get('name', '')}"
    return str(subject.get("kind", "")), str(subject.get("name", ""))


def _describe(binding: Mapping[str, Any], subject: Mapping[str, Any], namespace: str) -> str:
    ref, name = binding["roleRef"], binding["metadata"]["name"]
    kind, called = ("RoleBinding", f"{name}/{namespace}") if namespace else ("ClusterRoleBinding", name)
    who = subject.get("name", "")
    if subject.get("kind") == "ServiceAccount":
        who = f"{who}/{subject.get('namespace') or namespace}"
    return f'{kind} "{called}" of {ref["kind"]} "{ref["name"]}" to {subject.get("kind", "")} "{who}"'
