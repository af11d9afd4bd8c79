"""Roles and bindings: validation of rules and subjects; the roleRef of a binding is immutable."""

from __future__ import annotations

from typing import Final

from muster.apiserver.builtin.kinds.checks import Errors, Validator, label_selector, named_like, struct_error
from muster.apiserver.registry.strategy import HookContext
from muster.kube import names
from muster.kube.fielderrors import INVALID, invalid, not_supported, required
from muster.machinery.objects import Object

_GROUP: Final = "rbac.authorization.k8s.io"


def _rule(rule: Object, namespaced: bool, path: str) -> Errors:
    errors: Errors = []
    if not rule.get("verbs"):
        errors.append(required(f"{path}.verbs", "verbs must contain at least one value"))
    urls = rule.get("nonResourceURLs")
    if urls:
        if namespaced:
            errors.append(invalid(f"{path}.nonResourceURLs", urls, "namespaced rules cannot apply to non-resource URLs"))
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            text = "rules cannot apply to both regular resources and non-resource URLs"
            errors.append(invalid(f"{path}.nonResourceURLs", urls, text))
        return errors
    if not rule.get("apiGroups"):
        errors.append(required(f"{path}.apiGroups", "resource rules must supply at least one api group"))
    if not rule.get("resources"):
        errors.append(required(f"{path}.resources", "resource rules must supply at least one resource"))
    return errors


def validate_role(ctx: HookContext, obj: Object, old: Object | None) -> Errors:
    return [error for i, rule in enumerate(obj.get("rules") or ()) for error in _rule(rule, True, f"rules[{i}]")]


def validate_cluster_role(ctx: HookContext, obj: Object, old: Object | None) -> Errors:
    errors = [error for i, rule in enumerate(obj.get("rules") or ()) for error in _rule(rule, False, f"rules[{i}]")]
    aggregation = obj.get("aggregationRule")
    if aggregation is not None:
        selectors = aggregation.get("clusterRoleSelectors")
        if not selectors:
            text = "at least one clusterRoleSelector required if aggregationRule is non-nil"
            errors.append(required("aggregationRule.clusterRoleSelectors", text))
        for index, selector in enumerate(selectors or ()):
            errors += label_selector(selector, f"aggregationRule.clusterRoleSelectors[{index}]")
    return errors


def _subject(subject: Object, namespaced: bool, path: str) -> Errors:
    errors: Errors = []
    name, kind, group = subject.get("name", ""), subject.get("kind", ""), subject.get("apiGroup", "")
    if not name:
        errors.append(required(f"{path}.name"))
    if kind == "ServiceAccount":
        if name:
            errors += named_like(names.dns1123_subdomain, name, f"{path}.name")
        if group:
            errors.append(not_supported(f"{path}.apiGroup", group, [""]))
        if not namespaced and not subject.get("namespace"):
            errors.append(required(f"{path}.namespace"))
    elif kind in ("User", "Group"):
        if group != _GROUP:
            errors.append(not_supported(f"{path}.apiGroup", group, [_GROUP]))
    else:
        errors.append(not_supported(f"{path}.kind", kind, ["ServiceAccount", "User", "Group"]))
    return errors


def _binding(namespaced: bool) -> Validator:
    kinds = ["Role", "ClusterRole"] if namespaced else ["ClusterRole"]

    def validate(ctx: HookContext, obj: Object, old: Object | None) -> Errors:
        reference = obj.get("roleRef") or {}
        errors: Errors = []
        if reference.get("apiGroup") != _GROUP:
            errors.append(not_supported("roleRef.apiGroup", reference.get("apiGroup", ""), [_GROUP]))
        if reference.get("kind") not in kinds:
            errors.append(not_supported("roleRef.kind", reference.get("kind", ""), kinds))
        if not reference.get("name"):
            errors.append(required("roleRef.name"))
        else:
            errors += named_like(names.path_segment, reference["name"], "roleRef.name")
        for index, subject in enumerate(obj.get("subjects") or ()):
            errors += _subject(subject, namespaced, f"subjects[{index}]")
        if old is not None and old.get("roleRef") != reference:
            shown = {"APIGroup": reference.get("apiGroup"), "Kind": reference.get("kind"), "Name": reference.get("name")}
            errors.append(struct_error(INVALID, "roleRef", shown, "cannot change roleRef"))
        return errors

    return validate


validate_role_binding: Final = _binding(True)
validate_cluster_role_binding: Final = _binding(False)
