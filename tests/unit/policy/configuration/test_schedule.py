"""When a policy is evaluated: its interval, its state, its last evaluation, and at most once in so many seconds."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from muster.api.policy.v1 import ConfigurationPolicy, EvaluationInterval
from muster.machinery.golang.timestamps import format_time
from muster.policy.configuration.schedule import (
    EvaluationSlots,
    Interval,
    RateLimit,
    concerns_evaluation,
    interval_of,
    seconds_until_due,
)
from tests.support.fake_clock import FakeClock

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def made(
    compliant: str = "Compliant", *, ago: float = 0.0, metadata: dict[str, Any] | None = None, **spec: str
) -> ConfigurationPolicy:
    return ConfigurationPolicy.decode(
        {
            "metadata": {"name": "p", "namespace": "n", "uid": "u", "generation": 1, **(metadata or {})},
            "spec": {"remediationAction": "inform", "object-templates": [], "evaluationInterval": spec},
            "status": {
                "compliant": compliant,
                "lastEvaluated": format_time(NOW - timedelta(seconds=ago)),
                "lastEvaluatedGeneration": 1,
            },
        }
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", Interval(watch=True)),
        ("watch", Interval(watch=True)),
        ("never", Interval()),
        ("10s", Interval(seconds=10)),
        ("1h30m", Interval(seconds=5400)),
        ("0s", Interval(seconds=0)),
        ("100ms", Interval(seconds=0.1)),
        ("10swatch", Interval(seconds=10)),
    ],
)
def test_an_interval_is_read_as_go_reads_it_and_one_that_cannot_be_is_ten_seconds(text: str, expected: Interval) -> None:
    assert interval_of(EvaluationInterval(compliant=text), "Compliant") == expected
    assert interval_of(EvaluationInterval(noncompliant=text), "NonCompliant") == expected
    assert interval_of(EvaluationInterval(noncompliant=text), "") == expected, "who is not known to be compliant is not"


@pytest.mark.parametrize(
    ("policy", "seconds"),
    [
        (made(), 0),
        (made(ago=4), 0),
        (made("", ago=1, noncompliant="1h"), 0),
        (made("Terminating", noncompliant="1h"), 0),
        (made("NonCompliant", ago=10, noncompliant="never"), None),
        (made("NonCompliant", ago=10, noncompliant="1m"), 50),
        (made("NonCompliant", ago=70, noncompliant="1m"), 0),
        (made("NonCompliant", noncompliant="never", metadata={"generation": 2}), 0),
        (made("NonCompliant", noncompliant="never", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}), 0),
    ],
)
def test_how_long_a_policy_can_wait(policy: ConfigurationPolicy, seconds: float | None) -> None:
    assert seconds_until_due(policy, NOW) == seconds


def test_namespaces_that_changed_do_not_wait_for_an_interval() -> None:
    assert seconds_until_due(made("NonCompliant", noncompliant="never"), NOW, namespaces_changed=True) == 0


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("Hub template resolution failure", "the hub is away"),
        ("K8s update template error", "x timed out waiting for the object to delete during recreate, will retry"),
    ],
)
def test_what_is_about_to_heal_does_not_wait_for_an_interval(reason: str, message: str) -> None:
    document = made("NonCompliant", noncompliant="never").document()
    condition = {"type": "violation", "reason": reason, "message": message}
    document["status"]["compliancyDetails"] = [{"Compliant": "NonCompliant", "conditions": [condition]}]
    assert seconds_until_due(ConfigurationPolicy.decode(document), NOW) == 0
    condition["reason"] = "another"
    assert seconds_until_due(ConfigurationPolicy.decode(document), NOW) is None


IV = "policy.open-cluster-management.io/encryption-iv"


@pytest.mark.parametrize(
    ("change", "concerns"),
    [
        ({"resourceVersion": "2"}, False),
        ({"labels": {"a": "b"}}, False),
        ({"annotations": {"a": "b"}}, False),
        ({"generation": 2}, True),
        ({"uid": "other"}, True),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, True),
        ({"annotations": {IV: "x"}}, True),
        ({"annotations": {"policy.open-cluster-management.io/disable-templates": "true"}}, True),
        ({"annotations": {"policy.open-cluster-management.io/uninstalling": "true"}}, True),
    ],
)
def test_which_changes_of_a_policy_are_reason_to_evaluate_it(change: dict[str, Any], concerns: bool) -> None:
    assert concerns_evaluation(made(), made(metadata=change)) is concerns


def test_a_compliance_that_was_taken_away_is_reason_to_evaluate() -> None:
    assert concerns_evaluation(made("Compliant"), made(""))
    assert not concerns_evaluation(made(""), made("Compliant")), "the controller's own writes are none"
    assert concerns_evaluation(None, made())
    assert concerns_evaluation(made(), None)


async def test_an_evaluation_that_waits_for_long_keeps_nobody_from_a_turn() -> None:
    clock = FakeClock()
    turns = EvaluationSlots(1, seconds=1.0, clock=clock)
    begun: list[str] = []

    async def evaluate(name: str, end: asyncio.Event) -> None:
        async with turns.take():
            begun.append(name)
            await end.wait()

    ends = [asyncio.Event() for _ in range(3)]
    tasks = [asyncio.create_task(evaluate(str(number), end)) for number, end in enumerate(ends)]
    await clock.advance(0.5)
    assert begun == ["0"]
    await clock.advance(0.6)
    assert begun == ["0", "1"]
    ends[0].set()
    await clock.advance(0)
    assert begun == ["0", "1"], "a turn is given back once"
    ends[1].set()
    await clock.advance(0)
    assert begun == ["0", "1", "2"]
    ends[2].set()
    await asyncio.gather(*tasks)


async def test_a_policy_at_rest_has_a_token_and_only_one() -> None:
    clock = FakeClock()
    limit = RateLimit(5.0, clock=clock)
    assert limit.take("p") == 0
    assert limit.take("p") == 5
    assert limit.take("q") == 0
    await clock.advance(3)
    assert limit.take("p") == 2
    await clock.advance(60)
    assert limit.take("p") == 0
    assert limit.take("p") == 5, "rest is not saved up"
    limit.forget("p")
    assert limit.take("p") == 0
