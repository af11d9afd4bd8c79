"""How outcomes become the status of a work, and what of the former status stays."""

from __future__ import annotations

import msgspec
import pytest

from muster.api.meta import Condition
from muster.api.work.v1 import ManifestCondition, ManifestResourceMeta, ManifestWorkStatus
from muster.runtime.client.errors import Invalid, Unreachable
from muster.work.agent.interfaces import ApplyProblem, InvalidManifest, Refusal
from muster.work.agent.reporting import ManifestFailure, ManifestResult, Reporter, deleting, failed, refused, unfit
from tests.unit.work.reporting.builders import (
    FIRST,
    LATER,
    applied,
    cel,
    complaints,
    invalid_manifest,
    manifest,
    paths,
    said,
    values,
    work,
)

REFUSED = refused(Refusal("not allowed"))


def reported(
    *outcomes: ManifestResult, old: ManifestWorkStatus | None = None, generation: int = 1, now: str = FIRST
) -> ManifestWorkStatus:
    status = Reporter().status(work(old, generation), outcomes, now)
    assert complaints(status) == []
    assert Reporter().status(work(status, generation), outcomes, LATER) is status
    return status


def entry(status: ManifestWorkStatus, place: int = 0) -> ManifestCondition:
    return status.resource_status.manifests[place]


def brief(condition: Condition) -> tuple[str, str, str]:
    return condition.status, condition.reason, condition.message


# Manifests -------------------------------------------------------------------------------------------------------------------


def test_an_applied_manifest_is_applied_and_available() -> None:
    one = entry(reported(applied()))
    assert brief(said(one, "Applied")) == ("True", "AppliedManifestComplete", "Apply manifest complete")
    assert brief(said(one, "Available")) == ("True", "ResourceAvailable", "Resource is available")
    assert brief(said(one, "StatusFeedbackSynced")) == ("True", "NoStatusFeedbackSynced", "")
    assert said(one, "Applied").observed_generation == 1
    assert said(one, "Available").observed_generation == 0
    assert one.resource_meta == ManifestResourceMeta(
        ordinal=0, group="", version="v1", kind="ConfigMap", resource="configmaps", name="a", namespace="app"
    )


@pytest.mark.parametrize(
    ("failure", "reason", "message"),
    [
        (REFUSED, "AppliedManifestFailed", "Failed to apply manifest: not allowed"),
        (unfit(invalid_manifest()), "AppliedManifestFailed", "Failed to apply manifest: no such kind"),
        (failed(Invalid(422, "Invalid", "data is wrong")), "AppliedManifestFailed", "Failed to apply manifest: data is wrong"),
        (failed(Unreachable("https://x", "refused")), "AppliedManifestFailed", "Failed to apply manifest: https://x: refused"),
        (failed(ApplyProblem("ApplyConflict", "field is owned")), "ApplyConflict", "Failed to apply manifest: field is owned"),
        (
            failed(ApplyProblem("AppliedManifestSSAIgnoreFieldError", "Failed to process ignoreFields: odd")),
            "AppliedManifestSSAIgnoreFieldError",
            "Failed to process ignoreFields: odd",
        ),
        (failed(TimeoutError()), "AppliedManifestFailed", "Failed to apply manifest: TimeoutError"),
    ],
)
def test_a_manifest_that_is_not_applied_says_why(failure: ManifestFailure, reason: str, message: str) -> None:
    status = reported(ManifestResult(manifest(), failure=failure))
    assert brief(said(entry(status), "Applied")) == ("False", reason, message)
    assert brief(said(status, "Applied")) == ("False", "AppliedManifestWorkFailed", "Failed to apply manifest work")


def test_a_manifest_that_was_refused_may_be_available_from_before() -> None:
    status = reported(applied(failure=REFUSED))
    assert said(entry(status), "Applied").status == "False"
    assert said(status, "Available").status == "True"


def test_of_an_object_that_the_executor_may_not_read_only_its_being_there_is_told() -> None:
    asking = manifest(feedback=(paths(secret=".data.x"),), conditions=(cel("Told", "true", message_expression="object.data.x"),))
    live = {"metadata": {"name": "a"}, "data": {"x": "old"}}
    hidden = ManifestResult(asking, REFUSED, live={**live, "data": {"x": "new"}}, hidden="robot may not get it")
    status = reported(hidden)
    assert values(entry(status)) == {}
    assert [one.type for one in entry(status).conditions] == ["Applied", "Available", "StatusFeedbackSynced"]
    assert said(entry(status), "Available").status == "True"
    problem = ("False", "StatusFeedbackSyncFailed", "Sync status feedback failed with error robot may not get it")
    assert brief(said(entry(status), "StatusFeedbackSynced")) == problem

    before = reported(applied(asking, live))
    after = entry(reported(hidden, old=before))
    assert values(after) == {"secret": "old"}
    assert said(after, "Told").message == "old"
    assert brief(said(after, "StatusFeedbackSynced")) == problem


