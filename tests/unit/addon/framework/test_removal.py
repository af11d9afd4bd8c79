"""What holds an addon that is being deleted, and for how long; addons that another cluster hosts."""

from __future__ import annotations

from typing import Any

from muster.addon.agent_addon import AddonError, Agent, Installation
from muster.api.addons import (
    HOSTING_CLEANUP_FINALIZER,
    HOSTING_CLUSTER_ANNOTATION,
    HOSTING_PRE_DELETE_FINALIZER,
    PRE_DELETE,
)
from muster.machinery.objects import Object
from muster.runtime.client.errors import StatusError
from tests.unit.addon.framework.conftest import ADDON, CLUSTER, CLUSTERS, HOST, MCAS, WORKS, AddonSite, config_map, hook

DEPLOY, PRE = f"addon-{ADDON}-deploy-0", f"addon-{ADDON}-pre-delete"
HOSTED, HOSTED_PRE = f"addon-{ADDON}-deploy-hosting-{CLUSTER}-0", f"addon-{ADDON}-pre-delete-hosting-{CLUSTER}"
HOSTING = {HOSTING_CLUSTER_ANNOTATION: HOST}


def ships(site: AddonSite, *manifests: Object) -> None:
    site.addon.make = lambda installation: Agent(manifests=manifests)


async def installed(site: AddonSite, **metadata: Any) -> None:
    uid = await site.offer()
    await site.enable(uid, **metadata)
    site.plan(uid)
    await site.until(lambda: site.get(WORKS, DEPLOY, CLUSTER), "the work")


async def held_by(site: AddonSite, *finalizers: str) -> None:
    async def look() -> bool:
        return sorted((await site.find())["metadata"].get("finalizers") or ()) == sorted(finalizers)

    await site.until(look, f"finalizers {finalizers}")


async def gone(site: AddonSite) -> None:
    async def look() -> bool:
        return await site.find() is None

    await site.until(look, "the addon to be gone")


async def no_works(site: AddonSite, namespace: str) -> None:
    async def look() -> bool:
        return not await site.works(namespace)

    await site.until(look, f"no works in {namespace}")


async def test_a_hook_runs_before_the_addon_goes(site: AddonSite) -> None:
    ships(site, config_map(), hook())
    await installed(site)
    await held_by(site, PRE_DELETE)
    assert await site.works() == {DEPLOY: ["settings"]}
    await site.admin.delete(MCAS, ADDON, CLUSTER)
    message = await site.says("HookManifestCompleted", "False", "HookManifestIsNotCompleted")
    assert message == f"hook manifestWork {PRE} is not completed."
    assert (await site.works())[PRE] == ["clean-up"]
    (rule,) = (await site.get(WORKS, PRE, CLUSTER))["spec"]["manifestConfigs"]
    assert rule["resourceIdentifier"] == {"group": "batch", "resource": "jobs", "namespace": "hello-ns", "name": "clean-up"}
    assert rule["feedbackRules"] == [{"type": "WellKnownStatus"}]
    await site.report(PRE, JobComplete="False")
    await site.settled()
    assert await site.find() is not None
    await site.report(PRE, JobComplete="True")
    await gone(site)


async def test_a_hook_that_is_done_is_said_while_somebody_else_holds_the_addon(site: AddonSite) -> None:
    ships(site, config_map(), hook())
    await installed(site, finalizers=["example.com/mine"])
    await held_by(site, PRE_DELETE, "example.com/mine")
    await site.admin.delete(MCAS, ADDON, CLUSTER)
    await site.report(PRE, JobComplete="True")
    message = await site.says("HookManifestCompleted", "True", "HookManifestIsCompleted")
    assert message == f"hook manifestWork {PRE} is completed."
    await held_by(site, "example.com/mine")


async def test_works_follow_the_addon_while_its_hook_runs(site: AddonSite) -> None:
    ships(site, config_map(), hook())
    await installed(site)
    await held_by(site, PRE_DELETE)
    await site.admin.delete(MCAS, ADDON, CLUSTER)
    await site.until(lambda: site.get(WORKS, PRE, CLUSTER), "the hook")
    ships(site, config_map("uninstalling"), hook())
    assert site.framework is not None
    site.framework.addon_changed(ADDON)

    async def changed() -> bool:
        return (await site.works())[DEPLOY] == ["uninstalling"]

    await site.until(changed, "the changed work")


async def test_a_hook_that_is_no_longer_shipped_holds_nobody(site: AddonSite) -> None:
    ships(site, config_map(), hook())
    await installed(site)
    await held_by(site, PRE_DELETE)
    ships(site, config_map())
    assert site.framework is not None
    site.framework.addon_changed(ADDON)
    await held_by(site)


async def test_deprecated_finalizers_are_dropped(site: AddonSite) -> None:
    old = "cluster.open-cluster-management.io/addon-pre-delete"
    await installed(site, finalizers=[old, "example.com/mine"])
    await held_by(site, "example.com/mine")


