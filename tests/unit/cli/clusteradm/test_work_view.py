"""How `clusteradm get works` shows works, whose status is as an agent reports it."""

from __future__ import annotations

import msgspec

from muster.administration.content.work_status import problem_of
from muster.api.resource import ObjectMeta
from muster.api.work.v1 import (
    ExecutorServiceAccount,
    ExecutorSubject,
    ManifestResourceStatus,
    ManifestsTemplate,
    ManifestWork,
    ManifestWorkExecutor,
    ManifestWorkSpec,
    ManifestWorkStatus,
)
from muster.cli.clusteradm.work.details import COLUMNS, MORE, work_item
from muster.cli.output import Listing, news, render
from muster.work.agent.interfaces import Refusal
from muster.work.agent.reporting import ManifestResult, Reporter, deleting, refused, unfit
from tests.unit.work.reporting.builders import DEPLOYMENTS, FIRST, applied, cel, invalid_manifest, manifest, paths, well_known

ACCOUNT = ExecutorServiceAccount(namespace="apps", name="deployer")
DENIED = refused(Refusal("not allowed to apply the resource  configmaps, app b,\nverb create"))


def work(*outcomes: ManifestResult, reported: int = 1, generation: int = 1) -> ManifestWork:
    spec = ManifestWorkSpec(
        workload=ManifestsTemplate(manifests=tuple(msgspec.Raw(b"{}") for _ in outcomes)),
        executor=ManifestWorkExecutor(subject=ExecutorSubject(type="ServiceAccount", service_account=ACCOUNT)),
    )
    at_first = ManifestWork(metadata=ObjectMeta(name="web", namespace="c1", generation=reported), spec=spec)
    status = Reporter().status(at_first, outcomes, FIRST) if outcomes else ManifestWorkStatus()
    now = msgspec.structs.replace(at_first.metadata, generation=generation)
    return msgspec.structs.replace(at_first, metadata=now, status=status)


def shown(one: ManifestWork, output: str, *, named: bool = False) -> str:
    return render(Listing("ManifestWork", COLUMNS, [work_item(one, {}, named=named)], MORE), output)


ALL_SORTS = (
    applied(manifest("a")),
    applied(manifest("web", ordinal=1, resource=DEPLOYMENTS, feedback=[well_known()]), {"status": {"readyReplicas": 2}}),
    ManifestResult(manifest("b", ordinal=2), failure=DENIED),
    ManifestResult(invalid_manifest(3), failure=unfit(invalid_manifest(3))),
    applied(manifest("d", ordinal=4, feedback=[paths(v=".v[")], conditions=[cel("Complete", "true")]), {}),
)


def test_a_list_has_one_line_for_each_work() -> None:
    header, row = shown(work(*ALL_SORTS), "table").splitlines()
    assert header.split("   ") == ["NAME", "CLUSTER", "NUMBER OF MANIFESTS", "APPLIED", "AVAILABLE"]
    assert row.split() == ["web", "c1", "5", "False", "False"]


def test_a_wide_list_says_as_whom_and_the_first_thing_that_is_wrong() -> None:
    header, row = shown(work(*ALL_SORTS), "wide").splitlines()
    assert header.endswith("EXECUTOR        PROBLEM")
    said = "configmaps app/b: not allowed to apply the resource configmaps, app b, verb create (and 1 more)"
    assert row.endswith(f"apps/deployer   {said}")


def test_a_tree_of_all_works_is_short() -> None:
    assert shown(work(*ALL_SORTS), "tree").splitlines() == [
        "<ManifestWork>",
        "└── <c1/web>",
        "    ├── <Cluster> c1",
        "    ├── <Number of Manifests> 5",
        "    ├── <Applied> False",
        "    ├── <Available> False",
        "    └── <Resources>",
        "        ├── <configmaps>",
        "        │   ├── <app/a> applied",
        "        │   ├── <app/b> not-applied",
        "        │   └── <app/d> applied",
        "        ├── <deployments.apps>",
        "        │   └── <app/web> applied",
        "        └── <Odd.x>",
        "            └── <o> not-applied",
    ]


