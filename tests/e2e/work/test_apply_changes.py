"""What people do to works, and to what works have applied: manifests move, works share objects, marks and records are edited."""

from __future__ import annotations

from typing import Any

from muster.machinery.objects import GVR, Object
from muster.runtime.client.builtin import CONFIG_MAPS, CRDS, NAMESPACES, SECRETS
from muster.work.kinds import APPLIED_WORKS
from tests.e2e.work.test_apply import definition, everything_of, strategy
from tests.support.working import Workplace, condition, config_map, identifier


def feedback(name: str, path: str) -> list[Object]:
    return [{"type": "JSONPaths", "jsonPaths": [{"name": name, "path": path}]}]


async def value(place: Workplace, work: str, ordinal: int) -> Any:
    entry = await place.manifest(work, ordinal)
    values = entry.get("statusFeedback", {}).get("values") or ()
    return next((one["fieldValue"].get("string") for one in values), None)


async def uid(place: Workplace, name: str, resource: GVR = CONFIG_MAPS) -> str:
    found = await place.find(resource, name, place.namespace)
    return found["metadata"]["uid"] if found else ""


async def owners(place: Workplace, name: str) -> list[str]:
    found = await place.find(CONFIG_MAPS, name, place.namespace)
    return [one["name"] for one in (found or {"metadata": {}})["metadata"].get("ownerReferences") or ()]


async def test_a_namespace_that_somebody_deletes_comes_back_with_what_was_in_it(place: Workplace) -> None:
    inner = f"{place.namespace}-inner"
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": inner}}
    async with place.agent():
        await place.create("home", config_map("in", inner, a="b"), namespace)
        await place.wait_applied("home")
        first = await place.find(NAMESPACES, inner)
        assert first is not None
        await place.admin.delete(NAMESPACES, inner)

        async def back() -> bool:
            now, content = await place.find(NAMESPACES, inner), await place.find(CONFIG_MAPS, "in", inner)
            anew = now is not None and now["metadata"]["uid"] != first["metadata"]["uid"]
            return anew and content is not None and not content["metadata"].get("deletionTimestamp")

        await place.wait(back, "the namespace and its content", 60)
        await place.wait_applied("home")
        await place.delete("home")
        await place.wait_gone("home", 60)
        assert await place.find(NAMESPACES, inner) is None


async def test_a_work_that_only_reads_follows_what_another_work_writes(place: Workplace) -> None:
    async with place.agent():
        await place.create("writes", config_map("shared", place.namespace, a="1"))
        await place.wait_applied("writes")
        shared = config_map("shared", place.namespace)
        reads = identifier(shared, "configmaps", feedbackRules=feedback("a", ".data.a"), **strategy("ReadOnly"))
        await place.create("reads", shared, manifestConfigs=[reads])
        await place.wait_applied("reads")
        assert await value(place, "reads", 0) == "1"
        await place.change("writes", config_map("shared", place.namespace, a="2"))

        async def told() -> bool:
            return await value(place, "reads", 0) == "2"

        await place.wait(told, "what the other work wrote")
        await place.delete("writes")
        await place.wait_condition("reads", "Available", "False")


async def test_a_manifest_may_move_from_one_work_to_another(place: Workplace) -> None:
    moving = config_map("moving", place.namespace, a="b")
    async with place.agent():
        await place.create("old", moving, config_map("old", place.namespace))
        await place.wait_applied("old")
        first = await uid(place, "moving")
        await place.create("new", moving)
        await place.wait_applied("new")
        await place.change("old", config_map("old", place.namespace))

        async def moved() -> bool:
            return [name.endswith("-new") for name in await owners(place, "moving")] == [True]

        await place.wait(moved, "the object to be the other work's alone")
        assert await uid(place, "moving") == first
        await place.delete("old")
        await place.wait_gone("old")
        assert await uid(place, "moving") == first


