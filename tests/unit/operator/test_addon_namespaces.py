"""Agents may look after addons where a namespace says so by a label, and nowhere else; pull secrets follow."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from muster.api.addons import NAMESPACE_LABEL
from muster.machinery.objects import Object
from muster.operator.bundle import pull_secret
from muster.operator.names import ADDON_NAMESPACE, OPERATOR_NAMESPACE, PULL_SECRET
from muster.operator.pod_namespaces import MAY_RUN
from muster.registration.names import AGENT_NAMESPACE
from muster.runtime.client.builtin import CLUSTER_ROLES, NAMESPACES, ROLE_BINDINGS, SECRETS
from tests.support.eventually import eventually
from tests.unit.operator.conftest import Cluster
from tests.unit.operator.spokes import AGENT, Hub, K, Spoke, operated

ROLE = f"open-cluster-management:{K}-registration:addon-management"


@pytest.fixture
async def spoke(here: Cluster, far: Cluster) -> AsyncIterator[Spoke]:
    async with AsyncExitStack() as stack:
        yield await stack.enter_async_context(operated(here, Hub(far)))


async def add(place: Cluster, name: str) -> None:
    await place.admin.create(NAMESPACES, {"metadata": {"name": name, "labels": {NAMESPACE_LABEL: "true"}}})


async def subjects(place: Cluster, namespace: str, role: str = ROLE) -> list[Object]:
    found: Object = await place.until_found(ROLE_BINDINGS, role, namespace)
    assert found["roleRef"]["name"] == role
    return list(found["subjects"])


async def test_the_agent_is_bound_where_addons_run(spoke: Spoke) -> None:
    """Defect 34 of OCM's agent."""
    await spoke.up()
    place = spoke.place
    (subject,) = await subjects(place, ADDON_NAMESPACE)
    assert (subject["name"], subject["namespace"]) == (f"{K}-registration-sa", AGENT_NAMESPACE)
    role = await place.until_found(CLUSTER_ROLES, ROLE)
    assert {resource for rule in role["rules"] for resource in rule["resources"]} == {"secrets", "leases"}


async def test_bindings_follow_the_label_as_it_comes_and_goes(spoke: Spoke) -> None:
    await spoke.up()
    place = spoke.place
    await add(place, "shop")
    await subjects(place, "shop")
    await place.admin.patch(NAMESPACES, "shop", {"metadata": {"labels": {NAMESPACE_LABEL: None}}})
    await place.until_gone(ROLE_BINDINGS, ROLE, "shop")
    await subjects(place, ADDON_NAMESPACE)
    assert await place.find(NAMESPACES, "shop")


async def test_a_namespace_without_the_label_has_no_binding(spoke: Spoke) -> None:
    """Defect 34 of OCM's agent, which may read the Secrets of all namespaces."""
    await spoke.place.admin.create(NAMESPACES, {"metadata": {"name": "other", "labels": {NAMESPACE_LABEL: "false"}}})
    await add(spoke.place, "shop")
    await spoke.up()
    await subjects(spoke.place, "shop")
    assert not (await spoke.place.admin.list(ROLE_BINDINGS, "other")).items


async def test_pods_may_run_and_images_be_pulled_where_addons_are(spoke: Spoke) -> None:
    place = spoke.place
    await place.admin.apply(SECRETS, pull_secret(OPERATOR_NAMESPACE, b"{}"), manager="test")
    await spoke.up()
    await add(place, "shop")
    await place.until_found(SECRETS, PULL_SECRET, "shop")
    await place.until_found(SECRETS, PULL_SECRET, ADDON_NAMESPACE)

    async def labelled() -> bool:
        namespace = await place.until_found(NAMESPACES, "shop")
        return bool(namespace["metadata"]["labels"].get(MAY_RUN) == "true")

    await eventually(labelled, "the namespace being labelled")
    await spoke.delete()
    await spoke.until_gone()
    assert not await place.find(SECRETS, PULL_SECRET, "shop")
    assert not await place.find(ROLE_BINDINGS, ROLE, "shop")
    assert await place.find(NAMESPACES, "shop")


async def test_with_the_gate_off_there_are_no_rights_for_addons(spoke: Spoke) -> None:
    place = spoke.place
    await add(place, "shop")
    await spoke.up()
    await subjects(place, "shop")
    gates = [{"feature": "AddonManagement", "mode": "Disable"}]
    await spoke.change({"registrationConfiguration": {"featureGates": gates}})
    await place.until_gone(ROLE_BINDINGS, ROLE, "shop")
    await place.until_gone(ROLE_BINDINGS, ROLE, ADDON_NAMESPACE)
    await place.until_gone(CLUSTER_ROLES, ROLE)
    assert "--feature-gates=AddonManagement=false" in await spoke.arguments(AGENT)
    await spoke.says("ValidFeatureGates", "True")


async def test_the_driver_of_addons_is_told_to_the_agent(spoke: Spoke) -> None:
    driver = {"authType": "token", "token": {"expirationSeconds": 7200}}
    await spoke.up(registrationConfiguration={"addOnKubeClientRegistrationDriver": driver})
    arguments = await spoke.arguments(AGENT)
    assert "--addon-kubeclient-registration-auth=token" in arguments
    assert "--addon-token-expiration-seconds=7200" in arguments
