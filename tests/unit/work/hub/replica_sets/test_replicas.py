"""How the work of a cluster fares, read from its conditions."""

import json
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from muster.api.work.v1 import ManifestWork
from muster.placement.rollout import Progress, State
from muster.work.hub.replica_sets.replicas import Replica, digest, is_ruled
from tests.unit.work.hub.conftest import spec, work


def at(second: int) -> str:
    return f"2026-01-01T00:00:{second:02}Z"


def moment(second: int) -> datetime:
    return datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC)


def condition(kind: str, status: str, second: int = 0, generation: int = 2) -> dict[str, Any]:
    return {"type": kind, "status": status, "reason": "R", "lastTransitionTime": at(second), "observedGeneration": generation}


def replica(*conditions: dict[str, Any], manifests: list[dict[str, Any]] | None = None) -> Replica:
    listed = [{"resourceMeta": {"ordinal": 0}, "conditions": [one]} for one in manifests or ()]
    status = {"conditions": list(conditions), "resourceStatus": {"manifests": listed}}
    return Replica.decode(orjson.dumps({**work(generation=2), "status": status}))


APPLIED = condition("Applied", "True", 1)


def test_what_an_agent_wrote_badly_is_left_out() -> None:
    status = {"conditions": [7, {**APPLIED, "observedGeneration": 2.0}, {"type": "X"}], "resourceStatus": "none"}
    found = Replica.decode(orjson.dumps({**work(generation=2), "status": status}))
    assert found.progress(ruled=False) == Progress(State.PROGRESSING, moment(1))


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ((), Progress(State.PENDING)),
        ((condition("Applied", "True", 1, generation=1),), Progress(State.PENDING)),
        ((condition("Applied", "False", 3),), Progress(State.FAILED, moment(3))),
        ((APPLIED,), Progress(State.PROGRESSING, moment(1))),
        ((APPLIED, condition("Available", "False", 5)), Progress(State.PROGRESSING, moment(1))),
        ((APPLIED, condition("Available", "True", 5, generation=1)), Progress(State.PROGRESSING, moment(1))),
        ((APPLIED, condition("Available", "True", 5)), Progress(State.SUCCEEDED, moment(5))),
        ((APPLIED, condition("Available", "True", 5), condition("Degraded", "True", 7)), Progress(State.FAILED, moment(7))),
        ((APPLIED, condition("Available", "True", 5), condition("Degraded", "False", 7)), Progress(State.SUCCEEDED, moment(5))),
    ],
)
def test_without_a_rule_it_has_succeeded_when_applied_and_available(conditions: Any, expected: Progress) -> None:
    assert replica(*conditions).progress(ruled=False) == expected


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ((APPLIED, condition("Available", "True")), Progress(State.PENDING)),
        ((APPLIED, condition("Progressing", "False", 4, generation=1)), Progress(State.PENDING)),
        ((condition("Applied", "False"), condition("Progressing", "False")), Progress(State.PENDING)),
        ((APPLIED, condition("Progressing", "True", 4)), Progress(State.PROGRESSING, moment(4))),
        ((APPLIED, condition("Progressing", "Unknown", 4)), Progress(State.PROGRESSING, moment(4))),
        ((APPLIED, condition("Progressing", "False", 4)), Progress(State.SUCCEEDED, moment(4))),
        ((APPLIED, condition("Progressing", "True", 4), condition("Degraded", "True", 6)), Progress(State.FAILED, moment(6))),
        (
            (APPLIED, condition("Progressing", "False", 4), condition("Degraded", "True", 6, generation=1)),
            Progress(State.PENDING),
        ),
    ],
)
def test_with_a_rule_progressing_decides(conditions: Any, expected: Progress) -> None:
    assert replica(*conditions).progress(ruled=True) == expected


def test_the_time_counts_from_when_this_generation_was_applied() -> None:
    """Conditions of the whole work keep their time while they stay True; those of manifests begin anew."""
    found = replica(APPLIED, condition("Available", "True", 2), manifests=[condition("Applied", "True", 30)])
    assert found.progress(ruled=False) == Progress(State.SUCCEEDED, moment(30))
    stale = replica(APPLIED, condition("Available", "True", 2), manifests=[condition("Applied", "True", 30, generation=1)])
    assert stale.progress(ruled=False) == Progress(State.SUCCEEDED, moment(2))


def test_a_digest_knows_no_order_of_keys_but_of_items() -> None:
    assert digest({"a": 1, "b": {"c": 2, "d": 3}}) == digest({"b": {"d": 3, "c": 2}, "a": 1})
    assert digest([1, 2]) != digest([2, 1])
    assert replica().digest == digest(spec())


def test_a_work_that_is_nested_more_deeply_than_any_template_is_read_as_another_one() -> None:
    deep: object = {}
    for _ in range(300):
        deep = {"a": deep}
    found = Replica.decode(json.dumps({"metadata": {"name": "w", "namespace": "c1"}, "spec": deep}).encode())
    assert found.digest != digest({})
    assert found.cluster == "c1"


def test_a_template_is_ruled_when_it_says_what_progressing_is() -> None:
    def rules(condition: str) -> ManifestWork:
        rule = {"type": "CEL", "condition": condition, "celExpressions": ["true"]}
        config = {"resourceIdentifier": {"resource": "configmaps", "name": "cm1"}, "conditionRules": [rule]}
        return ManifestWork.decode(work("w", spec(manifestConfigs=[config])))

    assert is_ruled(rules("Progressing").spec)
    assert not is_ruled(rules("Ready").spec)
