"""Which operations a webhook or policy matches: rules, selectors of namespaces and objects, and equivalent versions. Follows the
packages `webhook/predicates` and `policy/matching` of `k8s.io/apiserver/pkg/admission/plugin`.

Matchers are compiled once per configuration. A rule is first compared with the resource of the request; with matchPolicy Equivalent
it may also match another version in which the same objects are served. Earlier rules are tried first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from muster.apiserver import errors
from muster.apiserver.admission.attributes import AdmissionAttributes
from muster.apiserver.registry.resource import ServedResource
from muster.kube.selectors import Selector, from_label_selector_object
from muster.machinery.objects import Object


class Rule:
    """One RuleWithOperations or NamedRuleWithOperations."""

    __slots__ = ("_groups", "_names", "_operations", "_resources", "_scope", "_versions")

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self._operations = frozenset(raw.get("operations") or ())
        self._groups = frozenset(raw.get("apiGroups") or ())
        self._versions = frozenset(raw.get("apiVersions") or ())
        self._resources = [_split(text) for text in raw.get("resources") or ()]
        self._scope = raw.get("scope") or "*"
        self._names = frozenset(raw.get("resourceNames") or ())

    def matches_operation(self, operation: str) -> bool:
        return operation in self._operations or "*" in self._operations

    def matches(self, attributes: AdmissionAttributes, row: ServedResource) -> bool:
        if not (
            self.matches_operation(attributes.operation)
            and _is_allowed(row.group, self._groups)
            and _is_allowed(row.version, self._versions)
        ):
            return False
        if self._scope != "*":
            clustered = attributes.is_namespace or not attributes.namespace
            if clustered != (self._scope == "Cluster"):
                return False
        sub = attributes.subresource
        return any(plural in ("*", row.plural) and below in ("*", sub) for plural, below in self._resources) and (
            not self._names or attributes.name in self._names
        )


def _split(text: str) -> tuple[str, str]:
    plural, _, sub = text.partition("/")
    return plural, sub


def _is_allowed(value: str, allowed: frozenset[str]) -> bool:
    return value in allowed or "*" in allowed


class Matcher:
    """The rules and selectors of one webhook, policy or binding."""

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

    def match(self, attributes: AdmissionAttributes, match_all_without_rules: bool = False) -> ServedResource | None:
        """The row that matches the operation, None if there is none. Raises ApiError 404 if the namespace whose labels are needed
        is gone."""
        if not (self._objects is None or _selected(self._objects, attributes)):
            return None
        if self._excluded and self._matching(self._excluded, attributes) is not None:
            return None
        row = attributes.resource if match_all_without_rules and not self._rules else self._matching(self._rules, attributes)
        return row if row is not None and self._namespace_matches(attributes) else None

    def _matching(self, rules: Sequence[Rule], attributes: AdmissionAttributes) -> ServedResource | None:
        for rule in rules:
            if rule.matches(attributes, attributes.resource):
                return attributes.resource
        if self._equivalent:
            for rule in rules:
                if rule.matches_operation(attributes.operation):
                    for row in attributes.equivalents:
                        if rule.matches(attributes, row):
                            return row
        return None

    def _namespace_matches(self, attributes: AdmissionAttributes) -> bool:
        if self._namespaces is None or not (attributes.namespace or attributes.is_namespace):
            return True
        if attributes.is_namespace and not attributes.subresource and attributes.new is not None:
            return self._namespaces.matches(_labels(attributes.new))
        namespace = attributes.ctx.cluster.read("/namespaces", attributes.namespace)
        if namespace is None:
            raise errors.not_found_named("", "namespaces", attributes.namespace)
        return self._namespaces.matches(_labels(namespace))


def _selector(raw: Mapping[str, Any] | None) -> Selector | None:
    """None if everything is selected, as most configurations do."""
    selector = from_label_selector_object(raw or {})
    return None if selector.everything else selector


def _selected(selector: Selector, attributes: AdmissionAttributes) -> bool:
    return any(obj is not None and selector.matches(_labels(obj)) for obj in (attributes.new, attributes.old))


def _labels(obj: Object) -> Mapping[str, str]:
    return obj["metadata"].get("labels") or {}