def test_whether_an_object_is_available_by_a_rule_is_not_known_while_it_may_not_be_read() -> None:
    asking = manifest(conditions=(cel("Available", "object.data.x == 'old'"),))
    status = reported(ManifestResult(asking, REFUSED, live={"data": {"x": "old"}}, hidden="robot may not get it"))
    assert brief(said(entry(status), "Available")) == (
        "Unknown",
        "FetchingResourceFailed",
        "Failed to fetch resource: robot may not get it",
    )


def test_an_absent_object_is_not_available() -> None:
    status = reported(ManifestResult(manifest()))
    assert brief(said(entry(status), "Available")) == ("False", "ResourceNotAvailable", "Resource is not available")
    assert all(one.type != "StatusFeedbackSynced" for one in entry(status).conditions)


def test_an_object_that_cannot_be_read_is_unknown() -> None:
    status = reported(ManifestResult(manifest(), unfetched="timed out"))
    assert brief(said(entry(status), "Available")) == ("Unknown", "FetchingResourceFailed", "Failed to fetch resource: timed out")


def test_a_manifest_of_an_unserved_kind_is_unknown() -> None:
    subject = invalid_manifest()
    status = reported(ManifestResult(subject, failure=unfit(subject)))
    assert brief(said(entry(status), "Available")) == ("Unknown", "IncompleteResourceMeta", "Resource meta is incomplete")


def test_a_manifest_that_can_be_no_object_of_the_cluster_is_not_available() -> None:
    meta = ManifestResourceMeta(ordinal=0, version="v1", kind="Pod", resource="pods", name="p")
    subject = InvalidManifest(meta, "metadata.namespace is missing", nowhere=True)
    status = reported(ManifestResult(subject, failure=unfit(subject)))
    assert brief(said(entry(status), "Available")) == ("False", "ResourceNotAvailable", "Resource is not available")
    assert said(status, "Available").status == "False"


def test_a_misfit_of_a_served_kind_says_what_is_wrong_with_it() -> None:
    meta = ManifestResourceMeta(ordinal=1, version="v1", kind="Pod", resource="pods", name="p")
    subject = InvalidManifest(meta, "manifest 0 is about the same object")
    status = reported(ManifestResult(subject, failure=unfit(subject)))
    expected = ("Unknown", "FetchingResourceFailed", "Failed to fetch resource: manifest 0 is about the same object")
    assert brief(said(entry(status), "Available")) == expected


# The whole -------------------------------------------------------------------------------------------------------------------


def test_a_work_is_applied_and_available_when_all_is() -> None:
    status = reported(applied(manifest("a")), applied(manifest("b", ordinal=1)), generation=3)
    assert brief(said(status, "Applied")) == ("True", "AppliedManifestWorkComplete", "Apply manifest work complete")
    assert brief(said(status, "Available")) == ("True", "ResourcesAvailable", "All resources are available")
    assert {one.observed_generation for one in status.conditions} == {3}


def test_an_absent_object_outweighs_one_that_is_unknown() -> None:
    outcomes = [applied(), ManifestResult(manifest("b", ordinal=1), unfetched="x"), ManifestResult(manifest("c", ordinal=2))]
    status = reported(*outcomes)
    assert brief(said(status, "Available")) == ("False", "ResourcesNotAvailable", "1 of 3 resources are not available")
    status = reported(*outcomes[:2])
    assert brief(said(status, "Available")) == ("Unknown", "ResourcesStatusUnknown", "1 of 2 resources have unknown status")


def test_a_work_without_manifests_has_nothing_that_is_available() -> None:
    status = reported()
    assert [one.type for one in status.conditions] == ["Available"]
    assert brief(said(status, "Available")) == ("Unknown", "ResourcesStatusUnknown", "cannot get any available resource ")


def test_conditions_of_others_stay() -> None:
    foreign = Condition(type="Reviewed", status="True", reason="ByHand", last_transition_time=FIRST)
    status = reported(applied(), old=ManifestWorkStatus(conditions=(foreign,)))
    assert said(status, "Reviewed") == foreign


