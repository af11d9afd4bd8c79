"""Works are applied, kept applied and reported: what people on the hub and on the managed cluster see."""

from __future__ import annotations

import time
from typing import Any

from muster.machinery.objects import GVR, Object
from muster.runtime.client.builtin import CONFIG_MAPS, CRDS, NAMESPACES
from muster.work.kinds import APPLIED_WORKS, MANIFEST_WORKS
from tests.support.working import Workplace, condition, config_map, identifier

DEPLOYMENTS = GVR("apps/v1", "deployments", "Deployment")
SECRETS = GVR("v1", "secrets", "Secret")


def strategy(kind: str, **options: Any) -> Object:
    return {"updateStrategy": {"type": kind, **options}}


def deployment(name: str, namespace: str, replicas: int = 1) -> Object:
    pods = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "main", "image": "example.org/nothing"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": pods}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def definition(plural: str, kind: str, group: str) -> Object:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


def everything_of(group: str) -> Object:
    return {"apiGroups": [group], "resources": ["*"], "verbs": ["*"]}


async def test_a_work_costs_two_requests_on_the_hub_and_two_more_than_its_manifests_on_the_cluster(place: Workplace) -> None:
    async with place.agent() as agent:
        await place.create("first", config_map("zero", place.namespace))
        await place.wait_applied("first")
        await agent.quiet()
        agent.forget()

        await place.create("second", *(config_map(f"c{number}", place.namespace, a="b") for number in range(10)))
        await place.wait_applied("second")
        await agent.quiet()

        assert [method for method, _ in agent.hub.asked] == ["PATCH", "PATCH"]
        methods = sorted(method for method, _ in agent.spoke.asked)
        assert methods == ["PATCH", *["POST"] * 11]
        work = await place.work("second")
        assert work is not None
        status = work["status"]
        assert condition(status, "Applied")["message"] == "Apply manifest work complete"
        assert condition(status, "Available")["message"] == "All resources are available"
        assert [entry["resourceMeta"]["name"] for entry in status["resourceStatus"]["manifests"]] == [f"c{n}" for n in range(10)]


async def test_an_agent_that_comes_back_asks_for_what_there_is_and_writes_nothing(place: Workplace) -> None:
    manifests = [config_map(f"c{number}", place.namespace, a="b") for number in range(5)]
    async with place.agent() as agent:
        await place.create("one", *manifests, deployment("web", place.namespace))
        await place.wait_applied("one")
        await agent.quiet()
    async with place.agent() as agent:
        await agent.quiet(1.5)
        assert agent.hub.writes == []
        assert agent.spoke.writes == []
        single = [path for method, path in agent.spoke.asked if method == "GET" and "/namespaces/" in path]
        assert single == []


async def test_what_somebody_deletes_or_edits_is_set_right_at_once(place: Workplace) -> None:
    async with place.agent() as agent:
        await place.create("kept", config_map("gone", place.namespace, a="b"), config_map("edited", place.namespace, a="b"))
        await place.wait_applied("kept")
        await agent.quiet(0.5)

        began = time.monotonic()
        await place.admin.delete(CONFIG_MAPS, "gone", place.namespace)
        await place.admin.patch(CONFIG_MAPS, "edited", {"data": {"a": "evil", "more": "too"}}, place.namespace)

        async def right() -> bool:
            return await place.data("gone") == {"a": "b"} and await place.data("edited") == {"a": "b"}

        await place.wait(right, "both to be set right", 2.0)
        assert time.monotonic() - began < 2.0
        made_anew = await place.find(CONFIG_MAPS, "gone", place.namespace)
        assert made_anew is not None

        async def tracked() -> bool:
            record = await place.record(agent, "kept")
            uids = [entry["uid"] for entry in (record or {}).get("status", {}).get("appliedResources", ())]
            return made_anew["metadata"]["uid"] in uids

        await place.wait(tracked, "the new object to be on record")


