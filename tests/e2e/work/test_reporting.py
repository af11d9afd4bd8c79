"""Works whose rules would spoil their status: the hub takes every status, it says what is wrong, and nobody else has to wait."""

from __future__ import annotations

from typing import Any

from muster.machinery.objects import Object
from muster.runtime.client.builtin import CONFIG_MAPS
from tests.support.working import Workplace, condition, config_map, identifier


def paths(**found: str) -> Object:
    return {"type": "JSONPaths", "jsonPaths": [{"name": name, "path": path} for name, path in found.items()]}


def rule(kind: str, *expressions: str, **more: str) -> Object:
    return {"type": "CEL", "condition": kind, "celExpressions": list(expressions), **more}


async def reported(place: Workplace, name: str, manifest: Object, **config: Any) -> tuple[Object, Object]:
    """The status of a work with one manifest, and of that manifest."""
    await place.create(name, manifest, manifestConfigs=[identifier(manifest, "configmaps", **config)])
    work = await place.wait_applied(name)
    return work["status"], work["status"]["resourceStatus"]["manifests"][0]


async def test_feedback_that_cannot_be_is_told_beside_what_can(place: Workplace) -> None:
    async with place.agent():
        manifest = config_map("fed", place.namespace, word="x", long="y" * 40_000)
        rules = [paths(word=".data.word", long=".data.long", whole=".data"), paths(word=".kind", kind=".kind")]
        _, entry = await reported(place, "fed", manifest, feedbackRules=rules)
        values = {one["name"]: one["fieldValue"]["string"] for one in entry["statusFeedback"]["values"]}
        assert values == {"word": "x", "kind": "ConfigMap"}
        synced = condition(entry, "StatusFeedbackSynced")
        assert (synced["status"], synced["reason"]) == ("False", "StatusFeedbackSyncFailed")
        for problem in ("the string for name long is longer", "for whole is not found", "the name word is given by more than one"):
            assert problem in synced["message"]


async def test_raw_json_comes_back_where_it_is_switched_on(place: Workplace) -> None:
    async with place.agent(raw_json=True, max_json_raw_length=40):
        manifest = config_map("raw", place.namespace, a="1")
        rules = [paths(data=".data", metadata=".metadata")]
        _, entry = await reported(place, "raw", manifest, feedbackRules=rules)
        [value] = entry["statusFeedback"]["values"]
        assert value == {"name": "data", "fieldValue": {"type": "JsonRaw", "jsonRaw": '{"a":"1"}'}}
        assert "larger than the maximum length 40" in condition(entry, "StatusFeedbackSynced")["message"]


async def test_rules_that_no_status_could_hold_are_told_and_the_others_count(place: Workplace) -> None:
    async with place.agent():
        manifest = config_map("ruled", place.namespace, word="x", many=" ".join(["1"] * 500))
        dear = (
            "object.data.many.split(' ').all(a, object.data.many.split(' ').all(b, object.data.many.split(' ').all(c, c != a + b)))"
        )
        rules = [
            rule("not a type", "true"),
            rule("Applied", "false"),
            rule("Dear", dear),
            rule("Long", "true", message="m" * 40_000),
            rule("Fine", "object.data.word == 'x'"),
        ]
        status, entry = await reported(place, "ruled", manifest, conditionRules=rules)
        assert condition(entry, "Applied")["status"] == "True"
        assert condition(entry, "Fine")["status"] == condition(status, "Fine")["status"] == "True"
        assert "cost limit exceeded" in condition(entry, "Dear")["message"]
        assert len(condition(entry, "Long")["message"]) == 32768
        synced = condition(entry, "StatusFeedbackSynced")
        assert "no condition rule can set a condition 'not a type'" in synced["message"]
        assert "no condition rule can set a condition 'Applied'" in synced["message"]


async def test_rules_follow_the_object_without_a_change_of_the_work(place: Workplace) -> None:
    async with place.agent():
        manifest = config_map("watched", place.namespace, word="x")
        left = {"updateStrategy": {"type": "CreateOnly"}}
        rules = [rule("Progressing", "object.data.word != 'done'"), rule("Available", "object.data.word == 'done'")]
        await reported(place, "watched", manifest, conditionRules=rules, feedbackRules=[paths(word=".data.word")], **left)
        await place.wait_condition("watched", "Progressing")
        await place.wait_condition("watched", "Available", "False")
        await place.admin.patch(CONFIG_MAPS, "watched", {"data": {"word": "done"}}, place.namespace)
        await place.wait_condition("watched", "Progressing", "False")
        work = await place.wait_condition("watched", "Available")
        [value] = work["status"]["resourceStatus"]["manifests"][0]["statusFeedback"]["values"]
        assert value["fieldValue"]["string"] == "done"
