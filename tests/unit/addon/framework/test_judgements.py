"""What the works of an addon say about it: how far it is, whether it is well, whether its hooks are done."""

from __future__ import annotations

from typing import Any

import pytest

from muster.addon.agent_addon import Feedback, Health, HealthMode
from muster.addon.framework.health import judge
from muster.addon.framework.lifecycle import given_up, with_finalizers, without_unneeded
from muster.addon.framework.manifests import ManifestKey, plural_of, sort_manifests
from muster.addon.framework.progress import Deployed, is_hook_complete, set_applied, set_progress
from muster.addon.framework.status_draft import StatusDraft
from muster.addon.framework.works import WORKLOADS as WORKLOAD_KINDS
from muster.addon.framework.works import WorkNamespace, WorkRules, deploy_works, with_feedback
from muster.api.addon.v1alpha1 import AddOnConfig, ManagedClusterAddOn
from muster.api.cluster.v1 import ManagedCluster
from muster.api.work.v1 import FeedbackRule, JsonPath, ManifestConfig, ManifestWork, ResourceIdentifier
from muster.machinery.clock import SYSTEM
from muster.machinery.objects import Object
from tests.unit.addon.framework.conftest import ADC, ADDON, CLUSTER, GROUP, config_map, deployment, hook

HASHES = '{"addondeploymentconfigs.addon.open-cluster-management.io/configs/settings":"h1"}'


def condition(kind: str, status: str, generation: int = 1) -> Object:
    return {"type": kind, "status": status, "reason": "R", "message": f"{kind} is {status}", "observedGeneration": generation}


def feedback(kind: str, name: str, **values: Any) -> Object:
    group = {"Deployment": "apps", "DaemonSet": "apps", "Job": "batch", "Pod": ""}[kind]
    meta = {"ordinal": 0, "group": group, "kind": kind, "resource": f"{kind.lower()}s", "namespace": "hello-ns", "name": name}
    fields = [
        {
            "name": field,
            "fieldValue": {"type": "Integer", "integer": value} if isinstance(value, int) else {"type": "String", "string": value},
        }
        for field, value in values.items()
    ]
    return {"resourceMeta": meta, "conditions": [], "statusFeedback": {"values": fields}}


def work(*manifests: Object, conditions: Any = (), reported: Any = (), hashes: str = HASHES) -> ManifestWork:
    annotations = {"open-cluster-management.io/config-spec-hash": hashes} if hashes else {}
    metadata = {"name": f"addon-{ADDON}-deploy-0", "namespace": CLUSTER, "generation": 1, "annotations": annotations}
    status = {"conditions": list(conditions), "resourceStatus": {"manifests": list(reported)}}
    return ManifestWork.decode({"metadata": metadata, "spec": {"workload": {"manifests": list(manifests)}}, "status": status})


READY = (condition("Applied", "True"), condition("Available", "True"))


def draft(spec_hash: str = "h1", **conditions: str) -> StatusDraft:
    desired = {"namespace": "configs", "name": "settings", "specHash": spec_hash}
    status = {
        "configReferences": [{"group": GROUP, "resource": ADC, "name": "settings", "desiredConfig": desired}],
        "conditions": [{"type": kind, "status": status} for kind, status in conditions.items()],
    }
    document = {"metadata": {"name": ADDON, "namespace": CLUSTER}, "spec": {}, "status": status}
    return StatusDraft(ManagedClusterAddOn.decode(document), SYSTEM.now())


APPLIED = {"ManifestApplied": "True"}


@pytest.mark.parametrize(
    ("found", "hosted", "works", "said"),
    [
        (draft(), False, [], ("False", "WaitingForManifestApplied", "Waiting for ManagedClusterAddOn ManifestApplied condition")),
        (
            draft(**APPLIED),
            True,
            [],
            ("False", "WaitingForHostingManifestApplied", "Waiting for ManagedClusterAddOn HostingManifestApplied condition"),
        ),
        (draft(**APPLIED), False, [], ("True", "Progressing", "progressing... no addon works")),
        (
            draft("h2", **APPLIED),
            False,
            [work(conditions=READY)],
            ("True", "Progressing", "progressing... mca and work configs mismatch"),
        ),
        (
            draft("", **APPLIED),
            False,
            [work(conditions=READY)],
            ("True", "Progressing", "progressing... mca and work configs mismatch"),
        ),
        (draft(**APPLIED), False, [work(conditions=READY[:1])], ("True", "Progressing", "progressing... work is not ready")),
        (
            draft(**APPLIED),
            False,
            [work(conditions=[condition("Applied", "True", 0), READY[1]])],
            ("True", "Progressing", "progressing... work is not ready"),
        ),
        (draft(**APPLIED), False, [work(conditions=READY)], ("False", "Completed", "completed with no errors.")),
    ],
)
def test_progress_is_the_first_that_holds(
    found: StatusDraft, hosted: bool, works: list[ManifestWork], said: tuple[str, ...]
) -> None:
    set_progress(found, None, works, hosted=hosted)
    progressing = found.condition("Progressing")
    assert progressing is not None
    assert (progressing.status, progressing.reason, progressing.message) == said
    applied = [one.last_applied_config for one in found.status.config_references]
    assert applied == [one.desired_config if said[1] == "Completed" else None for one in found.status.config_references]


