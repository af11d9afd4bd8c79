"""The controller of ConfigurationPolicies on a cluster: what makes it evaluate a policy, and what it writes."""

from __future__ import annotations

import asyncio
from typing import Any

from muster.machinery.objects import Object
from muster.runtime.client.builtin import CONFIG_MAPS, NAMESPACES
from tests.support.mortal_hub import Life
from tests.support.policy_site import CLUSTER, POLICIES, PolicySite, config_map, policy, template

CREATED = "configmaps [settings] was created successfully in namespace app"
FOUND = "configmaps [settings] found as specified in namespace app"
MISSING = "configmaps [settings] not found in namespace app"


async def test_what_a_policy_says_is_created_and_reported(site: PolicySite) -> None:
    async with site.controller():
        await site.create(policy("p", template(config_map("settings", color="red"))))
        status = await site.reported("p", "Compliant", CREATED)
    assert await site.data("settings") == {"color": "red"}
    assert status["lastEvaluatedGeneration"] == 1
    assert [one["message"] for one in status["history"]] == [
        f"Compliant; notification - {CREATED}",
        f"NonCompliant; violation - {MISSING}",
    ]


async def test_drift_of_a_policy_at_rest_is_undone_within_a_second(site: PolicySite) -> None:
    async with site.controller() as life:
        await site.create(policy("p", template(config_map("settings", color="red"))))
        await site.reported("p", "Compliant", FOUND)
        await site.at_rest(life)
        before = site.clock.now()
        await site.spoke.patch(CONFIG_MAPS, "settings", {"data": {"color": "blue"}}, "app")

        async def is_red() -> bool:
            return await site.data("settings") == {"color": "red"}

        await site.until(is_red, "the color to be red again")
        assert (site.clock.now() - before).total_seconds() < 1


async def test_an_object_that_is_missing_is_followed_too(site: PolicySite) -> None:
    async with site.controller() as life:
        await site.create(policy("p", template(config_map("settings", color="red")), action="inform"))
        await site.reported("p", "NonCompliant", MISSING)
        await site.at_rest(life)
        await site.spoke.create(CONFIG_MAPS, config_map("settings", color="red"))
        await site.reported("p", "Compliant", FOUND)


async def test_policies_at_rest_cost_no_request(site: PolicySite) -> None:
    async with site.controller() as life:
        for number in range(20):
            await site.create(policy(f"p{number}", template(config_map("settings", color="red"))))
        for number in range(20):
            await site.reported(f"p{number}", "Compliant", FOUND)
        await site.at_rest(life)


async def test_a_change_that_makes_no_difference_is_evaluated_without_a_write(site: PolicySite) -> None:
    async with site.controller() as life:
        await site.create(policy("p", template(config_map("settings", color="red"))))
        status = await site.reported("p", "Compliant", FOUND)
        await site.at_rest(life)
        evaluations = _evaluations(site, "p")
        asked = len(life.asked)
        await site.spoke.patch(CONFIG_MAPS, "settings", {"data": {"size": "4"}}, "app")

        async def is_evaluated() -> bool:
            return _evaluations(site, "p") > evaluations

        await site.until(is_evaluated, "another evaluation")
        await site.at_rest(life)
        assert life.asked[asked:] == []
        assert await site.status("p") == status


async def test_a_controller_that_starts_again_writes_nothing_that_is_known(site: PolicySite) -> None:
    async with site.controller() as life:
        await site.create(policy("p", template(config_map("settings", color="red"))))
        await site.reported("p", "Compliant", FOUND)
        await site.at_rest(life)
    async with site.controller() as life:

        async def is_evaluated() -> bool:
            return _evaluations(site, "p") > 0

        await site.until(is_evaluated, "an evaluation")
        await site.at_rest(life)
        assert life.writes == []
        await site.spoke.delete(CONFIG_MAPS, "settings", "app")
        await site.reported("p", "Compliant", CREATED)


async def test_a_policy_that_changes_often_is_evaluated_every_five_seconds(site: PolicySite) -> None:
    async with site.controller() as life:
        await site.create(policy("p", template(config_map("settings", color="red")), action="inform"))
        await site.reported("p", "NonCompliant")
        await site.at_rest(life)
        before = _evaluations(site, "p")
        for number in range(40):
            await site.spoke.apply(CONFIG_MAPS, config_map("settings", color=str(number)), manager="test")
            await site.clock.advance(0.5)
        assert 3 <= _evaluations(site, "p") - before <= 6


async def test_only_policies_that_looked_at_an_object_are_evaluated(site: PolicySite) -> None:
    async with site.controller() as life:
        await site.create(policy("p", template(config_map("settings", color="red"))))
        await site.create(policy("q", template(config_map("others", color="red"))))
        await site.reported("p", "Compliant", FOUND)
        await site.reported("q", "Compliant")
        await site.at_rest(life)
        others = _evaluations(site, "q")
        await site.spoke.delete(CONFIG_MAPS, "settings", "app")
        await site.reported("p", "Compliant", CREATED)
        assert _evaluations(site, "q") == others


