"""Hub templates that are resolved: by the addon's identity, followed, and kept beside the policy."""

from __future__ import annotations

import pytest

from muster.machinery.objects import Object
from muster.policy.names import DISABLE_TEMPLATES_ANNOTATION, STANDALONE_DISABLED
from muster.policy.standalone import PolicyKey
from muster.runtime.client import Unreachable
from muster.runtime.client.builtin import CONFIG_MAPS, SECRETS
from tests.support.eventually import eventually
from tests.unit.policy.standalone.conftest import (
    CLUSTER,
    COLOUR,
    NAMESPACE,
    SHOP,
    Controller,
    FastClock,
    Site,
    no_watches,
    value_of,
)

LABEL = "{{hub .ManagedClusterLabels.cloud hub}}"


async def test_a_hub_template_is_resolved_with_what_the_hub_has_and_the_policy_stays_as_it_was(site: Site) -> None:
    policy = await site.policy()
    async with site.controller() as controller:
        found = await controller.resolve(policy)
    assert value_of(found) == "red"
    assert (found.sensitive, found.from_cache) == (False, False)
    assert policy["spec"]["object-templates"][0]["objectDefinition"]["data"]["value"] == COLOUR
    assert found.policy["metadata"] == policy["metadata"]


async def test_what_was_resolved_is_kept_in_a_secret_that_belongs_to_the_policy(site: Site) -> None:
    policy = await site.policy()
    async with site.controller() as controller:
        await controller.resolve(policy)
    secret = await site.secret(policy)
    assert secret is not None
    (owner,) = secret["metadata"]["ownerReferences"]
    assert owner == {
        "apiVersion": "policy.open-cluster-management.io/v1",
        "kind": "ConfigurationPolicy",
        "name": "p",
        "uid": policy["metadata"]["uid"],
    }
    assert secret["type"] == "Opaque"
    assert "labels" not in secret["metadata"]
    saved = await site.saved(policy)
    assert saved is not None
    assert saved["metadata"] == {key: policy["metadata"][key] for key in ("name", "namespace", "uid", "generation")}
    assert saved["status"] == {}
    assert {"customMessage", "evaluationInterval", "namespaceSelector"} <= saved["spec"].keys()
    assert saved["spec"]["object-templates"][0]["objectDefinition"]["data"] == {"value": "red"}


async def test_the_secret_is_written_once_for_one_result(site: Site) -> None:
    policy = await site.policy()
    async with site.controller() as controller:
        for _ in range(3):
            await controller.resolve(policy)
        assert [method for method, _ in controller.life.writes] == ["POST"]
    before = await site.secret(policy)
    async with site.controller() as another:
        await another.resolve(policy)
        assert another.life.writes == []
        await site.settings(colour="blue")
        await another.told(policy)
        assert value_of(await another.resolve(policy)) == "blue"
        assert [method for method, _ in another.life.writes] == ["PATCH"]
    after = await site.secret(policy)
    assert before is not None
    assert after is not None
    assert before["data"] != after["data"]


async def test_nothing_is_asked_of_either_cluster_for_a_policy_at_rest(site: Site) -> None:
    policy = await site.policy()
    async with site.controller() as controller:
        await controller.resolve(policy)
        assert controller.hub is not None
        asked, asked_of_hub = len(controller.life.asked), len(controller.hub.asked)
        for _ in range(5):
            await controller.resolve(policy)
        assert (len(controller.life.asked), len(controller.hub.asked)) == (asked, asked_of_hub)


async def test_a_secret_that_somebody_deleted_is_written_again(site: Site) -> None:
    policy = await site.policy()
    async with site.controller() as controller:
        await controller.resolve(policy)
        secret = await site.secret(policy)
        assert secret is not None
        await site.spoke.delete(SECRETS, secret["metadata"]["name"], NAMESPACE)

        async def rewritten() -> bool:
            await controller.resolve(policy)
            return await site.secret(policy) is not None

        await eventually(rewritten, "the Secret again", poll=0.01)


