"""Addons get their credentials for the hub from the agent: certificates and tokens, whole or not at all."""

import base64
from datetime import timedelta

import orjson
import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from muster.api.addon.v1alpha1 import ManagedClusterAddOn
from muster.api.addons import drivers_in_use
from muster.kube import certificates, yaml
from muster.machinery.objects import Object
from muster.registration.agent.addons.secrets import AGENT_LABEL
from muster.registration.agent.agent import Agent
from muster.registration.agent.install import install
from muster.registration.agent.options import AgentOptions
from muster.runtime.client.builtin import LEASES, SECRETS, SERVICE_ACCOUNTS
from tests.support.agents import agent_running
from tests.unit.registration.agent.addon_fleet import ADDONS, NAMESPACE, SIGNER, AddonFleet, custom, kube_client
from tests.unit.registration.agent.conftest import Fleet, Link, until

KUBECONFIG = "work-hub-kubeconfig"


@pytest.fixture
async def addons(fleet: Fleet) -> AddonFleet:
    return AddonFleet(fleet)


async def test_an_addon_gets_a_certificate_and_a_kubeconfig_beside_it(addons: AddonFleet) -> None:
    async with addons.joined(), addons.managed():
        await addons.enable("work", kube_client("work"))
        certificate = await addons.certificate(KUBECONFIG)
        assert certificates.common_name(certificate.subject) == "system:open-cluster-management:cluster:c1:addon:work:agent:work"
        assert set(certificates.organizations(certificate.subject)) == {
            "system:open-cluster-management:cluster:c1:addon:work",
            "system:open-cluster-management:addon:work",
        }
        data = await addons.secret(KUBECONFIG)
        assert set(data) == {"kubeconfig", "tls.crt", "tls.key", "cluster-name"}
        assert data["cluster-name"] == b"c1"
        kubeconfig = yaml.load(data["kubeconfig"])
        assert kubeconfig["clusters"][0]["cluster"]["server"] == addons.hub.url
        assert kubeconfig["contexts"][0]["context"]["namespace"] == "configuration"
        assert kubeconfig["users"][0] == {
            "name": "default-auth",
            "user": {"client-certificate": "tls.crt", "client-key": "tls.key"},
        }
        (request,) = await addons.requests()
        assert request["metadata"]["name"].startswith("addon-c1-work-")
        assert request["metadata"]["labels"]["open-cluster-management.io/cluster-name"] == "c1"
        csr = x509.load_pem_x509_csr(base64.b64decode(request["spec"]["request"]))
        names = csr.extensions.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(x509.DNSName)
        assert names == ["work.addon.open-cluster-management.io"]
        rotated = "True/ClientCertificateUpdated"
        await until(lambda: _is(addons, "work", "ClusterCertificateRotated", rotated), "the condition")
        assert (await addons.addon("work"))["status"]["kubeClientDriver"] == "csr"
        await until(lambda: _none_pending(addons), "what was pending being forgotten")


async def test_a_secret_appears_complete_or_not_at_all(addons: AddonFleet) -> None:
    async with addons.joined():
        await addons.enable("work", kube_client("work"))
        await until(addons.requests, "a request")
        assert await addons.secret(KUBECONFIG) == {}
        assert len(await addons.pending()) == 1
        async with addons.managed():
            assert set(await until(lambda: addons.secret(KUBECONFIG), "the Secret")) >= {"kubeconfig", "tls.crt", "tls.key"}


async def test_a_custom_signer_has_a_secret_of_its_own_without_a_kubeconfig(addons: AddonFleet) -> None:
    async with addons.joined(), addons.managed():
        await addons.enable("work", kube_client("work"), custom())
        certificate = await addons.certificate("work-example.com-custom-client-cert")
        units = certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATIONAL_UNIT_NAME)
        assert [unit.value for unit in units] == ["unit"]
        assert set(await addons.secret("work-example.com-custom-client-cert")) == {"tls.crt", "tls.key", "cluster-name"}
        await addons.certificate(KUBECONFIG)


