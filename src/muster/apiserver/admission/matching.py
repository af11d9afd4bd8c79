"""Which operations a webhook or policy is about: rules, selectors of namespaces and objects, equivalent versions.

Compiled once per configuration. A rule is first held against the resource as it was addressed; with matchPolicy Equivalent it may
also match another version under which the same objects are served, earlier rules first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from muster.apiserver import errors
from muster.apiserver.admission.attributes import Subject
from muster.apiserver.registry.resource import ServedResource
from muster.kube.selectors import Selector, from_label_selector_object
from muster.machinery.objects import Object


class Rule:
    """One rule with operations; `names` limits it to some objects where that is not empty."""

    __slots__ = ("_groups", "_names", "_operations", "_resources", "_scope", "_versions")

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self._operations = frozenset(raw.get("operations") or ())
        self._groups = frozenset(raw.get("apiGroups") or ())
        self._versions = frozenset(raw.get("apiVersions") or ())
        self._resources = [_split(text) for text in raw.get("resources") or ()]
        self._scope = raw.get("scope") or "*"
        self._names = frozenset(raw.get("resourceNames") or ())

    def covers(self, operation: str) -> bool:
        return operation in self._operations or "*" in self._operations

    def matches(self, subject: Subject, row: ServedResource) -> bool:
        if not (self.covers(subject.operation) and _among(row.group, self._groups) and _among(row.version, self._versions)):
            return False
        if self._scope != "*":
            clustered = subject.is_namespace or not subject.namespace
            if clustered != (self._scope == "Cluster"):
                return False
        sub = subject.subresource
        return any(plural in ("*", row.plural) and below in ("*", sub) for plural, below in self._resources) and (
            not self._names or subject.name in self._names
        )


def _split(text: str) -> tuple[str, str]:
    plural, _, sub = text.partition("/")
    return plural, sub


def _among(value: str, allowed: frozenset[str]) -> bool:
    return value in allowed or "*" in allowed


class Matcher:
    """`match` gives the row a subject matched as, or None."""

    __slots__ = ("_equivalent", "_excluded", "_namespaces", "_objects", "_rules")

    def __init__(
        self,
        rules: Sequence[Mapping[str, Any]],
        match_policy: str,
        namespace_selector: Mapping[str, Any] | None,
        object_selector: Mapping[str, Any] | None,
        excluded: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self._rules = [Rule(rule) for rule in rules]
        self._excluded = [Rule(rule) for rule in excluded]
        self._equivalent = match_policy == "Equivalent"
        self._namespaces = _selector(namespace_selector)
        self._objects = _selector(object_selector)

    def match(self, subject: Subject, all_without_rules: bool = False) -> ServedResource | None:
        """Raises ApiError 404 if the namespace that a selector asks about is gone."""
        if not (self._objects is None or _selected(self._objects, subject)):
            return None
        if self._excluded and self._matching(self._excluded, subject) is not None:
            return None
        row = subject.resource if all_without_rules and not self._rules else self._matching(self._rules, subject)
        return row if row is not None and self._in_namespace(subject) else None

    def _matching(self, rules: Sequence[Rule], subject: Subject) -> ServedResource | None:
        for rule in rules:
            if rule.matches(subject, subject.resource):
                return subject.resource
        if self._equivalent:
            for rule in rules:
                if rule.covers(subject.operation):
                    for row in subject.equivalents:
                        if rule.matches(subject, row):
                            return row
        return None

    def _in_namespace(self, subject: Subject) -> bool:
        if self._namespaces is None or not (subject.namespace or subject.is_namespace):
            return True
        if subject.is_namespace and not subject.subresource and subject.new is not None:
            return self._namespaces.matches(_labels(subject.new))
        namespace = subject.ctx.cluster.read("/namespaces", subject.namespace)
        if namespace is None:
            raise errors.not_found_named("", "namespaces", subject.namespace)
        return self._namespaces.matches(_labels(namespace))


def _selector(raw: Mapping[str, Any] | None) -> Selector | None:
    """None where everything is selected, which most configurations do."""
    selector = from_label_selector_object(raw or {})
    return None if selector.everything else selector


def _selected(selector: Selector, subject: Subject) -> bool:
    return any(obj is not None and selector.matches(_labels(obj)) for obj in (subject.new, subject.old))


def _labels(obj: Object) -> Mapping[str, str]:
    return obj["metadata"].get("labels") or {}
