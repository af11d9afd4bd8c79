"""HubConnectionDegraded: the hub is asked, with the agents' own kubeconfigs, and the reasons say whose turn it is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from muster.api.operator.v1 import Klusterlet
from muster.kube import yaml
from muster.operator.hosted import refuse_foreign_files
from muster.operator.klusterlet.connection import ConnectionCheck, ForeignCredential, open_secret
from muster.operator.klusterlet.manifests import REGISTRATION, Component, agent_deployment
from muster.operator.klusterlet.plan import KlusterletPlan
from muster.operator.names import KLUSTERLETS
from muster.registration.drivers import find
from muster.registration.drivers.endpoints import EndpointError
from muster.registration.drivers.kubeconfigs import KUBECONFIGS
from muster.registration.hub.clusters import rbac
from muster.registration.names import AGENT_NAMESPACE, BOOTSTRAP_SECRET, HUB_SECRET, cluster_group
from muster.runtime.client.kubeconfig import KubeconfigError, parse_kubeconfig
from tests.support.fake_clock import FakeClock
from tests.unit.operator.conftest import Cluster
from tests.unit.operator.spokes import Hub, K, Spoke, kubeconfig, operated

WAITING = "BootstrapSecretMissing,HubKubeConfigSecretMissing"


@pytest.fixture
async def spoke(here: Cluster, far: Cluster) -> AsyncIterator[Spoke]:
    async with AsyncExitStack() as stack:
        yield await stack.enter_async_context(operated(here, Hub(far)))


async def degraded(spoke: Spoke, reason: str) -> str:
    told = await spoke.says("HubConnectionDegraded", "True", reason)
    return str(told["message"])


async def test_from_no_secret_to_a_connection_that_works(spoke: Spoke) -> None:
    await spoke.create()
    assert BOOTSTRAP_SECRET in await degraded(spoke, WAITING)
    await spoke.bootstrap()
    await degraded(spoke, "BootstrapSecretFunctional,HubKubeConfigSecretMissing")
    await spoke.secret(HUB_SECRET, {"cluster-name": b"c1"})
    await degraded(spoke, "BootstrapSecretFunctional,HubKubeConfigMissing")
    await spoke.credential()
    await spoke.says("HubConnectionDegraded", "False", "HubConnectionFunctional")


async def test_a_bootstrap_kubeconfig_that_is_none(spoke: Spoke) -> None:
    await spoke.create()
    await spoke.secret(BOOTSTRAP_SECRET, {"kubeconfig": b"]["})
    await degraded(spoke, "BootstrapSecretError,HubKubeConfigSecretMissing")


async def test_a_bootstrap_identity_that_may_not_register(spoke: Spoke) -> None:
    await spoke.create()
    await spoke.bootstrap("nobody")
    message = await degraded(spoke, "BootstrapSecretUnauthorized,HubKubeConfigSecretMissing")
    assert "create certificatesigningrequests" in message


async def test_a_credential_that_may_do_nothing(spoke: Spoke) -> None:
    await spoke.create()
    await spoke.bootstrap()
    await spoke.credential("nobody")
    assert "get leases" in await degraded(spoke, "BootstrapSecretFunctional,HubKubeConfigUnauthorized")


async def test_a_hub_that_is_away(spoke: Spoke) -> None:
    spoke.hub.away = True
    await spoke.create()
    await spoke.bootstrap()
    await spoke.credential()
    assert "connection refused" in await degraded(spoke, "BootstrapSecretError,HubKubeConfigError")


async def test_a_credential_without_a_clusters_name(spoke: Spoke) -> None:
    await spoke.create()
    await spoke.bootstrap()
    await spoke.secret(HUB_SECRET, {"kubeconfig": kubeconfig("admin")})
    await degraded(spoke, "BootstrapSecretFunctional,ClusterNameMissing")
    await spoke.change({"clusterName": "c1"})
    await spoke.says("HubConnectionDegraded", "False", "HubConnectionFunctional")


async def test_one_working_bootstrap_kubeconfig_of_several_is_enough(spoke: Spoke) -> None:
    secrets = {"kubeConfigSecrets": [{"name": "one"}, {"name": "two"}]}
    await spoke.bootstrap("nobody", "one")
    await spoke.bootstrap("admin", "two")
    await spoke.create(
        registrationConfiguration={
            "featureGates": [{"feature": "MultipleHubs", "mode": "Enable"}],
            "bootstrapKubeConfigs": {"type": "LocalSecrets", "localSecretsConfig": secrets},
        }
    )
    await degraded(spoke, "BootstrapSecretFunctional,HubKubeConfigSecretMissing")


async def test_a_hub_is_asked_again_while_something_is_wrong_and_rarely_when_all_is_well(here: Cluster, far: Cluster) -> None:
    clock = FakeClock()
    async with operated(here, Hub(far), clock) as spoke:
        spoke.hub.away = True
        await spoke.bootstrap()
        await spoke.credential()
        await spoke.create()
        await degraded(spoke, "BootstrapSecretError,HubKubeConfigError")
        spoke.hub.away = False

        async def asked_again() -> bool:
            await clock.advance(1)
            return (await here.condition(KLUSTERLETS, K, "HubConnectionDegraded"))["status"] == "False"

        before = clock.monotonic()
        await here.until(asked_again, "the hub was asked again")
        assert 25 < clock.monotonic() - before < 45
        opened = spoke.hub.opened
        await clock.advance(500)
        assert spoke.hub.opened == opened


async def test_a_new_credential_that_may_do_nothing_yet_is_tried_again_soon(spoke: Spoke) -> None:
    await spoke.bootstrap()
    await spoke.credential("late")
    await spoke.create()
    await degraded(spoke, "BootstrapSecretFunctional,HubKubeConfigUnauthorized")
    spoke.hub.permitted.add("late")
    await spoke.says("HubConnectionDegraded", "False", "HubConnectionFunctional")


async def test_the_hub_grants_what_is_asked_for(here: Cluster) -> None:
    for wanted in (*rbac.common_roles({}), rbac.namespace("c1", {}), rbac.own_role("c1", {}, accepted=True)):
        await here.admin.apply(wanted.resource, wanted.body, manager="test")
    everybody = rbac.AgentSubjects(by_group=True)
    for wanted in (rbac.own_binding("c1", {}, everybody), *rbac.namespace_bindings("c1", {}, everybody)):
        await here.admin.apply(wanted.resource, wanted.body, manager="test")
    agent = here.user("agent", cluster_group("c1"))
    assert await find("csr").missing_to_serve(agent, "c1") == ()
    assert await find("csr").missing_to_serve(agent, "c2") != ()


def _kubeconfig(**user: Any) -> bytes:
    document = yaml.load(kubeconfig("x"))
    document["users"][0]["user"] = user
    return yaml.dump(document).encode()


EXEC = _kubeconfig(exec={"apiVersion": "client.authentication.k8s.io/v1", "command": "aws", "interactiveMode": "Never"})


async def test_no_program_is_run_for_a_kubeconfig() -> None:
    with pytest.raises(ForeignCredential):
        async with open_secret(KUBECONFIGS, {"kubeconfig": EXEC}, "here"):
            pytest.fail("it was opened")


async def test_a_credential_of_the_agent_alone_is_unknown_not_degraded() -> None:
    plan = KlusterletPlan(_klusterlet(), "")
    found = await ConnectionCheck(plan, {HUB_SECRET: {"kubeconfig": EXEC, "cluster-name": b"c1"}}.get).run()
    assert (found.status, found.reason) == ("Unknown", "HubKubeConfigUnchecked")


async def test_a_kubeconfig_may_name_files_of_its_own_secret_only(tmp_path: Path) -> None:
    token = tmp_path / "operators-own-token"
    token.write_text("secret")
    with pytest.raises(EndpointError, match="tokenFile"):
        async with open_secret(KUBECONFIGS, {"kubeconfig": _kubeconfig(tokenFile=str(token))}, "here"):
            pytest.fail("it was opened")
    async with open_secret(KUBECONFIGS, {"kubeconfig": _kubeconfig(tokenFile="token"), "token": b"mine"}, "here") as client:
        assert client.server == "https://hub.example.com"
    with pytest.raises(KubeconfigError, match="tokenFile"):
        refuse_foreign_files(parse_kubeconfig(_kubeconfig(tokenFile=str(token))), "here")


def _klusterlet(reason: str = "", status: str = "True") -> Klusterlet:
    conditions = [{"type": "HubConnectionDegraded", "status": status, "reason": reason}] if reason else []
    document = {"metadata": {"name": K, "uid": "u"}, "spec": {"namespace": AGENT_NAMESPACE}, "status": {"conditions": conditions}}
    return Klusterlet.decode(document)


@pytest.mark.parametrize(
    ("reason", "status", "replicas"),
    [
        ("", "", 0),
        (WAITING, "True", 0),
        ("BootstrapSecretFunctional,HubKubeConfigMissing", "True", 0),
        ("BootstrapSecretError,HubKubeConfigError", "True", 3),
        ("HubConnectionFunctional", "False", 3),
    ],
)
def test_an_agent_that_needs_the_hub_is_not_started_before_there_is_a_credential(reason: str, status: str, replicas: int) -> None:
    arguments = ("work-agent", "work-sa", "work", (), (), lambda plan: ["work"], ("WorkDesiredDegraded",), "w")
    work = Component(*arguments, app="work", container="work", needs_hub=True)
    plan = KlusterletPlan(_klusterlet(reason, status), "image", replicas=3)
    assert agent_deployment(plan, work)["spec"]["replicas"] == replicas
    assert agent_deployment(plan, REGISTRATION)["spec"]["replicas"] == 3