def test_a_message_is_cut_where_the_hub_would_refuse_it() -> None:
    long = ManifestFailure("AppliedManifestFailed", "x" * 100_000)
    status = reported(ManifestResult(manifest(), failure=long))
    assert len(said(entry(status), "Applied").message) == 32768
    many = reported(*(ManifestResult(manifest(str(place), ordinal=place), failure=long) for place in range(2000)))
    assert sum(len(said(one, "Applied").message) for one in many.resource_status.manifests) <= 1024 * 1024


# What stays ------------------------------------------------------------------------------------------------------------------


def test_nothing_new_is_the_very_status() -> None:
    outcomes = [
        applied(),
        ManifestResult(manifest("b", ordinal=1)),
        ManifestResult(invalid_manifest(2), failure=unfit(invalid_manifest(2))),
    ]
    status = reported(*outcomes)
    assert Reporter().status(work(status), outcomes, LATER) is status


def test_a_time_moves_only_with_the_status() -> None:
    before = reported(ManifestResult(manifest(), failure=REFUSED))
    after = reported(ManifestResult(manifest(), failure=ManifestFailure("Other", "otherwise")), old=before, now=LATER)
    assert said(entry(after), "Applied").last_transition_time == FIRST
    assert said(entry(after), "Applied").message == "otherwise"
    fine = reported(applied(), old=after, now=LATER)
    assert said(entry(fine), "Applied").last_transition_time == LATER
    assert said(fine, "Applied").last_transition_time == LATER


def test_a_new_generation_restarts_the_time_of_applied_of_the_manifest_but_not_of_the_work() -> None:
    before = reported(applied())
    after = reported(applied(), old=before, generation=2, now=LATER)
    assert said(entry(after), "Applied").last_transition_time == LATER
    assert said(entry(after), "Available").last_transition_time == FIRST
    assert said(after, "Applied").last_transition_time == FIRST
    assert said(after, "Applied").observed_generation == 2


def test_new_values_restart_the_time_of_feedback() -> None:
    subject = manifest(feedback=[paths(v=".v")])
    before = reported(applied(subject, {"v": 1}))
    same = reported(applied(subject, {"v": 1, "w": 2}), old=before, now=LATER)
    assert said(entry(same), "StatusFeedbackSynced").last_transition_time == FIRST
    after = reported(applied(subject, {"v": 2}), old=same, now=LATER)
    assert said(entry(after), "StatusFeedbackSynced").last_transition_time == LATER
    assert values(entry(after)) == {"v": 2}


def test_values_of_an_object_that_is_gone_or_unreadable_stay() -> None:
    subject = manifest(feedback=[paths(v=".v")])
    before = reported(applied(subject, {"v": 1}))
    for outcome in (ManifestResult(subject), ManifestResult(subject, unfetched="x")):
        after = reported(outcome, old=before, now=LATER)
        assert values(entry(after)) == {"v": 1}
        assert said(entry(after), "StatusFeedbackSynced") == said(entry(before), "StatusFeedbackSynced")


def test_a_manifest_that_moved_within_the_spec_keeps_its_history() -> None:
    before = reported(applied(manifest("a")), applied(manifest("b", ordinal=1)))
    after = reported(applied(manifest("b", ordinal=0)), old=before, now=LATER)
    assert [one.resource_meta.name for one in after.resource_status.manifests] == ["b"]
    assert said(entry(after), "Applied").last_transition_time == FIRST


def test_manifests_that_cannot_be_told_apart_start_anew_when_they_move() -> None:
    before = reported(applied(manifest("a")), applied(manifest("a", ordinal=1)))
    after = reported(applied(manifest("a", ordinal=2)), old=before, now=LATER)
    assert said(entry(after), "Applied").last_transition_time == LATER


def test_manifests_that_could_not_be_read_are_told_apart_by_their_place_only() -> None:
    unreadable = InvalidManifest(ManifestResourceMeta(ordinal=1), "not an object")
    before = reported(applied(), ManifestResult(unreadable, failure=unfit(unreadable)))
    moved = InvalidManifest(ManifestResourceMeta(ordinal=0), "not an object")
    after = reported(ManifestResult(moved, failure=unfit(moved)), old=before, now=LATER)
    assert said(entry(after), "Applied").last_transition_time == LATER


# Rules -----------------------------------------------------------------------------------------------------------------------