def test_an_unsupported_configuration_is_said_before_anything_else() -> None:
    found = draft(**APPLIED)
    set_progress(found, AddOnConfig(group="g", resource="r", name="n"), [work(conditions=READY)], hosted=False)
    progressing = found.condition("Progressing")
    assert progressing is not None
    assert (progressing.reason, progressing.message[:32]) == ("ConfigurationUnsupported", "Configuration with gvr g/r is no")


def test_a_manifest_that_waits_for_another_of_its_work_has_not_failed() -> None:
    def reported(reason: str) -> Object:
        said = {**condition("Applied", "False"), "reason": reason}
        return {"resourceMeta": {"ordinal": 0}, "conditions": [said]}

    for reason, said in (("AppliedManifestWithheld", "Progressing"), ("AppliedManifestFailed", "Failed")):
        found = draft(**APPLIED)
        set_progress(found, None, [work(conditions=[condition("Applied", "False")], reported=[reported(reason)])], hosted=False)
        progressing = found.condition("Progressing")
        assert progressing is not None
        assert progressing.reason == said


def test_what_was_applied_is_not_taken_back() -> None:
    found = draft(**APPLIED)
    set_progress(found, None, [work(conditions=READY)], hosted=False)
    set_progress(found, None, [work()], hosted=False)
    assert found.status.config_references[0].last_applied_config is not None


def test_a_stale_failure_to_apply_is_removed_until_the_work_reports() -> None:
    found = draft(ManifestApplied="False")
    set_applied(found, "ManifestApplied", Deployed((work(),)))
    assert found.condition("ManifestApplied") is None
    found = draft(**APPLIED)
    set_applied(found, "ManifestApplied", Deployed((work(),)))
    assert found.condition("ManifestApplied") is not None


def test_warnings_of_the_addon_are_said_and_hold_nothing_up() -> None:
    found = draft()
    set_applied(found, "ManifestApplied", Deployed((work(conditions=READY),)), ["unknown variable X"])
    applied = found.condition("ManifestApplied")
    assert applied is not None
    assert (applied.status, applied.message) == ("True", "manifests of addon are applied successfully; unknown variable X")


WORKLOADS = Health(HealthMode.WORKLOADS)
DAEMONS: Object = {**deployment("daemons"), "kind": "DaemonSet"}


@pytest.mark.parametrize(
    ("health", "works", "said"),
    [
        (WORKLOADS, [], (None, "WorkNotFound", "Addon manifestWork is not found")),
        (WORKLOADS, [work(deployment())], (None, "WorkNotApplied", "Addon manifestWork is not applied yet")),
        (
            WORKLOADS,
            [work(deployment(), conditions=[condition("Available", "False")])],
            (False, "WorkNotApplied", "Available is False"),
        ),
        (WORKLOADS, [work(deployment(), conditions=READY)], (None, "NoProbeResult", "Probe results are not returned")),
        (
            WORKLOADS,
            [work(deployment(), conditions=READY, reported=[feedback("Deployment", "agent", ReadyReplicas=1, Replicas=3)])],
            (True, "ProbeAvailable", "hello add-on is available."),
        ),
        (
            WORKLOADS,
            [work(deployment(), conditions=READY, reported=[feedback("Deployment", "agent", Replicas=0)])],
            (True, "ProbeAvailable", "hello add-on is available."),
        ),
        (
            WORKLOADS,
            [work(DAEMONS, conditions=READY, reported=[feedback("DaemonSet", "daemons", NumberReady=1, DesiredNumberScheduled=2)])],
            (False, "ProbeUnavailable", "Probe addon unavailable with err DaemonSet hello-ns/daemons has 1 ready of 2"),
        ),
        (
            WORKLOADS,
            [work({**deployment(), "spec": {"replicas": 0}}, conditions=READY)],
            (True, "WorkApplied", "Addon manifestWork is applied"),
        ),
        (Health(HealthMode.WORK), [work(conditions=READY)], (True, "WorkApplied", "Addon manifestWork is applied")),
    ],
)
def test_health_by_works(health: Health, works: list[ManifestWork], said: tuple[object, ...]) -> None:
    assert judge(health, ADDON, works) == said


def test_health_by_what_the_addon_makes_of_feedback() -> None:
    def probe(values: Feedback) -> str:
        return "" if values["apps", "deployments", "hello-ns", "agent"]["Version"] == "2" else "too old"

    health = Health(HealthMode.FEEDBACK, probe)
    old, new = ([work(conditions=READY, reported=[feedback("Deployment", "agent", Version=version)])] for version in ("1", "2"))
    assert judge(health, ADDON, old) == (False, "ProbeUnavailable", "Probe addon unavailable with err too old")
    assert judge(health, ADDON, new)[0] is True


