"""What policies leave behind, or take with them: `pruneObjectBehavior`, deletion, and the end of the controller."""

from __future__ import annotations

from typing import Any

import pytest

from muster.machinery.objects import ObjectKey
from muster.policy.names import PRUNE_FINALIZER, UNINSTALLING_ANNOTATION
from muster.policy.uninstall import DEFINITION, trigger_uninstall
from muster.runtime.client.builtin import CONFIG_MAPS, CRDS, DEPLOYMENTS
from tests.support.policy_site import CLUSTER, POLICIES, PolicySite, config_map, policy, template

HOLD = {"metadata": {"finalizers": ["example.com/hold"]}}


async def _gone(site: PolicySite, name: str = "p") -> bool:
    return await site.get(name) is None


@pytest.mark.parametrize("behavior", ["DeleteAll", "DeleteIfCreated"])
async def test_a_policy_that_prunes_takes_its_objects_with_it(site: PolicySite, behavior: str) -> None:
    async with site.controller():
        await site.create(policy("p", template(config_map("settings", color="red")), pruneObjectBehavior=behavior))
        await site.reported("p", "Compliant")
        assert (await site.get("p") or {})["metadata"]["finalizers"] == [PRUNE_FINALIZER]
        await site.spoke.delete(POLICIES, "p", CLUSTER)
        await site.until(lambda: _gone(site), "the policy to go", moving=0.5)
    assert await site.object("settings") is None


@pytest.mark.parametrize(("behavior", "left"), [("DeleteAll", False), ("DeleteIfCreated", True), ("None", True)])
async def test_an_object_that_was_there_before_goes_with_delete_all_only(site: PolicySite, behavior: str, left: bool) -> None:
    await site.spoke.create(CONFIG_MAPS, config_map("settings", color="red"))
    async with site.controller():
        await site.create(policy("p", template(config_map("settings", color="red")), pruneObjectBehavior=behavior))
        await site.reported("p", "Compliant")
        await site.spoke.delete(POLICIES, "p", CLUSTER)
        await site.until(lambda: _gone(site), "the policy to go", moving=0.5)
    assert (await site.object("settings") is not None) == left


async def test_an_object_that_somebody_made_anew_is_not_the_one_the_policy_created(site: PolicySite) -> None:
    document = policy(
        "p", template(config_map("settings", color="red")), pruneObjectBehavior="DeleteIfCreated", evaluationInterval=_HOURLY
    )
    async with site.controller():
        await site.create(document)
        await site.reported("p", "Compliant")
        await site.spoke.delete(CONFIG_MAPS, "settings", "app")
        await site.spoke.create(CONFIG_MAPS, config_map("settings", color="red"))
        await site.spoke.delete(POLICIES, "p", CLUSTER)
        await site.until(lambda: _gone(site), "the policy to go", moving=0.5)
    assert await site.data("settings") == {"color": "red"}


async def test_objects_that_a_changed_policy_is_no_longer_about_are_removed(site: PolicySite) -> None:
    async with site.controller():
        await site.create(
            policy(
                "p",
                template(config_map("one", color="red")),
                template(config_map("two", color="red")),
                pruneObjectBehavior="DeleteIfCreated",
            )
        )
        await site.reported("p", "Compliant")
        await site.change("p", {"spec": {"object-templates": [template(config_map("two", color="red"))]}})
        await site.until(lambda: _is_missing(site, "one"), "the object to go", moving=0.5)
        await site.reported("p", "Compliant", "[two]")
    assert await site.data("two") == {"color": "red"}
    assert [one["object"]["metadata"]["name"] for one in (await site.status("p"))["relatedObjects"]] == ["two"]


async def test_a_policy_that_only_informs_removes_nothing(site: PolicySite) -> None:
    await site.spoke.create(CONFIG_MAPS, config_map("settings", color="red"))
    async with site.controller():
        await site.create(
            policy("p", template(config_map("settings", color="red")), action="inform", pruneObjectBehavior="DeleteAll")
        )
        await site.reported("p", "Compliant")
        await site.spoke.delete(POLICIES, "p", CLUSTER)
        await site.until(lambda: _gone(site), "the policy to go", moving=0.5)
    assert await site.data("settings") == {"color": "red"}