def test_a_rule_condition_shows_on_manifest_and_work() -> None:
    subject = manifest(conditions=[cel("Ready", "object.v == 1", message="as said")])
    status = reported(applied(subject, {"v": 1}), generation=2)
    assert brief(said(entry(status), "Ready")) == ("True", "ConditionRuleEvaluated", "as said")
    assert said(entry(status), "Ready").observed_generation == 2
    assert brief(said(status, "Ready")) == ("True", "ConditionRulesAggregated", "as said")
    assert said(status, "Ready").observed_generation == 2


@pytest.mark.parametrize(
    ("kind", "held", "expected"),
    [
        ("Ready", ["true", "false"], "False"),
        ("Ready", ["true", "true"], "True"),
        ("Progressing", ["true", "false"], "True"),
        ("Progressing", ["false", "false"], "False"),
    ],
)
def test_one_manifest_that_is_not_so_makes_the_work_not_so_but_for_progressing(kind: str, held: list[str], expected: str) -> None:
    outcomes = [applied(manifest(str(place), ordinal=place, conditions=[cel(kind, text)]), {}) for place, text in enumerate(held)]
    status = reported(*outcomes)
    assert brief(said(status, kind)) == (expected, "ConditionRulesAggregated", "Aggregated from 2 manifest conditions")


def test_conditions_of_rules_that_are_gone_go() -> None:
    before = reported(applied(manifest(conditions=[cel("Ready", "true"), cel("Fine", "true")]), {}))
    after = reported(applied(manifest(conditions=[cel("Fine", "true")]), {}), old=before, generation=2)
    assert {one.type for one in entry(after).conditions} == {"Applied", "Available", "StatusFeedbackSynced", "Fine"}
    assert {one.type for one in after.conditions} == {"Applied", "Available", "Fine"}
    absent = reported(ManifestResult(manifest(conditions=[cel("Fine", "true")])), old=before, generation=2)
    assert {one.type for one in absent.conditions} == {"Applied", "Available", "Fine"}


def test_a_finished_object_that_is_gone_stays_complete() -> None:
    subject = manifest(conditions=[cel("Complete", "true")])
    before = reported(applied(subject, {}))
    after = reported(ManifestResult(subject), old=before, now=LATER)
    assert said(after, "Complete") == said(before, "Complete")
    assert said(after, "Available").status == "False"


def test_a_work_is_not_complete_in_a_generation_in_which_nothing_was_looked_at() -> None:
    subject = manifest(conditions=[cel("Complete", "true")])
    before = reported(applied(subject, {}))
    after = reported(ManifestResult(subject, failure=REFUSED), old=before, generation=2, now=LATER)
    assert said(after, "Complete").observed_generation == 1
    assert said(after, "Applied").observed_generation == 2


def test_a_rule_may_say_when_an_object_is_available() -> None:
    subject = manifest(conditions=[cel("Available", "object.ready")])
    status = reported(applied(subject, {"ready": False}))
    assert brief(said(entry(status), "Available")) == ("False", "ConditionRuleEvaluated", "Manifest is not Available")
    assert brief(said(status, "Available")) == ("False", "ResourcesNotAvailable", "1 of 1 resources are not available")
    gone = reported(ManifestResult(subject), old=status)
    assert said(entry(gone), "Available").reason == "ResourceNotAvailable"
    freed = reported(applied(), old=status)
    assert said(entry(freed), "Available").reason == "ResourceAvailable"


def test_a_rule_that_cannot_be_is_named_where_a_user_looks() -> None:
    status = reported(applied(manifest(conditions=[cel("Applied", "false")]), {}))
    synced = said(entry(status), "StatusFeedbackSynced")
    assert synced.status == "False"
    assert "no condition rule can set a condition 'Applied'" in synced.message
    assert said(entry(status), "Applied").status == "True"


# Deletion --------------------------------------------------------------------------------------------------------------------


def test_a_work_that_goes_says_what_it_waits_for() -> None:
    before = msgspec.structs.replace(work(reported(applied()), 4))
    status = deleting(before, [], FIRST)
    assert brief(said(status, "Deleting")) == ("True", "WorkDeleting", "ManifestWork is being deleted")
    assert said(status, "Deleting").observed_generation == 4
    assert said(status, "Applied").status == "True"
    waiting = deleting(work(status, 4), [f"configmaps app/c{number}" for number in range(12)], LATER)
    assert said(waiting, "Deleting").message.startswith("ManifestWork is being deleted, waiting for configmaps app/c0, ")
    assert said(waiting, "Deleting").message.endswith("configmaps app/c9 and 2 more")
    assert said(waiting, "Deleting").last_transition_time == FIRST
    assert deleting(work(waiting, 4), [f"configmaps app/c{number}" for number in range(12)], LATER) is waiting