async def test_a_deleted_policy_leaves_no_watch_and_no_series(site: PolicySite) -> None:
    async with site.controller() as life:
        await site.create(policy("p", template(config_map("settings", color="red"))))
        await site.reported("p", "Compliant", FOUND)
        assert site.manager is not None
        assert site.manager.selections.watches == 1
        await site.spoke.delete(POLICIES, "p", CLUSTER)
        await site.at_rest(life)
        assert site.manager.selections.watches == 0
        assert '="p"' not in _samples(site)
    assert await site.data("settings") == {"color": "red"}


async def test_a_policy_that_is_deleted_while_its_status_is_written_leaves_no_watch(site: PolicySite) -> None:
    """The watch tells that it is gone before the answer to the write is there, which shows it once more."""
    life, answered = Life(), asyncio.Event()

    async def delay(method: str, path: str) -> None:
        if method == "PATCH" and path.endswith("/p/status"):
            await answered.wait()

    life.delay = delay
    async with site.controller(life):
        await site.create(policy("p", template(config_map("settings", color="red"))))
        await site.reported("p", "Compliant")
        await site.spoke.delete(POLICIES, "p", CLUSTER)
        await site.spoke.delete(CONFIG_MAPS, "settings", "app")
        # The same watch brings this one after the other's end.
        await site.create(policy("q", template(config_map("other", color="red"))))
        await site.reported("q", "Compliant")
        answered.set()
        await site.at_rest(life)
        assert site.manager is not None
        assert site.manager.selections.watches == 1
        assert await site.object("settings") is None, "nothing is enforced for a policy that is gone"


async def test_a_changed_policy_follows_only_what_it_is_about_now(site: PolicySite) -> None:
    async with site.controller() as life:
        await site.create(policy("p", template(config_map("settings", color="red"))))
        await site.reported("p", "Compliant", FOUND)
        await site.change("p", {"spec": {"object-templates": [template(config_map("others", color="red"))]}})
        await site.reported("p", "Compliant", "[others] found as specified")
        await site.at_rest(life)
        assert site.manager is not None
        assert site.manager.selections.watches == 1


async def test_policies_in_the_policies_namespace_are_evaluated_too(site: PolicySite) -> None:
    namespace = "open-cluster-management-policies"
    await site.create_namespace(namespace)
    async with site.controller():
        await site.create(policy("p", template(config_map("settings", color="red")), namespace=namespace))
        await site.reported("p", "Compliant", namespace=namespace)
        await site.create_namespace("elsewhere")
        await site.create(policy("p", template(config_map("settings", color="red")), namespace="elsewhere"))
        await site.clock.advance(30)
        assert await site.status("p", "elsewhere") == {}


async def test_an_interval_evaluates_by_the_clock_and_follows_nothing(site: PolicySite) -> None:
    intervals = {"compliant": "1m", "noncompliant": "1m"}
    async with site.controller() as life:
        await site.create(policy("p", template(config_map("settings", color="red")), evaluationInterval=intervals))
        await site.reported("p", "Compliant", CREATED)
        assert site.manager is not None
        assert site.manager.selections.watches == 0
        await site.spoke.delete(CONFIG_MAPS, "settings", "app")
        asked = len(life.asked)
        await site.clock.advance(50)
        assert life.asked[asked:] == []

        async def is_there() -> Any:
            return await site.data("settings")

        await site.until(is_there, "the object", moving=1)
        assert (await site.status("p"))["lastEvaluated"]


async def test_an_interval_goes_on_where_it_was_after_a_restart(site: PolicySite) -> None:
    intervals = {"compliant": "1h", "noncompliant": "1h"}
    async with site.controller():
        await site.create(policy("p", template(config_map("settings", color="red")), evaluationInterval=intervals))
        await site.reported("p", "Compliant", CREATED)
    await site.spoke.delete(CONFIG_MAPS, "settings", "app")
    async with site.controller():
        await site.clock.advance(1800)
        assert await site.data("settings") is None

        async def is_there() -> Any:
            return await site.data("settings")

        await site.until(is_there, "the object", moving=60)


async def test_never_means_until_the_policy_changes(site: PolicySite) -> None:
    async with site.controller():
        await site.create(policy("p", template(config_map("settings", color="red")), evaluationInterval={"compliant": "never"}))
        await site.reported("p", "Compliant", 'spec.evaluationInterval.compliant being set to "never"')
        await site.spoke.delete(CONFIG_MAPS, "settings", "app")
        await site.clock.advance(3600)
        assert await site.data("settings") is None
        await site.change("p", {"spec": {"severity": "high"}})

        async def is_there() -> Any:
            return await site.data("settings")

        await site.until(is_there, "the object", moving=1)


