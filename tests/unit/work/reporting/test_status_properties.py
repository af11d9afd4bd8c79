"""What holds of every status, whatever came of the manifests and whatever the status was before."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.api.work.v1 import ConditionRule, FeedbackRule, JsonPath, ManifestWorkStatus
from muster.work.agent.reporting import ManifestFailure, ManifestResult, Reporter
from tests.unit.work.reporting.builders import FIRST, LATER, complaints, invalid_manifest, manifest, work

names = st.sampled_from(["a", "b", "c"])
texts = st.sampled_from(["", "x", "ü" * 40000, "\x00"]) | st.text(max_size=5)
documents = st.dictionaries(
    st.sampled_from(["v", "w"]), st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts
)
json_paths = st.builds(JsonPath, name=names, path=st.sampled_from([".v", ".w", ".v[", ".x"]))
feedback_rules = st.builds(
    FeedbackRule,
    type=st.sampled_from(["WellKnownStatus", "JSONPaths"]),
    json_paths=st.lists(json_paths, max_size=2, unique_by=lambda path: path.name).map(tuple),
)
condition_rules = st.builds(
    ConditionRule,
    type=st.sampled_from(["CEL", "WellKnownConditions"]),
    condition=st.sampled_from(["Complete", "Available", "Progressing", "Applied", "not one", ""]),
    cel_expressions=st.lists(st.sampled_from(["true", "object.v", "object.v == 1", "oops("]), max_size=2).map(tuple),
    message=texts,
)
failures = st.none() | st.builds(ManifestFailure, reason=st.just("AppliedManifestFailed"), message=texts)


@st.composite
def passes(draw: st.DrawFn) -> list[ManifestResult]:
    outcomes: list[ManifestResult] = []
    for ordinal in range(draw(st.integers(0, 4))):
        failure = draw(failures)
        if draw(st.integers(0, 5)) == 0:
            outcomes.append(ManifestResult(invalid_manifest(ordinal, draw(texts)), failure=failure))
            continue
        subject = manifest(
            draw(names),
            ordinal=ordinal,
            feedback=draw(st.lists(feedback_rules, max_size=2)),
            conditions=draw(st.lists(condition_rules, max_size=2, unique_by=lambda rule: rule.condition)),
        )
        live: Any = draw(st.none() | documents)
        outcomes.append(ManifestResult(subject, failure=failure, live=live, unfetched=draw(st.sampled_from(["", "", "away"]))))
    return outcomes


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(passes(), st.integers(0, 1)), min_size=1, max_size=3), st.booleans())
def test_a_status_is_valid_in_the_order_of_the_spec_and_the_same_for_the_same(
    history: list[tuple[list[ManifestResult], int]], raw_json: bool
) -> None:
    reporter, status, generation = Reporter(raw_json), ManifestWorkStatus(), 1
    for outcomes, step in history:
        generation += step
        status = reporter.status(work(status, generation), outcomes, FIRST)
        assert complaints(status) == []
        assert [entry.resource_meta for entry in status.resource_status.manifests] == [outcome.meta for outcome in outcomes]
        assert reporter.status(work(status, generation), outcomes, LATER) is status
        applied = [condition.status for condition in status.conditions if condition.type == "Applied"]
        if outcomes:
            assert applied == ["False" if any(outcome.failure for outcome in outcomes) else "True"]
