"""A work that is complete rests, but only what was applied is called so, and what it lost goes all the same."""

from __future__ import annotations

from muster.machinery.objects import GVR, Object
from muster.runtime.client.builtin import CONFIG_MAPS, NAMESPACES
from tests.unit.work.agent.conftest import Site, config_map, namespace, until
from tests.unit.work.agent.test_pass import applied, message, of, quiet

SERVICES = GVR("v1", "services", "Service")
ALWAYS = {"type": "CEL", "condition": "Complete", "celExpressions": ["true"]}
WHEN_SEALED = {"type": "CEL", "condition": "Complete", "celExpressions": ["object.?immutable.orValue(false)"]}


async def complete(site: Site, name: str = "w") -> bool:
    """In its present generation."""
    work = await site.work(name)
    assert work is not None
    return any(
        one["type"] == "Complete" and one["status"] == "True" and one["observedGeneration"] == work["metadata"]["generation"]
        for one in (work.get("status") or {}).get("conditions") or ()
    )


async def test_what_could_not_be_applied_is_not_called_applied_when_the_rest_is_complete(site: Site) -> None:
    async with site.agent() as life:
        configs = [of("configmaps", "a", conditionRules=[ALWAYS])]
        await site.create("w", config_map("a"), config_map("b", "nowhere"), manifestConfigs=configs)
        await until(lambda: complete(site), "the rule to hold")
        await quiet(life)
        assert "nowhere" in await message(site, 1)
        assert not await site.applied("w")
        await site.spoke.create(NAMESPACES, namespace("nowhere"))
        await applied(site)
        assert set(await site.config_maps("nowhere")) == {"b"}


async def test_a_change_that_the_cluster_refuses_is_not_called_applied_because_the_object_was_complete(site: Site) -> None:
    def sealed(value: str) -> Object:
        return {**config_map("a", x=value), "immutable": True}

    async with site.agent() as life:
        await site.create("w", sealed("1"), manifestConfigs=[of("configmaps", "a", conditionRules=[WHEN_SEALED])])
        await applied(site)
        await site.change("w", sealed("2"))
        await until(lambda: complete(site), "the old object to be seen as complete")
        await quiet(life)
        assert "immutable" in await message(site, 0)
        assert not await site.applied("w")
        await site.spoke.delete(CONFIG_MAPS, "a", "app")
        await applied(site)
        assert (await site.config_maps())["a"]["data"] == {"x": "2"}


async def test_a_complete_work_still_loses_what_had_to_wait(site: Site) -> None:
    held = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "held", "namespace": "app", "finalizers": ["example.org/held"]},
        "spec": {"ports": [{"port": 80}]},
    }
    async with site.agent() as life:
        configs = [of("configmaps", "a", conditionRules=[ALWAYS])]
        await site.create("w", config_map("a"), config_map("after"), held, manifestConfigs=configs)
        await applied(site)
        await site.change("w", config_map("a", x="2"))
        await applied(site)
        await until(lambda: complete(site), "the work to be complete")
        await quiet(life)
        assert set(await site.config_maps()) == {"a", "after"}
        await site.spoke.patch(SERVICES, "held", {"metadata": {"finalizers": None}}, "app")

        async def gone() -> bool:
            return set(await site.config_maps()) == {"a"}

        await until(gone, "what comes after the held one to go")

        async def recorded() -> bool:
            (record,) = await site.records()
            return [entry["name"] for entry in record["status"]["appliedResources"]] == ["a"]

        await until(recorded, "the record to forget them")


async def test_a_complete_work_costs_no_request(site: Site) -> None:
    async with site.agent() as life:
        await site.create("w", config_map("a"), manifestConfigs=[of("configmaps", "a", conditionRules=[ALWAYS])])
        await until(lambda: complete(site), "the work to be complete")
        await quiet(life)
        life.asked.clear()
        await site.spoke.patch(CONFIG_MAPS, "a", {"data": {"x": "foreign"}}, "app")
        await quiet(life)
        assert life.asked == []


async def test_an_object_that_goes_the_moment_it_is_complete_is_not_made_anew(site: Site) -> None:
    """As Jobs do with `ttlSecondsAfterFinished: 0`: nobody has seen them complete before they are gone."""
    rule = {"type": "CEL", "condition": "Complete", "celExpressions": ["'done' in object.metadata.?labels.orValue({})"]}
    values = [{"type": "JSONPaths", "jsonPaths": [{"name": "result", "path": ".metadata.labels.done"}]}]
    async with site.agent() as life:
        configs = [of("configmaps", "job", conditionRules=[rule], feedbackRules=values)]
        await site.create("w", config_map("job"), config_map("other"), manifestConfigs=configs)
        await applied(site)
        await quiet(life)
        await site.spoke.patch(CONFIG_MAPS, "job", {"metadata": {"labels": {"done": "well"}}}, "app")
        await site.spoke.delete(CONFIG_MAPS, "job", "app")
        await until(lambda: complete(site), "the work to be complete")
        await quiet(life)
        assert set(await site.config_maps()) == {"other"}
        work = await site.work("w")
        assert work is not None
        entry = work["status"]["resourceStatus"]["manifests"][0]
        assert {one["type"]: one["status"] for one in entry["conditions"]} == {
            "Applied": "True",
            "Available": "False",
            "Complete": "True",
            "StatusFeedbackSynced": "True",
        }
        assert [one["fieldValue"]["string"] for one in entry["statusFeedback"]["values"]] == ["well"]
        await site.change("w", config_map("job", again="yes"))
        await applied(site)
        assert set(await site.config_maps()) == {"job"}


async def test_an_object_that_goes_before_it_is_complete_is_made_anew(site: Site) -> None:
    rule = {"type": "CEL", "condition": "Complete", "celExpressions": ["'done' in object.metadata.?labels.orValue({})"]}
    async with site.agent() as life:
        await site.create("w", config_map("job"), manifestConfigs=[of("configmaps", "job", conditionRules=[rule])])
        await applied(site)
        await quiet(life)
        first = (await site.config_maps())["job"]["metadata"]["uid"]
        await site.spoke.delete(CONFIG_MAPS, "job", "app")

        async def anew() -> bool:
            found = (await site.config_maps()).get("job")
            return found is not None and found["metadata"]["uid"] != first

        await until(anew, "the object to be made anew")
        await quiet(life)
        assert not await complete(site)