async def test_a_certificate_is_renewed_in_place(addons: AddonFleet) -> None:
    addons.lifetime = timedelta(hours=1)
    async with addons.joined(), addons.managed():
        await addons.enable("work", custom())
        before = await addons.certificate("work-example.com-custom-client-cert")

        async def renewed() -> bool:
            await addons.fleet.advance(120, step=60)
            data = await addons.secret("work-example.com-custom-client-cert")
            assert set(data) == {"tls.crt", "tls.key", "cluster-name"}
            return x509.load_pem_x509_certificate(data["tls.crt"]).serial_number != before.serial_number

        await until(renewed, "another certificate")
        life = before.not_valid_after_utc - before.not_valid_before_utc
        assert addons.clock.now() < before.not_valid_after_utc
        assert addons.clock.now() > before.not_valid_before_utc + life * 0.7
        assert len(await addons.requests()) == 2


async def test_a_namespace_without_the_label_is_named_and_used_once_it_has_it(addons: AddonFleet) -> None:
    async with addons.joined(), addons.managed():
        await addons.enable("work", kube_client("work"), namespace="late")
        said = await until(lambda: addons.said("work", "ClusterCertificateRotated"), "the condition")
        assert said["status"] == "False"
        assert "namespace late must exist and carry the label addon.open-cluster-management.io/namespace=true" in said["message"]
        assert not await addons.requests()
        await addons.add_namespace("late")
        await addons.certificate(KUBECONFIG, "late")
        expected = "True/ClientCertificateUpdated"
        await until(lambda: _is(addons, "work", "ClusterCertificateRotated", expected), "the condition being true")


async def test_another_subject_replaces_the_certificate_without_a_gap(addons: AddonFleet) -> None:
    """Defect 31 of OCM's agent, which deletes the Secret first."""
    async with addons.joined():
        async with addons.managed():
            await addons.enable("work", kube_client("work"))
            before = await addons.certificate(KUBECONFIG)
        await addons.set_status("work", registrations=[kube_client("work", "other")])
        await until(lambda: _are(addons, 2), "another request")
        assert await addons.certificate(KUBECONFIG) == before
        async with addons.managed():
            await until(lambda: _name(addons, "other"), "the other certificate")


async def test_an_addon_that_moves_keeps_its_old_secret_until_the_new_one_is_whole(addons: AddonFleet) -> None:
    """Defect 31 of OCM's agent."""
    await addons.add_namespace("elsewhere")
    async with addons.joined():
        async with addons.managed():
            await addons.enable("work", kube_client("work"))
            await addons.certificate(KUBECONFIG)
        await addons.set_status("work", namespace="elsewhere")
        await until(lambda: _are(addons, 2), "another request")
        assert await addons.secret(KUBECONFIG)
        async with addons.managed():
            await addons.certificate(KUBECONFIG, "elsewhere")
            await until(lambda: _is_gone(addons, KUBECONFIG), "the old Secret being gone")


async def test_what_is_registered_no_longer_goes(addons: AddonFleet) -> None:
    async with addons.joined(), addons.managed():
        await addons.enable("work", kube_client("work"), custom())
        await addons.certificate("work-example.com-custom-client-cert")
        await addons.certificate(KUBECONFIG)
        await addons.set_status("work", registrations=[kube_client("work")])
        await until(lambda: _is_gone(addons, "work-example.com-custom-client-cert"), "the Secret being gone")
        assert await addons.secret(KUBECONFIG)


