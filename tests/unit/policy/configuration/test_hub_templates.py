"""Hub templates of policies that GitOps brings: resolved before everything else, into a copy that nobody ever writes."""

from __future__ import annotations

from typing import Any

import pytest

from muster.kube.yamldump import dump
from muster.machinery.objects import Object
from muster.policy.names import DISABLE_TEMPLATES_ANNOTATION, STANDALONE_DISABLED
from muster.runtime.client.builtin import CONFIG_MAPS, CORE_EVENTS, NAMESPACES, SECRETS
from tests.support.policy_site import CLUSTER, POLICIES, PolicySite, config_map, policy, template

COLOR = '{{hub fromConfigMap "shop" "settings" "color" hub}}'


@pytest.fixture
async def shop(site: PolicySite) -> PolicySite:
    await site.hub.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    await site.hub.create(CONFIG_MAPS, config_map("settings", "shop", color="red"))
    return site


async def test_what_the_hub_says_gets_to_the_object_and_follows_it(shop: PolicySite) -> None:
    async with shop.controller(hub=shop.hub) as life:
        await shop.create(policy("p", template(config_map("copy", color=COLOR))))
        await shop.reported("p", "Compliant", "[copy] found as specified")
        assert await shop.data("copy") == {"color": "red"}
        await shop.at_rest(life)
        before = shop.clock.now()
        await shop.hub.patch(CONFIG_MAPS, "settings", {"data": {"color": "blue"}}, "shop")

        async def is_blue() -> bool:
            return await shop.data("copy") == {"color": "blue"}

        await shop.until(is_blue, "the hub's color")
        assert (shop.clock.now() - before).total_seconds() < 1
        found = await shop.get("p") or {}
    assert found["metadata"]["generation"] == 1
    assert found["spec"]["object-templates"][0]["objectDefinition"]["data"] == {"color": COLOR}


@pytest.mark.parametrize("behavior", ["DeleteAll", "DeleteIfCreated"])
async def test_a_finalizer_puts_no_unresolved_text_back(shop: PolicySite, behavior: str) -> None:
    """What the patch of the finalizer answers is the policy as it is, not as it was resolved."""
    async with shop.controller(hub=shop.hub):
        await shop.create(policy("p", template(config_map("copy", color=COLOR)), pruneObjectBehavior=behavior))
        status = await shop.reported("p", "Compliant", "[copy] found as specified")
        assert not [one for one in status["history"] if "{{hub" in one["message"] or '"hub"' in one["message"]]
        assert await shop.data("copy") == {"color": "red"}
        await shop.change("p", {"spec": {"pruneObjectBehavior": "None"}})

        async def is_evaluated() -> bool:
            return bool((await shop.status("p"))["lastEvaluatedGeneration"] == 2)

        await shop.until(is_evaluated, "the change", moving=0.2)
        assert (await shop.status("p"))["compliant"] == "Compliant"


async def test_managed_templates_come_after_the_hubs(shop: PolicySite) -> None:
    name = '{{hub index (dict "k" "app") "k" hub}}'
    text = f'{{{{ (lookup "v1" "Namespace" "" "{name}").metadata.name }}}} of {{{{hub .ManagedClusterName hub}}}}'
    async with shop.controller(hub=shop.hub):
        await shop.create(policy("p", template(config_map("copy", who=text))))
        await shop.reported("p", "Compliant")
    assert await shop.data("copy") == {"who": f"app of {CLUSTER}"}


async def test_without_the_addon_nothing_is_enforced_and_the_policy_says_why(shop: PolicySite) -> None:
    async with shop.controller() as life:
        await shop.create(policy("p", template(config_map("copy", color=COLOR))))
        await shop.create(policy("q", template(config_map("other", color="red"))))
        status = await shop.reported("p", "NonCompliant", STANDALONE_DISABLED)
        await shop.reported("q", "Compliant")
        await shop.at_rest(life)
        events = [one for one in (await shop.spoke.list(CORE_EVENTS, CLUSTER)).items if one["involvedObject"]["name"] == "p"]
    assert status["compliancyDetails"][0]["conditions"][0]["reason"] == "Hub template resolution failure"
    assert status["history"][0]["message"] == f"NonCompliant; violation - {STANDALONE_DISABLED}"
    assert {one["reason"] for one in events} == {"PolicyInfo", "PolicyUpdate"}
    assert await shop.object("copy") is None
    assert await _last_resolved(shop) == []
    async with shop.controller(hub=shop.hub):
        await shop.reported("p", "Compliant")
    assert await shop.data("copy") == {"color": "red"}