def test_a_work_asked_for_by_name_tells_what_failed_and_why_and_what_was_reported_back() -> None:
    denial = "Failed to apply manifest: not allowed to apply the resource configmaps, app b, verb create"
    unparsable = "Sync status feedback failed with error failed to parse json path .v[ of v with error: unterminated array"
    assert shown(work(*ALL_SORTS), "tree", named=True).splitlines() == [
        "<ManifestWork>",
        "└── <c1/web>",
        "    ├── <Cluster> c1",
        "    ├── <Number of Manifests> 5",
        "    ├── <Applied> False: AppliedManifestWorkFailed: Failed to apply manifest work",
        "    ├── <Available> False: ResourcesNotAvailable: 1 of 5 resources are not available",
        "    ├── <Executor> apps/deployer",
        "    ├── <Complete> True: ConditionRulesAggregated: Manifest is Complete",
        "    └── <Resources>",
        "        ├── <configmaps>",
        "        │   ├── <app/a> applied",
        "        │   ├── <app/b> not-applied",
        f"        │   │   ├── <Applied> False: AppliedManifestFailed: {denial}",
        "        │   │   └── <Available> False: ResourceNotAvailable: Resource is not available",
        "        │   └── <app/d> applied",
        f"        │       ├── <StatusFeedbackSynced> False: StatusFeedbackSyncFailed: {unparsable}",
        "        │       └── <Complete> True: ConditionRuleEvaluated: Manifest is Complete",
        "        ├── <deployments.apps>",
        "        │   └── <app/web> applied",
        "        │       └── <Feedback>",
        "        │           └── <ReadyReplicas> 2",
        "        └── <Odd.x>",
        "            └── <o> not-applied",
        "                ├── <Applied> False: AppliedManifestFailed: Failed to apply manifest: no such kind",
        "                └── <Available> Unknown: IncompleteResourceMeta: Resource meta is incomplete",
    ]


def test_a_work_nobody_has_dealt_with_says_so() -> None:
    assert problem_of(work()) == "the cluster's agent has not dealt with it yet"
    assert "<Applied> Unknown: the cluster's agent has not dealt with it yet" in shown(work(), "tree", named=True)


def test_what_was_said_of_an_earlier_generation_is_told_as_that() -> None:
    old = work(applied(), generation=2)
    assert problem_of(old) == "the cluster's agent has not dealt with it yet"
    assert "<Applied> True (of an earlier generation: " in shown(old, "tree", named=True)


def test_a_work_that_is_as_it_should_be_has_no_problem() -> None:
    assert problem_of(work(applied())) == ""


def test_a_work_of_which_only_the_whole_is_told_has_that_for_a_problem() -> None:
    one = work(ManifestResult(manifest("a"), failure=DENIED))
    bare = msgspec.structs.replace(one, status=msgspec.structs.replace(one.status, resource_status=ManifestResourceStatus()))
    assert problem_of(bare) == "Applied is False: AppliedManifestWorkFailed: Failed to apply manifest work"


def test_what_is_not_allowed_is_told_before_what_waits_for_it() -> None:
    waits = refused(Refusal("withheld because manifest 1 (configmaps app/b) of the work is not allowed", withheld=True))
    told = problem_of(work(ManifestResult(manifest("a"), failure=waits), ManifestResult(manifest("b", ordinal=1), failure=DENIED)))
    assert told == "configmaps app/b: not allowed to apply the resource configmaps, app b, verb create (and 1 more)"


def test_an_object_that_is_missing_is_a_problem() -> None:
    assert problem_of(work(ManifestResult(manifest("a")))) == "configmaps app/a: Resource is not available"


def test_a_work_that_goes_tells_what_it_waits_for() -> None:
    going = work(applied())
    going = msgspec.structs.replace(going, status=deleting(going, ["configmaps app/a"], FIRST))
    assert problem_of(going) == "ManifestWork is being deleted, waiting for configmaps app/a"
    assert "<Deleting> True: WorkDeleting: ManifestWork is being deleted" in shown(going, "tree", named=True)


def test_a_named_work_that_is_watched_goes_on_with_what_changed_in_it() -> None:
    def listing(*works: ManifestWork) -> Listing:
        return Listing("ManifestWork", COLUMNS, [work_item(one, {}, named=True) for one in works], MORE)

    good, bad = work(applied(manifest("a"))), work(ManifestResult(manifest("a"), failure=DENIED))
    assert news(listing(good), listing(good), "tree") == ""
    assert "<Applied> False: AppliedManifestFailed: Failed to apply manifest: not allowed" in news(
        listing(good), listing(bad), "tree"
    )
    assert news(listing(good), listing(), "tree").splitlines() == ["<ManifestWork>", "└── <c1/web (deleted)>"]
    assert news(listing(good), listing(bad), "table").split() == ["web", "c1", "1", "False", "False"]