async def test_an_addon_that_goes_while_the_agent_is_down_leaves_no_secret(addons: AddonFleet) -> None:
    """Defect 28 of OCM's agent."""
    async with addons.joined():
        async with addons.managed():
            await addons.enable("work", kube_client("work"))
            await addons.certificate(KUBECONFIG)
        await addons.enable("begun", kube_client("begun"))
        await until(addons.pending, "something pending")
        await until(lambda: _are(addons, 2), "another request")
    await addons.hub.admin.delete(ADDONS, "work", "c1")
    await addons.hub.admin.delete(ADDONS, "begun", "c1")
    assert await addons.secret(KUBECONFIG)
    async with addons.joined():
        await until(lambda: _is_gone(addons, KUBECONFIG), "the Secret being gone")
        await until(lambda: _none_pending(addons), "what was begun being gone")


async def test_an_addon_that_is_being_deleted_keeps_its_secret(addons: AddonFleet) -> None:
    async with addons.joined(), addons.managed():
        await addons.enable("work", kube_client("work"))
        await addons.certificate(KUBECONFIG)
        await addons.hub.admin.patch(ADDONS, "work", {"metadata": {"finalizers": ["example.com/hold"]}}, "c1")
        await addons.hub.admin.delete(ADDONS, "work", "c1")
        await addons.enable("other", kube_client("other"))
        await addons.certificate("other-hub-kubeconfig")
        assert await addons.secret(KUBECONFIG)
        await addons.hub.admin.patch(ADDONS, "work", {"metadata": {"finalizers": None}}, "c1")
        await until(lambda: _is_gone(addons, KUBECONFIG), "the Secret being gone")
        assert await addons.secret("other-hub-kubeconfig")


async def test_secrets_of_others_are_left_alone(addons: AddonFleet) -> None:
    labels = {"open-cluster-management.io/addon-name": "work"}
    theirs = {"metadata": {"name": "theirs", "namespace": NAMESPACE, "labels": labels}, "stringData": {"a": "b"}}
    agents = {"metadata": {"name": "agents", "namespace": NAMESPACE, "labels": {**labels, AGENT_LABEL: "another"}}}
    for secret in (theirs, agents):
        await addons.fleet.admin.create(SECRETS, secret)
    async with addons.joined(), addons.managed():
        await addons.enable("work", kube_client("work"))
        await addons.certificate(KUBECONFIG)
        await addons.hub.admin.delete(ADDONS, "work", "c1")
        await until(lambda: _is_gone(addons, KUBECONFIG), "the Secret being gone")
    left = {one["metadata"]["name"] for one in (await addons.fleet.admin.list(SECRETS, NAMESPACE)).items}
    assert left == {"theirs", "agents"}


async def test_a_deleted_secret_comes_back(addons: AddonFleet) -> None:
    async with addons.joined(), addons.managed():
        await addons.enable("work", kube_client("work"))
        before = await addons.certificate(KUBECONFIG)
        await addons.fleet.admin.delete(SECRETS, KUBECONFIG, NAMESPACE)
        assert await addons.certificate(KUBECONFIG) != before


async def test_a_restarted_agent_asks_for_nothing_it_has(addons: AddonFleet) -> None:
    async with addons.joined(), addons.managed():
        await addons.enable("work", kube_client("work"), custom())
        await addons.certificate(KUBECONFIG)
        await addons.certificate("work-example.com-custom-client-cert")
        await until(lambda: _none_pending(addons), "what was pending being forgotten")
    version = (await addons.addon("work"))["metadata"]["resourceVersion"]
    async with addons.joined(), addons.managed():
        await addons.enable("other", kube_client("other"))
        await addons.certificate("other-hub-kubeconfig")
        assert len(await addons.requests("work")) == 2
        assert (await addons.addon("work"))["metadata"]["resourceVersion"] == version


async def test_a_pending_request_is_taken_up_by_the_next_agent(addons: AddonFleet) -> None:
    """Defect 32 of OCM's agent."""
    for _ in range(3):
        async with addons.joined():
            if not await addons.requests():
                await addons.enable("work", kube_client("work"))
            await until(addons.requests, "a request")
    async with addons.joined(), addons.managed():
        await addons.certificate(KUBECONFIG)
    assert len(await addons.requests()) == 1


