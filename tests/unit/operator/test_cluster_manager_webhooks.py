"""Webhooks of a hub: configured when they answer, trusted by the certificate that they use."""

from __future__ import annotations

import base64
from datetime import timedelta

from muster.machinery.clock import SYSTEM
from muster.machinery.objects import Object
from muster.operator.cluster_manager.components import HOOKS
from muster.registration.hub.install import WEBHOOK_SECRET
from muster.registration.names import (
    HUB_NAMESPACE,
)
from muster.runtime.client.builtin import CONFIG_MAPS, CRDS, SECRETS
from muster.runtime.webhook.certificates import ServingCertificate, ServingPair, make_pair
from muster.work.hub.install import HOOKS as WORK_HOOKS
from tests.unit.operator.conftest import Cluster
from tests.unit.operator.hubs import (
    ADDON_MANAGER,
    CONTROLLER,
    PLACEMENT,
    WEBHOOK,
    WORK_WEBHOOK,
    Hub,
)


async def test_webhooks_are_configured_only_when_they_answer_and_trust_the_certificate_in_use(hub: Hub) -> None:
    await hub.create()
    await hub.says("Applied", "True")
    assert (await hub.says("HubRegistrationDegraded", "True"))["reason"] == "UnavailableRegistrationPod"
    assert (await hub.says("Progressing", "True"))["reason"] == "ClusterManagerDeploymentRolling"
    assert await hub.place.find(HOOKS[0].resource, HOOKS[0].name) is None
    await hub.available()
    hook = await hub.place.until_found(HOOKS[0].resource, HOOKS[0].name)
    secret = await hub.place.until_found(SECRETS, WEBHOOK_SECRET, HUB_NAMESPACE)
    assert hook["webhooks"][0]["clientConfig"]["caBundle"] == secret["data"]["ca.crt"]
    works = await hub.place.until_found(WORK_HOOKS[0].resource, WORK_HOOKS[0].name)
    certificate = await hub.place.until_found(SECRETS, "work-webhook-serving-cert", HUB_NAMESPACE)
    assert works["webhooks"][0]["clientConfig"]["caBundle"] == certificate["data"]["ca.crt"] != secret["data"]["ca.crt"]
    assert works["webhooks"][0]["clientConfig"]["service"]["name"] == "cluster-manager-work-webhook"
    bundle = await hub.place.until_found(CONFIG_MAPS, "ca-bundle-configmap", HUB_NAMESPACE)
    for one in (secret, certificate):
        assert base64.b64decode(one["data"]["ca.crt"]).decode().strip() in bundle["data"]["ca-bundle.crt"]
    converted = await hub.place.until_found(CRDS, "managedclusteraddons.addon.open-cluster-management.io")
    assert converted["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"] == secret["data"]["ca.crt"]


async def test_webhooks_stay_configured_when_they_stop_answering(hub: Hub) -> None:
    await hub.up()
    before = [(await hub.place.until_found(hook.resource, hook.name))["metadata"]["uid"] for hook in HOOKS]
    await hub.place.set_available(WEBHOOK, HUB_NAMESPACE, available=False)
    await hub.says("HubRegistrationDegraded", "True", "UnavailableRegistrationPod")
    after = [(await hub.place.until_found(hook.resource, hook.name))["metadata"]["uid"] for hook in HOOKS]
    assert after == before, "nobody may be let in unchecked"


async def test_each_webhook_server_is_configured_when_it_answers_itself(hub: Hub) -> None:
    await hub.create()
    await hub.says("Applied", "True")
    for name in (CONTROLLER, WEBHOOK, PLACEMENT, ADDON_MANAGER):
        await hub.place.set_available(name, HUB_NAMESPACE)
    await hub.place.until_found(HOOKS[0].resource, HOOKS[0].name)
    rolling = await hub.says("Progressing", "True", "ClusterManagerDeploymentRolling")
    assert rolling["message"] == f"Deployments are rolling out: {WORK_WEBHOOK}"
    for hook in WORK_HOOKS:
        assert await hub.place.find(hook.resource, hook.name) is None
    await hub.place.set_available(WORK_WEBHOOK, HUB_NAMESPACE)
    for hook in WORK_HOOKS:
        await hub.place.until_found(hook.resource, hook.name)


async def test_an_old_certificate_is_replaced_and_both_are_trusted_meanwhile(hub: Hub) -> None:
    await hub.up()
    secret = await hub.place.until_found(SECRETS, WEBHOOK_SECRET, HUB_NAMESPACE)
    hosts = [f"cluster-manager-registration-webhook.{HUB_NAMESPACE}.svc"]
    old = make_pair(hosts, SYSTEM.now() - timedelta(days=80), timedelta(days=90))
    content = {"tls.crt": old.cert, "tls.key": old.key, "ca.crt": old.ca}
    data = {name: base64.b64encode(value).decode() for name, value in content.items()}
    await hub.place.admin.patch(SECRETS, WEBHOOK_SECRET, {"data": data}, HUB_NAMESPACE)

    async def renewed() -> Object | None:
        found = await hub.place.find(SECRETS, WEBHOOK_SECRET, HUB_NAMESPACE)
        return found if found and found["data"]["tls.crt"] not in (data["tls.crt"], secret["data"]["tls.crt"]) else None

    new: Object = await hub.place.until(renewed, "there is a new certificate")
    assert old.ca.strip() in base64.b64decode(new["data"]["ca.crt"]), "pods may still serve the old one"

    async def trusted() -> bool:
        hook = await hub.place.find(HOOKS[0].resource, HOOKS[0].name)
        return hook is not None and hook["webhooks"][0]["clientConfig"]["caBundle"] == new["data"]["ca.crt"]

    await hub.place.until(trusted, "the API server trusts it")


async def test_the_ca_is_trusted_before_the_certificate_can_be_served(here: Cluster) -> None:
    secrets_then = []

    async def trusted(pair: ServingPair) -> None:
        secrets_then.append(await here.find(SECRETS, "serving", "default"))

    certificate = ServingCertificate(here.admin, "serving", "default", ["a.example"])
    pair = await certificate.ensure(trusted)
    assert secrets_then == [None]
    assert await certificate.ensure(trusted) == pair
    assert secrets_then == [None], "told of new ones only"
