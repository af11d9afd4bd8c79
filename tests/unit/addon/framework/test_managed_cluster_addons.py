"""An addon on a cluster, from nothing to available and away again."""

from __future__ import annotations

import pytest

from muster.addon.agent_addon import (
    AddonError,
    Agent,
    CustomSigner,
    Health,
    HealthMode,
    Installation,
    KubeClient,
)
from muster.api.addon.conversion import KUBE_CLIENT_SIGNER
from tests.unit.addon.framework.conftest import ADC, ADDON, CLUSTER, CMAS, GROUP, MCAS, WORKS, AddonSite, config_map, deployment

DEPLOY = f"addon-{ADDON}-deploy-0"
USER = f"system:open-cluster-management:cluster:{CLUSTER}:addon:{ADDON}:agent:{ADDON}-agent"


def workloads(installation: Installation) -> Agent:
    return Agent(
        manifests=(deployment(), config_map()),
        registrations=(KubeClient(),),
        namespace="hello-ns",
        health=Health(HealthMode.WORKLOADS),
    )


async def test_from_nothing_to_available_takes_few_writes_to_the_addon(bare: AddonSite) -> None:
    """Defect 23: it is rendered once in a pass, for all that is said and written of it."""
    bare.addon.make = workloads
    config = bare.configs.put("settings", size="1")
    async with bare.running() as life:
        uid = await bare.offer()
        await bare.enable(uid)
        bare.plan(uid, config)
        await bare.says("Configured", "True", "ConfigurationsConfigured")
        await bare.says("RegistrationApplied", "True", "SetPermissionApplied")
        await bare.says("Progressing", "False", "WaitingForManifestApplied")
        await bare.settled()
        assert bare.addon.rendered == 1
        await bare.admin.patch(MCAS, ADDON, {"status": {"kubeClientDriver": "csr"}}, CLUSTER, subresource="status")
        await bare.says("Available", "Unknown", "WorkNotApplied")
        await bare.report()
        await bare.says("Available", "Unknown", "NoProbeResult")
        await bare.report(ReadyReplicas=1, Replicas=1)
        assert await bare.says("Available", "True", "ProbeAvailable") == "hello add-on is available."
        assert await bare.says("Progressing", "False", "Completed") == "completed with no errors."
        assert await bare.says("ManifestApplied", "True", "AddonManifestApplied") == "manifests of addon are applied successfully"
        await bare.settled()
        writes = [path for method, path in life.writes if f"/managedclusteraddons/{ADDON}" in path]
        assert len(writes) <= 4
    status = await bare.status()
    assert status["registrations"][0]["signerName"] == KUBE_CLIENT_SIGNER
    assert status["registrations"][0]["subject"] == {
        "user": USER,
        "groups": [
            f"system:open-cluster-management:cluster:{CLUSTER}:addon:{ADDON}",
            f"system:open-cluster-management:addon:{ADDON}",
        ],
    }
    assert (status["namespace"], status["healthCheck"]) == ("hello-ns", {"mode": "Customized"})
    assert status["supportedConfigs"] == [{"group": GROUP, "resource": ADC}]
    (reference,) = status["configReferences"]
    wanted = {"namespace": "configs", "name": "settings", "specHash": config.config.spec_hash}
    assert reference["lastAppliedConfig"] == reference["desiredConfig"] == wanted


async def test_at_rest_nothing_is_written_and_nothing_rendered(site: AddonSite) -> None:
    uid = await site.offer()
    await site.enable(uid)
    site.plan(uid)
    await site.report()
    await site.says("Progressing", "False", "Completed")
    await site.settled()
    rendered, version = site.addon.rendered, (await site.find())["metadata"]["resourceVersion"]
    site.plan(uid)
    await site.settled()
    assert (site.addon.rendered, (await site.find())["metadata"]["resourceVersion"]) == (rendered, version)


async def test_an_addon_waits_for_its_plan_and_its_owner(site: AddonSite) -> None:
    uid = await site.offer()
    await site.enable(uid)
    await site.settled()
    assert await site.status() == {}
    assert site.addon.rendered == 0
    site.plan("another-uid")
    await site.settled()
    assert await site.status() == {}
    site.plan(uid)
    await site.says("RegistrationApplied", "True", "NilRegistration")