async def test_a_refused_request_is_told_and_not_repeated_at_once(addons: AddonFleet) -> None:
    async with addons.joined():
        await addons.enable("work", kube_client("work"))
        await until(addons.requests, "a request")
        await addons.approve("Denied")
        expected = "False/ClientCertificateUpdateFailed"
        await until(lambda: _is(addons, "work", "ClusterCertificateRotated", expected), "the condition")
        assert len(await addons.requests()) == 1


async def test_an_addon_may_have_a_token_instead(addons: AddonFleet) -> None:
    async with addons.joined(addon_driver="token", addon_token_seconds=7200):
        await addons.enable("work", kube_client("work"))
        await until(lambda: _driver(addons, "token"), "the driver in the status")
        assert (await addons.addon("work"))["status"]["registrations"][0]["subject"] == {
            "user": "system:serviceaccount:c1:work-agent"
        }
        assert await addons.secret(KUBECONFIG) == {}
        uid = await addons.token_infrastructure("work")
        data = await until(lambda: addons.secret(KUBECONFIG), "the Secret")
        assert set(data) == {"kubeconfig", "token", "cluster-name"}
        assert yaml.load(data["kubeconfig"])["users"][0]["user"] == {"tokenFile": "token"}
        assert _claims(data["token"])["kubernetes.io"]["serviceaccount"]["uid"] == uid
        said = await until(lambda: addons.said("work", "TokenRefreshed"), "the condition")
        assert (said["status"], said["reason"]) == ("True", "AddonTokenRefreshed")
        assert said["message"].startswith("Addon token refreshed, expires at 20")
        assert not await addons.requests()


async def test_a_token_is_renewed_with_a_fifth_of_its_life_left_and_for_another_account(addons: AddonFleet) -> None:
    async with addons.joined(addon_driver="token", addon_token_seconds=7200):
        await addons.enable("work", kube_client("work"))
        await addons.token_infrastructure("work")
        first = (await until(lambda: addons.secret(KUBECONFIG), "the Secret"))["token"]
        began = addons.clock.monotonic()

        async def renewed() -> bool:
            await addons.fleet.advance(240, step=120)
            return (await addons.secret(KUBECONFIG))["token"] != first

        await until(renewed, "another token")
        assert 5700 <= addons.clock.monotonic() - began <= 6600
        second = (await addons.secret(KUBECONFIG))["token"]
        await addons.hub.admin.delete(SERVICE_ACCOUNTS, "work-agent", "c1")
        account = {"metadata": {"name": "work-agent", "namespace": "c1"}}
        made = await addons.hub.admin.create(SERVICE_ACCOUNTS, account)
        await addons.token_ready("work", made["metadata"]["uid"])

        async def another() -> bool:
            return (await addons.secret(KUBECONFIG))["token"] != second

        await until(another, "a token of the new account")
        claims = _claims((await addons.secret(KUBECONFIG))["token"])
        assert claims["kubernetes.io"]["serviceaccount"]["uid"] == made["metadata"]["uid"]


async def test_a_token_that_is_refused_is_told(addons: AddonFleet) -> None:
    async with addons.joined(addon_driver="token"):
        await addons.enable("work", kube_client("work"))
        await addons.token_ready("work", "nobody")
        said = await until(lambda: addons.said("work", "TokenRefreshed"), "the condition")
        assert (said["status"], said["reason"]) == ("False", "TokenCreationFailed")
        assert said["message"].startswith("Failed to create token: ")


async def test_another_driver_replaces_the_secret_in_one_write(addons: AddonFleet) -> None:
    async with addons.joined(), addons.managed():
        await addons.enable("work", kube_client("work"))
        await addons.certificate(KUBECONFIG)
    async with addons.joined(addon_driver="token"):
        await until(lambda: _driver(addons, "token"), "the driver in the status")
        assert set(await addons.secret(KUBECONFIG)) == {"kubeconfig", "tls.crt", "tls.key", "cluster-name"}
        await addons.token_infrastructure("work")

        async def by_token() -> bool:
            return set(await addons.secret(KUBECONFIG)) == {"kubeconfig", "token", "cluster-name"}

        await until(by_token, "the Secret having a token")