@pytest.mark.parametrize(
    ("manifest", "reported", "complete"),
    [
        (hook(), feedback("Job", "clean-up", JobComplete="True"), True),
        (hook(), feedback("Job", "clean-up", JobComplete="False"), False),
        (hook(), feedback("Job", "another", JobComplete="True"), False),
        ({**hook(), "apiVersion": "v1", "kind": "Pod"}, feedback("Pod", "clean-up", PodPhase="Succeeded"), True),
        ({**hook(), "apiVersion": "v1", "kind": "Pod"}, feedback("Pod", "clean-up", PodPhase="Failed"), False),
    ],
)
def test_a_hook_is_complete_when_each_of_its_jobs_and_pods_is(manifest: Object, reported: Object, complete: bool) -> None:
    assert is_hook_complete(work(manifest, conditions=READY, reported=[reported])) is complete
    assert not is_hook_complete(work(manifest, conditions=READY[:1], reported=[reported]))


def test_hooks_are_jobs_and_pods_only_by_annotation_or_label() -> None:
    labelled: Object = {**hook("labelled"), "metadata": {"name": "labelled", "labels": {f"{GROUP}/addon-pre-delete": ""}}}
    other = config_map("other", addon_pre_delete="")
    found = sort_manifests([hook(), labelled, other], hosted=False)
    assert (found.managed_hooks, found.managed) == ((hook(), labelled), (other,))


@pytest.mark.parametrize(
    ("kind", "plural"),
    [
        ("NetworkPolicy", "networkpolicies"),
        ("Ingress", "ingresses"),
        ("Endpoints", "endpoints"),
        ("Widget", "widgetz"),
        ("Served", "as-served"),
    ],
)
def test_resources_are_known_from_the_hub_from_definitions_and_else_guessed(kind: str, plural: str) -> None:
    names = {"kind": "Widget", "plural": "widgetz"}
    definition: Object = {"kind": "CustomResourceDefinition", "spec": {"group": "g", "names": names}}
    assert plural_of(ManifestKey("g", kind, "", "x"), [definition], {("g", "Served"): "as-served"}) == plural


def test_feedback_is_added_to_the_rules_that_an_addon_has() -> None:
    which = ResourceIdentifier(group="apps", resource="deployments", namespace="hello-ns", name="agent")
    own = FeedbackRule(type="JSONPaths", json_paths=(JsonPath(name="a", path=".a"),))
    (config,) = with_feedback([ManifestConfig(resource_identifier=which, feedback_rules=(own,))], [deployment()], WORKLOAD_KINDS)
    assert config.feedback_rules == (own, FeedbackRule(type="WellKnownStatus"))


def test_large_manifests_are_divided_and_a_work_that_is_as_wanted_is_left_alone() -> None:
    addon = ManagedClusterAddOn.decode({"metadata": {"name": ADDON, "namespace": CLUSTER, "uid": "u"}, "spec": {}})
    large: list[Object] = [{**config_map(f"m{number}"), "data": {"a": "x" * 250_000}} for number in range(3)]
    site = WorkNamespace(ADDON, CLUSTER)
    wanted = deploy_works(site, addon, large, WorkRules(), ())
    assert [one.key.name for one in wanted] == [f"addon-{ADDON}-deploy-{number}" for number in range(3)]
    made = [ManifestWork.decode(one.document()) for one in wanted]
    again = deploy_works(site, addon, [large[2], large[0]], WorkRules(), made)
    assert [one.key.name for one in again] == [f"addon-{ADDON}-deploy-{number}" for number in (0, 2)]
    assert [one.changed(work) for one, work in zip(again, (made[0], made[2]), strict=True)] == [None, None]


def test_finalizers_of_others_are_left_and_deprecated_ones_dropped() -> None:
    old = "cluster.open-cluster-management.io/hosting-manifests-cleanup"
    assert with_finalizers([old, "mine"], [f"{GROUP}/addon-pre-delete"]) == ("mine", f"{GROUP}/addon-pre-delete")
    assert without_unneeded([old, "mine", f"{GROUP}/addon-pre-delete"]) == ("mine",)


@pytest.mark.parametrize(
    ("deleted", "accepted", "available", "waits"),
    [
        (False, True, "Unknown", True),
        (False, False, None, True),
        (True, True, "True", True),
        (True, True, "False", True),
        (True, True, "Unknown", False),
        (True, True, None, False),
        (True, False, "True", False),
    ],
)
def test_hooks_wait_for_clusters_that_may_answer(deleted: bool, accepted: bool, available: str | None, waits: bool) -> None:
    said = [condition("ManagedClusterConditionAvailable", available)] if available else []
    metadata = {"name": CLUSTER, **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleted else {})}
    cluster = {"metadata": metadata, "spec": {"hubAcceptsClient": accepted}, "status": {"conditions": said}}
    assert (given_up(ManagedCluster.decode(cluster), CLUSTER) == "") is waits