async def test_a_hook_does_not_wait_for_a_cluster_that_is_given_up(site: AddonSite) -> None:
    """Defect 27: while the cluster may come back it is waited for; once it is deleted and does not answer, it is not."""
    ships(site, config_map(), hook())
    await installed(site)
    await held_by(site, PRE_DELETE)
    await site.admin.patch(CLUSTERS, CLUSTER, {"metadata": {"finalizers": ["example.com/collecting"]}})
    await site.set_available(CLUSTER, "Unknown")
    await site.admin.delete(MCAS, ADDON, CLUSTER)
    await site.says("HookManifestCompleted", "False", "HookManifestIsNotCompleted")
    await site.settled()
    assert await site.find() is not None
    await site.admin.delete(CLUSTERS, CLUSTER)
    await gone(site)


async def test_a_hook_of_a_cluster_that_is_deleted_and_answers_runs(site: AddonSite) -> None:
    ships(site, config_map(), hook())
    await installed(site)
    await held_by(site, PRE_DELETE)
    await site.admin.patch(CLUSTERS, CLUSTER, {"metadata": {"finalizers": ["example.com/collecting"]}})
    await site.admin.delete(CLUSTERS, CLUSTER)
    await site.admin.delete(MCAS, ADDON, CLUSTER)
    await site.says("HookManifestCompleted", "False", "HookManifestIsNotCompleted")
    await site.report(PRE, JobComplete="True")
    await gone(site)


async def test_a_hook_of_a_cluster_that_is_gone_is_passed_over(site: AddonSite) -> None:
    ships(site, config_map(), hook())
    await installed(site, finalizers=["example.com/mine"])
    await held_by(site, PRE_DELETE, "example.com/mine")
    await site.admin.delete(CLUSTERS, CLUSTER)
    await site.admin.delete(MCAS, ADDON, CLUSTER)
    await held_by(site, "example.com/mine")
    message = await site.says("HookManifestCompleted", "False", "HookManifestIsNotCompleted")
    assert message == f"hook manifestWork {PRE} is not run: cluster {CLUSTER} is not a managed cluster of the hub"


async def test_an_addon_that_cannot_be_rendered_is_waited_for_unless_its_cluster_goes(site: AddonSite) -> None:
    ships(site, config_map(), hook())
    await installed(site)
    await held_by(site, PRE_DELETE)

    def broken(installation: Installation) -> Agent:
        raise AddonError("no chart")

    site.addon.make = broken
    await site.admin.delete(MCAS, ADDON, CLUSTER)
    message = await site.says("HookManifestCompleted", "False", "HookManifestIsNotCompleted")
    assert message.endswith("no chart")
    await site.admin.patch(CLUSTERS, CLUSTER, {"metadata": {"finalizers": ["example.com/collecting"]}})
    await site.admin.delete(CLUSTERS, CLUSTER)
    await gone(site)


async def test_a_hook_whose_configurations_are_not_known_yet_is_not_passed_over_at_once(bare: AddonSite) -> None:
    """Just after a start nothing is known of them; only when they stay away are they taken to be gone."""
    ships(bare, config_map(), hook())
    bare.addon.needs_configuration = True
    config = bare.configs.put("settings", size="1")
    async with bare.running():
        uid = await bare.offer()
        await bare.enable(uid)
        bare.plan(uid, config)
        await held_by(bare, PRE_DELETE)
        await bare.says("Progressing", "False", "WaitingForManifestApplied")
    bare.configs.objects.clear()
    await bare.admin.delete(MCAS, ADDON, CLUSTER)
    async with bare.running():
        message = await bare.says("HookManifestCompleted", "False", "HookManifestIsNotCompleted")
        assert message.endswith("The configurations that it is rendered from are missing.")
        await bare.clock.advance(30)
        await bare.settled()
        assert await bare.find() is not None
        bare.configs.put("settings", size="1")
        await bare.until(lambda: bare.get(WORKS, PRE, CLUSTER), "the hook")
    await bare.admin.delete(WORKS, PRE, CLUSTER)
    bare.configs.objects.clear()
    async with bare.running():
        await bare.clock.advance(61)
        await gone(bare)


async def test_a_hook_that_could_not_be_written_is_said_and_tried_again(bare: AddonSite) -> None:
    ships(bare, config_map(), hook())
    async with bare.running() as life:
        await installed(bare)
        await held_by(bare, PRE_DELETE)
        life.refuse = lambda method, path: (
            StatusError(507, message="no room") if method == "POST" and "/manifestworks" in path else None
        )
        await bare.admin.delete(MCAS, ADDON, CLUSTER)
        message = await bare.says("HookManifestCompleted", "False", "HookManifestIsNotCompleted")
        assert message == f"hook manifestWork {PRE} is not completed. no room"
        life.refuse = lambda method, path: None
        await bare.until(lambda: bare.get(WORKS, PRE, CLUSTER), "the hook", moving=1.0)


