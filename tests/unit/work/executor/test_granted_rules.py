"""What a role or binding would grant, read from what nobody has checked: what is not certain counts as everything."""

from __future__ import annotations

from typing import Any

import pytest

from muster.kube.rbac import EVERYTHING
from muster.machinery.objects import Object
from muster.work.agent.executor.granted_rules import RoleRef, granted_by, result, role_of
from muster.work.agent.interfaces import ManifestWrite

READ: Object = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
ALL = tuple(rule.raw for rule in EVERYTHING)
REFERENCE: Object = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}


@pytest.mark.parametrize("rule", [READ, {**READ, "resourceNames": None}, {**READ, "resourceNames": ["a"]}, {}])
def test_what_every_server_reads_alike_counts_as_it_is(rule: Object) -> None:
    assert granted_by({"rules": [rule]}).rules == (rule,)


@pytest.mark.parametrize("role", [{}, {"rules": None}, {"rules": []}, {"rules": [], "aggregationRule": {}}])
def test_no_rules_are_none(role: Object) -> None:
    assert granted_by(role).rules == ()


@pytest.mark.parametrize(
    ("rules", "doubt"),
    [
        ([{**READ, "note": "x"}], "rules[0] cannot be read: 'note' is no field of a rule"),
        ([READ, {**READ, "Verbs": []}], "rules[1] cannot be read: 'Verbs' is no field of a rule"),
        ([{**READ, "resources": [None]}], "rules[0] cannot be read: resources is no list of strings"),
        ([{**READ, "verbs": "get"}], "rules[0] cannot be read: verbs is no list of strings"),
        ([None], "rules[0] cannot be read: it is no rule"),
        ("all", "rules cannot be read: it is no list"),
    ],
)
def test_what_cannot_be_read_counts_as_everything_and_says_why(rules: Any, doubt: str) -> None:
    granted = granted_by({"rules": rules})
    assert granted.rules == ALL
    assert granted.doubt == doubt


@pytest.mark.parametrize("field", ["RULES", "Rules", "aggregationrule", "Metadata"])
def test_a_field_in_another_case_counts_as_everything(field: str) -> None:
    assert granted_by({"rules": [READ], field: []}).rules == ALL


@pytest.mark.parametrize("aggregation", [5, [], {"clusterRoleSelectors": [{}]}, {"clusterRoleSelectors": "x"}, {"selectors": [1]}])
def test_what_may_gather_others_may_come_to_hold_anything(aggregation: Any) -> None:
    assert granted_by({"aggregationRule": aggregation}).rules[-2:] == ALL


@pytest.mark.parametrize(
    ("binding", "expected"),
    [
        ({"roleRef": REFERENCE}, RoleRef("Role", "r")),
        ({"roleRef": {"kind": "Role", "name": "r"}}, RoleRef("Role", "r")),
        ({}, "roleRef is missing"),
        ({"roleRef": "r"}, "roleRef cannot be read: it is no reference"),
        ({"roleRef": {**REFERENCE, "Name": "x"}}, "roleRef cannot be read: 'Name' is no field of a reference"),
        ({"roleRef": {**REFERENCE, "name": None}}, "roleRef cannot be read: name is no string"),
        ({"roleRef": {"name": "r"}}, "roleRef must specify kind and name"),
        ({"roleRef": REFERENCE, "roleref": REFERENCE}, "'roleref' is not roleRef"),
    ],
)
def test_what_is_bound_is_read_or_told_why_not(binding: Object, expected: RoleRef | str) -> None:
    assert role_of(binding) == expected


def test_what_is_applied_is_laid_over_what_is_there() -> None:
    live = {"rules": [READ], "roleRef": REFERENCE, "aggregationRule": {"clusterRoleSelectors": [{}]}}
    after = result(ManifestWrite("apply", {"roleRef": {"name": "other"}}, "m"), live)
    assert (after["rules"], after["roleRef"]["name"], after["roleRef"]["kind"]) == ([READ], "other", "Role")
    assert result(ManifestWrite("update", {"rules": []}, "m"), live) == {"rules": []}


def test_a_role_that_is_applied_without_rules_may_meet_anything() -> None:
    assert granted_by(result(ManifestWrite("apply", {}, "m"), None)).rules == ALL
    assert granted_by(result(ManifestWrite("apply", {"rules": []}, "m"), None)).rules == ()
    assert granted_by(result(ManifestWrite("apply", {}, "m"), {"rules": [READ]})).rules == (READ,)