async def test_a_policy_whose_objects_do_not_go_is_terminating_until_they_do(site: PolicySite) -> None:
    async with site.controller():
        await site.create(policy("p", template(config_map("settings", color="red")), pruneObjectBehavior="DeleteAll"))
        await site.reported("p", "Compliant")
        await site.spoke.patch(CONFIG_MAPS, "settings", HOLD, "app")
        await site.spoke.delete(POLICIES, "p", CLUSTER)
        status = await site.reported(
            "p", "Terminating", 'Failed to delete objects: /v1, Kind=ConfigMap "settings" in namespace app'
        )
        assert status["compliancyDetails"][0]["conditions"][0]["reason"] == "Error cleaning up child objects"
        await site.spoke.patch(CONFIG_MAPS, "settings", {"metadata": {"finalizers": None}}, "app")
        await site.until(lambda: _gone(site), "the policy to go", moving=0.5)


async def test_an_object_that_could_not_be_removed_stays_in_the_status_until_it_is(site: PolicySite) -> None:
    async with site.controller():
        await site.create(policy("p", template(config_map("one", color="red")), pruneObjectBehavior="DeleteAll"))
        await site.reported("p", "Compliant")
        await site.spoke.patch(CONFIG_MAPS, "one", HOLD, "app")
        await site.change("p", {"spec": {"object-templates": [template(config_map("two", color="red"))]}})
        status = await site.reported("p", "Compliant", "[two] found as specified")
        assert [one["object"]["metadata"]["name"] for one in status["relatedObjects"]] == ["one", "two"]
        await site.spoke.patch(CONFIG_MAPS, "one", {"metadata": {"finalizers": None}}, "app")

        async def is_forgotten() -> bool:
            return len((await site.status("p"))["relatedObjects"]) == 1

        await site.until(is_forgotten, "the object to be forgotten", moving=0.5)


async def test_objects_of_a_template_that_fails_are_neither_removed_nor_forgotten(site: PolicySite) -> None:
    async with site.controller():
        await site.create(policy("p", template(config_map("one", color="red")), pruneObjectBehavior="DeleteAll"))
        await site.reported("p", "Compliant")
        unknown = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "app"}}
        await site.change("p", {"spec": {"object-templates": [template(unknown)]}})
        await site.reported("p", "NonCompliant", "couldn't find mapping")
        assert await site.data("one") == {"color": "red"}
        await site.spoke.delete(POLICIES, "p", CLUSTER)
        await site.until(lambda: _gone(site), "the policy to go", moving=0.5)
    assert await site.object("one") is None


async def test_the_finalizer_goes_when_the_policy_no_longer_prunes(site: PolicySite) -> None:
    async with site.controller():
        await site.create(policy("p", template(config_map("settings", color="red")), pruneObjectBehavior="DeleteAll"))
        await site.reported("p", "Compliant")
        await site.change("p", {"metadata": {"finalizers": [PRUNE_FINALIZER, "example.com/other"]}})
        await site.change("p", {"spec": {"pruneObjectBehavior": "None"}})

        async def is_released() -> bool:
            return (await site.get("p") or {})["metadata"]["finalizers"] == ["example.com/other"]

        await site.until(is_released, "the finalizer to go", moving=0.5)


async def test_uninstalling_lets_go_of_policies_and_leaves_their_objects(site: PolicySite) -> None:
    deployment = ObjectKey("agents", "config-policy-controller")
    await site.create_namespace("agents")
    await _deploy(site, deployment)
    async with site.controller(deployment=deployment) as life:
        await site.create(policy("p", template(config_map("settings", color="red")), pruneObjectBehavior="DeleteAll"))
        await site.reported("p", "Compliant", "found as specified")
        await trigger_uninstall(site.spoke, deployment, [CLUSTER, "open-cluster-management-policies"], clock=_Running(site))
        assert "finalizers" not in (await site.get("p") or {})["metadata"]
        await site.spoke.delete(CONFIG_MAPS, "settings", "app")
        await site.at_rest(life)
        assert await site.object("settings") is None, "nothing is enforced any more"
        found = await site.spoke.get(DEPLOYMENTS, deployment.name, deployment.namespace)
        assert found["metadata"]["annotations"][UNINSTALLING_ANNOTATION]
        taken_back = {"metadata": {"annotations": {UNINSTALLING_ANNOTATION: "false"}}}
        await site.spoke.patch(DEPLOYMENTS, deployment.name, taken_back, deployment.namespace)

        async def is_there() -> bool:
            return await site.object("settings") is not None

        await site.until(is_there, "policies to be enforced again", moving=0.5)


