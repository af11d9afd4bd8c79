"""Evaluating a policy against an API server: what is written, and what is reported of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from muster.api.policy.v1 import ConfigurationPolicyStatus
from muster.apiserver.server import ApiServer, ServerConfig
from muster.machinery.authentication import UserInfo
from muster.machinery.objects import Object
from muster.policy.configuration.diffs import CENSORED_TEXT
from muster.policy.configuration.evaluation import evaluate
from muster.policy.configuration.interfaces import Cluster, Evaluation, EvaluationOptions
from muster.policy.dependencies import DirectSource
from muster.policy.resolver import Resolver
from muster.runtime.client import Conflict, NotFound, StatusError
from muster.runtime.client.builtin import CONFIG_MAPS, NAMESPACES, PODS, SECRETS
from muster.runtime.client.restmapper import RESTMapper
from tests.support.fake_clock import FakeClock
from tests.support.mortal_hub import Life, Mortal
from tests.support.policy_site import config_map, policy, template

ADMINISTRATOR = UserInfo("admin", groups=("system:masters", "system:authenticated"))
NEW = ConfigurationPolicyStatus()


class Site:
    """A cluster with the namespaces `app` and `lab`, and policies that are evaluated on it."""

    def __init__(self, server: ApiServer) -> None:
        self.client = Mortal(server.client(server.clusters["c1"], ADMINISTRATOR))
        self.client.life = Life()
        self.clock = FakeClock()
        self.cluster = Cluster(DirectSource(self.client, RESTMapper(self.client)), self.client, clock=self.clock)
        self.options = EvaluationOptions()

    async def evaluate(self, *templates: Object, previous: ConfigurationPolicyStatus = NEW, **spec: Any) -> Evaluation:
        document = policy("p", *templates, **spec)
        document["metadata"] |= {"uid": "u", "generation": 0}
        return await evaluate(document, self.cluster, Resolver(), self.options, previous)

    async def create(self, obj: Object) -> Object:
        resource = await RESTMapper(self.client).mapping(obj["apiVersion"], obj["kind"])
        return await self.client.create(resource, obj, obj["metadata"].get("namespace", ""))

    @property
    def writes(self) -> list[str]:
        return [f"{method} {path}" for method, path in self.client.life.asked if method != "GET"]


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    server = ApiServer(ServerConfig(store="memory", namespace_grace_period=0, clusters=("c1",)))
    await server.start()
    site = Site(server)
    for name in ("app", "lab"):
        await site.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"team": name}}})
    site.client.life.asked.clear()
    yield site
    await server.stop(grace=0.1)


def messages(evaluation: Evaluation) -> list[str]:
    return [entry.conditions[0].message for entry in evaluation.details]


def batch_messages(evaluation: Evaluation) -> list[list[str]]:
    return [[entry.conditions[0].message for entry in batch] for batch in evaluation.batches]


def status_of(evaluation: Evaluation) -> ConfigurationPolicyStatus:
    return ConfigurationPolicyStatus(
        compliant=evaluation.compliant, compliancy_details=evaluation.details, related_objects=evaluation.related
    )


def pod(image: str) -> Object:
    spec = {"containers": [{"name": "web", "image": image}], "restartPolicy": "Always"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "app"}, "spec": spec}


async def test_a_missing_object_is_created_and_what_was_so_before_is_told_first(site: Site) -> None:
    found = await site.evaluate(template(config_map("settings", color="red")))
    assert batch_messages(found) == [["configmaps [settings] not found in namespace app"]]
    assert messages(found) == ["configmaps [settings] was created successfully in namespace app"]
    assert found.compliant == "Compliant"
    created = await site.client.get(CONFIG_MAPS, "settings", "app")
    properties = found.related[0].properties
    assert properties is not None
    assert (properties.created_by_policy, properties.uid) == (True, created["metadata"]["uid"])
    assert found.created == {created["metadata"]["uid"]}


async def test_who_made_an_object_is_remembered(site: Site) -> None:
    first = await site.evaluate(template(config_map("settings", color="red")))
    second = await site.evaluate(template(config_map("settings", color="red")), previous=status_of(first))
    assert messages(second) == ["configmaps [settings] found as specified in namespace app"]
    assert second.related[0].properties == first.related[0].properties
    assert second.created == frozenset()


async def test_an_object_that_differs_is_updated_and_keeps_the_rest(site: Site) -> None:
    await site.create(config_map("settings", color="blue", size="4"))
    found = await site.evaluate(template(config_map("settings", color="red"), recordDiff="InStatus"))
    assert messages(found) == ["configmaps [settings] was updated successfully in namespace app"]
    assert batch_messages(found) == [["configmaps [settings] found but not as specified in namespace app"]]
    assert (await site.client.get(CONFIG_MAPS, "settings", "app"))["data"] == {"color": "red", "size": "4"}
    properties = found.related[0].properties
    assert properties is not None
    assert "-  color: blue\n+  color: red\n" in properties.diff


async def test_an_update_keeps_what_kubectl_applied(site: Site) -> None:
    existing = config_map("settings", color="blue")
    existing["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": "{}"}
    await site.create(existing)
    await site.evaluate(template(config_map("settings", color="red")))
    updated = await site.client.get(CONFIG_MAPS, "settings", "app")
    assert updated["metadata"]["annotations"] == {"kubectl.kubernetes.io/last-applied-configuration": "{}"}


async def test_informing_writes_nothing(site: Site) -> None:
    await site.create(config_map("settings", color="blue"))
    site.client.life.asked.clear()
    found = await site.evaluate(
        template(config_map("settings", color="red")), template(config_map("other", color="red")), action="inform"
    )
    assert messages(found) == [
        "configmaps [settings] found but not as specified in namespace app",
        "configmaps [other] not found in namespace app",
    ]
    assert found.batches == ()
    assert (await site.client.get(CONFIG_MAPS, "settings", "app"))["data"] == {"color": "blue"}
    assert site.writes == ["PUT /api/v1/namespaces/app/configmaps/settings"], "a dry run"


async def test_what_the_server_would_not_change_is_no_mismatch(site: Site) -> None:
    await site.create(config_map("settings", color="red"))
    wanted = {**config_map("settings", color="red"), "binaryData": {}}
    found = await site.evaluate(template(wanted), action="inform")
    assert found.compliant == "Compliant"
    properties = found.related[0].properties
    assert properties is not None
    assert properties.matches_after_dry_run


async def test_an_unwanted_object_is_deleted_and_told_once(site: Site) -> None:
    await site.create(config_map("settings", color="red"))
    found = await site.evaluate(template(config_map("settings"), "mustnothave"))
    assert messages(found) == ["configmaps [settings] was deleted successfully in namespace app"]
    with pytest.raises(NotFound):
        await site.client.get(CONFIG_MAPS, "settings", "app")
    again = await site.evaluate(template(config_map("settings"), "mustnothave"), previous=status_of(found))
    assert messages(again) == ["configmaps [settings] missing as expected in namespace app"]


IMMUTABLE = (
    "pods [web] in namespace app cannot be updated, likely due to immutable fields not matching, you may set "
    'spec["object-templates"][].recreateOption to recreate the object'
)


async def test_immutable_fields_are_told_and_left_alone(site: Site) -> None:
    await site.create(pod("nginx:1"))
    wanted = pod("nginx:1")
    wanted["spec"]["restartPolicy"] = "Never"
    found = await site.evaluate(template(wanted))
    assert messages(found) == [IMMUTABLE]
    assert found.details[0].conditions[0].reason == "K8s update template error"
    informed = await site.evaluate(template(wanted), action="inform")
    assert informed.compliant == "NonCompliant"


async def test_an_object_is_recreated_where_the_template_allows_it(site: Site) -> None:
    before = await site.create(pod("nginx:1"))
    wanted = pod("nginx:1")
    wanted["spec"]["restartPolicy"] = "Never"
    found = await site.evaluate(template(wanted, recreateOption="IfRequired"))
    assert messages(found) == ["pods [web] was updated successfully in namespace app"]
    after = await site.client.get(PODS, "web", "app")
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert after["spec"]["restartPolicy"] == "Never"
    properties = found.related[0].properties
    assert properties is not None
    assert properties.created_by_policy is False, "recreating an object does not make it the policy's"


async def test_recreating_waits_three_times_for_the_object_to_go(site: Site) -> None:
    existing = config_map("settings", color="blue")
    existing["metadata"]["finalizers"] = ["example.com/hold"]
    await site.create(existing)
    work = asyncio.create_task(site.evaluate(template(config_map("settings", color="red"), recreateOption="Always")))
    while not work.done():
        await site.clock.advance(1.0)
        await asyncio.sleep(0)
    assert site.clock.monotonic() >= 2.0
    assert messages(work.result()) == [
        "configmaps [settings] in namespace app timed out waiting for the object to delete during recreate, "
        "will retry on the next policy evaluation"
    ]


async def test_a_write_in_between_is_met_by_reading_again(site: Site) -> None:
    await site.create(config_map("settings", color="blue"))
    refused: list[str] = []

    def refuse(method: str, path: str) -> StatusError | None:
        if method == "PUT" and len(refused) < 2:
            refused.append(path)
            return Conflict(409, "Conflict", "somebody wrote")
        return None

    site.client.life.refuse = refuse
    found = await site.evaluate(template(config_map("settings", color="red")))
    assert messages(found) == ["configmaps [settings] was updated successfully in namespace app"]
    assert len(refused) == 2


async def test_unknown_fields_are_refused_by_name(site: Site) -> None:
    await site.create(config_map("settings", color="red"))
    found = await site.evaluate(template({**config_map("settings", color="red"), "colour": "red"}))
    assert len(found.details) == 1
    assert messages(found)[0].startswith("Error validating the object settings, the error is `")
    assert 'unknown field "colour"' in messages(found)[0]
    assert found.batches == ()
    assert found.errors == (), "nothing but a change helps"


async def test_a_missing_namespace_is_waited_for(site: Site) -> None:
    found = await site.evaluate(template(config_map("settings", "nowhere", color="red")))
    assert messages(found) == [
        'configmaps [settings] in namespace nowhere is missing, and cannot be created, reason: `namespaces "nowhere" not found`'
    ]
    assert found.errors == ()
    site.options = replace(site.options, watching=False)
    again = await site.evaluate(template(config_map("settings", "nowhere", color="red")))
    assert len(again.errors) == 1, "without a watch it is tried again"


async def test_a_status_is_checked_once_the_object_has_had_time_to_get_one(site: Site) -> None:
    wanted = {**pod("nginx:1"), "status": {"phase": "Running"}}
    found = await site.evaluate(template(wanted))
    assert found.compliant == "NonCompliant"
    assert found.details[0].conditions[0].reason == "K8s creation success, status unchecked"
    assert messages(found) == [
        "pods [web] in namespace app was created successfully, the status of the object will be verified in the next evaluation"
    ]
    again = await site.evaluate(template(wanted), previous=status_of(found))
    assert messages(again) == ["pods [web] found but not as specified in namespace app"]


async def test_a_template_that_failed_before_is_not_told_twice(site: Site) -> None:
    bad = template(config_map("settings", "nowhere", color="red"))
    first = await site.evaluate(bad)
    second = await site.evaluate(bad, previous=status_of(first))
    assert len(first.batches) == 1
    assert second.batches == ()
    assert second.details == first.details


async def test_objects_of_many_namespaces_are_told_together(site: Site) -> None:
    await site.create(config_map("settings", "lab", color="red"))
    unplaced = config_map("settings", color="red")
    del unplaced["metadata"]["namespace"]
    found = await site.evaluate(template(unplaced), action="inform", namespaceSelector={"include": ["app", "la?"]})
    assert messages(found) == ["configmaps [settings] not found in namespace app"], "what is compliant is hidden"
    enforced = await site.evaluate(
        template(unplaced), namespaceSelector={"matchExpressions": [{"key": "team", "operator": "Exists"}]}
    )
    assert batch_messages(enforced) == [["configmaps [settings] not found in namespace app"]]
    assert messages(enforced) == [
        "configmaps [settings] found as specified in namespace lab; configmaps [settings] was created successfully in namespace app"
    ]


async def test_selected_objects_are_enforced_by_name(site: Site) -> None:
    for name in ("one", "two"):
        await site.create({**config_map(name, color="blue"), "metadata": {"name": name, "namespace": "app", "labels": {"x": "y"}}})
    definition = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "app"}, "data": {"name": "{{ .ObjectName }}"}}
    found = await site.evaluate(template(definition, objectSelector={"matchLabels": {"x": "y"}}))
    assert messages(found) == ["configmaps [one, two] was updated successfully in namespace app"]
    assert (await site.client.get(CONFIG_MAPS, "two", "app"))["data"] == {"color": "blue", "name": "two"}


async def test_an_unnamed_template_is_never_enforced(site: Site) -> None:
    definition = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "app"}, "data": {"color": "red"}}
    found = await site.evaluate(template(definition))
    assert messages(found)[0].endswith("in namespace app")
    assert found.compliant == "NonCompliant"
    assert found.related[0].object.metadata.name == "-"
    assert site.writes == []


async def test_one_poisoned_template_harms_itself_alone(site: Site) -> None:
    found = await site.evaluate(
        "poison",  # type: ignore[arg-type]
        template({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "{{ fail `x` }}", "namespace": "app"}}),
        template({"apiVersion": "example.com/v1", "kind": "Nothing", "metadata": {"name": "x"}}),
        template(config_map("settings", color="red")),
    )
    assert [entry.compliant for entry in found.details] == ["NonCompliant"] * 3 + ["Compliant"]
    assert found.failed, "nothing is pruned"
    assert found.retry_after == 10.0, "the kind may come"
    assert (await site.client.get(CONFIG_MAPS, "settings", "app"))["data"] == {"color": "red"}


SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "creds", "namespace": "app"}, "data": {"p": "aHVudGVyMg=="}}
READS_SECRET = '{{ fromSecret "app" "creds" "p" | base64dec }}'


async def test_what_templates_read_of_secrets_is_in_no_diff(site: Site) -> None:
    await site.create(SECRET)
    await site.create(pod("nginx:1"))
    wanted = pod("nginx:1")
    wanted["metadata"]["annotations"] = {"password": READS_SECRET}
    found = await site.evaluate(template(wanted), action="inform")
    properties = found.related[0].properties
    assert properties is not None
    assert properties.diff == CENSORED_TEXT
    assert "hunter2" not in str(msgspec.to_builtins(found.details)) + str(msgspec.to_builtins(found.related))


async def test_what_the_hub_read_of_secrets_is_in_no_diff(site: Site) -> None:
    await site.create(pod("nginx:1"))
    wanted = pod("nginx:1")
    wanted["metadata"]["annotations"] = {"password": "hunter2"}
    site.options = replace(site.options, sensitive=True)
    found = await site.evaluate(template(wanted), action="inform")
    assert "hunter2" not in str(msgspec.to_builtins(found.related))


async def test_what_the_server_quotes_of_secrets_is_in_no_message(site: Site) -> None:
    await site.create(SECRET)
    wanted = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "app"}}
    wanted["data"] = {f"{READS_SECRET}!": "x"}  # no key that a ConfigMap may have
    found = await site.evaluate(template(wanted))
    assert found.compliant == "NonCompliant"
    assert "hunter2" not in messages(found)[0]
    assert "redacted" in messages(found)[0]


async def test_string_data_is_written_as_data(site: Site) -> None:
    await site.create(SECRET)
    found = await site.evaluate(template({**SECRET, "stringData": {"p": "other"}}, "mustonlyhave"))
    assert found.compliant == "Compliant"
    assert (await site.client.get(SECRETS, "creds", "app"))["data"] == {"p": "b3RoZXI="}


async def test_an_object_at_rest_is_not_compared_again(site: Site) -> None:
    await site.create(config_map("settings", color="blue"))
    first = await site.evaluate(template(config_map("settings", color="red")), action="inform")
    site.client.life.asked.clear()
    second = await site.evaluate(template(config_map("settings", color="red")), action="inform", previous=status_of(first))
    assert site.writes == [], "not even a dry run"
    assert second.details == first.details
    assert second.related == first.related


async def test_what_is_known_of_objects_that_are_gone_is_forgotten(site: Site) -> None:
    """A policy may stay for years, and choose other objects every minute."""
    chosen = template(config_map(""), objectSelector={"matchLabels": {"team": "x"}})
    del chosen["objectDefinition"]["metadata"]["name"]
    for number in range(3):
        found = config_map(f"settings-{number}")
        found["metadata"]["labels"] = {"team": "x"}
        await site.create(found)
        if number:
            await site.client.delete(CONFIG_MAPS, f"settings-{number - 1}", "app")
        await site.evaluate(chosen)
    assert len(site.cluster.evaluated) == 1
    for color in ("red", "green", "blue"):
        # What the hub gives changes, and the policy's generation does not.
        await site.evaluate(template(config_map("settings-2", color=color)))
    assert len(site.cluster.evaluated) == 1


async def test_without_templates_there_is_nothing_to_violate(site: Site) -> None:
    found = await site.evaluate()
    assert found.for_policy
    assert messages(found) == ["p contains no object templates to check, and thus has no violations"]


async def test_never_is_told(site: Site) -> None:
    found = await site.evaluate(
        template(config_map("settings", color="red")), action="inform", evaluationInterval={"noncompliant": "never"}
    )
    assert messages(found)[0].endswith(
        '. This policy will not be evaluated again due to spec.evaluationInterval.noncompliant being set to "never".'
    )


async def test_a_namespace_that_is_being_deleted_counts_unless_told_otherwise(site: Site) -> None:
    unplaced = config_map("settings", color="red")
    del unplaced["metadata"]["namespace"]
    await site.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "going", "finalizers": ["example.com/hold"]}})
    await site.client.delete(NAMESPACES, "going")
    selector = {"include": ["going"]}
    kept = await site.evaluate(template(unplaced), action="inform", namespaceSelector=selector)
    assert messages(kept) == ["configmaps [settings] not found in namespace going"]
    dropped = await site.evaluate(
        template(unplaced), action="inform", namespaceSelector={**selector, "terminatingInclusion": "Never"}
    )
    assert dropped.details[0].conditions[0].reason == "K8s missing namespace"
