"""Role-based access control over one cluster's roles and bindings.

Roles and bindings are compiled into an index from subject to rules, rebuilt when one of the four resources changed (their store
generations say so). Clusters that have no roles of their own share the index of the base layer. A rule allows what it lists and
nothing denies; `system:masters` is allowed everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from muster.apiserver.attributes import Attributes
from muster.apiserver.auth.identity import MASTERS, User
from muster.apiserver.cluster import Cluster
from muster.apiserver.errors import aggregated

ROLES = "rbac.authorization.k8s.io/roles"
CLUSTER_ROLES = "rbac.authorization.k8s.io/clusterroles"
ROLE_BINDINGS = "rbac.authorization.k8s.io/rolebindings"
CLUSTER_ROLE_BINDINGS = "rbac.authorization.k8s.io/clusterrolebindings"
_SOURCES = (ROLES, CLUSTER_ROLES, ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS)
_SERVICE_ACCOUNT = "system:serviceaccount:"

RawRule = Mapping[str, Any]
Subject = tuple[str, str]
"""("User" | "Group", name); a service account is its user name."""


@dataclass(frozen=True, slots=True)
class Decision:
    allowed: bool
    reason: str = ""


_DENIED = Decision(False)


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

    def allows(self, attributes: Attributes) -> bool:
        if attributes.verb not in self.verbs and "*" not in self.verbs:
            return False
        if not attributes.resource:
            return any(_path_matches(pattern, attributes.path) for pattern in self.paths)
        if attributes.group not in self.groups and "*" not in self.groups:
            return False
        if self.names and attributes.name not in self.names:
            return False
        resources = self.resources
        if "*" in resources or attributes.full_resource in resources:
            return True
        return bool(attributes.subresource) and f"*/{attributes.subresource}" in resources


def _path_matches(pattern: str, path: str) -> bool:
    return pattern == "*" or pattern == path or (pattern.endswith("*") and path.startswith(pattern[:-1]))


@dataclass(slots=True)
class Grant:
    """The rules one binding gives a subject; `description` is how an allowed request explains itself, `problem` why there are
    no rules."""

    rules: tuple[Rule, ...]
    description: str
    problem: str = ""


@dataclass(slots=True)
class Index:
    cluster_wide: dict[Subject, list[Grant]] = field(default_factory=dict)
    namespaced: dict[str, dict[Subject, list[Grant]]] = field(default_factory=dict)


class Rbac:
    """Answers for one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._built_for: tuple[int, ...] = ()
        self._index = Index()

    def authorize(self, user: User, attributes: Attributes) -> Decision:
        if MASTERS in user.groups:
            return Decision(True)
        problems: list[str] = []
        for grant in self._grants(user, attributes.namespace):
            if grant.problem:
                problems.append(grant.problem)
            for rule in grant.rules:
                if rule.allows(attributes):
                    return Decision(True, f"RBAC: allowed by {grant.description}")
        if problems:
            return Decision(False, f"RBAC: {aggregated(problems)}")
        return _DENIED

    def rules_for(self, user: User, namespace: str) -> list[Rule]:
        """Every rule the user has in the namespace (cluster-wide ones included); "" for cluster-wide only."""
        if MASTERS in user.groups:
            return [
                Rule({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}),
                Rule({"verbs": ["*"], "nonResourceURLs": ["*"]}),
            ]
        return [rule for grant in self._grants(user, namespace) for rule in grant.rules]

    def role_rules(self, kind: str, namespace: str, name: str) -> list[RawRule] | None:
        """The rules of a (Cluster)Role, or None if there is no such role."""
        if kind == "ClusterRole":
            role = self._cluster.read(CLUSTER_ROLES, name)
        else:
            role = self._cluster.read(ROLES, f"{namespace}/{name}")
        return None if role is None else list(role.get("rules") or ())

    def _grants(self, user: User, namespace: str) -> Iterator[Grant]:
        index = self._current()
        subjects = [("User", user.name), *(("Group", group) for group in user.groups)]
        for subject in subjects:
            yield from index.cluster_wide.get(subject, ())
        in_namespace = index.namespaced.get(namespace) if namespace else None
        if in_namespace:
            for subject in subjects:
                yield from in_namespace.get(subject, ())

    def _current(self) -> Index:
        store, name = self._cluster.store, self._cluster.name
        generations = tuple(store.generation(name, source) for source in _SOURCES)
        if generations != self._built_for:
            self._index = self._build()
            self._built_for = generations
        return self._index

    def _build(self) -> Index:
        index = Index()
        for binding in self._cluster.scan(CLUSTER_ROLE_BINDINGS):
            self._add(index.cluster_wide, binding, "")
        for binding in self._cluster.scan(ROLE_BINDINGS):
            namespace = binding["metadata"]["namespace"]
            self._add(index.namespaced.setdefault(namespace, {}), binding, namespace)
        return index

    def _add(self, index: dict[Subject, list[Grant]], binding: Mapping[str, Any], namespace: str) -> None:
        ref = binding.get("roleRef") or {}
        raw = self.role_rules(ref.get("kind", ""), namespace, ref.get("name", ""))
        problem = ""
        if raw is None:
            problem = f'{str(ref.get("kind", "")).lower()}.rbac.authorization.k8s.io "{ref.get("name", "")}" not found'
        rules = tuple(Rule(rule) for rule in raw or ())
        for subject in binding.get("subjects") or ():
            grant = Grant(rules, _describe(binding, subject, namespace), problem)
            index.setdefault(_subject_key(subject, namespace), []).append(grant)