async def test_manifests_that_change_places_keep_their_values_and_cost_no_write(place: Workplace) -> None:
    manifests = [config_map(name, place.namespace, a=name) for name in ("one", "two", "three")]
    configs = [identifier(manifest, "configmaps", feedbackRules=feedback("a", ".data.a")) for manifest in manifests]
    async with place.agent() as agent:
        await place.create("shuffled", *manifests, manifestConfigs=configs)
        await place.wait_applied("shuffled")
        await agent.quiet(0.5)
        agent.forget()
        await place.change("shuffled", *reversed(manifests))
        work = await place.wait_applied("shuffled")
        await agent.quiet(0.5)
        assert agent.spoke.writes == []
        entries = work["status"]["resourceStatus"]["manifests"]
        assert [(one["resourceMeta"]["ordinal"], one["resourceMeta"]["name"]) for one in entries] == [
            (0, "three"),
            (1, "two"),
            (2, "one"),
        ]
        assert [await value(place, "shuffled", ordinal) for ordinal in range(3)] == ["three", "two", "one"]


async def test_an_object_stays_the_same_under_another_version_of_its_kind(place: Workplace) -> None:
    group = f"{place.name}.example.info"
    await place.grant("turns", everything_of(group))
    both = definition("turns", "Turn", group)
    (only,) = both["spec"]["versions"]
    both["spec"]["versions"] = [only, {**only, "name": "v1beta1", "storage": False}]
    await place.admin.create(CRDS, both)

    def turn(version: str, side: str) -> Object:
        metadata = {"name": "t", "namespace": place.namespace}
        return {"apiVersion": f"{group}/{version}", "kind": "Turn", "metadata": metadata, "spec": {"side": side}}

    turns = GVR(f"{group}/v1", "turns", "Turn")
    async with place.agent() as agent:
        await place.create("turning", turn("v1beta1", "left"))
        await place.wait_applied("turning")
        first = await uid(place, "t", turns)
        await place.change("turning", turn("v1", "right"))
        work = await place.wait_applied("turning")
        await agent.quiet(0.5)
        found = await place.find(turns, "t", place.namespace)
        assert found is not None
        assert (found["metadata"]["uid"], found["spec"]) == (first, {"side": "right"})
        assert [one["resourceMeta"]["version"] for one in work["status"]["resourceStatus"]["manifests"]] == ["v1"]
        record = await place.record(agent, "turning")
        assert record is not None
        assert [(one["version"], one["uid"]) for one in record["status"]["appliedResources"]] == [("v1", first)]
        await place.delete("turning")
        await place.wait_gone("turning")
        assert await place.find(turns, "t", place.namespace) is None
    await place.admin.delete(CRDS, f"turns.{group}")


async def test_a_mark_that_somebody_takes_away_is_put_back(place: Workplace) -> None:
    async with place.agent():
        await place.create("marked", config_map("marked", place.namespace))
        await place.wait_applied("marked")
        mark = await owners(place, "marked")
        await place.admin.patch(CONFIG_MAPS, "marked", {"metadata": {"ownerReferences": None}}, place.namespace)

        async def back() -> bool:
            return await owners(place, "marked") == mark

        await place.wait(back, "the mark to be back")
        await place.delete("marked")
        await place.wait_gone("marked")
        assert await place.data("marked") is None


async def test_what_somebody_took_over_while_the_agent_was_away_stays(place: Workplace) -> None:
    async with place.agent() as agent:
        await place.create("robbed", config_map("kept", place.namespace), config_map("taken", place.namespace))
        await place.wait_applied("robbed")
        await agent.quiet(0.5)
    await place.admin.patch(CONFIG_MAPS, "taken", {"metadata": {"ownerReferences": None}}, place.namespace)
    await place.change("robbed", config_map("kept", place.namespace))
    async with place.agent() as agent:
        await place.wait_applied("robbed")
        await agent.quiet(0.5)
        assert await place.data("taken") == {}
        await place.delete("robbed")
        await place.wait_gone("robbed")
        assert await place.data("kept") is None
        assert await place.data("taken") == {}


async def test_a_record_that_somebody_edits_is_made_what_it_was(place: Workplace) -> None:
    async with place.agent() as agent:
        await place.create("recorded", config_map("recorded", place.namespace))
        await place.wait_applied("recorded")
        await agent.quiet(0.5)
        before = await place.record(agent, "recorded")
        assert before is not None
        name = before["metadata"]["name"]
        spoiled = {"metadata": {"labels": {"spoiled": "yes"}, "finalizers": None}, "spec": {"agentID": "somebody"}}
        await place.admin.patch(APPLIED_WORKS, name, spoiled)
        await place.admin.patch(APPLIED_WORKS, name, {"status": {"appliedResources": None}}, subresource="status")

        async def as_before() -> bool:
            now = await place.record(agent, "recorded")
            return (
                now is not None
                and all(
                    now["metadata"].get(key) == before["metadata"].get(key) and now["spec"] == before["spec"]
                    for key in ("uid", "labels", "finalizers")
                )
                and now.get("status") == before["status"]
            )

        await place.wait(as_before, "the record to be as it was")
        assert await place.data("recorded") == {}