async def test_the_works_of_an_addon_are_its_own(site: AddonSite) -> None:
    uid = await site.offer()
    made = await site.enable(uid)
    site.plan(uid, site.configs.put("settings", size="1"))
    work = await site.until(lambda: site.get(WORKS, DEPLOY, CLUSTER), "the work")
    (owner,) = work["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("ManagedClusterAddOn", made["metadata"]["uid"])
    assert work["metadata"]["labels"] == {"open-cluster-management.io/addon-name": ADDON}
    assert list(work["metadata"]["annotations"]) == ["open-cluster-management.io/config-spec-hash"]
    await site.admin.delete(MCAS, ADDON, CLUSTER)

    async def gone() -> bool:
        return await site.find() is None and not await site.works()

    await site.until(gone, "the addon and its works to be gone")


async def test_a_work_that_somebody_changed_or_deleted_is_set_right(site: AddonSite) -> None:
    uid = await site.offer()
    await site.enable(uid)
    site.plan(uid)
    await site.until(lambda: site.get(WORKS, DEPLOY, CLUSTER), "the work")
    await site.admin.patch(WORKS, DEPLOY, {"spec": {"workload": {"manifests": [config_map("foreign")]}}}, CLUSTER)

    async def right() -> bool:
        return await site.works() == {DEPLOY: ["settings"]}

    await site.until(right, "the work to be set right")
    await site.admin.delete(WORKS, DEPLOY, CLUSTER)
    await site.until(right, "the work to be back")


async def test_a_configuration_that_is_not_released_reaches_nobody(site: AddonSite) -> None:
    def sized(installation: Installation) -> Agent:
        config = installation.config(GROUP, ADC)
        return Agent(manifests=(config_map(f"size-{config.document['spec']['size'] if config else 'none'}"),))

    site.addon.make = sized
    uid = await site.offer()
    await site.enable(uid)
    old = site.configs.put("settings", size="1")
    site.plan(uid, old)
    await site.report()
    await site.says("Progressing", "False", "Completed")
    new = site.configs.put("settings", generation=2, size="2")
    site.plan(uid, new, released=False)
    message = await site.says("Configured", "False", "ConfigurationsNotConfigured")
    assert message == "Configurations updated and not configured yet"
    site.configs.put("settings", generation=2, size="2")
    await site.settled()
    assert await site.works() == {DEPLOY: ["size-1"]}
    assert await site.said("Progressing") == ("False", "Completed", "completed with no errors.")

    site.plan(uid, new)
    assert await site.says("Progressing", "True", "Progressing") == "progressing... work is not ready"
    assert await site.works() == {DEPLOY: ["size-2"]}
    (reference,) = (await site.status())["configReferences"]
    assert reference["desiredConfig"]["specHash"] == new.config.spec_hash
    assert reference["lastAppliedConfig"]["specHash"] == old.config.spec_hash
    assert reference["lastObservedGeneration"] == 2
    await site.report()
    await site.says("Progressing", "False", "Completed")
    (reference,) = (await site.status())["configReferences"]
    assert reference["lastAppliedConfig"]["specHash"] == new.config.spec_hash


async def test_an_addon_whose_configuration_is_missing_waits_quietly(site: AddonSite) -> None:
    """Defect 25, ocm#1181: nothing is rendered while a hash is missing, and no error is said."""
    site.addon.needs_configuration = True
    config = site.configs.put("settings", size="1")
    site.configs.objects.clear()
    uid = await site.offer()
    await site.enable(uid)
    site.plan(uid, config)
    await site.says("Progressing", "False", "WaitingForManifestApplied")
    await site.settled()
    assert await site.works() == {}
    assert site.addon.rendered == 0
    assert await site.said("ManifestApplied") is None
    site.configs.put("settings", size="1")
    await site.until(lambda: site.get(WORKS, DEPLOY, CLUSTER), "the work")


async def test_an_unsupported_kind_of_configuration_is_named(site: AddonSite) -> None:
    uid = await site.offer()
    await site.enable(uid, spec={"configs": [{"group": "", "resource": "configmaps", "name": "x", "namespace": "y"}]})
    site.plan(uid)
    message = await site.says("Progressing", "False", "ConfigurationUnsupported")
    assert message == "Configuration with gvr /configmaps is not supported for this addon"


async def test_an_addon_that_cannot_be_rendered_says_why_and_keeps_its_works(site: AddonSite) -> None:
    uid = await site.offer()
    await site.enable(uid)
    site.plan(uid)
    await site.report()
    await site.says("Progressing", "False", "Completed")

    def broken(installation: Installation) -> Agent:
        raise AddonError("the chart has no templates")

    site.addon.make = broken
    assert site.framework is not None
    site.framework.addon_changed(ADDON)
    message = await site.says("ManifestApplied", "False", "ManifestWorkApplyFailed")
    assert message == "failed to get manifest from agent interface: the chart has no templates"
    assert await site.works() == {DEPLOY: ["settings"]}


async def test_where_somebody_else_plans_the_references_are_read(bare: AddonSite) -> None:
    bare.plans = None
    config = bare.configs.put("settings", size="1")
    async with bare.running():
        uid = await bare.offer()
        await bare.enable(uid, spec={"configs": [{"group": GROUP, "resource": ADC, "namespace": "configs", "name": "settings"}]})
        desired = {"namespace": "configs", "name": "settings"}
        reference = {"group": GROUP, "resource": ADC, **desired, "desiredConfig": {**desired, "specHash": ""}}
        await bare.admin.patch(MCAS, ADDON, {"status": {"configReferences": [reference]}}, CLUSTER, subresource="status")
        await bare.until(lambda: bare.get(WORKS, DEPLOY, CLUSTER), "the work")
        (seen,) = (await bare.status())["configReferences"]
        assert seen["desiredConfig"]["specHash"] == config.config.spec_hash
        assert await bare.said("Configured") is None


async def says_configured(site: AddonSite, status: str) -> None:
    """The hub's addon manager, whoever's it is."""
    since = {"reason": "Test", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    status_now = {"conditions": [{"type": "Configured", "status": status, **since}]}
    await site.admin.patch(MCAS, ADDON, {"status": status_now}, CLUSTER, subresource="status")


async def test_where_somebody_else_plans_nothing_is_begun_before_that_one_has_said_so(bare: AddonSite) -> None:
    """Else a cluster would have the addon without its configuration, and before its turn."""
    bare.plans = None
    async with bare.running():
        uid = await bare.offer()
        await bare.enable(uid)

        async def knows_kinds() -> bool:
            return bool((await bare.status()).get("supportedConfigs"))

        await bare.until(knows_kinds, "what it may be configured with")
        await bare.settled()
        assert await bare.works() == {}
        await says_configured(bare, "False")
        await bare.settled()
        assert await bare.works() == {}
        await says_configured(bare, "True")
        await bare.until(lambda: bare.get(WORKS, DEPLOY, CLUSTER), "the work")


async def test_an_addon_that_manages_itself_waits_for_nobody(bare: AddonSite) -> None:
    bare.plans = None
    async with bare.running():
        await bare.enable(await bare.offer(lifecycle="self"))
        await bare.until(lambda: bare.get(WORKS, DEPLOY, CLUSTER), "the work")


async def test_an_addon_that_becomes_its_own_manager_goes_ahead(bare: AddonSite) -> None:
    bare.plans = None
    async with bare.running():
        await bare.enable(await bare.offer())
        await bare.settled()
        assert await bare.works() == {}
        await bare.admin.patch(CMAS, ADDON, {"metadata": {"annotations": {f"{GROUP}/lifecycle": "self"}}})
        await bare.until(lambda: bare.get(WORKS, DEPLOY, CLUSTER), "the work")


async def test_what_is_deployed_stays_though_nobody_says_that_it_is_configured(bare: AddonSite) -> None:
    bare.plans = None
    async with bare.running():
        await bare.enable(await bare.offer())
        await says_configured(bare, "True")
        await bare.until(lambda: bare.get(WORKS, DEPLOY, CLUSTER), "the work")
        await bare.admin.patch(MCAS, ADDON, {"status": {"conditions": []}}, CLUSTER, subresource="status")
        bare.addon.make = lambda installation: Agent(manifests=(config_map("another"),))
        assert bare.framework is not None
        bare.framework.addon_changed(ADDON)

        async def follows() -> bool:
            return await bare.works() == {DEPLOY: ["another"]}

        await bare.until(follows, "the work to follow")


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        (HealthMode.LEASE, None),
        (HealthMode.NONE, None),
        (HealthMode.WORK, ("True", "WorkApplied", "Addon manifestWork is applied")),
    ],
)
async def test_health_is_told_by_whom_the_addon_says(site: AddonSite, mode: HealthMode, said: tuple[str, ...] | None) -> None:
    site.addon.make = lambda installation: Agent(manifests=(config_map(),), health=Health(mode))
    uid = await site.offer()
    await site.enable(uid)
    site.plan(uid)
    await site.report()
    await site.says("Progressing", "False", "Completed")
    assert await site.said("Available") == said
    mode_said = ((await site.status()).get("healthCheck") or {}).get("mode", "Lease")
    assert mode_said == ("Lease" if mode is HealthMode.LEASE else "Customized")