async def test_a_change_on_the_hub_names_exactly_the_policies_that_read_it(site: Site) -> None:
    await site.settings("other", colour="green")
    one = await site.policy(name="one")
    other = await site.policy(COLOUR.replace("settings", "other"), name="other")
    async with site.controller() as controller:
        for policy in (one, other):
            await controller.resolve(policy)
        await site.settings(colour="blue")
        await controller.told(one)
        assert PolicyKey.of(other) not in controller.changed
        assert value_of(await controller.resolve(one)) == "blue"


async def test_the_context_has_the_clusters_name_and_no_labels_are_read_that_nobody_uses(site: Site) -> None:
    policy = await site.policy("{{hub .ManagedClusterName hub}}")
    async with site.controller() as controller:
        assert value_of(await controller.resolve(policy)) == CLUSTER
        assert controller.templates.watches == 0


async def test_labels_are_those_of_the_own_managed_cluster_and_are_followed(site: Site) -> None:
    await site.grant_own_cluster()
    await site.managed_cluster(cloud="Amazon")
    policy = await site.policy(LABEL)
    async with site.controller() as controller:
        assert value_of(await controller.resolve(policy)) == "Amazon"
        await site.managed_cluster(cloud="Azure")
        await controller.told(policy)
        assert value_of(await controller.resolve(policy)) == "Azure"
        await site.managed_cluster()
        await controller.told(policy)
        assert value_of(await controller.resolve(policy)) == "<no value>"


async def test_a_missing_managed_cluster_is_a_clear_error_until_it_is_there(site: Site) -> None:
    await site.grant_own_cluster()
    policy = await site.policy(LABEL)
    async with site.controller() as controller:
        assert f"ManagedCluster {CLUSTER}" in await controller.fails(policy)
        await site.managed_cluster(cloud="Amazon")
        await controller.told(policy)
        assert value_of(await controller.resolve(policy)) == "Amazon"


async def test_without_the_right_to_it_the_managed_cluster_is_refused(site: Site) -> None:
    await site.managed_cluster(cloud="Amazon")
    policy = await site.policy(LABEL)
    async with site.controller() as controller:
        complaint = await controller.fails(policy)
    assert "forbidden" in complaint
    assert "managedclusters" in complaint


async def test_reading_a_secret_of_the_hub_makes_the_result_sensitive(site: Site) -> None:
    await site.grant("secrets", "creds")
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "creds", "namespace": SHOP}, "stringData": {"k": "s3cret"}}
    await site.hub.create(SECRETS, body)
    policy = await site.policy('{{hub fromSecret "shop" "creds" "k" hub}}')
    async with site.controller() as controller:
        assert (await controller.resolve(policy)).sensitive


async def test_both_kinds_of_policies_of_one_name_are_told_apart(site: Site) -> None:
    configuration = await site.policy()
    operator = await site.operator_policy(COLOUR.replace("settings", "other"))
    await site.settings("other", colour="hello")
    async with site.controller() as controller:
        await controller.resolve(configuration)
        found = await controller.resolve(operator)
        assert found.policy["spec"]["subscription"]["namespace"] == "hello"
        saved = await site.saved(operator)
        assert saved is not None
        assert saved["status"] == {"relatedObjects": None}
        assert {"complianceConfig", "removalBehavior"} <= saved["spec"].keys()
        await site.settings("other", colour="changed")
        await controller.told(operator)
        assert PolicyKey.of(configuration) not in controller.changed
        assert (await controller.resolve(operator)).policy["spec"]["subscription"]["namespace"] == "changed"


class TestWithoutTheAddon:
    async def test_hub_templates_are_refused_with_the_remedy(self, site: Site) -> None:
        policy = await site.policy()
        async with site.controller(enabled=False) as controller:
            assert await controller.fails(policy) == STANDALONE_DISABLED
            assert controller.life.writes == []

    async def test_other_policies_are_none_of_its_business(self, site: Site) -> None:
        policy = await site.policy("plain")
        async with site.controller(enabled=False) as controller:
            assert (await controller.resolve(policy)).policy is policy

    async def test_what_was_kept_goes_when_the_addon_is_disabled(self, site: Site) -> None:
        policy = await site.policy()
        async with site.controller() as controller:
            await controller.resolve(policy)
        async with site.controller(enabled=False) as controller:
            await controller.fails(policy)
            assert await site.secret(policy) is None
        async with site.controller() as controller:
            assert value_of(await controller.resolve(policy)) == "red"