async def test_what_could_not_be_applied_is_not_called_applied_when_the_rest_is_complete(place: Workplace) -> None:
    done = config_map("done", place.namespace)
    missing = f"{place.namespace}-missing"
    rule = {"type": "CEL", "condition": "Complete", "celExpressions": ["true"]}
    async with place.agent() as agent:
        configs = [identifier(done, "configmaps", conditionRules=[rule])]
        await place.create("half", done, config_map("failed", missing), manifestConfigs=configs)
        await place.wait_condition("half", "Complete")
        await agent.quiet(0.5)
        await place.wait_condition("half", "Applied", "False")
        assert "not found" in condition(await place.manifest("half", 1), "Applied")["message"]
        await place.admin.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": missing}})
        await place.wait_applied("half")
        assert await place.find(CONFIG_MAPS, "failed", missing)
        await place.delete("half")
        await place.wait_gone("half")
    await place.admin.delete(NAMESPACES, missing)


async def test_a_secret_is_not_given_up_for_one_that_the_server_would_not_take(place: Workplace) -> None:
    def secret(kind: str, **texts: str) -> Object:
        metadata = {"name": "s", "namespace": place.namespace}
        return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": kind, "stringData": texts}

    async with place.agent():
        await place.create("secret", secret("Opaque", a="b"))
        await place.wait_applied("secret")
        first = await uid(place, "s", SECRETS)
        await place.change("secret", secret("kubernetes.io/tls", **{"tls.crt": "c"}))
        await place.wait_condition("secret", "Applied", "False")
        assert "tls.key" in condition(await place.manifest("secret", 0), "Applied")["message"]
        assert await uid(place, "s", SECRETS) == first
        await place.change("secret", secret("kubernetes.io/basic-auth", username="u"))
        await place.wait_applied("secret")
        found = await place.find(SECRETS, "s", place.namespace)
        assert found is not None
        assert found["type"] == "kubernetes.io/basic-auth"
        assert found["metadata"]["uid"] != first


async def test_what_goes_the_moment_it_is_complete_is_not_made_anew(place: Workplace) -> None:
    rule = {"type": "CEL", "condition": "Complete", "celExpressions": ["'done' in object.metadata.?labels.orValue({})"]}
    job = config_map("job", place.namespace)
    async with place.agent() as agent:
        await place.create("brief", job, manifestConfigs=[identifier(job, "configmaps", conditionRules=[rule])])
        await place.wait_applied("brief")
        await agent.quiet(0.5)
        await place.admin.patch(CONFIG_MAPS, "job", {"metadata": {"labels": {"done": "yes"}}}, place.namespace)
        await place.admin.delete(CONFIG_MAPS, "job", place.namespace)
        await place.wait_condition("brief", "Complete")
        await place.wait_condition("brief", "Available", "False")
        await agent.quiet(0.5)
        assert await place.data("job") is None


async def test_a_manifest_with_nulls_in_its_metadata_is_read_as_go_reads_it(place: Workplace) -> None:
    odd = config_map("odd", place.namespace)
    odd["metadata"] |= {"labels": {"empty": None}, "annotations": {"none": None}, "finalizers": None}
    async with place.agent() as agent:
        await place.create("odd", odd)
        await place.wait_applied("odd")
        await agent.quiet(0.5)
        found = await place.find(CONFIG_MAPS, "odd", place.namespace)
        assert found is not None
        assert (found["metadata"]["labels"], found["metadata"]["annotations"]) == ({"empty": ""}, {"none": ""})
        agent.forget()
        await place.admin.patch(CONFIG_MAPS, "odd", {"metadata": {"labels": {"other": "x"}}}, place.namespace)
        await agent.quiet(0.5)
        assert agent.spoke.writes == []
