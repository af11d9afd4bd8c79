"""What agents wrote into a status, and names that fit nowhere, harm the addon that they are of and no other."""

from __future__ import annotations

import json

import pytest

from muster.addon.agent_addon import Agent, Health, HealthMode, Installation
from muster.addon.framework.configuration import observed, resolve
from muster.addon.framework.health import judge
from muster.addon.framework.progress import is_hook_complete, set_progress
from muster.addon.framework.status_draft import StatusDraft
from muster.api.addon.v1alpha1 import ManagedClusterAddOn
from muster.api.work.v1 import ManifestWork
from muster.machinery.clock import SYSTEM
from muster.machinery.objects import Object
from tests.unit.addon.framework.conftest import ADDON, CLUSTER, GROUP, MCAS, AddonSite, FakeConfigs, deployment, hook

REFERENCE = {"group": GROUP, "resource": "addondeploymentconfigs", "name": "x"}
STATUSES: list[Object] = [
    {"configReferences": [REFERENCE]},
    {"configReferences": None, "conditions": None, "registrations": None},
    {"configReferences": [None, 7, {"group": 1}], "conditions": ["x", {"type": "Configured"}], "supportedConfigs": 3},
    {"conditions": [{"type": "Progressing", "status": "Maybe", "lastTransitionTime": -1}], "healthCheck": []},
    {"registrations": [{"signerName": 1, "subject": {"groups": "all"}}], "kubeClientDriver": {"a": "b"}, "namespace": []},
    {"configReferences": [{**REFERENCE, "desiredConfig": {"name": None, "specHash": 5}, "lastObservedGeneration": -(2**70)}]},
]


@pytest.mark.parametrize("status", STATUSES)
def test_an_addon_of_any_status_can_be_judged(status: Object) -> None:
    document = {"metadata": {"name": ADDON, "namespace": CLUSTER}, "spec": {}, "status": status}
    addon = ManagedClusterAddOn.decode(json.dumps(document).encode())
    draft = StatusDraft(addon, SYSTEM.now())
    draft.put(config_references=observed(draft.status.config_references, FakeConfigs()))
    resolve(draft.status.config_references, FakeConfigs())
    set_progress(draft, None, [], hosted=False)
    assert draft.condition("Progressing") is not None


WORK_STATUSES: list[Object] = [
    {"conditions": None, "resourceStatus": None},
    {"conditions": [{"type": "Available", "status": "True", "observedGeneration": -5}]},
    {"conditions": [{"type": "Applied"}], "resourceStatus": {"manifests": [None, {"resourceMeta": 1}]}},
    {
        "conditions": [{"type": "Available", "status": "True", "observedGeneration": 1}],
        "resourceStatus": {
            "manifests": [
                {
                    "resourceMeta": {"ordinal": 0, "group": "apps", "resource": "deployments", "name": "agent"},
                    "conditions": [],
                    "statusFeedback": {"values": [{"name": "ReadyReplicas", "fieldValue": {"type": "JsonRaw", "jsonRaw": "{"}}]},
                }
            ]
        },
    },
]


@pytest.mark.parametrize("status", WORK_STATUSES)
@pytest.mark.parametrize("hashes", ["", "{", "[1]", '{"a": null}'])
def test_a_work_of_any_status_can_be_judged(status: Object, hashes: str) -> None:
    annotations = {"open-cluster-management.io/config-spec-hash": hashes}
    metadata = {"name": f"addon-{ADDON}-deploy-0", "namespace": CLUSTER, "generation": 1, "annotations": annotations}
    manifests = [deployment(), hook(), {"kind": None}, {"metadata": "x"}]
    work = ManifestWork.decode({"metadata": metadata, "spec": {"workload": {"manifests": manifests}}, "status": status})
    for mode in (HealthMode.WORK, HealthMode.WORKLOADS, HealthMode.FEEDBACK):
        judge(Health(mode), ADDON, [work])
    assert not is_hook_complete(work)
    document = {"metadata": {"name": ADDON, "namespace": CLUSTER}, "spec": {}}
    set_progress(StatusDraft(ManagedClusterAddOn.decode(document), SYSTEM.now()), None, [work], hosted=False)


async def test_a_reference_without_configuration_is_set_right(site: AddonSite) -> None:
    """Defect 11: it stops neither this addon nor those of others."""
    await site.cluster("c2")
    uid = await site.offer()
    for cluster in (CLUSTER, "c2"):
        await site.enable(uid, cluster)
    await site.admin.patch(MCAS, ADDON, {"status": {"configReferences": [REFERENCE]}}, CLUSTER, subresource="status")
    site.plan(uid, site.configs.put("settings", size="1"), clusters=(CLUSTER, "c2"))
    for cluster in (CLUSTER, "c2"):
        await site.says("Progressing", "False", "WaitingForManifestApplied", cluster)
        (reference,) = (await site.status(cluster))["configReferences"]
        assert reference["desiredConfig"]["name"] == "settings"


async def test_an_addon_that_fails_in_unforeseen_ways_stops_no_other(site: AddonSite) -> None:
    await site.cluster("c2")

    def make(installation: Installation) -> Agent:
        if installation.cluster.metadata.name == CLUSTER:
            raise RuntimeError("a defect of the addon")
        return Agent(manifests=(deployment(),))

    site.addon.make = make
    uid = await site.offer()
    for cluster in (CLUSTER, "c2"):
        await site.enable(uid, cluster)
    site.plan(uid, clusters=(CLUSTER, "c2"))
    await site.says("Progressing", "False", "WaitingForManifestApplied", "c2")
    assert await site.status() == {}


async def test_manifests_that_no_work_can_hold_are_said(site: AddonSite) -> None:
    nameless: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"labels": "none"}}
    site.addon.make = lambda installation: Agent(manifests=(nameless, {"kind": 7}))
    uid = await site.offer()
    await site.enable(uid)
    site.plan(uid)
    message = await site.says("ManifestApplied", "False", "ManifestWorkApplyFailed")
    assert message.startswith("failed to apply manifestWork: ")