async def test_every_update_strategy_does_what_it_says(place: Workplace) -> None:
    names = {"Update": "updated", "CreateOnly": "created", "ServerSideApply": "applied", "ReadOnly": "read"}
    manifests = [config_map(name, place.namespace, a="1") for name in names.values()]
    configs = [identifier(manifest, "configmaps", **strategy(kind)) for kind, manifest in zip(names, manifests, strict=True)]
    await place.admin.create(CONFIG_MAPS, config_map("read", place.namespace, there="before"))
    async with place.agent() as agent:
        await place.create("strategies", *manifests, manifestConfigs=configs)
        await place.wait_applied("strategies")
        assert await place.data("read") == {"there": "before"}

        changed = [config_map(name, place.namespace, a="2") for name in names.values()]
        await place.change("strategies", *changed)
        await place.wait_applied("strategies")
        assert [await place.data(name) for name in names.values()] == [{"a": "2"}, {"a": "1"}, {"a": "2"}, {"there": "before"}]

        # What another manager has is contested only by the two that keep the content.
        await place.admin.apply(CONFIG_MAPS, config_map("applied", place.namespace, a="3"), manager="somebody", force=True)
        await place.wait_condition("strategies", "Applied", "False")
        failed = condition(await place.manifest("strategies", 2), "Applied")
        assert failed["reason"] == "ApplyConflict"

        await place.delete("strategies")
        await place.wait_gone("strategies")
        assert await place.data("read") == {"there": "before"}
        assert await place.data("updated") is None
        assert await place.record(agent, "strategies") is None


async def test_feedback_comes_back_and_follows_the_object(place: Workplace) -> None:
    web = deployment("web", place.namespace, 3)
    rules = [
        {"type": "WellKnownStatus"},
        {"type": "JSONPaths", "jsonPaths": [{"name": "image", "path": ".spec.template.spec.containers[0].image"}]},
    ]
    async with place.agent():
        await place.create("fed", web, manifestConfigs=[identifier(web, "deployments", feedbackRules=rules)])
        await place.wait_applied("fed")
        numbers = {"replicas": 3, "readyReplicas": 2, "availableReplicas": 2, "updatedReplicas": 3}
        await place.admin.patch(DEPLOYMENTS, "web", {"status": numbers}, place.namespace, subresource="status")

        async def values() -> bool:
            entry = await place.manifest("fed", 0)
            found = {one["name"]: one["fieldValue"] for one in entry.get("statusFeedback", {}).get("values", ())}
            return (
                found.get("ReadyReplicas") == {"type": "Integer", "integer": 2}
                and found.get("image") == {"type": "String", "string": "example.org/nothing"}
                and condition(entry, "StatusFeedbackSynced").get("status") == "True"
            )

        await place.wait(values, "the feedback")


async def test_a_complete_work_rests_until_its_spec_changes(place: Workplace) -> None:
    rule = {"type": "CEL", "condition": "Complete", "celExpressions": ["'done' in object.metadata.?labels.orValue({})"]}
    job = config_map("job", place.namespace, step="1")
    async with place.agent() as agent:
        await place.create("job", job, manifestConfigs=[identifier(job, "configmaps", conditionRules=[rule])])
        await place.wait_condition("job", "Complete", "False")
        await place.admin.patch(CONFIG_MAPS, "job", {"metadata": {"labels": {"done": "yes"}}}, place.namespace)
        await place.wait_condition("job", "Complete", reason="ConditionRulesAggregated")
        await agent.quiet(0.5)

        await place.admin.delete(CONFIG_MAPS, "job", place.namespace)
        await place.wait_condition("job", "Available", "False")
        await agent.quiet(0.5)
        assert await place.data("job") is None

        await place.change("job", config_map("job", place.namespace, step="2"))

        async def anew() -> bool:
            return await place.data("job") == {"step": "2"}

        await place.wait(anew, "the changed work to be applied")
        await place.wait_condition("job", "Complete", "False")


async def test_conditions_are_about_the_generation_that_they_say(place: Workplace) -> None:
    async with place.agent():
        await place.create("generations", config_map("one", place.namespace, a="1"))
        first = await place.wait_applied("generations")
        await place.change("generations", config_map("one", place.namespace, a="2"))
        second = await place.wait_applied("generations")
        assert second["metadata"]["generation"] == first["metadata"]["generation"] + 1
        assert await place.data("one") == {"a": "2"}
        entry = await place.manifest("generations", 0)
        assert condition(entry, "Applied")["observedGeneration"] == second["metadata"]["generation"]


async def test_an_unknown_kind_holds_up_neither_the_others_nor_the_removal_of_what_went(place: Workplace) -> None:
    group = f"{place.name}.example.org"
    strange = {"apiVersion": f"{group}/v1", "kind": "Strange", "metadata": {"name": "s", "namespace": place.namespace}, "spec": {}}
    await place.grant("strange", everything_of(group))
    async with place.agent() as agent:
        await place.create("odd", config_map("a", place.namespace), config_map("b", place.namespace), strange)
        await place.wait_condition("odd", "Applied", "False")
        assert await place.data("a") == {}
        failed = condition(await place.manifest("odd", 2), "Applied")
        assert failed["message"] == 'Failed to apply manifest: the server doesn\'t have a resource type "Strange"'
        assert condition(await place.manifest("odd", 0), "Applied")["status"] == "True"

        await place.change("odd", config_map("a", place.namespace), strange)

        async def pruned() -> bool:
            return await place.data("b") is None

        await place.wait(pruned, "b to be removed")
        record = await place.record(agent, "odd")
        assert record is not None

        await place.admin.create(CRDS, definition("stranges", "Strange", group))
        await place.wait_applied("odd", 10)
        await place.delete("odd")
        await place.wait_gone("odd")
        await place.admin.delete(CRDS, f"stranges.{group}")


