"""The summary of a policy's conditions, and statuses that say nothing new."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import orjson
import pytest

from muster.api.meta import Condition
from muster.api.policy.v1beta1 import OperatorPolicySpec, OperatorPolicyStatus
from muster.policy.operators import conditions, related
from muster.policy.operators.kinds import SUBSCRIPTIONS
from muster.policy.operators.status import StatusDraft
from muster.policy.operators.steps import Report

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def _spec(compliance: str = "musthave", **config: str) -> OperatorPolicySpec:
    document = {
        "remediationAction": "inform",
        "complianceType": compliance,
        "upgradeApproval": "None",
        "subscription": {},
        "complianceConfig": config,
    }
    return msgspec.json.decode(orjson.dumps(document), type=OperatorPolicySpec)


def _all_well() -> list[Condition]:
    kinds = [conditions.condition(kind, "True", "Well", kind) for kind in conditions.TYPES if kind != "CatalogSource"]
    return [conditions.valid(), *kinds, conditions.condition("CatalogSource", "False", "Well", "CatalogSource")]


def test_messages_come_in_the_order_in_which_olm_needs_things() -> None:
    said = conditions.summary(_spec(), tuple(reversed(_all_well())))
    assert said.message == (
        "Compliant; the policy spec is valid, OperatorGroup, Subscription, InstallPlan, ClusterServiceVersion, "
        "CustomResourceDefinition, Deployment, CatalogSource"
    )
    assert (said.type, said.status, said.reason) == ("Compliant", "True", "Compliant")


@pytest.mark.parametrize("kind", ["ValidPolicySpec", *conditions.TYPES])
def test_a_policy_is_compliant_only_when_all_is_known_and_well(kind: str) -> None:
    name = conditions.TYPES.get(kind, kind)
    rest = tuple(one for one in _all_well() if one.type != name)
    assert conditions.summary(_spec(), rest).status == "False"
    for status in ("True", "False", "Unknown"):
        good = "False" if kind == "CatalogSource" else "True"
        changed = conditions.condition(name, status, "Changed", "the operator namespace is one of them")
        assert (conditions.summary(_spec(), (*rest, changed)).status == "True") == (status == good)


def test_a_spec_that_is_not_valid_is_all_that_is_said() -> None:
    found = (conditions.valid("name is required"), *_all_well()[1:])
    assert conditions.summary(_spec(), found).message == "NonCompliant; name is required"


def test_a_missing_namespace_is_said_beside_the_rest() -> None:
    found = (conditions.valid("the operator namespace ('x') does not exist"), *_all_well()[1:])
    said = conditions.summary(_spec(), found).message
    assert said.startswith("NonCompliant; the operator namespace ('x') does not exist, OperatorGroup, Subscription")


@pytest.mark.parametrize(
    ("config", "kind", "status", "expected"),
    [
        ({}, "NoDeprecations", "False", "Compliant"),
        ({"deprecationsPresent": "NonCompliant"}, "NoDeprecations", "False", "NonCompliant"),
        ({"deprecationsPresent": "NonCompliant"}, "NoDeprecations", "True", "Compliant"),
        ({}, "MinorChannelUpgradeAvailable", "False", "Compliant"),
        ({"minorChannelUpgradeAvailable": "NonCompliant"}, "MinorChannelUpgradeAvailable", "False", "NonCompliant"),
        ({"minorChannelUpgradeAvailable": "NonCompliant"}, "MinorChannelUpgradeAvailable", "True", "Compliant"),
    ],
)
def test_what_counts_only_by_configuration(config: dict[str, str], kind: str, status: Any, expected: str) -> None:
    found = (*_all_well(), conditions.condition(kind, status, "Judged", "told"))
    assert conditions.summary(_spec(**config), found).reason == expected
    assert conditions.summary(_spec("mustnothave", **config), found).reason == "Compliant"


def test_a_summary_is_cut_to_the_length_of_an_event() -> None:
    found = (conditions.valid("ü" * 5000),)
    message = conditions.summary(_spec(), found).message
    assert len(message.encode()) <= 4096
    assert message.endswith("...[truncated]")


def test_a_reason_that_is_none_is_replaced() -> None:
    assert conditions.condition("Subscription", "False", "", "x").reason == "Unknown"
    assert conditions.condition("Subscription", "False", "not a word", "x").reason == "Unknown"
    assert conditions.condition("Subscription", "False", "Word_2", "x").reason == "Word_2"


def _draft(base: OperatorPolicyStatus, generation: int = 1) -> StatusDraft:
    draft = StatusDraft(base, generation, _spec())
    found = {"metadata": {"name": "quay", "namespace": "n", "uid": "1"}}
    draft.put(Report(conditions.matches("Subscription"), (related.existing(SUBSCRIPTIONS, found, "Compliant", related.FOUND),)))
    return draft


def test_a_draft_that_says_the_same_is_the_status_of_before() -> None:
    status, messages = _draft(OperatorPolicyStatus()).finished(NOW, 10)
    assert messages == ["NonCompliant; the Subscription matches what is required by the policy"]
    again, none = _draft(status).finished(NOW + timedelta(hours=1), 10)
    assert (again, none) == (status, [])


def test_a_new_generation_is_told_although_nothing_else_is_new() -> None:
    status, _ = _draft(OperatorPolicyStatus()).finished(NOW, 10)
    again, messages = _draft(status, 2).finished(NOW + timedelta(hours=1), 10)
    assert len(messages) == 1
    assert again.observed_generation == 2
    assert again.history == status.history
    assert again.conditions == status.conditions


def test_what_the_policy_created_remains_so_while_it_is_the_same_object() -> None:
    draft = StatusDraft(OperatorPolicyStatus(), 1, _spec())
    for uid, created, expected in (("1", True, True), ("1", False, True), ("2", False, None)):
        found = {"metadata": {"name": "quay", "uid": uid}}
        said = related.existing(SUBSCRIPTIONS, found, "Compliant", related.FOUND, created=created)
        draft.put(Report(conditions.matches("Subscription"), (said,)))
        (known,) = draft.related_of("Subscription")
        assert known.properties is not None
        assert known.properties.created_by_policy is expected


def test_the_history_is_bounded_and_has_no_message_twice_in_a_row() -> None:
    status = OperatorPolicyStatus()
    for number in range(8):
        draft = StatusDraft(status, 1, _spec())
        draft.put(Report(conditions.valid(f"problem {number // 2}")))
        status, _ = draft.finished(NOW, 3)
    assert [one.message for one in status.history] == [f"NonCompliant; problem {number}" for number in (3, 2, 1)]