async def test_what_is_to_stay_is_orphaned_by_its_right_name(site: AddonSite) -> None:
    policy = {**config_map("kept", deletion_orphan=""), "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy"}
    endpoints = {**config_map("ep", deletion_orphan=""), "kind": "Endpoints"}
    ships(site, config_map(), policy, endpoints)
    await installed(site)
    option = (await site.get(WORKS, DEPLOY, CLUSTER))["spec"]["deleteOption"]
    assert option["propagationPolicy"] == "SelectivelyOrphan"
    rules = [(one.get("group", ""), one["resource"], one["name"]) for one in option["selectivelyOrphans"]["orphaningRules"]]
    assert rules == [("networking.k8s.io", "networkpolicies", "kept"), ("", "endpoints", "ep")]


# Hosted

LOCATED = (
    config_map("managed", hosted_manifest_location="managed"),
    config_map("anywhere"),
    config_map("nowhere", hosted_manifest_location="none"),
    config_map("hosted", hosted_manifest_location="hosting"),
    hook("hosted-clean-up", hosted_manifest_location="hosting"),
)


async def test_an_addon_is_hosted_on_another_cluster_and_goes_from_there(site: AddonSite) -> None:
    await site.cluster(HOST)
    ships(site, *LOCATED)
    await installed(site, annotations=HOSTING)
    await held_by(site, HOSTING_CLEANUP_FINALIZER, HOSTING_PRE_DELETE_FINALIZER)
    work = await site.until(lambda: site.get(WORKS, HOSTED, HOST), "the hosted work")
    assert work["metadata"]["labels"] == {
        "open-cluster-management.io/addon-name": ADDON,
        "open-cluster-management.io/addon-namespace": CLUSTER,
    }
    assert "ownerReferences" not in work["metadata"]
    assert (await site.works(), await site.works(HOST)) == ({DEPLOY: ["managed", "anywhere"]}, {HOSTED: ["hosted"]})
    message = await site.says("HostingClusterValidity", "True", "HostingClusterValid")
    assert message == f"hosting cluster {HOST} is a managed cluster of the hub"
    await site.report()
    await site.says("Progressing", "False", "WaitingForHostingManifestApplied")
    await site.report(HOSTED, HOST)
    await site.says("HostingManifestApplied", "True", "AddonManifestApplied")
    await site.says("Progressing", "False", "Completed")
    await site.admin.delete(MCAS, ADDON, CLUSTER)
    await site.report(HOSTED_PRE, HOST, JobComplete="True")
    await gone(site)
    await no_works(site, HOST)


async def test_a_hosting_cluster_that_is_none_of_the_hub_is_named(site: AddonSite) -> None:
    ships(site, *LOCATED)
    await installed(site, annotations=HOSTING)
    message = await site.says("HostingClusterValidity", "False", "HostingClusterInvalid")
    assert message == f"hosting cluster {HOST} is not a managed cluster of the hub"
    await held_by(site)
    await site.cluster(HOST)
    await site.says("HostingClusterValidity", "True", "HostingClusterValid")
    await site.until(lambda: site.get(WORKS, HOSTED, HOST), "the hosted work")


async def test_a_location_that_there_is_not_is_named(site: AddonSite) -> None:
    await site.cluster(HOST)
    ships(site, config_map("lost", hosted_manifest_location="moon"))
    uid = await site.offer()
    await site.enable(uid, annotations=HOSTING)
    site.plan(uid)
    message = await site.says("ManifestApplied", "False", "ManifestWorkApplyFailed")
    assert message.endswith("ConfigMap hello-ns/lost: not supported manifest location: moon")


async def test_an_addon_comes_home_when_nobody_hosts_it_any_more(site: AddonSite) -> None:
    await site.cluster(HOST)
    ships(site, *LOCATED)
    await installed(site, annotations=HOSTING)
    await site.until(lambda: site.get(WORKS, HOSTED, HOST), "the hosted work")
    await site.admin.patch(MCAS, ADDON, {"metadata": {"annotations": {HOSTING_CLUSTER_ANNOTATION: None}}}, CLUSTER)
    await no_works(site, HOST)
    await held_by(site, PRE_DELETE)
    assert set((await site.works())[DEPLOY]) == {"managed", "anywhere", "nowhere", "hosted"}
    assert await site.said("HostingClusterValidity") is None


async def test_a_hosting_cluster_that_goes_takes_its_works_and_holds_nobody(site: AddonSite) -> None:
    await site.cluster(HOST)
    ships(site, *LOCATED)
    await installed(site, annotations=HOSTING)
    await site.until(lambda: site.get(WORKS, HOSTED, HOST), "the hosted work")
    await site.admin.patch(CLUSTERS, HOST, {"metadata": {"finalizers": ["example.com/collecting"]}})
    await site.admin.delete(CLUSTERS, HOST)
    await no_works(site, HOST)
    await held_by(site)


async def test_an_addon_that_cannot_be_hosted_runs_on_its_own_cluster(site: AddonSite) -> None:
    site.addon.hosted = False
    await site.cluster(HOST)
    ships(site, *LOCATED)
    await installed(site, annotations=HOSTING)
    await held_by(site, PRE_DELETE)
    assert await site.works(HOST) == {}