async def test_an_object_that_the_hub_does_not_have_yet_is_waited_for(shop: PolicySite) -> None:
    async with shop.controller(hub=shop.hub) as life:
        await shop.create(policy("p", template(config_map("copy", color=COLOR.replace("settings", "others")))))
        await shop.reported("p", "NonCompliant", 'configmaps "others" not found')
        await shop.at_rest(life)
        await shop.hub.create(CONFIG_MAPS, config_map("others", "shop", color="green"))
        await shop.reported("p", "Compliant")
    assert await shop.data("copy") == {"color": "green"}


async def test_a_policy_evaluated_once_an_hour_is_healed_when_the_hub_is(shop: PolicySite) -> None:
    hourly = {"compliant": "1h", "noncompliant": "1h"}
    async with shop.controller(hub=shop.hub):
        document = policy("p", template(config_map("copy", color=COLOR.replace("settings", "others"))), evaluationInterval=hourly)
        await shop.create(document)
        await shop.reported("p", "NonCompliant", 'configmaps "others" not found')
        await shop.hub.create(CONFIG_MAPS, config_map("others", "shop", color="green"))
        await shop.reported("p", "Compliant")


async def test_a_deleted_policy_leaves_no_watch_on_the_hub(shop: PolicySite) -> None:
    async with shop.controller(hub=shop.hub) as life:
        await shop.create(policy("p", template(config_map("copy", color=COLOR))))
        await shop.reported("p", "Compliant")
        assert shop.manager is not None
        assert shop.manager.hub_templates.watches == 1
        await shop.spoke.delete(POLICIES, "p", CLUSTER)
        await shop.at_rest(life)
        assert shop.manager.hub_templates.watches == 0
        assert shop.manager.selections.watches == 0


async def test_a_policy_that_is_being_deleted_needs_no_hub(shop: PolicySite) -> None:
    async with shop.controller(hub=shop.hub):
        await shop.create(policy("p", template(config_map("copy", color=COLOR)), pruneObjectBehavior="DeleteAll"))
        await shop.reported("p", "Compliant")
    async with shop.controller():
        await shop.spoke.delete(POLICIES, "p", CLUSTER)

        async def is_gone() -> bool:
            return await shop.get("p") is None

        await shop.until(is_gone, "the policy to go", moving=0.5)
    assert await shop.object("copy") is None


async def test_templates_that_are_switched_off_are_text(shop: PolicySite) -> None:
    document = policy("p", template(config_map("copy", color=COLOR)))
    document["metadata"]["annotations"] = {DISABLE_TEMPLATES_ANNOTATION: "true"}
    async with shop.controller(hub=shop.hub):
        await shop.create(document)
        await shop.reported("p", "Compliant")
        assert await shop.data("copy") == {"color": COLOR}
        await shop.change("p", {"metadata": {"annotations": {DISABLE_TEMPLATES_ANNOTATION: "false"}}})

        async def is_red() -> bool:
            return await shop.data("copy") == {"color": "red"}

        await shop.until(is_red, "templates to be resolved", moving=0.2)


async def test_secrets_of_the_hub_are_in_no_message_event_or_diff(shop: PolicySite) -> None:
    secret = {"metadata": {"name": "keys", "namespace": "shop"}, "stringData": {"key": "hunter2"}}
    await shop.hub.create(SECRETS, secret, "shop")
    custom = dict.fromkeys(_STATES, "{{ .Policy.spec }} {{ .Policy.status.relatedObjects }} {{ .DefaultMessage }}")
    widget = config_map("copy", color='{{hub fromSecret "shop" "keys" "key" | base64dec hub}}')
    # Of an object that is there already the difference is told.
    await shop.spoke.create(CONFIG_MAPS, config_map("copy", color="red"))
    async with shop.controller(hub=shop.hub) as life:
        await shop.create(policy("p", template(widget), action="inform", customMessage=custom))
        status = await shop.reported("p", "NonCompliant")
        await shop.at_rest(life)
        events = (await shop.spoke.list(CORE_EVENTS, CLUSTER)).items
    assert "hunter2" not in f"{status} {events}"
    assert "redacted" in status["relatedObjects"][0]["properties"]["diff"]
    assert "object-templates" in status["history"][0]["message"], "the custom message is there"


