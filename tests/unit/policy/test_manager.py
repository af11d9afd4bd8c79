"""The policy controller put together: leases, hosted mode, encryption keys, forbidden functions, and many policies at rest."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from muster.machinery.objects import Object
from muster.policy.configuration.controller import ConfigurationPolicyOptions
from muster.policy.names import ENCRYPTION_IV_ANNOTATION, ENCRYPTION_KEY_SECRET
from muster.policy.resolver.encryption import protect
from muster.policy.resolver.interfaces import Encryption
from muster.policy.uninstall import DEFINITION
from muster.runtime.client.builtin import CONFIG_MAPS, CRDS, LEASES, NAMESPACES, SECRETS
from tests.support.policy_site import CLUSTER, POLICIES, PolicySite, config_map, policy, policy_site, template

VECTOR = b"i" * 16


@pytest.fixture
async def site() -> Any:
    async with policy_site() as found:
        yield found


async def _leases(site: PolicySite) -> dict[str, str]:
    return {one["metadata"]["name"]: one["spec"]["renewTime"] for one in (await site.spoke.list(LEASES, "app")).items}


@pytest.mark.parametrize("standalone", [True, False])
async def test_a_lease_for_each_addon_is_renewed(site: PolicySite, standalone: bool) -> None:
    names = {"config-policy-controller"} | ({"governance-standalone-hub-templating"} if standalone else set())
    async with site.controller(hub=site.hub if standalone else None, lease_namespace="app"):

        async def are_there() -> dict[str, str] | None:
            found = await _leases(site)
            return found if set(found) == names else None

        before = await site.until(are_there, "the leases")

        async def are_renewed() -> bool:
            return all(moment > before[name] for name, moment in (await _leases(site)).items())

        await site.until(are_renewed, "the leases to be renewed", moving=5)


async def test_a_controller_that_cannot_read_its_policies_renews_no_lease(site: PolicySite) -> None:
    await site.spoke.delete(CRDS, DEFINITION)
    async with site.controller(lease_namespace="app"):
        await site.clock.advance(120)
        assert await _leases(site) == {}


async def test_in_hosted_mode_policies_are_here_and_objects_there(site: PolicySite) -> None:
    for namespace in ("app", CLUSTER):
        await site.hub.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    async with site.controller(target=site.hub):
        await site.create(policy("p", template(config_map("settings", color="red")), pruneObjectBehavior="DeleteAll"))
        await site.reported("p", "Compliant", "found as specified")
        assert (await site.hub.get(CONFIG_MAPS, "settings", "app"))["data"] == {"color": "red"}
        assert await site.object("settings") is None
        await site.hub.delete(CONFIG_MAPS, "settings", "app")
        await site.reported("p", "Compliant", "was created successfully")


async def test_encrypted_values_are_decrypted_with_the_key_or_the_one_before(site: PolicySite) -> None:
    old, new = b"o" * 32, b"n" * 32
    async with site.controller() as life:
        await site.create(_encrypted("p", _protected(old, "red")))
        await site.reported("p", "NonCompliant", f"failed to get the encryption key from Secret {CLUSTER}/{ENCRYPTION_KEY_SECRET}")
        await site.at_rest(life)
        await site.spoke.create(SECRETS, _keys(key=old))
        await site.reported("p", "Compliant")
        assert await site.data("settings") == {"color": "red"}
        await site.spoke.update(SECRETS, _keys(key=new, previousKey=old) | {"apiVersion": "v1", "kind": "Secret"})
        await site.create(_encrypted("q", _protected(new, "blue")) | {})
        await site.reported("q", "Compliant")
        await site.at_rest(life)
        assert (await site.status("p"))["compliant"] == "Compliant"


@pytest.mark.parametrize("vector", ["!", "ü"])
async def test_a_wrong_initialization_vector_is_told(site: PolicySite, vector: str) -> None:
    document = _encrypted("p", "x")
    document["metadata"]["annotations"][ENCRYPTION_IV_ANNOTATION] = vector
    async with site.controller():
        await site.create(document)
        await site.reported("p", "NonCompliant", f'the policy annotation of "{ENCRYPTION_IV_ANNOTATION}" is not Base64')


async def test_functions_on_the_denylist_fail(site: PolicySite) -> None:
    options = ConfigurationPolicyOptions((CLUSTER,), denylist=frozenset(("getHostByName",)))
    async with site.controller(configuration=options):
        await site.create(policy("p", template(config_map("settings", host='{{ getHostByName "localhost" }}'))))
        status = await site.reported("p", "NonCompliant", "getHostByName")
    assert await site.object("settings") is None
    assert "127.0.0.1" not in str(status)


async def test_many_policies_at_rest_share_watches_and_send_nothing(site: PolicySite) -> None:
    """A thousand of them are measured by `bench/policy`; what is counted here does not depend on how many there are."""
    count = 60
    options = ConfigurationPolicyOptions((CLUSTER,), concurrency=8)
    async with site.controller(configuration=options) as life:
        for number in range(count):
            await site.create(policy(f"p{number}", template(config_map(f"settings{number % 3}", color="red"))))
        for number in range(count):
            await site.reported(f"p{number}", "Compliant", "found as specified", moving=0.5)
        assert site.manager is not None
        assert site.manager.selections.watches == 3
        await site.at_rest(life, seconds=120)


async def test_four_watches_are_there_whatever_the_policies(site: PolicySite) -> None:
    """Upstream's controller has five beside those that templates need."""
    api = f"/apis/{POLICIES.api_version}"
    async with site.controller() as life:
        await site.create(policy("p", template(config_map("settings", color="red"))))
        await site.reported("p", "Compliant", "found as specified")
        watched = list(life.watched)
        watched.remove("/api/v1/namespaces/app/configmaps")
        assert sorted(watched) == [
            f"/api/v1/namespaces/{CLUSTER}/secrets",
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            f"{api}/namespaces/{CLUSTER}/configurationpolicies",
            f"{api}/namespaces/open-cluster-management-policies/configurationpolicies",
        ]


async def test_aggregated_apis_are_followed_once_a_kind_is_missing(site: PolicySite) -> None:
    services = "/apis/apiregistration.k8s.io/v1/apiservices"
    async with site.controller() as life:
        await site.create(policy("p", template(config_map("settings", color="red"))))
        await site.reported("p", "Compliant", "found as specified")
        assert services not in life.watched
        await site.create(policy("q", template({**config_map("missing"), "kind": "Unheard"})))
        await site.reported("q", "NonCompliant", "Unheard")
        assert life.watched.count(services) == 1


def _protected(key: bytes, value: str) -> str:
    return protect(Encryption(key=key, initialization_vector=VECTOR, encrypt=True), value)


def _encrypted(name: str, value: str) -> Object:
    document = policy(name, template(config_map("settings" if name == "p" else name, color=value)))
    document["metadata"]["annotations"] = {ENCRYPTION_IV_ANNOTATION: base64.b64encode(VECTOR).decode()}
    return document


def _keys(**data: bytes) -> Object:
    return {
        "metadata": {"name": ENCRYPTION_KEY_SECRET, "namespace": CLUSTER},
        "data": {name: base64.b64encode(value).decode() for name, value in data.items()},
    }