async def test_a_definition_and_an_object_of_it_may_come_in_one_work(place: Workplace) -> None:
    group = f"{place.name}.example.com"
    await place.grant("new", everything_of(group))
    new = {"apiVersion": f"{group}/v1", "kind": "New", "metadata": {"name": "n", "namespace": place.namespace}, "spec": {"a": 1}}
    news = GVR(f"{group}/v1", "news", "New")
    async with place.agent():
        await place.create("both", new, definition("news", "New", group))
        await place.wait_applied("both", 10)
        assert await place.find(news, "n", place.namespace)
        await place.delete("both")
        await place.wait_gone("both")
        assert await place.find(CRDS, f"news.{group}") is None


async def test_a_manifest_that_cannot_be_placed_says_why(place: Workplace) -> None:
    homeless = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "homeless"}}
    async with place.agent():
        await place.create("placeless", homeless, config_map("fine", place.namespace))
        await place.wait_condition("placeless", "Applied", "False")
        messages = [condition(await place.manifest("placeless", number), "Applied")["message"] for number in range(2)]
        assert "metadata.namespace is missing" in messages[0]
        assert messages[1] == "Apply manifest complete"


async def test_labels_of_a_work_are_those_of_its_record(place: Workplace) -> None:
    async with place.agent() as agent:
        await place.create("labelled", config_map("x", place.namespace), labels={"a": "1"})
        await place.wait_applied("labelled")
        await place.admin.patch(MANIFEST_WORKS, "labelled", {"metadata": {"labels": {"a": None, "b": "2"}}}, place.name)

        async def copied() -> bool:
            record = await place.record(agent, "labelled")
            return record is not None and record["metadata"].get("labels") == {"b": "2"}

        await place.wait(copied, "the labels to be copied")


async def test_a_work_of_450_kilobytes_is_applied_changed_and_removed(place: Workplace) -> None:
    async with place.agent():
        await place.create("large", *(config_map(f"m{number}", place.namespace, a="x" * 9000) for number in range(50)))
        await place.wait_applied("large", 30)
        await place.change("large", *(config_map(f"m{number}", place.namespace, a="y" * 9000) for number in range(25, 50)))
        await place.wait_applied("large", 30)
        assert await place.data("m0") is None
        assert (await place.data("m49") or {})["a"] == "y" * 9000
        await place.delete("large")
        await place.wait_gone("large", 30)
        assert await place.data("m49") is None


async def test_somebody_who_deletes_the_record_gets_everything_removed_and_applied_anew(place: Workplace) -> None:
    async with place.agent() as agent:
        await place.create("again", config_map("again", place.namespace, a="b"))
        await place.wait_applied("again")
        before = await place.find(CONFIG_MAPS, "again", place.namespace)
        await place.admin.delete(APPLIED_WORKS, f"{agent.hub_hash}-again")

        async def anew() -> bool:
            now = await place.find(CONFIG_MAPS, "again", place.namespace)
            return bool(now and before and now["metadata"]["uid"] != before["metadata"]["uid"])

        await place.wait(anew, "the object to be made anew")
        assert await place.record(agent, "again") is not None


async def test_what_the_agent_itself_may_not_is_said_to_be_its_own_want(place: Workplace) -> None:
    group = f"{place.name}.example.net"
    await place.admin.create(CRDS, definition("thens", "Then", group))
    then = {"apiVersion": f"{group}/v1", "kind": "Then", "metadata": {"name": "t", "namespace": place.namespace}}
    async with place.agent():
        await place.create("unaided", then)
        await place.wait_condition("unaided", "Applied", "False")
        assert "work agent" in condition(await place.manifest("unaided", 0), "Applied")["message"]
        await place.grant("then", everything_of(group))
        await place.wait_applied("unaided", 20)
        await place.delete("unaided")
        await place.wait_gone("unaided")
    await place.admin.delete(CRDS, f"thens.{group}")
    assert await place.find(NAMESPACES, place.namespace)