def _describe(binding: Mapping[str, Any], subject: Mapping[str, Any], namespace: str) -> str:
    ref, name = binding["roleRef"], binding["metadata"]["name"]
    kind, shown = ("RoleBinding", f"{name}/{namespace}") if namespace else ("ClusterRoleBinding", name)
    who = subject.get("name", "")
    if subject.get("kind") == "ServiceAccount":
        who = f"{who}/{subject.get('namespace') or namespace}"
    return f'{kind} "{shown}" of {ref["kind"]} "{ref["name"]}" to {subject.get("kind", "")} "{who}"'


def _subject_key(subject: Mapping[str, Any], namespace: str) -> Subject:
    if subject.get("kind") == "ServiceAccount":
        return "User", f"{_SERVICE_ACCOUNT}{subject.get('namespace') or namespace}:{subject.get('name', '')}"
    return str(subject.get("kind", "")), str(subject.get("name", ""))


def rules_cover(owned: Iterable[Rule], wanted: RawRule) -> list[RawRule]:
    """The atoms of `wanted` (one verb, group, resource, name each) that no owned rule grants."""
    return [atom for atom in _atoms(wanted) if not any(_covers(rule, atom) for rule in owned)]


def _atoms(rule: RawRule) -> Iterator[RawRule]:
    for verb in rule.get("verbs") or ():
        for path in rule.get("nonResourceURLs") or ():
            yield {"nonResourceURLs": [path], "verbs": [verb]}
        for group in rule.get("apiGroups") or ():
            for resource in rule.get("resources") or ():
                names = rule.get("resourceNames") or ()
                if not names:
                    yield {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
                for name in names:
                    yield {"apiGroups": [group], "resources": [resource], "resourceNames": [name], "verbs": [verb]}


def _covers(rule: Rule, atom: RawRule) -> bool:
    verb = atom["verbs"][0]
    if verb not in rule.verbs and "*" not in rule.verbs:
        return False
    if "nonResourceURLs" in atom:
        path = atom["nonResourceURLs"][0]
        return any(_path_covers(pattern, path) for pattern in rule.paths)
    group, resource = atom["apiGroups"][0], atom["resources"][0]
    if group not in rule.groups and "*" not in rule.groups:
        return False
    if rule.names and not set(atom.get("resourceNames", ())) & rule.names:
        return False
    if "*" in rule.resources or resource in rule.resources:
        return True
    _, slash, sub = resource.partition("/")
    return bool(slash) and f"*/{sub}" in rule.resources


def _path_covers(pattern: str, path: str) -> bool:
    if pattern in ("*", path):
        return True
    return pattern.endswith("*") and path.startswith(pattern[:-1])
