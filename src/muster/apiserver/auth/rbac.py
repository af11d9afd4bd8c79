"""Role-based access control over one cluster's roles and bindings.

A rule allows what it lists and nothing denies; `system:masters` is allowed everything. Who has which rules is looked up in an index
that follows the stored roles and bindings (see `grants`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from muster.apiserver.attributes import Attributes
from muster.apiserver.auth.grants import GrantIndex, RawRule, Rule
from muster.apiserver.auth.identity import MASTERS, User
from muster.apiserver.cluster import Cluster
from muster.apiserver.errors import aggregated


@dataclass(frozen=True, slots=True)
class Decision:
    allowed: bool
    reason: str = ""


_DENIED = Decision(False)


class Rbac:
    """Answers for one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._index = GrantIndex(cluster)

    def authorize(self, user: User, attributes: Attributes) -> Decision:
        if MASTERS in user.groups:
            return Decision(True)
        problems: list[str] = []
        for grant in self._index.grants(user, attributes.namespace):
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
        return [rule for grant in self._index.grants(user, namespace) for rule in grant.rules]

    def role_rules(self, kind: str, namespace: str, name: str) -> list[RawRule] | None:
        """The rules of a (Cluster)Role, or None if there is no such role."""
        return self._index.role_rules(kind, namespace, name)


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