async def test_an_unreachable_cluster_leaves_availability_to_the_hub(site: AddonSite) -> None:
    site.addon.make = workloads
    uid = await site.offer()
    await site.enable(uid)
    site.plan(uid)
    await site.report(ReadyReplicas=1, Replicas=1)
    await site.says("Available", "True", "ProbeAvailable")
    await site.set_available(CLUSTER, "Unknown")
    await site.settled()
    await site.report(Replicas=1)
    await site.settled()
    assert await site.said("Available") == ("True", "ProbeAvailable", "hello add-on is available.")
    await site.set_available(CLUSTER, "True")
    message = await site.says("Available", "False", "ProbeUnavailable")
    assert message == "Probe addon unavailable with err Deployment hello-ns/agent has 0 ready of 1"


async def test_a_custom_signer_is_registered_as_the_addon_says(site: AddonSite) -> None:
    signer = CustomSigner("example.com/agent", user="u", groups=("g",), organization_units=("o",))
    site.addon.make = lambda installation: Agent(manifests=(config_map(),), registrations=(signer,))
    uid = await site.offer()
    await site.enable(uid)
    site.plan(uid)
    await site.says("RegistrationApplied", "True", "SetPermissionApplied")
    (registration,) = (await site.status())["registrations"]
    subject = {"user": "u", "groups": ["g"], "organizationUnit": ["o"]}
    assert registration == {"signerName": "example.com/agent", "subject": subject}