async def test_a_custom_signers_certificate_is_not_taken_for_that_of_the_new_driver(addons: AddonFleet) -> None:
    """The hub would take the token's rights away while it is what the Secret has."""
    async with addons.joined(addon_driver="token"), addons.managed():
        await addons.enable("work", kube_client("work"), custom())
        await addons.token_infrastructure("work")
        await addons.certificate("work-example.com-custom-client-cert")
        await until(lambda: _is(addons, "work", "TokenRefreshed", "True/AddonTokenRefreshed"), "the token")
        await until(lambda: _is(addons, "work", "ClusterCertificateRotated", "True/ClientCertificateUpdated"), "the certificate")
    async with addons.joined():
        await until(lambda: _driver(addons, "csr"), "the driver in the status")
        await addons.set_status("work", registrations=[kube_client("work"), custom()])
        await until(lambda: addons.requests("work"), "a request")

        async def open_request() -> bool:
            return any(not (one.get("status") or {}).get("conditions") for one in await addons.requests("work"))

        await until(open_request, "the request of the new driver")
        assert set(await addons.secret(KUBECONFIG)) == {"kubeconfig", "token", "cluster-name"}
        status = ManagedClusterAddOn.decode(await addons.addon("work")).status
        assert drivers_in_use(status) == ("csr", "token")
        async with addons.managed():
            await until(
                lambda: _is(addons, "work", "ClusterCertificateRotated", "True/ClientCertificateUpdated"), "the certificate"
            )
        assert set(await addons.secret(KUBECONFIG)) == {"kubeconfig", "tls.crt", "tls.key", "cluster-name"}
        status = ManagedClusterAddOn.decode(await addons.addon("work")).status
        assert drivers_in_use(status) == ("csr",)


async def test_no_certificate_is_asked_for_in_the_name_of_the_account(addons: AddonFleet) -> None:
    """Who an agent is by a certificate is the hub's to say; what it said before was who it was by a token."""
    async with addons.joined(addon_driver="token"):
        await addons.enable("work", kube_client("work"))
        await addons.token_infrastructure("work")
        await until(lambda: _is(addons, "work", "TokenRefreshed", "True/AddonTokenRefreshed"), "the token")
    async with addons.joined(), addons.managed():
        await until(lambda: _driver(addons, "csr"), "the driver in the status")
        await addons.enable("other", kube_client("other"))
        await addons.certificate("other-hub-kubeconfig")
        assert await addons.requests("work") == []
        assert set(await addons.secret(KUBECONFIG)) == {"kubeconfig", "token", "cluster-name"}
        await addons.set_status("work", registrations=[kube_client("work")])
        await until(lambda: _is(addons, "work", "ClusterCertificateRotated", "True/ClientCertificateUpdated"), "the certificate")
        assert len(await addons.requests("work")) == 1


async def test_with_the_gate_off_nothing_is_done_for_addons(addons: AddonFleet) -> None:
    async with addons.joined(addons=False), addons.managed():
        await addons.enable("work", kube_client("work"))
        await addons.fleet.advance(120)
        assert not await addons.requests()
        assert "conditions" not in (await addons.addon("work"))["status"]
        assert addons.hub.count("WATCH", "managedclusteraddons") == 0


@pytest.mark.parametrize(
    "bad",
    [
        {"registrations": None},
        {"registrations": [{"signerName": "ab.io/..--."}]},
        {"registrations": [custom("x" * 200 + ".io/" + "y" * 200)]},
        {"registrations": [{"signerName": SIGNER, "subject": {"user": "", "groups": []}}] * 3},
        {"namespace": "../kube-system"},
        {"namespace": "kube-system"},
    ],
)
async def test_a_hostile_status_harms_itself_alone(addons: AddonFleet, bad: Object) -> None:
    async with addons.joined(), addons.managed():
        await addons.enable("bad", kube_client("bad"))
        await addons.set_status("bad", **bad)
        await addons.enable("work", kube_client("work"))
        await addons.certificate(KUBECONFIG)