SPILLING = {
    "as a failure": '{{ fail "KEY" }}',
    "as a name to look up": '{{ fromConfigMap "app" "KEY" "x" }}',
    "as a field": "{{ $.KEY.x | upper | fail }}",
    "as a function": '{{ KEY "x" }}',
    "as YAML": '{{ "{KEY: KEY: x" | toLiteral }}',
    "as a pattern": '{{ mustRegexMatch "(KEY" "x" }}',
}
"""What managed templates can do with what hub templates have put into them."""


@pytest.mark.parametrize("text", SPILLING.values(), ids=SPILLING)
@pytest.mark.parametrize("raw", [False, True], ids=["object", "raw"])
async def test_what_the_hub_read_of_secrets_is_in_no_error_of_managed_templates(shop: PolicySite, text: str, raw: bool) -> None:
    """The whole text of the managed templates is sensitive then: nothing is shown of it but the position."""
    await shop.hub.create(SECRETS, {"metadata": {"name": "keys", "namespace": "shop"}, "stringData": {"key": "hunter2"}}, "shop")
    one = template(config_map("copy", color=text.replace("KEY", '{{hub fromSecret "shop" "keys" "key" | base64dec hub}}')))
    document = policy("p") if raw else policy("p", one)
    if raw:
        document["spec"].pop("object-templates", None)
        document["spec"]["object-templates-raw"] = dump([one])
    async with shop.controller(hub=shop.hub) as life:
        await shop.create(document)
        status = await shop.reported("p", "NonCompliant", "the reason is not shown")
        await shop.at_rest(life)
        events = (await shop.spoke.list(CORE_EVENTS, CLUSTER)).items
    assert "hunter2" not in f"{status} {events}"


async def test_a_value_of_a_secret_that_makes_no_label_is_not_told(shop: PolicySite) -> None:
    """Upstream's message shows the value that is no text."""
    await shop.hub.create(SECRETS, {"metadata": {"name": "keys", "namespace": "shop"}, "stringData": {"pin": "271828"}}, "shop")
    labelled = config_map("copy")
    labelled["metadata"]["labels"] = {"pin": '{{hub fromSecret "shop" "keys" "pin" | base64dec | toInt hub}}'}
    await shop.spoke.create(CONFIG_MAPS, config_map("copy"))
    async with shop.controller(hub=shop.hub):
        await shop.create(policy("p", template(labelled)))
        status = await shop.reported("p", "NonCompliant", "contains non-string value in the map: the value is of the type int64")
    assert "271828" not in str(status)


async def test_a_custom_message_with_hub_templates_that_may_have_read_secrets_is_withheld(shop: PolicySite) -> None:
    secret = {"metadata": {"name": "keys", "namespace": "shop"}, "stringData": {"key": "hunter2"}}
    await shop.hub.create(SECRETS, secret, "shop")
    custom = dict.fromkeys(_STATES, '{{hub fromSecret "shop" "keys" "key" | base64dec hub}}')
    async with shop.controller(hub=shop.hub):
        await shop.create(policy("p", template(config_map("copy", color="red")), customMessage=custom))
        status = await shop.reported("p", "Compliant", "the custom message is withheld")
    assert "hunter2" not in str(status)


async def test_custom_messages_may_have_hub_templates(shop: PolicySite) -> None:
    custom = {"compliant": f"as {COLOR} as {{{{hub .ManagedClusterName hub}}}} is"}
    async with shop.controller(hub=shop.hub):
        await shop.create(policy("p", template(config_map("copy", color="red")), customMessage=custom))
        await shop.reported("p", "Compliant", f"Compliant; as red as {CLUSTER} is")


_STATES = ("compliant", "noncompliant")


async def _last_resolved(site: PolicySite) -> list[Any]:
    found: list[Object] = (await site.spoke.list(SECRETS, CLUSTER)).items
    return [one["metadata"]["name"] for one in found if one["metadata"]["name"].endswith("-last-resolved")]