async def test_a_policy_that_turns_from_an_interval_to_watching_follows_its_objects(site: PolicySite) -> None:
    await site.spoke.create(CONFIG_MAPS, config_map("settings", color="red"))
    async with site.controller() as life:
        await site.create(
            policy("p", template(config_map("settings", color="red")), action="inform", evaluationInterval={"compliant": "10s"})
        )
        await site.reported("p", "Compliant", FOUND)
        await site.spoke.delete(CONFIG_MAPS, "settings", "app")
        await site.reported("p", "NonCompliant", MISSING, moving=1)
        await site.clock.advance(30)
        asked = len(life.asked)
        await site.clock.advance(60)
        assert life.asked[asked:] == []
        await site.spoke.create(CONFIG_MAPS, config_map("settings", color="red"))
        await site.reported("p", "Compliant", FOUND)


async def test_namespaces_that_a_selector_begins_to_choose_are_seen_whatever_the_interval(site: PolicySite) -> None:
    everywhere = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"color": "red"}}
    async with site.controller():
        await site.create(
            policy(
                "p",
                template(everywhere),
                namespaceSelector={"matchLabels": {"team": "a"}, "include": ["*"]},
                evaluationInterval={"compliant": "never", "noncompliant": "1h"},
            )
        )
        await site.reported("p", "NonCompliant", "has no namespace specified from the policy namespaceSelector")
        await site.create_namespace("one", team="a")
        await site.reported("p", "Compliant", "in namespace one")
        await site.create_namespace("two", team="b")
        await site.clock.advance(30)
        assert await site.object("settings", "two") is None
        await site.spoke.patch(NAMESPACES, "two", {"metadata": {"labels": {"team": "a"}}})
        await site.reported("p", "Compliant", "was created successfully in namespace two")


async def test_an_owner_hears_of_each_state_in_order_before_the_status_says_it(site: PolicySite) -> None:
    owner = await site.spoke.create(CONFIG_MAPS, config_map("parent", CLUSTER))
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "parent", "uid": owner["metadata"]["uid"]}
    document = policy("p", template(config_map("settings", color="red")))
    document["metadata"]["ownerReferences"] = [reference]
    async with site.controller():
        created = await site.create(document)
        await site.reported("p", "Compliant", FOUND)
        events = sorted(await site.events("parent"), key=lambda one: one["metadata"]["name"])
    assert [(one["type"], one["message"]) for one in events] == [
        ("Warning", f"NonCompliant; violation - {MISSING}"),
        ("Normal", f"Compliant; notification - {CREATED}"),
        ("Normal", f"Compliant; notification - {FOUND}"),
    ]
    first = events[0]
    assert first["reason"] == f"policy: {CLUSTER}/p"
    assert first["action"] == "ComplianceStateUpdate"
    assert first["source"]["component"] == first["reportingComponent"] == "configuration-policy-controller"
    assert first["involvedObject"] == {**reference, "namespace": CLUSTER}
    assert first["related"]["uid"] == created["metadata"]["uid"]
    assert first["metadata"]["name"].startswith("parent.")


async def test_a_policy_without_an_owner_has_events_of_its_own_only(site: PolicySite) -> None:
    async with site.controller() as life:
        await site.create(policy("p", template(config_map("settings", color="red"))))
        await site.reported("p", "Compliant", FOUND)
        await site.at_rest(life)
        events = await site.events("p")
    assert {one["reason"] for one in events} == {"PolicyUpdate"}
    assert f"Policy status is Compliant: {CREATED}" in [one["message"] for one in events]
    assert all(one["involvedObject"]["name"] in ("p", "settings") for one in (await _all_events(site)))


async def test_the_controller_writes_nothing_of_a_policy_but_its_status(site: PolicySite) -> None:
    """GitOps applies policies by server-side apply, and must own all of them."""
    document = policy("p", template(config_map("settings", color="red")), severity="low")
    await site.spoke.apply(POLICIES, document, manager="argocd")
    async with site.controller():
        await site.reported("p", "Compliant", FOUND)
        again = await site.spoke.apply(POLICIES, document, manager="argocd", force=False)
    assert again["metadata"]["generation"] == 1
    assert "finalizers" not in again["metadata"]
    written = [entry for entry in again["metadata"]["managedFields"] if entry["manager"] != "argocd"]
    assert all(set(entry["fieldsV1"]) == {"f:status"} and entry["subresource"] == "status" for entry in written)