async def test_a_name_that_no_label_can_have_is_told(addons: AddonFleet) -> None:
    long = "a" * 100
    async with addons.joined(), addons.managed():
        await addons.enable(long, kube_client(long))
        said = await until(lambda: addons.said(long, "ClusterCertificateRotated"), "the condition")
        assert "longer than 63 characters" in said["message"]
        assert not await addons.requests()


async def test_a_status_that_says_no_registrations_yet_takes_nothing_away(addons: AddonFleet) -> None:
    async with addons.joined(), addons.managed():
        await addons.enable("work", kube_client("work"))
        await addons.certificate(KUBECONFIG)
        await addons.set_status("work", registrations=None)
        await addons.enable("other", kube_client("other"))
        await addons.certificate("other-hub-kubeconfig")
        assert await addons.secret(KUBECONFIG)


async def _is(addons: AddonFleet, addon: str, kind: str, verdict: str) -> bool:
    return await addons.verdict(addon, kind) == verdict


async def _are(addons: AddonFleet, number: int) -> bool:
    return len(await addons.requests()) == number


async def _name(addons: AddonFleet, name: str) -> bool:
    return certificates.common_name((await addons.certificate(KUBECONFIG)).subject) == name


async def _is_gone(addons: AddonFleet, secret: str) -> bool:
    return not await addons.secret(secret)


async def _none_pending(addons: AddonFleet) -> bool:
    return not await addons.pending()


async def _driver(addons: AddonFleet, driver: str) -> bool:
    return bool((await addons.addon("work"))["status"].get("kubeClientDriver") == driver)


def _claims(token: bytes) -> Object:
    payload = token.split(b".")[1]
    claims: Object = orjson.loads(base64.urlsafe_b64decode(payload + b"=" * (-len(payload) % 4)))
    return claims


async def test_a_hosted_addon_has_its_secret_and_its_lease_where_the_agent_runs(addons: AddonFleet) -> None:
    fleet, hosting = addons.fleet, addons.fleet.other
    await install(hosting.admin, AgentOptions())
    bootstrap = {"metadata": {"name": "bootstrap-hub-kubeconfig", "namespace": "open-cluster-management-agent"}}
    await hosting.admin.create(SECRETS, {**bootstrap, "stringData": {"kubeconfig": addons.hub.kubeconfig()}})
    links = Link(fleet.spoke, fleet.account), Link(hosting, fleet.account)
    agent = Agent(links[0], fleet.options, management=links[1], clock=fleet.clock, random=fleet.random, connect=fleet.connect)
    async with agent_running(agent), addons.managed():
        await fleet.join()
        await addons.enable("here", kube_client("here"))
        await addons.enable("there", kube_client("there"))
        annotation = {"addon.open-cluster-management.io/hosting-cluster-name": "other"}
        await addons.hub.admin.patch(ADDONS, "there", {"metadata": {"annotations": annotation}}, "c1")
        await addons.certificate("here-hub-kubeconfig")

        async def hosted() -> list[str]:
            found = (await hosting.admin.list(SECRETS, NAMESPACE)).items
            return [one["metadata"]["name"] for one in found]

        assert await until(hosted, "the Secret where the agent runs") == ["there-hub-kubeconfig"]
        await until(lambda: _is_gone(addons, "there-hub-kubeconfig"), "no Secret being on the managed cluster")
        lease = {"metadata": {"name": "there", "namespace": NAMESPACE}, "spec": {"renewTime": "2026-01-01T00:00:00.000000Z"}}
        await hosting.admin.create(LEASES, lease)
        expected = "True/ManagedClusterAddOnLeaseUpdated"
        await until(lambda: _is(addons, "there", "Available", expected), "the addon being available")