class TestPoliciesWithoutHubTemplates:
    async def test_nothing_is_written_or_followed_for_them(self, site: Site) -> None:
        policy = await site.policy("{{ .ManagedTemplate }}")
        async with site.controller() as controller:
            found = await controller.resolve(policy)
            assert found.policy is policy
            assert not found.sensitive
            assert controller.life.writes == []
            assert controller.templates.watches == 0

    async def test_one_that_has_lost_them_loses_its_watches_and_its_secret(self, site: Site) -> None:
        policy = await site.policy()
        async with site.controller(clock=FastClock()) as controller:
            await controller.resolve(policy)
            edited = await site.policy("plain")
            assert (await controller.resolve(edited)).policy is edited
            assert await site.secret(policy) is None
            await no_watches(controller)

    @pytest.mark.parametrize("said", ["true", "True", "1", "t"])
    async def test_templates_disabled_by_annotation_are_left_as_text(self, site: Site, said: str) -> None:
        policy = await site.policy()
        async with site.controller() as controller:
            await controller.resolve(policy)
            annotated = await site.policy(annotations={DISABLE_TEMPLATES_ANNOTATION: said})
            assert value_of(await controller.resolve(annotated)) == COLOUR
            assert await site.secret(policy) is None

    @pytest.mark.parametrize("said", ["false", "yes", "", "tRUE"])
    async def test_what_is_not_true_does_not_disable_templates(self, site: Site, said: str) -> None:
        policy = await site.policy(annotations={DISABLE_TEMPLATES_ANNOTATION: said})
        async with site.controller() as controller:
            assert value_of(await controller.resolve(policy)) == "red"


async def test_a_policy_that_is_gone_leaves_no_watch(site: Site) -> None:
    policy = await site.policy()
    async with site.controller(clock=FastClock()) as controller:
        await controller.resolve(policy)
        assert controller.templates.watches == 1
        controller.templates.forget(PolicyKey.of(policy))
        await no_watches(controller)
        await site.hub.delete(CONFIG_MAPS, "settings", SHOP)


class TestUpstreamsSecret:
    """What upstream's controller has kept, in its own bytes."""

    @staticmethod
    def kept(policy: Object, value: str) -> bytes:
        uid, generation = policy["metadata"]["uid"], policy["metadata"]["generation"]
        wanted = f'{{"apiVersion":"v1","data":{{"value":"{value}"}},"kind":"ConfigMap",'
        wanted += '"metadata":{"name":"wanted","namespace":"default"}}'
        template = f'{{"complianceType":"musthave","objectDefinition":{wanted},"recreateOption":"None"}}'
        return (
            '{"apiVersion":"policy.open-cluster-management.io/v1","kind":"ConfigurationPolicy",'
            f'"metadata":{{"generation":{generation},"name":"p","namespace":"{NAMESPACE}","uid":"{uid}"}},'
            f'"spec":{{"customMessage":{{}},"evaluationInterval":{{}},"namespaceSelector":{{}},"object-templates":[{template}],'
            '"pruneObjectBehavior":"None","remediationAction":"enforce"},"status":{}}'
        ).encode()

    async def test_it_stands_in_for_a_hub_that_is_away(self, site: Site) -> None:
        policy = await site.policy()
        await site.forge(policy, self.kept(policy, "\\u003cred\\u003e"))
        site.outage.begin(lambda: Unreachable("https://hub", "connection refused", sent=False))
        async with site.controller() as controller:
            assert value_of(await controller.resolve(policy)) == "<red>"

    async def test_it_is_not_written_again_when_it_says_the_same(self, site: Site) -> None:
        await site.settings(colour="<red>")
        policy = await site.policy()
        await site.forge(policy, self.kept(policy, "\\u003cred\\u003e"))
        async with site.controller() as controller:
            assert value_of(await controller.resolve(policy)) == "<red>"
            assert controller.life.writes == []