async def test_a_custom_message_knows_the_policy_and_its_objects(site: PolicySite) -> None:
    custom = (
        "{{ (index .Policy.status.relatedObjects 0).object.data.color }} in {{ .Policy.metadata.namespace }}: {{ .DefaultMessage }}"
    )
    async with site.controller():
        await site.create(
            policy("p", template(config_map("settings", color="red")), customMessage={"compliant": custom, "noncompliant": "{{"})
        )
        status = await site.reported("p", "Compliant", f"Compliant; red in {CLUSTER}: Compliant; notification - {FOUND}")
    assert "(failure processing the custom message: failed to parse custom template:" in status["history"][-1]["message"]


async def test_compliance_that_the_framework_takes_away_is_told_again(site: PolicySite) -> None:
    async with site.controller() as life:
        await site.create(policy("p", template(config_map("settings", color="red"))))
        before = await site.reported("p", "Compliant", FOUND)
        await site.at_rest(life)
        await site.spoke.patch(POLICIES, "p", {"status": {"compliant": None}}, CLUSTER, subresource="status")
        status = await site.reported("p", "Compliant", FOUND)
    assert len(status["history"]) == len(before["history"]) + 1


async def test_the_history_has_ten_entries_newest_first(site: PolicySite) -> None:
    async with site.controller():
        await site.create(policy("p", template(config_map("settings", color="red")), action="inform"))
        await site.reported("p", "NonCompliant")
        for _ in range(6):
            await site.spoke.create(CONFIG_MAPS, config_map("settings", color="red"))
            await site.reported("p", "Compliant")
            await site.spoke.delete(CONFIG_MAPS, "settings", "app")
            status = await site.reported("p", "NonCompliant")
    assert [one["message"].split(";")[0] for one in status["history"]] == ["NonCompliant", "Compliant"] * 5
    stamps = [one["lastTimestamp"] for one in status["history"]]
    assert stamps == sorted(stamps, reverse=True)


async def test_a_condition_that_stays_the_same_keeps_its_time(site: PolicySite) -> None:
    async with site.controller() as life:
        await site.create(policy("p", template(config_map("settings", color="red")), action="inform"))
        before = await site.reported("p", "NonCompliant")
        await site.at_rest(life)
        await site.change("p", {"spec": {"severity": "high"}})

        async def is_evaluated() -> bool:
            return bool((await site.status("p")).get("lastEvaluatedGeneration") == 2)

        await site.until(is_evaluated, "the new generation")
        after = await site.status("p")
    assert _conditions(after) == _conditions(before)
    assert after["lastEvaluated"] > before["lastEvaluated"]


async def test_compliance_and_evaluations_are_counted(site: PolicySite) -> None:
    async with site.controller():
        await site.create(policy("p", template(config_map("settings", color="red")), action="inform", severity="high"))
        await site.reported("p", "NonCompliant")
        labels = f'kind="ConfigurationPolicy",policy="p",policy_namespace="{CLUSTER}",severity="high"'
        assert f"cluster_policy_governance_info{{{labels}}} 1\n" in _samples(site)
        await site.spoke.create(CONFIG_MAPS, config_map("settings", color="red"))
        await site.reported("p", "Compliant")
        assert f"cluster_policy_governance_info{{{labels}}} 0\n" in _samples(site)
        assert 'config_policy_evaluation_seconds_total{name="p"}' in _samples(site)
        assert 'compare_objects_evaluation_total{config_policy_name="p",namespace="app",object="settings"} 1\n' in _samples(site)


async def test_a_kind_that_comes_later_is_found_at_once(site: PolicySite) -> None:
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "app"}}
    async with site.controller() as life:
        await site.create(policy("p", template(widget)))
        await site.reported("p", "NonCompliant", "couldn't find mapping resource with kind Widget in API version example.com/v1")
        await site.clock.advance(7)
        before = site.clock.now()
        await _define_widgets(site)
        await site.reported("p", "Compliant", "widgets [w]", moving=0.05)
        assert (site.clock.now() - before).total_seconds() < 4
        await site.at_rest(life)


def _samples(site: PolicySite) -> str:
    return site.metrics.render().decode()


def _evaluations(site: PolicySite, name: str) -> float:
    for line in _samples(site).splitlines():
        if line.startswith(f'config_policy_evaluation_total{{name="{name}"}}'):
            return float(line.rpartition(" ")[2])
    return 0.0


def _conditions(status: Object) -> list[Object]:
    return [condition for details in status["compliancyDetails"] for condition in details["conditions"]]


async def _all_events(site: PolicySite) -> list[Object]:
    from muster.runtime.client.builtin import CORE_EVENTS

    return (await site.spoke.list(CORE_EVENTS, CLUSTER)).items


async def _define_widgets(site: PolicySite) -> None:
    from muster.runtime.client.builtin import CRDS

    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    await site.spoke.create(
        CRDS,
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.example.com"},
            "spec": {
                "group": "example.com",
                "scope": "Namespaced",
                "names": {"plural": "widgets", "kind": "Widget"},
                "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
            },
        },
    )