async def test_a_controller_that_outlives_its_deployment_leaves_policies_alone_until_there_is_one(site: PolicySite) -> None:
    """Its pod ends after the Deployment, whose mark is gone then: nobody would take off a finalizer that it put on."""
    deployment = ObjectKey("agents", "config-policy-controller")
    await site.create_namespace("agents")
    await _deploy(site, deployment)
    names = {"p", "late"}

    async def held() -> set[str]:
        return {name for name in names if ((await site.get(name)) or {"metadata": {}})["metadata"].get("finalizers")}

    async with site.controller(deployment=deployment) as life:
        await site.create(policy("p", template(config_map("p", color="red")), pruneObjectBehavior="DeleteAll"))
        await site.reported("p", "Compliant", "found as specified")
        await trigger_uninstall(site.spoke, deployment, [CLUSTER], clock=_Running(site))
        await site.spoke.delete(DEPLOYMENTS, deployment.name, deployment.namespace)
        await site.create(policy("late", template(config_map("late", color="red")), pruneObjectBehavior="DeleteAll"))
        await site.at_rest(life)
        assert await held() == set()
        assert await site.object("late") is None
        await _deploy(site, deployment)

        async def are_held() -> bool:
            return await held() == names

        await site.until(are_held, "policies to be looked after again", moving=0.5)
        await site.reported("late", "Compliant")


async def test_a_deployment_that_goes_unmarked_takes_no_finalizer_with_it(site: PolicySite) -> None:
    """Somebody may have it made anew: what policies are to take with them they take also in between."""
    deployment = ObjectKey("agents", "config-policy-controller")
    await site.create_namespace("agents")
    await _deploy(site, deployment)
    async with site.controller(deployment=deployment) as life:
        await site.create(policy("p", template(config_map("settings", color="red")), pruneObjectBehavior="DeleteAll"))
        await site.reported("p", "Compliant", "found as specified")
        await site.spoke.delete(DEPLOYMENTS, deployment.name, deployment.namespace)
        await site.spoke.delete(POLICIES, "p", CLUSTER)
        await site.at_rest(life)
        assert (await site.get("p") or {})["metadata"]["finalizers"] == [PRUNE_FINALIZER]
        await _deploy(site, deployment)
        await site.until(lambda: _gone(site), "the policy to go", moving=0.5)
    assert await site.object("settings") is None


async def test_a_definition_that_is_being_deleted_is_let_go_of(site: PolicySite) -> None:
    async with site.controller():
        await site.create(policy("p", template(config_map("settings", color="red")), pruneObjectBehavior="DeleteAll"))
        await site.reported("p", "Compliant")
        await site.spoke.delete(CRDS, DEFINITION)

        async def is_deleted() -> bool:
            names = [one["metadata"]["name"] for one in (await site.spoke.list(CRDS)).items]
            return DEFINITION not in names

        await site.until(is_deleted, "the definition to go", moving=0.5)
    assert await site.data("settings") == {"color": "red"}


_HOURLY = {"compliant": "1h", "noncompliant": "1h"}


async def _is_missing(site: PolicySite, name: str) -> bool:
    return await site.object(name) is None


async def _deploy(site: PolicySite, key: ObjectKey) -> None:
    labels = {"app": key.name}
    containers = [{"name": "controller", "image": "muster"}]
    await site.spoke.create(
        DEPLOYMENTS,
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": key.name, "namespace": key.namespace},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
            },
        },
    )


class _Running:
    """The site's clock, which goes on while somebody sleeps."""

    def __init__(self, site: PolicySite) -> None:
        self._clock = site.clock

    def now(self) -> Any:
        return self._clock.now()

    def monotonic(self) -> float:
        return self._clock.monotonic()

    def call_later(self, seconds: float, callback: Any) -> Any:
        import asyncio

        async def go_on() -> None:
            await self._clock.advance(seconds)
            callback()

        task = asyncio.ensure_future(go_on())

        class Timer:
            def cancel(self) -> None:
                if not task.done():
                    task.cancel()

        return Timer()