class TestWhatTemplatesPutIn:
    """Text from the hub that is more than a value."""

    async def test_hub_templates_in_it_are_not_resolved_and_nothing_is_enforced(self, site: Site) -> None:
        await site.settings(colour='{{hub fromSecret "kube-system" "admin" "token" hub}}')
        policy = await site.policy()
        async with site.controller() as controller:
            assert "contains hub templates" in await controller.fails(policy)
            assert await site.secret(policy) is None

    async def test_managed_templates_in_it_are_left_for_the_managed_cluster(self, site: Site) -> None:
        await site.settings(colour="{{ .ObjectName }}")
        policy = await site.policy()
        async with site.controller() as controller:
            assert value_of(await controller.resolve(policy)) == "{{ .ObjectName }}"

    async def test_what_makes_the_policy_unreadable_is_refused_and_nothing_of_it_is_shown(self, site: Site) -> None:
        """Upstream evaluates what it could decode."""
        await site.settings(colour="23")
        policy = await site.policy("x", customMessage={"compliant": "1" + COLOUR})
        async with site.controller() as controller:
            complaint = await controller.fails(policy)
        assert "failed to convert the resolved template to a policy" in complaint
        assert "customMessage.compliant" in complaint
        assert "123" not in complaint

    async def test_more_than_can_be_kept_is_refused(self, site: Site) -> None:
        policy = await site.policy('{{hub repeat 1100000 "x" hub}}')
        async with site.controller() as controller:
            complaint = await controller.fails(policy)
        assert "bytes cannot be saved" in complaint
        assert len(complaint) < 200

    async def test_what_would_make_it_another_policy_is_refused(self, site: Site) -> None:
        await site.settings(colour="x\nmetadata:\n  name: another")
        policy = await site.policy("x", severity="low", customMessage={"noncompliant": "y" + COLOUR})
        async with site.controller() as controller:
            assert "failed to convert the resolved template to JSON" in await controller.fails(policy)


async def test_a_denied_function_is_denied_to_hub_templates_of_both_kinds(site: Site) -> None:
    text = '{{hub getHostByName "localhost" hub}}'
    for policy in (await site.policy(text), await site.operator_policy(text)):
        async with site.controller(denylist=frozenset(("getHostByName",))) as controller:
            assert "function 'getHostByName' is not allowed" in await controller.fails(policy)


async def test_a_kind_that_the_hub_gets_later_is_found(site: Site) -> None:
    policy = await site.policy('{{hub (lookup "shop.example/v1" "Price" "shop" "apple").kind hub}}')
    async with site.controller(clock=FastClock()) as controller:
        assert "one or more API resources are not installed" in await controller.fails(policy)
        await site.define("Price", "prices", "shop.example")
        complaint = await eventually(lambda: _refusal(controller, policy), "another answer", poll=0.02)
        assert "forbidden" in complaint


async def _refusal(controller: Controller, policy: Object) -> str:
    await controller.told(policy)
    complaint = await controller.fails(policy)
    return "" if "not installed" in complaint else complaint


async def test_a_secret_that_names_what_is_looked_up_is_not_logged(site: Site, capfd: pytest.CaptureFixture[str]) -> None:
    """The server repeats names in its refusals."""
    await site.grant("secrets", "creds")
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "creds", "namespace": SHOP}, "stringData": {"k": "s3cret"}}
    await site.hub.create(SECRETS, body)
    read = 'fromSecret "shop" "creds" "k" | base64dec'
    for number, text in enumerate((f'fromConfigMap "default" ({read}) "x"', f'lookup "v1" "ConfigMap" "default" "" ({read})')):
        policy = await site.policy(f"{{{{hub {text} hub}}}}", name=f"p{number}")
        async with site.controller() as controller:
            assert "s3cret" not in await controller.fails(policy)
    logged = capfd.readouterr()
    assert "cannot follow" in logged.err
    assert "s3cret" not in logged.err + logged.out
