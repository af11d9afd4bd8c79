"""Who holds which rules: an index from subject to granted rules that follows the stored roles and bindings.

It is built when first asked and listens to the store from then on: a changed binding is taken out and put in again, a changed
role does so with the bindings that refer to it. So a write costs what it touches, however many roles a cluster has. Changes are
noted as they become visible and worked in by the next question, so an answer always stands on everything visible.
Compiled rules are shared by content: most clusters hold the same bootstrap roles.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import orjson

from muster.apiserver.attributes import Attributes
from muster.apiserver.auth.identity import User
from muster.apiserver.cluster import Cluster
from muster.store.api import Event, Subscription

ROLES = "rbac.authorization.k8s.io/roles"
CLUSTER_ROLES = "rbac.authorization.k8s.io/clusterroles"
ROLE_BINDINGS = "rbac.authorization.k8s.io/rolebindings"
CLUSTER_ROLE_BINDINGS = "rbac.authorization.k8s.io/clusterrolebindings"
_SOURCES = (ROLES, CLUSTER_ROLES, ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS)
_SERVICE_ACCOUNT = "system:serviceaccount:"

RawRule = Mapping[str, Any]
Subject = tuple[str, str]
"""("User" | "Group", name); a service account is its user name."""
Place = tuple[str, str]
"""(stored resource, key)"""


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


@lru_cache(maxsize=4096)
def _compiled(rules: bytes) -> tuple[Rule, ...]:
    return tuple(Rule(rule) for rule in orjson.loads(rules))


Table = dict[Subject, dict[Place, Grant]]
"""Per subject: what each binding gives it."""


class _Binding:
    """A binding as it was put in: what to undo when it changes."""

    __slots__ = ("role", "subjects", "table")

    def __init__(self, role: Place, table: Table) -> None:
        self.role = role
        self.table = table
        self.subjects: list[Subject] = []


class GrantIndex:
    """The index of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._subscriptions: list[Subscription] = []
        self._changed: set[Place] = set()
        self._clear()

    def _clear(self) -> None:
        self._cluster_wide: Table = {}
        self._namespaced: dict[str, Table] = {}
        self._bindings: dict[Place, _Binding] = {}
        self._bound: dict[Place, set[Place]] = {}
        """Role → bindings that refer to it, whether it exists or not."""

    def grants(self, user: User, namespace: str) -> Iterator[Grant]:
        """Everything granted to the user cluster-wide and, if one is given, in the namespace."""
        self._catch_up()
        subjects = [("User", user.name), *(("Group", group) for group in user.groups)]
        tables = [self._cluster_wide]
        if namespace and namespace in self._namespaced:
            tables.append(self._namespaced[namespace])
        for table in tables:
            for subject in subjects:
                held = table.get(subject)
                if held:
                    yield from held.values()

    def role_rules(self, kind: str, namespace: str, name: str) -> list[RawRule] | None:
        """The rules of a (Cluster)Role, or None if there is no such role."""
        role = self._cluster.read(*_role_place(kind, namespace, name))
        return None if role is None else list(role.get("rules") or ())

    def _catch_up(self) -> None:
        if not self._subscriptions:
            self._build()
        while self._changed:
            place = self._changed.pop()
            if place[0] in (ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS):
                self._renew(place)
            else:
                for binding in tuple(self._bound.get(place, ())):
                    self._renew(binding)

    def _build(self) -> None:
        store, name = self._cluster.store, self._cluster.name
        self._clear()
        self._changed.clear()
        for resource in _SOURCES:
            self._subscriptions.append(store.subscribe(name, resource, None, self._note, self._forget))
        for resource in (CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS):
            for entry in store.list(name, resource):
                self._put((resource, entry.key))

    def _note(self, events: Sequence[Event]) -> None:
        self._changed.update((event.resource, event.entry.key) for event in events)

    def _forget(self) -> None:
        """Events were missed: begin anew with the next question."""
        for subscription in self._subscriptions:
            subscription.close()
        self._subscriptions = []

    def _renew(self, place: Place) -> None:
        known = self._bindings.pop(place, None)
        if known is not None:
            for subject in known.subjects:
                held = known.table.get(subject)
                if held is not None:
                    held.pop(place, None)
                    if not held:
                        del known.table[subject]
            referring = self._bound[known.role]
            referring.discard(place)
            if not referring:
                del self._bound[known.role]
            if not known.table:
                self._namespaced.pop(place[1].rpartition("/")[0], None)
        self._put(place)

    def _put(self, place: Place) -> None:
        binding = self._cluster.read(*place)
        if binding is None:
            return
        namespace = place[1].rpartition("/")[0]
        table = self._namespaced.setdefault(namespace, {}) if namespace else self._cluster_wide
        ref = binding.get("roleRef") or {}
        kind, name = str(ref.get("kind", "")), str(ref.get("name", ""))
        raw = self.role_rules(kind, namespace, name)
        problem = "" if raw is not None else f'{kind.lower()}.rbac.authorization.k8s.io "{name}" not found'
        rules = _compiled(orjson.dumps(raw or ()))
        known = self._bindings[place] = _Binding(_role_place(kind, namespace, name), table)
        self._bound.setdefault(known.role, set()).add(place)
        for subject in binding.get("subjects") or ():
            key = _subject_key(subject, namespace)
            known.subjects.append(key)
            table.setdefault(key, {})[place] = Grant(rules, _describe(binding, subject, namespace), problem)


def _role_place(kind: str, namespace: str, name: str) -> Place:
    return (CLUSTER_ROLES, name) if kind == "ClusterRole" else (ROLES, f"{namespace}/{name}")


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