async def test_what_the_works_could_not_apply_is_a_failure(site: AddonSite) -> None:
    uid = await site.offer()
    await site.enable(uid)
    site.plan(uid)
    await site.report(applied="False")
    assert await site.says("Progressing", "False", "Failed") == f"failed to apply manifestWork {DEPLOY}: said False"
    assert await site.says("ManifestApplied", "False", "AddonManifestAppliedFailed") == "failed to apply the manifests of addon"
    await site.report()
    await site.says("Progressing", "False", "Completed")


async def test_the_namespace_that_an_addon_ships_for_itself_is_labelled(site: AddonSite) -> None:
    def make(installation: Installation) -> Agent:
        own, other = ({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in ("hello-ns", "other"))
        return Agent(manifests=(own, other), namespace="hello-ns")

    site.addon.make = make
    uid = await site.offer()
    await site.enable(uid)
    site.plan(uid)
    work = await site.until(lambda: site.get(WORKS, DEPLOY, CLUSTER), "the work")
    labels = [manifest["metadata"].get("labels") for manifest in work["spec"]["workload"]["manifests"]]
    assert labels == [{f"{GROUP}/namespace": "true"}, None]


async def test_an_edit_that_nobody_planned_yet_is_written_nowhere(site: AddonSite) -> None:
    uid = await site.offer()
    await site.enable(uid)
    site.plan(uid, site.configs.put("settings", size="1"))
    await site.report()
    await site.says("Progressing", "False", "Completed")
    await site.settled()
    before = (await site.find())["metadata"]["resourceVersion"]
    site.configs.put("settings", generation=2, size="2")
    await site.settled()
    assert (await site.find())["metadata"]["resourceVersion"] == before


async def test_an_addon_without_manifests_is_complete(site: AddonSite) -> None:
    site.addon.make = lambda installation: Agent(registrations=(KubeClient(),))
    uid = await site.offer()
    await site.enable(uid)
    site.plan(uid)
    await site.says("Progressing", "False", "Completed")
    assert await site.works() == {}


async def test_an_addon_that_comes_to_be_served_is_looked_at_again(site: AddonSite) -> None:
    site.registry.serves = False
    uid = await site.offer()
    await site.enable(uid)
    site.plan(uid)
    # For its configurations the hub's manager speaks, whoever serves it; for nothing else.
    await site.says("Configured", "True", "ConfigurationsConfigured")
    await site.says("Progressing", "False", "WaitingForManifestApplied")
    assert sorted(await site.status()) == ["conditions"]
    assert await site.works() == {}
    site.registry.serves = True
    offered = {"spec": {"supportedConfigs": [{"group": GROUP, "resource": "addontemplates"}]}}
    await site.admin.patch(CMAS, ADDON, offered)
    await site.says("RegistrationApplied", "True", "NilRegistration")
