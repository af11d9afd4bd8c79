"""Upstream's Go work agent and ours side by side on one cluster, with the same works: the same objects and the same status.

The definitions are ours, so upstream's agent lives with them; our agent lives with upstream's in a test of its own. Where ours does
something else on purpose, a test says what.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from muster.machinery.objects import GVR, Object
from muster.runtime.client.builtin import CONFIG_MAPS, CRDS, SECRETS
from tests.interop.ocm import Fleet, manifests
from tests.support.planes import Cluster, ControlPlane
from tests.support.working import Workplace, condition, config_map, identifier

DEPLOYMENTS = GVR("apps/v1", "deployments", "Deployment")
PODS = GVR("v1", "pods", "Pod")
SERVICE_ACCOUNTS = GVR("v1", "serviceaccounts", "ServiceAccount")
NAMESPACE = "apps-of-the-test"
"""Stands for the namespace of either agent's objects."""
Works = dict[str, dict[str, Any]]


def deployment(name: str, namespace: str) -> Object:
    labels = {"app": name}
    container = {"name": "main", "image": "registry.example/none:1"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def pod(name: str, namespace: str) -> Object:
    container = {"name": "main", "image": "registry.example/none:1"}
    spec = {"containers": [container], "automountServiceAccountToken": False}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def paths(**found: str) -> list[Object]:
    return [{"type": "JSONPaths", "jsonPaths": [{"name": name, "path": path} for name, path in found.items()]}]


def rule(kind: str, *expressions: str, **more: str) -> Object:
    return {"type": "CEL", "condition": kind, "celExpressions": list(expressions), **more}


def strategy(kind: str, **more: Any) -> Object:
    return {"updateStrategy": {"type": kind, **more}}


def scenarios(namespace: str) -> Works:
    """By name: the spec of a work, with `manifests` for short."""
    plain, other = config_map("plain", namespace, a="1"), config_map("other", namespace, b="2")
    created, read = config_map("created", namespace, a="1"), config_map("absent", namespace)
    served = config_map("served", namespace, a="1")
    told, judged = config_map("told", namespace, word="x", number="5"), config_map("judged", namespace, word="x")
    wrong = {**config_map("wrong", namespace), "metadata": {"name": "Not_A_Name", "namespace": namespace}}
    odd = {"apiVersion": "example.com/v1", "kind": "Odd", "metadata": {"name": "o", "namespace": namespace}}
    lost = {**config_map("lost", "namespace-that-is-none")}
    web = deployment("web", namespace)
    return {
        "maps": {"manifests": [plain, other]},
        "kinds": {
            "manifests": [
                {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": namespace}, "stringData": {"k": "v"}},
                {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "runner", "namespace": namespace}},
                web,
            ],
            "manifestConfigs": [identifier(web, "deployments", feedbackRules=[{"type": "WellKnownStatus"}])],
        },
        "strategies": {
            "manifests": [created, read, served],
            "manifestConfigs": [
                identifier(created, "configmaps", **strategy("CreateOnly")),
                identifier(read, "configmaps", **strategy("ReadOnly")),
                identifier(served, "configmaps", **strategy("ServerSideApply")),
            ],
        },
        "refused": {"manifests": [config_map("fine", namespace), wrong, odd, lost]},
        "told": {
            "manifests": [told],
            "manifestConfigs": [
                identifier(
                    told,
                    "configmaps",
                    feedbackRules=[
                        *paths(word=".data.word", missing=".data.x", whole=".data", broken=".data[", kind=".kind"),
                        {"type": "JSONPaths", "jsonPaths": [{"name": "later", "path": ".data.word", "version": "v2"}]},
                    ],
                )
            ],
        },
        "unknown": {
            "manifests": [config_map("dull", namespace)],
            "manifestConfigs": [
                identifier(config_map("dull", namespace), "configmaps", feedbackRules=[{"type": "WellKnownStatus"}])
            ],
        },
        "judged": {
            "manifests": [judged],
            "manifestConfigs": [
                identifier(
                    judged,
                    "configmaps",
                    conditionRules=[
                        rule("Right", "object.data.word == 'x'", "size(object.data) == 1"),
                        rule("Wrong", "object.data.word == 'y'", message="it is not y"),
                        rule("Absent", "object.data.nothing == 'y'"),
                        rule("Number", "1"),
                        rule("Broken", "object.data.word =="),
                        rule("Worded", "true", messageExpression="'word ' + object.data.word"),
                        rule("Progressing", "hasConditions(object.status)"),
                    ],
                )
            ],
        },
        "finished": {
            "manifests": [pod("once", namespace)],
            "manifestConfigs": [
                identifier(
                    pod("once", namespace),
                    "pods",
                    feedbackRules=[{"type": "WellKnownStatus"}],
                    conditionRules=[{"type": "WellKnownConditions", "condition": "Complete"}],
                )
            ],
        },
        "some": {
            "manifests": [config_map("stays", namespace), config_map("goes", namespace)],
            "deleteOption": {
                "propagationPolicy": "SelectivelyOrphan",
                "selectivelyOrphans": {
                    "orphaningRules": [{"resource": "configmaps", "name": "stays", "namespace": namespace}],
                },
            },
        },
        "kept": {"manifests": [config_map("kept", namespace)], "deleteOption": {"propagationPolicy": "Orphan"}},
    }


@pytest.fixture(scope="module")
def cluster(plane: ControlPlane) -> Cluster:
    return plane.cluster


class Sides:
    """The places of either agent; works have another name on each side, since both agents take the hub for the same."""

    def __init__(self, go: Workplace, ours: Workplace) -> None:
        self.go, self.ours = go, ours

    def named(self, place: Workplace, name: str) -> str:
        return f"{'go' if place is self.go else 'ours'}-{name}"

    async def each(self, act: Callable[[Workplace], Any]) -> None:
        await asyncio.gather(act(self.go), act(self.ours))

    async def agree(self, name: str) -> Object:
        """What both say of a work, once they say the same."""
        seen: list[Object] = []

        async def look() -> bool:
            seen[:] = [await self.told(self.go, name), await self.told(self.ours, name)]
            return bool(seen[0]) and seen[0] == seen[1]

        with contextlib.suppress(AssertionError):
            await self.go.wait(look, f"both to agree on {name}", 40)
        assert seen[0] == seen[1], name
        return seen[0]

    async def told(self, place: Workplace, name: str) -> Object:
        work = await place.work(self.named(place, name))
        generation = 0 if work is None else work["metadata"]["generation"]
        if work is None or condition(work.get("status") or {}, "Available").get("observedGeneration") != generation:
            return {}
        status = json.loads(json.dumps(work["status"]).replace(place.namespace, NAMESPACE))
        return {
            "conditions": _conditions(status["conditions"], generation),
            "manifests": [
                {
                    "meta": {key: value for key, value in one["resourceMeta"].items() if value != ""},
                    "conditions": _conditions(one["conditions"], generation),
                    "values": (one.get("statusFeedback") or {}).get("values") or [],
                }
                for one in status["resourceStatus"]["manifests"]
            ],
        }


def _conditions(conditions: Sequence[Object], generation: int) -> list[tuple[str, ...]]:
    return sorted(
        (one["type"], one["status"], one["reason"], one["message"], _about(one.get("observedGeneration", 0), generation))
        for one in conditions
    )


def _about(observed: int, generation: int) -> str:
    return "no generation" if not observed else "this generation" if observed == generation else "an earlier generation"


@pytest.fixture
async def sides(cluster: Cluster, tmp_path: Path) -> AsyncIterator[Sides]:
    go, ours = Workplace(cluster), Workplace(cluster)
    for place in (go, ours):
        await place.prepare()
    fleet = Fleet(cluster, cluster, tmp_path, go.name)
    await asyncio.to_thread(fleet.start_work_agent, cluster.kubeconfig)
    try:
        async with ours.agent():
            yield Sides(go, ours)
    finally:
        await asyncio.to_thread(fleet.stop)
        print(fleet.log())
        for place in (go, ours):
            await place.close()


async def create_all(sides: Sides) -> None:
    async def create(place: Workplace) -> None:
        for name, spec in scenarios(place.namespace).items():
            await place.create(sides.named(place, name), *spec.pop("manifests"), **spec)

    await sides.each(create)


async def objects(place: Workplace) -> dict[str, Object]:
    """What there is in the namespace of an agent, as far as it does not differ between any two objects."""
    found: dict[str, Object] = {}
    for resource in (CONFIG_MAPS, SECRETS, DEPLOYMENTS, SERVICE_ACCOUNTS):
        for item in (await place.admin.list(resource, place.namespace)).items:
            metadata = item["metadata"]
            owners = [(one["apiVersion"], one["kind"], len(one)) for one in metadata.pop("ownerReferences", ())]
            kept = {key: value for key, value in metadata.items() if key in ("name", "labels", "annotations", "finalizers")}
            body = {key: value for key, value in item.items() if key not in ("metadata", "status", "secrets")}
            if metadata["name"] not in ("kube-root-ca.crt", "default"):
                found[f"{resource} {metadata['name']}"] = {**body, "metadata": kept, "owners": owners}
    return found


@pytest.mark.timeout(300)
async def test_the_same_works_have_the_same_status_and_the_same_objects_through_their_lives(sides: Sides) -> None:
    await create_all(sides)
    first = {name: await sides.agree(name) for name in scenarios("")}
    assert [one[:2] for one in first["refused"]["conditions"]] == [("Applied", "False"), ("Available", "False")]
    assert len(first["judged"]["conditions"]) == 9
    made = await objects(sides.go)
    assert made == await objects(sides.ours)
    assert {"configmaps plain", "configmaps kept", "deployments.apps web", "secrets s"} <= set(made)

    async def finish(place: Workplace) -> None:
        await place.admin.patch(PODS, "once", {"status": {"phase": "Succeeded"}}, place.namespace, subresource="status")
        await place.wait_condition(sides.named(place, "finished"), "Complete", timeout=40)

    await sides.each(finish)
    told = await sides.agree("finished")
    assert ("Complete", "True", "ConditionRulesAggregated", "Pod is in phase Succeeded", "this generation") in told["conditions"]
    assert {one["name"]: one["fieldValue"]["string"] for one in told["manifests"][0]["values"]}["PodPhase"] == "Succeeded"

    async def change(place: Workplace) -> None:
        changed = config_map("plain", place.namespace, a="changed")
        changed["metadata"]["labels"] = {"new": "label"}
        await place.change(sides.named(place, "maps"), changed)
        await place.change(sides.named(place, "judged"), config_map("judged", place.namespace, word="y"), manifestConfigs=[])
        other = [config_map(name, place.namespace, a="2") for name in ("created", "absent", "served")]
        await place.change(sides.named(place, "strategies"), *other)

    await sides.each(change)
    for name in ("maps", "strategies", "judged"):
        told = await sides.agree(name)
        assert {one[-1] for one in told["conditions"]} == {"this generation"}
    assert [one[0] for one in told["conditions"]] == ["Applied", "Available"], "conditions of rules that are gone go"
    await _settle(sides, lambda found: "configmaps other" not in found and found["configmaps served"]["data"] == {"a": "2"})
    assert (await objects(sides.ours))["configmaps created"]["data"] == {"a": "1"}

    async def delete(place: Workplace) -> None:
        for name in scenarios(""):
            await place.delete(sides.named(place, name))
        for name in scenarios(""):
            await place.wait_gone(sides.named(place, name), 60)

    await sides.each(delete)
    # Of a work with an unknown kind upstream's agent has no record: it leaves the objects to the garbage collector.
    left = ["configmaps kept", "configmaps stays"]
    await _settle(sides, lambda found: sorted(name for name in found if name.startswith("configmaps")) == left)


async def _settle(sides: Sides, right: Callable[[dict[str, Object]], bool]) -> None:
    async def look() -> bool:
        made = await objects(sides.go)
        return right(made) and made == await objects(sides.ours)

    await sides.go.wait(look, "both to have the same objects", 60)


@pytest.mark.timeout(300)
async def test_refusals_of_an_executor_begin_alike_and_ours_say_what_is_missing(sides: Sides) -> None:
    account = {"namespace": "sa-ns", "name": "deployer"}
    executor = {"subject": {"type": "ServiceAccount", "serviceAccount": account}}

    async def create(place: Workplace) -> None:
        await place.create(sides.named(place, "denied"), config_map("denied", place.namespace), executor=executor)
        homeless = config_map("homeless", "")
        del homeless["metadata"]["namespace"]
        await place.create(sides.named(place, "homeless"), homeless)

    await sides.each(create)
    alike = {"denied": "Failed to apply manifest: not allowed to apply the resource  configmaps, ", "homeless": ""}
    for name, beginning in alike.items():
        for place in (sides.go, sides.ours):
            work = await place.wait_condition(sides.named(place, name), "Applied", "False", timeout=40)
            [entry] = work["status"]["resourceStatus"]["manifests"]
            said = condition(entry, "Applied")
            assert (said["status"], said["reason"]) == ("False", "AppliedManifestFailed")
            assert said["message"].startswith(beginning)
            if place is sides.ours:
                expected = "system:serviceaccount:sa-ns:deployer may not create" if name == "denied" else "namespace is missing"
                assert expected in said["message"]
            assert await place.find(CONFIG_MAPS, name, place.namespace) is None


@pytest.mark.timeout(300)
async def test_our_agent_lives_with_upstreams_definitions(plane: ControlPlane) -> None:
    place = Workplace(plane.extra("spare1"))
    await place.prepare()
    for which in ("hub", "agent"):
        for document in manifests(which):
            if document["kind"] == "CustomResourceDefinition" and document["spec"]["group"] == "work.open-cluster-management.io":
                found = await place.admin.get(CRDS, document["metadata"]["name"])
                await place.admin.update(CRDS, {**found, "spec": document["spec"]})
    try:
        async with place.agent():
            for name, spec in scenarios(place.namespace).items():
                await place.create(name, *spec.pop("manifests"), **spec)
            for name in scenarios(""):
                await place.wait_condition(name, "Applied", "False" if name == "refused" else "True")
            told = (await place.work("told") or {})["status"]["resourceStatus"]["manifests"][0]
            assert [one["name"] for one in told["statusFeedback"]["values"]] == ["word", "kind"]
            assert condition((await place.work("judged") or {})["status"], "Right")["status"] == "True"
            for name in scenarios(""):
                await place.delete(name)
                await place.wait_gone(name)
    finally:
        await place.close()
