"""What policies tell of themselves: how long, how often, to whom."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from muster.api.policy.v1 import ConfigurationPolicyStatus, HistoryEvent, PolicyCondition, TemplateStatus
from muster.policy.configuration.messages import default_message, policy_message
from muster.policy.reporter import MESSAGE_BYTES, truncated, with_message

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@given(st.text(max_size=3000))
def test_a_message_is_whole_or_ends_where_it_was_cut(text: str) -> None:
    for message in (text, text * 5):
        cut = truncated(message)
        assert len(cut.encode()) <= MESSAGE_BYTES
        if cut != message:
            assert cut.endswith("...[truncated]")
            assert message.startswith(cut.removesuffix("...[truncated]"))
            assert len(message.encode()) > MESSAGE_BYTES


def test_a_history_is_as_long_as_it_may_be_newest_first() -> None:
    history: tuple[HistoryEvent, ...] = ()
    for number in range(15):
        history = with_message(history, str(number), NOW)
    assert [one.message for one in history] == [str(number) for number in range(14, 4, -1)]
    assert history[0].last_timestamp == "2026-01-01T00:00:00.000000Z"
    assert len(with_message(history, "x", NOW, length=3)) == 3


def status(compliant: str, *messages: str | None) -> ConfigurationPolicyStatus:
    details = tuple(
        TemplateStatus(compliant=compliant, conditions=() if one is None else (PolicyCondition(type="violation", message=one),))
        for one in messages
    )
    return ConfigurationPolicyStatus(compliant=compliant, compliancy_details=details)


def test_the_default_message_has_a_segment_for_each_template() -> None:
    assert default_message(status("NonCompliant", "a", "b")) == "NonCompliant; violation - a; violation - b"
    assert default_message(status("")) == "ComplianceState is still unknown"
    assert default_message(status("NonCompliant", "a", None)) == "NonCompliant"


def test_a_custom_message_gets_the_state_it_needs() -> None:
    policy = {"metadata": {"name": "p"}, "spec": {"customMessage": {"noncompliant": "{{ .Policy.metadata.name | upper }}"}}}
    assert policy_message(policy, status("NonCompliant", "a")) == "NonCompliant; P"
    assert policy_message(policy, status("Compliant", "a")) == "Compliant; violation - a", "there is none for this state"
    policy["spec"]["customMessage"]["noncompliant"] = "NonCompliant; {{ len .Policy.status.compliancyDetails }}"  # type: ignore[index]
    assert policy_message(policy, status("NonCompliant", "a")) == "NonCompliant; 1"


def test_a_custom_message_that_fails_costs_nothing_but_itself() -> None:
    policy = {"metadata": {}, "spec": {"customMessage": {"noncompliant": "{{ .Policy.spec.a.b.c | fail }}"}}}
    message = policy_message(policy, status("NonCompliant", "a"))
    assert message.startswith(
        "NonCompliant; violation - a (failure processing the custom message: failed to execute: template: custom-msg:"
    )
