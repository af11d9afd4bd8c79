"""Decisions about OLM's objects that no server is needed for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.policy.v1beta1 import OperatorPolicySpec
from muster.machinery.objects import Object, ObjectKey
from muster.policy.operators import deployments, install_plan, operator_group, subscription
from muster.policy.operators.desired import desired_operator_group, desired_subscription
from muster.policy.operators.drift import merged_object
from muster.policy.operators.go_fields import OPERATOR_GROUP_SPEC, SUBSCRIPTION_SPEC, FieldError, read_struct
from muster.policy.operators.kinds import subscription_label
from muster.policy.operators.overlap import parse_policies
from muster.policy.operators.package_manifest import newer_channels
from muster.policy.operators.policy import ResolvedPolicy, canonical_versions

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def _policy(versions: tuple[str, ...] = (), starting: str = "", **spec: Any) -> ResolvedPolicy:
    document = {"remediationAction": "enforce", "complianceType": "musthave", "upgradeApproval": "None", "subscription": {}}
    return ResolvedPolicy(
        ObjectKey("ns", "p"), msgspec.json.decode(orjson.dumps(document | spec), type=OperatorPolicySpec), versions, starting
    )


def _subscription(current: str = "", installed: str = "") -> Object:
    status = {"currentCSV": current, "installedCSV": installed}
    return {"metadata": {"name": "quay", "namespace": "n"}, "spec": {"name": "quay-package"}, "status": status}


def _plan(name: str, generation: int, *csvs: str, phase: str = "RequiresApproval", **status: Any) -> Object:
    spec = {"clusterServiceVersionNames": list(csvs), "generation": generation, "approved": False}
    return {"metadata": {"name": name}, "spec": spec, "status": {"phase": phase, **status}}


@pytest.mark.parametrize(
    ("plans", "chosen"),
    [
        ([], None),
        ([_plan("other", 1, "x")], None),
        ([_plan("one", 1, "v2"), _plan("two", 2, "v2")], "two"),
        ([_plan("two", 2, "v2"), _plan("one", 1, "v2")], "two"),
        ([_plan("old", 1, "v1", phase="Complete"), _plan("new", 2, "v2")], "new"),
        ([_plan("done", 1, "v2", phase="Complete"), _plan("again", 2, "v2")], "done"),
        ([_plan("busy", 1, "v2", phase="Installing"), _plan("again", 2, "v2")], "busy"),
        ([_plan("failed", 1, "v2", phase="Failed"), _plan("again", 2, "v2")], "again"),
        ([{"metadata": {"name": "broken"}, "spec": None}, _plan("one", 1, "v1")], "one"),
        ([{"metadata": {"name": "undated"}, "spec": {"clusterServiceVersionNames": ["v2"]}}], None),
    ],
)
def test_the_latest_plan_counts_unless_an_earlier_one_installs_already(plans: list[Object], chosen: str | None) -> None:
    found = install_plan.choose(plans, _subscription("v2", "v1"))
    assert (found and found["metadata"]["name"]) == chosen


def test_a_plan_of_another_operator_is_nobodys_before_olm_has_said_anything() -> None:
    assert install_plan.choose([_plan("one", 1, "")], _subscription()) is None


@pytest.mark.parametrize(
    ("plan", "current", "installed", "reason"),
    [
        (_plan("p", 1, "v1", phase="Complete"), "v1", "v1", "NoInstallPlansRequiringApproval"),
        (_plan("p", 1, "v1", phase=""), "v1", "", "NoInstallPlansRequiringApproval"),
        (_plan("p", 1, "v1"), "v1", "v1", "NoInstallPlansRequiringApproval"),
        (_plan("p", 1, "v1", phase="Installing"), "v1", "", "InstallPlansInstalling"),
        (_plan("p", 1, "v1", phase="Failed"), "v1", "", "InstallPlanFailed"),
        (_plan("p", 1, "v1", "w1", phase="Failed", plan=[{"resolving": "w1", "status": "Unknown"}]), "v1", "", "NoInstall…"),
        (_plan("p", 1, "v1", "w1", phase="Failed", plan=[{"resolving": "v1", "status": "Present"}]), "v1", "", "NoInstall…"),
        (_plan("p", 1, "v1", "w1", phase="Failed", plan=[{"resolving": "v1", "status": "Unknown"}]), "v1", "", "InstallPlanFailed"),
        (_plan("p", 2, "v2"), "v2", "v1", "InstallPlanRequiresApproval"),
        (_plan("p", 1, "v1"), "v1", "", None),
    ],
)
def test_what_is_said_of_a_plan(plan: Object, current: str, installed: str, reason: str | None) -> None:
    said = install_plan.evaluate(_policy(), _subscription(current, installed), plan)
    assert (said and said.condition.reason) == ("NoInstallPlansRequiringApproval" if reason == "NoInstall…" else reason)


def test_a_plan_that_is_approved_and_has_not_begun_is_approved() -> None:
    plan = _plan("p", 1, "v1")
    plan["spec"]["approved"] = True
    said = install_plan.evaluate(_policy(), _subscription("v1"), plan)
    assert said is not None
    assert said.condition.message == "the InstallPlan for v1 was approved"


def _lookup(csv: str, package: str, *required: str) -> Object:
    properties = [{"type": "olm.package", "value": {"packageName": package}}]
    properties += [{"type": "olm.package.required", "value": {"packageName": name}} for name in required]
    return {"identifier": csv, "properties": orjson.dumps({"properties": properties}).decode()}


def test_requirements_are_followed_over_all_steps_and_in_circles() -> None:
    lookups = [_lookup("a.v1", "a", "b"), _lookup("b.v1", "b", "c", "elsewhere"), _lookup("c.v1", "c", "a"), _lookup("d.v1", "d")]
    plan = _plan("p", 1, "a.v1", "b.v1", "c.v1", "d.v1", bundleLookups=lookups)
    assert install_plan.required_by(plan, "a.v1") == {"a.v1", "b.v1", "c.v1"}
    assert install_plan.required_by(plan, "d.v1") == {"d.v1"}


@pytest.mark.parametrize("properties", ["{", "[]", '{"properties": 3}', '{"properties": [3, {"type": "olm.package"}]}', ""])
def test_properties_that_cannot_be_read_approve_nothing_more(properties: str) -> None:
    plan = _plan("p", 1, "a", "b", bundleLookups=[{"identifier": "a", "properties": properties}, 7])
    assert install_plan.required_by(plan, "a") == {"a"}


@pytest.mark.parametrize(
    ("policy", "current", "installed", "approved"),
    [
        (_policy(), "v1", "", {"v1"}),
        (_policy(), "", "", set()),
        (_policy(), "v2", "v1", set()),
        (_policy(upgradeApproval="Automatic"), "v2", "v1", {"v2"}),
        (_policy(("v1",)), "v1", "", {"v1"}),
        (_policy(("v1",)), "v2", "", set()),
        (_policy(("v1",), "v2"), "v2", "", {"v2"}),
        (_policy(remediationAction="inform"), "v1", "", set()),
        (_policy(remediationAction="Enforce"), "v1", "", {"v1"}),
    ],
)
def test_which_versions_a_policy_approves(policy: ResolvedPolicy, current: str, installed: str, approved: set[str]) -> None:
    plan = _plan("p", 1, current, "other")
    assert install_plan.approved_by(policy, _subscription(current, installed), plan) == approved


@pytest.mark.parametrize(
    ("message", "is_named"),
    [
        ("no operators found from catalog c in namespace o referenced by subscription quay", True),
        ("no operators found from catalog c in namespace o referenced by subscription quay-pro", False),
        ("no operators found in package quay-package in the catalog referenced by subscription x", True),
        ("no operators found in package quay-package-pro in the catalog referenced by subscription x", False),
        ("multiple name matches for status.installedCSV of subscription n/quay: v1", True),
        ("multiple name matches for status.installedCSV of subscription m/quay: v1", False),
        ("subscription quay, subscription x", True),
        ("", False),
    ],
)
def test_a_failure_counts_for_the_subscription_that_it_names(message: str, is_named: bool) -> None:
    failure = {"reason": "ConstraintsNotSatisfiable", "message": message}
    found = subscription.evaluate_failure(_subscription(), failure, reported=True, intervention=None, now=NOW)
    assert (found.report is not None) == is_named


def test_another_failure_is_told_as_it_is() -> None:
    failure = {"reason": "ErrorPreventedResolution", "message": "it broke"}
    found = subscription.evaluate_failure(_subscription(), failure, reported=True, intervention=None, now=NOW)
    assert found.report is not None
    assert (found.report.condition.reason, found.report.condition.message) == ("ErrorPreventedResolution", "it broke")


@pytest.mark.parametrize(
    ("intervention", "current", "expected", "csv"),
    [
        (None, "", NOW + timedelta(seconds=30), ""),
        (NOW + timedelta(seconds=5), "", NOW + timedelta(seconds=5), ""),
        (NOW - timedelta(seconds=5), "", NOW - timedelta(seconds=5), "v1"),
        (NOW - timedelta(seconds=5), "v1", NOW - timedelta(seconds=5), ""),
        (NOW - timedelta(seconds=11), "", NOW + timedelta(seconds=30), ""),
    ],
)
def test_olm_gets_its_time_before_a_policy_intervenes(
    intervention: datetime | None, current: str, expected: datetime, csv: str
) -> None:
    message = "clusterserviceversion v1 exists and is not referenced by a subscription, subscription quay requires it"
    failure = {"reason": "ConstraintsNotSatisfiable", "message": message}
    found = subscription.evaluate_failure(_subscription(current), failure, reported=True, intervention=intervention, now=NOW)
    assert (found.intervention, found.unreferenced_csv) == (expected, csv)


@pytest.mark.parametrize(
    ("csv", "is_copied"),
    [
        ({"metadata": {"namespace": "n"}}, False),
        ({"metadata": {"namespace": "n", "annotations": {"olm.operatorNamespace": "n"}}}, False),
        ({"metadata": {"namespace": "n", "annotations": {"olm.operatorNamespace": "m"}}}, True),
        ({"metadata": {"namespace": "n", "labels": {"olm.copiedFrom": ""}}}, True),
        ({"metadata": {"namespace": "n"}, "status": {"reason": "Copied"}}, True),
    ],
)
def test_copies_of_a_version_are_told_apart(csv: Object, is_copied: bool) -> None:
    assert subscription.is_copied(csv) is is_copied


@pytest.mark.parametrize(
    ("selected", "newer"),
    [
        ("stable-v1.2", ["stable-v1.10", "stable-v1.3"]),
        ("stable-v1.10", []),
        ("release-2.3.x", ["release-2.4.x"]),
        ("1.2", ["1.3"]),
        ("stable", []),
        ("", []),
    ],
)
def test_newer_channels_have_the_same_name_and_a_higher_minor_version(selected: str, newer: list[str]) -> None:
    channels = [
        "stable-v1.10",
        "stable-v1.2",
        "stable-v1.3",
        "stable-v2.9",
        "fast-v1.9",
        "release-2.4.x",
        "release-2.4",
        "1.3",
        "x",
    ]
    assert newer_channels(channels, selected) == newer


def test_labels_of_long_names_are_cut_and_end_as_labels_do() -> None:
    assert subscription_label("quay", "n") == "quay.n"
    assert subscription_label("a" * 62, "n") == "a" * 62
    assert len(subscription_label("a" * 40, "b" * 40)) == 63


@given(st.text("ab.-_", min_size=1, max_size=70), st.text("ab-", min_size=1, max_size=63))
def test_labels_are_valid_ends(name: str, namespace: str) -> None:
    label = subscription_label(name, namespace)
    assert len(label) <= 63
    assert label == f"{name}.{namespace}" or (f"{name}.{namespace}".startswith(label) and not label.endswith((".", "-", "_")))


def test_versions_are_separated_by_commas_and_empty_ones_do_not_count() -> None:
    assert canonical_versions([" a , b", "", " ,", "c"]) == ("a", "b", "c")


def test_policies_of_a_status_may_have_dots_in_their_names() -> None:
    assert list(parse_policies(["my.policy.ns", "nothing"])) == [ObjectKey("ns", "my.policy")]


@pytest.mark.parametrize(
    ("value", "go_type", "expected"),
    [
        ({"name": "a", "Channel": "c", "config": {}}, SUBSCRIPTION_SPEC, {"channel": "c", "config": {}, "name": "a"}),
        ({"name": "a", "startingCSV": ""}, SUBSCRIPTION_SPEC, {"name": "a"}),
        ({"name": "a", "startingCSV": None, "config": {"env": []}}, SUBSCRIPTION_SPEC, {"config": {}, "name": "a"}),
        ({"targetNamespaces": [], "staticProvidedAPIs": False, "selector": {}}, OPERATOR_GROUP_SPEC, {"selector": {}}),
        (
            {"name": "a", "config": {"env": [{"name": "A", "valueFrom": {"x": 1}}], "volumes": [{"any": 1}]}},
            SUBSCRIPTION_SPEC,
            {"name": "a", "config": {"env": [{"name": "A", "valueFrom": {"x": 1}}], "volumes": [{"any": 1}]}},
        ),
    ],
)
def test_free_objects_are_read_as_go_reads_them(value: Object, go_type: str, expected: Object) -> None:
    assert read_struct(value, go_type) == expected


@pytest.mark.parametrize(
    ("value", "go_type", "error"),
    [
        ({"b": 1, "a": 2}, SUBSCRIPTION_SPEC, 'unknown field "a"'),
        ({"config": {"x": 1}}, SUBSCRIPTION_SPEC, 'unknown field "x"'),
        (
            {"config": []},
            SUBSCRIPTION_SPEC,
            "array into Go struct field SubscriptionSpec.config of type v1alpha1.SubscriptionConfig",
        ),
        (
            {"config": {"env": "A"}},
            SUBSCRIPTION_SPEC,
            "string into Go struct field SubscriptionConfig.config.env of type []v1.EnvVar",
        ),
        (
            {"config": {"env": [{"name": 1}]}},
            SUBSCRIPTION_SPEC,
            "number into Go struct field EnvVar.config.env.name of type string",
        ),
        (
            {"targetNamespaces": [True]},
            OPERATOR_GROUP_SPEC,
            "bool into Go struct field OperatorGroupSpec.targetNamespaces of type string",
        ),
        (
            {"staticProvidedAPIs": "yes"},
            OPERATOR_GROUP_SPEC,
            "string into Go struct field OperatorGroupSpec.staticProvidedAPIs of type bool",
        ),
        ([], OPERATOR_GROUP_SPEC, "array into Go value of type v1.OperatorGroupSpec"),
    ],
)
def test_what_does_not_fit_is_an_error_in_gos_words(value: Any, go_type: str, error: str) -> None:
    with pytest.raises(FieldError) as raised:
        read_struct(value, go_type)
    expected = error if error.startswith("unknown") else f"cannot unmarshal {error}"
    assert str(raised.value) == f"json: {expected}"


def test_parts_that_make_sense_as_a_whole_are_taken_as_the_policy_has_them() -> None:
    config = {"env": [{"name": "A", "value": "1"}]}
    document = {"name": "quay", "source": "c", "sourceNamespace": "o", "config": config}
    desired = desired_subscription(_policy(), document)
    existing = {**desired, "metadata": {**desired["metadata"], "uid": "1"}}
    assert merged_object(desired, existing, subscription.EXACT_FIELDS)[1] is False
    more = {**existing, "spec": {**existing["spec"], "config": {**config, "nodeSelector": {"a": "b"}}, "extra": "kept"}}
    merged, differs = merged_object(desired, more, subscription.EXACT_FIELDS)
    assert differs
    assert merged["spec"]["config"] == config
    assert merged["spec"]["extra"] == "kept"
    assert merged["metadata"]["uid"] == "1"


def test_the_order_of_target_namespaces_does_not_matter() -> None:
    desired = desired_operator_group({"name": "g", "targetNamespaces": ["a", "b"]}, "n")
    existing = {**desired, "spec": {"targetNamespaces": ["b", "a"], "upgradeStrategy": "Default"}}
    assert merged_object(desired, existing, operator_group.EXACT_FIELDS)[1] is False


def test_an_operator_group_of_no_name_is_known_by_what_its_name_is_made_of() -> None:
    desired = desired_operator_group(None, "n")
    assert operator_group.is_desired(desired, {"metadata": {"name": "n-abcde", "generateName": "n-"}})
    assert not operator_group.is_desired(desired, {"metadata": {"name": "n-abcde"}})


def test_a_deployment_that_is_missing_is_shown_and_not_counted() -> None:
    csv = {"metadata": {"namespace": "n"}}
    said = deployments.evaluate(_policy(), csv, {"a": None})
    assert said.condition.reason == "NoExistingDeployments"
    assert [one.compliant for one in said.related] == ["NonCompliant"]
