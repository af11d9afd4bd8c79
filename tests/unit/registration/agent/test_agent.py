"""An agent's life: it joins, lives through everything that can happen to it, and comes back from each without help."""

import base64

import pytest
from cryptography import x509

from muster.machinery.authentication import UserInfo
from muster.machinery.metrics import Metrics
from muster.registration.agent.agent import EXPIRED
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import AGENT_NAMESPACE
from muster.runtime.client.builtin import NAMESPACES, SECRETS, SIGNING_REQUESTS
from tests.support.agents import agent_running
from tests.unit.registration.agent.conftest import Fleet, until

HOUR = {"client-cert-expiration-seconds": ("3600",)}
"""Driver options for certificates that are valid for an hour."""


async def test_an_agent_joins_and_is_available(fleet: Fleet) -> None:
    await fleet.give(fleet.hub.kubeconfig())
    async with fleet.running() as agent:
        await fleet.join()
        assert await fleet.hub.condition("ManagedClusterJoined") == "True/ManagedClusterJoined"
        assert agent.state.phase == "serving"
        assert agent.unhealthy() is None
        assert agent.unready() is None
    stored = await fleet.stored()
    assert set(stored) == {"cluster-name", "agent-name", "kubeconfig", "tls.crt", "tls.key"}
    files = {path.name: path.read_bytes() for path in (fleet.directory / "hub").iterdir()}
    assert files == stored
    assert await fleet.pending() == {}


async def test_an_agent_tells_when_its_certificate_expires(fleet: Fleet) -> None:
    metrics = Metrics()
    series = 'muster_certificate_expiration_timestamp_seconds{certificate="hub-client"}'
    await fleet.give(fleet.hub.kubeconfig())
    async with agent_running(fleet.agent(metrics=metrics)):
        assert series not in metrics.render().decode()
        await fleet.join()
        until = x509.load_pem_x509_certificate((await fleet.stored())["tls.crt"]).not_valid_after_utc
        assert f"{series} {until.timestamp():.15g}\n" in metrics.render().decode()


async def test_there_is_no_hub_secret_before_there_is_a_credential(fleet: Fleet) -> None:
    await fleet.give(fleet.hub.kubeconfig())
    async with fleet.running():
        await until(fleet.hub.requests_made, "a request")
        assert set(await fleet.pending()) == {"cluster-name", "agent-name", "key", "name"}
        assert await fleet.stored() == {}
        assert not list((fleet.directory / "hub").iterdir())


async def test_joining_costs_the_hub_few_requests(fleet: Fleet) -> None:
    await fleet.give(fleet.hub.kubeconfig())
    async with fleet.running():
        await fleet.join()
        await until(lambda: fleet.hub.count("PUT", "/leases/"), "a renewed lease")
        await until(lambda: fleet.hub.count("POST", "/events"), "an event")
    assert fleet.hub.count("POST", "/managedclusters") == 1
    assert fleet.hub.count("POST", "/certificatesigningrequests") == 1
    assert fleet.hub.count("WATCH", "/certificatesigningrequests") == 1
    assert fleet.hub.count("GET", "/certificatesigningrequests/") == 0
    assert fleet.hub.count("WATCH", "/managedclusters") == 1
    assert fleet.hub.count("PATCH", "/status") <= 2
    assert len(fleet.hub.requests) <= 11


async def test_an_agent_without_names_makes_some_and_keeps_them_over_restarts(fleet: Fleet) -> None:
    await fleet.give(fleet.hub.kubeconfig())
    async with fleet.running(cluster_name=""):
        await until(lambda: fleet.hub.admin.list(MANAGED_CLUSTERS), "a ManagedCluster")
        first = await until(fleet.pending, "names")
    async with fleet.running(cluster_name="") as agent:
        await until(lambda: agent.cluster_name, "a name")
        await until(lambda: agent.state.phase == "registering", "registering")
    again = await fleet.pending()
    assert (again["cluster-name"], again["agent-name"]) == (first["cluster-name"], first["agent-name"])
    assert len((await fleet.hub.admin.list(MANAGED_CLUSTERS)).items) == 1


async def test_a_restart_while_a_request_is_pending_makes_no_second_one(fleet: Fleet) -> None:
    await fleet.give(fleet.hub.kubeconfig())
    async with fleet.running():
        await until(fleet.hub.requests_made, "a request")
    async with fleet.running():
        await fleet.join()
    assert len(await fleet.hub.requests_made()) == 1


async def test_an_agent_of_before_is_gone_on_from(fleet: Fleet) -> None:
    """What is pending was in the credential's Secret once."""
    await fleet.give(fleet.hub.kubeconfig())
    async with fleet.running():
        await until(fleet.hub.requests_made, "a request")
    kept = await fleet.stored("hub-kubeconfig-secret-pending")
    hub = next(key for key in kept if "." in key).partition(".")[0]
    old = {key.replace(f"{hub}.", "pending."): value for key, value in kept.items()} | {"pending.hub": hub.encode()}
    await fleet.admin.delete(SECRETS, "hub-kubeconfig-secret-pending", AGENT_NAMESPACE)
    data = {key: base64.b64encode(value).decode() for key, value in old.items()}
    secret = {"metadata": {"name": "hub-kubeconfig-secret", "namespace": AGENT_NAMESPACE}, "data": data}
    await fleet.admin.create(SECRETS, secret)
    async with fleet.running():
        await until(lambda: _begun(fleet), "what was pending in its new place")
        assert await fleet.stored("hub-kubeconfig-secret-pending") == kept
        await until(lambda: _gone(fleet), "the Secret without a credential to go")
        await fleet.join()
    assert len(await fleet.hub.requests_made()) == 1
    assert (await fleet.stored())["tls.key"] == old["pending.key"]


async def test_a_restart_after_the_certificate_was_issued_finds_it(fleet: Fleet) -> None:
    await fleet.give(fleet.hub.kubeconfig())
    async with fleet.running():
        await until(fleet.hub.requests_made, "a request")
    await fleet.hub.approve()
    async with fleet.running():
        await fleet.join()
    assert len(await fleet.hub.requests_made()) == 1


async def test_a_restart_when_registered_serves_at_once_even_without_a_bootstrap_kubeconfig(fleet: Fleet) -> None:
    await fleet.give(fleet.hub.kubeconfig())
    async with fleet.running():
        await fleet.join()
    await fleet.admin.delete(SECRETS, "bootstrap-hub-kubeconfig", AGENT_NAMESPACE)
    fleet.hub.requests.clear()
    async with fleet.running() as agent:
        await until(lambda: agent.state.phase == "serving", "serving")
        await until(lambda: fleet.hub.count("PUT", "/leases/"), "a renewed lease")
    assert fleet.hub.count("POST", "/certificatesigningrequests") == 0
    assert fleet.hub.count("POST", "/managedclusters") == 0


async def test_without_a_bootstrap_kubeconfig_an_agent_waits_and_takes_it_up_when_it_comes(fleet: Fleet) -> None:
    async with fleet.running() as agent:
        await until(lambda: "bootstrap-hub-kubeconfig: does not exist" in agent.state.problem, "a clear problem")
        await fleet.give(fleet.hub.kubeconfig())
        await fleet.join()


async def test_a_missing_namespace_is_said_and_waited_for(fleet: Fleet) -> None:
    path = fleet.directory / "bootstrap.kubeconfig"
    path.write_text(fleet.hub.kubeconfig())
    fleet.account = UserInfo("admin", groups=("system:masters",))
    async with fleet.running(namespace="missing", bootstrap_kubeconfigs=(path,)) as agent:
        await until(lambda: "cannot register" in agent.state.problem, "a problem")
        assert 'namespaces "missing" not found' in agent.state.problem
        assert await fleet.hub.cluster() is None
        await fleet.admin.create(NAMESPACES, {"metadata": {"name": "missing"}})
        await fleet.advance(10)
        await until(fleet.hub.cluster, "the ManagedCluster")


async def test_an_agent_that_may_not_read_its_secrets_says_what_it_waits_for(fleet: Fleet) -> None:
    fleet.account = UserInfo("nobody", groups=("system:authenticated",))
    async with fleet.running() as agent:
        await fleet.advance(10)
        assert agent.unready() == "the Secrets in namespace open-cluster-management-agent are not known yet"


async def test_a_cluster_deleted_while_its_request_waits_is_introduced_again(fleet: Fleet) -> None:
    await fleet.give(fleet.hub.kubeconfig())
    async with fleet.running(health_check_seconds=3600.0):
        await until(fleet.hub.requests_made, "a request")
        await fleet.hub.admin.delete(MANAGED_CLUSTERS, "c1")
        await fleet.advance(7300, step=300)
        await until(fleet.hub.cluster, "the ManagedCluster")


async def test_an_expired_bootstrap_token_is_said_clearly_and_its_successor_taken_at_once(fleet: Fleet) -> None:
    await fleet.give(fleet.hub.kubeconfig(token="expired"))
    async with fleet.running() as agent:
        await until(lambda: "expired or was revoked" in agent.state.problem, "a clear problem")
        assert agent.unready() == agent.state.problem
        await fleet.give(fleet.hub.kubeconfig())
        await fleet.join()


async def test_acceptance_long_after_the_certificate_counts_at_once(fleet: Fleet) -> None:
    await fleet.give(fleet.hub.kubeconfig())
    async with fleet.running() as agent:
        await until(fleet.hub.requests_made, "a request")
        await fleet.hub.approve()
        await until(lambda: agent.state.phase == "serving", "serving")
        await fleet.advance(600)
        await fleet.hub.accept()
        await until(fleet.hub.available, "the cluster being available without time passing")


async def test_a_denied_cluster_stays_silent_and_comes_back_without_joining_again(fleet: Fleet) -> None:
    await fleet.give(fleet.hub.kubeconfig())
    async with fleet.running():
        await fleet.join()
        await fleet.hub.deny()
        await fleet.advance(10)
        fleet.hub.requests.clear()
        await fleet.advance(300)
        assert fleet.hub.count("PUT", "/leases/") == 0
        assert fleet.hub.count("PATCH", "/status") == 0
        before = await fleet.hub.renewed()
        await fleet.hub.accept()
        await until(lambda: _later(fleet, before), "a renewed lease")
    assert len(await fleet.hub.requests_made()) == 1


async def test_a_hub_that_is_away_for_long_is_taken_up_again(fleet: Fleet) -> None:
    await fleet.give(fleet.hub.kubeconfig())
    async with fleet.running() as agent:
        await fleet.join()
        fleet.hub.cut.set()
        await fleet.advance(900)
        await fleet.hub.set_condition("ManagedClusterConditionAvailable", "Unknown", "ManagedClusterLeaseUpdateStopped")
        fleet.hub.cut.clear()
        await fleet.advance(120)
        await until(fleet.hub.available, "the cluster being available again")
        assert agent.state.phase == "serving"


async def test_an_outage_is_asked_about_less_and_less_often(fleet: Fleet) -> None:
    await fleet.give(fleet.hub.kubeconfig())
    async with fleet.running():
        await fleet.join()
        fleet.hub.cut.set()
        await fleet.advance(300)
        asked: list[float] = []
        check = fleet.hub.check

        def counting() -> None:
            asked.append(fleet.clock.monotonic())
            check()

        fleet.hub.check = counting  # type: ignore[method-assign]
        await fleet.advance(300)
        assert 0 < len(asked) <= 60


async def test_a_deleted_cluster_is_not_made_again_by_a_registered_agent_and_recovers_when_it_is(fleet: Fleet) -> None:
    await fleet.give(fleet.hub.kubeconfig())
    async with fleet.running() as agent:
        await fleet.join()
        await fleet.hub.admin.delete(MANAGED_CLUSTERS, "c1")
        await fleet.advance(120)
        assert await fleet.hub.cluster() is None
        assert agent.state.phase == "serving"
        await fleet.hub.admin.create(MANAGED_CLUSTERS, _accepted_cluster())
        await fleet.hub.accept()
        await fleet.advance(60)
        await until(fleet.hub.available, "the new ManagedCluster being available")


async def test_an_expired_certificate_is_replaced_by_registering_again(fleet: Fleet) -> None:
    await fleet.give(fleet.hub.kubeconfig())
    async with fleet.running(driver_options=HOUR) as agent:
        await fleet.join()
        old = (await fleet.stored())["tls.crt"]
        fleet.hub.cut.set()
        await fleet.advance(3700, step=60)
        await until(lambda: agent.state.phase == "registering", "registering")
        assert agent.unhealthy() == EXPIRED
        assert (await fleet.stored())["tls.crt"] == old
        fleet.hub.cut.clear()
        await fleet.advance(120)
        await until(lambda: _requests(fleet, 2), "a second request")
        await fleet.hub.approve()
        await until(lambda: agent.state.phase == "serving", "serving")
        assert (await fleet.stored())["tls.crt"] != old
        assert agent.unhealthy() is None


async def test_a_certificate_is_renewed_in_time_with_the_agents_own_identity(fleet: Fleet) -> None:
    await fleet.give(fleet.hub.kubeconfig())
    async with fleet.running(driver_options=HOUR) as agent:
        await fleet.join()
        old = (await fleet.stored())["tls.crt"]
        await fleet.advance(3600 * 0.7, step=60)
        assert len(await fleet.hub.requests_made()) == 1
        await fleet.advance(3600 * 0.11, step=60)
        await until(lambda: _requests(fleet, 2), "a second request")
        renewal = (await fleet.hub.requests_made())[-1]
        assert renewal["spec"]["username"].startswith("system:open-cluster-management:c1:")
        assert agent.state.phase == "serving"
        await fleet.hub.approve()
        await until(lambda: _other_certificate(fleet, old), "another certificate")
        await until(
            lambda: _condition(fleet, "ClusterCertificateRotated", "True/ClientCertificateUpdated"), "the condition about it"
        )
        assert agent.state.phase == "serving"


async def test_a_bootstrap_kubeconfig_for_another_hub_moves_the_cluster_there(fleet: Fleet) -> None:
    await fleet.give(fleet.hub.kubeconfig())
    async with fleet.running() as agent:
        await fleet.join()
        first = await fleet.stored()
        await fleet.give(fleet.other.kubeconfig())
        await until(fleet.other.requests_made, "a request on the other hub")
        during = await fleet.stored()
        assert {key: during[key] for key in first} == first
        await fleet.join(fleet.other)
        assert agent.state.hub == fleet.other.url
    after = await fleet.stored()
    assert set(after) == set(first)
    assert fleet.other.url in after["kubeconfig"].decode()


async def test_a_bootstrap_kubeconfig_changed_by_mistake_and_back_costs_nothing(fleet: Fleet) -> None:
    await fleet.give(fleet.hub.kubeconfig())
    async with fleet.running() as agent:
        await fleet.join()
        await fleet.give(fleet.other.kubeconfig())
        await until(lambda: agent.state.phase == "registering", "registering elsewhere")
        await fleet.give(fleet.hub.kubeconfig())
        await until(lambda: (agent.state.phase, agent.state.hub) == ("serving", fleet.hub.url), "serving here")
    assert len(await fleet.hub.requests_made()) == 1


async def test_a_new_token_alone_changes_nothing_for_a_registered_agent(fleet: Fleet) -> None:
    await fleet.give(fleet.hub.kubeconfig())
    async with fleet.running() as agent:
        await fleet.join()
        fleet.hub.requests.clear()
        await fleet.give(fleet.hub.kubeconfig(token="another"))
        await fleet.advance(30)
        assert agent.state.phase == "serving"
        assert fleet.hub.count("WATCH", "/managedclusters") == 0


async def test_another_name_of_the_hub_means_registering_again(fleet: Fleet) -> None:
    await fleet.give(fleet.hub.kubeconfig())
    async with fleet.running():
        await fleet.join()
        await fleet.give(fleet.hub.kubeconfig(name="rebuilt"))
        await until(lambda: _requests(fleet, 2), "a second request")


async def test_a_hub_that_has_moved_is_followed_with_the_credential_it_knows(fleet: Fleet) -> None:
    await fleet.give(fleet.hub.kubeconfig())
    async with fleet.running() as agent:
        await fleet.join()
        before = await fleet.stored()
        fleet.hub.url = "https://elsewhere.example:6443"
        await fleet.give(fleet.hub.kubeconfig(ca=b"another authority"))
        await until(lambda: (agent.state.phase, agent.state.hub) == ("serving", fleet.hub.url), "serving there")
    after = await fleet.stored()
    assert {key for key in after if after[key] != before[key]} == {"kubeconfig"}
    assert fleet.hub.url in after["kubeconfig"].decode()
    assert (fleet.directory / "hub" / "kubeconfig").read_bytes() == after["kubeconfig"]
    assert len(await fleet.hub.requests_made()) == 1


async def test_a_hub_that_does_not_answer_at_its_new_place_is_waited_for(fleet: Fleet) -> None:
    await fleet.give(fleet.hub.kubeconfig())
    async with fleet.running() as agent:
        await fleet.join()
        fleet.hub.cut.set()
        await fleet.give(fleet.hub.kubeconfig(ca=b"another authority"))
        await until(lambda: "still knows this cluster" in agent.state.problem, "the agent to say what it waits for")
        await fleet.advance(300)
        fleet.hub.cut.clear()
        await fleet.advance(61)
        await until(lambda: agent.state.phase == "serving", "serving again")
    assert len(await fleet.hub.requests_made()) == 1


async def test_another_hub_of_the_same_name_that_does_not_know_us_is_registered_with(fleet: Fleet) -> None:
    await fleet.give(fleet.hub.kubeconfig())
    async with fleet.running():
        await fleet.join()
        await fleet.give(fleet.other.kubeconfig(name="hub"))
        await until(fleet.other.requests_made, "a request on the other hub")


async def test_a_hub_that_no_longer_knows_a_good_certificate_is_registered_with_again(fleet: Fleet) -> None:
    await fleet.give(fleet.hub.kubeconfig())
    async with fleet.running() as agent:
        await fleet.join()
        fleet.hub.refusing = True
        await fleet.advance(60)
        assert agent.state.phase == "serving"
        await fleet.advance(300)
        await until(lambda: agent.state.phase == "registering", "registering")
        fleet.hub.refusing = False
        await fleet.advance(60)
        await until(lambda: _requests(fleet, 2), "a second request")


async def test_an_agent_that_another_cluster_of_its_name_shuts_out_registers_anew(fleet: Fleet) -> None:
    await fleet.give(fleet.hub.kubeconfig())
    async with fleet.running() as agent:
        await fleet.join()
        old = await fleet.stored()
        await fleet.hub.replace_cluster("system:open-cluster-management:c1:somebody-else")
        await fleet.advance(10)
        assert agent.state.phase == "serving"
        await fleet.advance(120)
        await until(lambda: _requests(fleet, 2), "a second request")
        assert await fleet.hub.cluster()
        assert await fleet.stored() == {}
        assert (await fleet.pending())["agent-name"] == old["agent-name"]
        assert (await fleet.hub.requests_made())[-1]["spec"]["username"] == "bootstrap"


@pytest.mark.parametrize("seen", [False, True], ids=["its rights went first", "it saw its cluster go"])
async def test_an_agent_whose_cluster_was_deleted_and_made_again_asks_anew_within_a_minute(fleet: Fleet, seen: bool) -> None:
    await fleet.give(fleet.hub.kubeconfig())
    async with fleet.running() as agent:
        await fleet.join()
        await until(lambda: fleet.hub.count("PUT", "/leases/"), "a renewed lease")
        if seen:
            await fleet.hub.admin.delete(MANAGED_CLUSTERS, "c1")
            await fleet.advance(1)
        await fleet.hub.revoke()
        if not seen:
            await fleet.hub.admin.delete(MANAGED_CLUSTERS, "c1")
        await fleet.advance(5)
        assert agent.state.phase == "serving"
        assert await fleet.hub.cluster() is None
        await fleet.hub.new_cluster("system:open-cluster-management:c1:somebody-else")
        await fleet.advance(60)
        await until(lambda: _requests(fleet, 2), "a second request")


async def test_a_hub_secret_that_somebody_deleted_is_made_again(fleet: Fleet) -> None:
    await fleet.give(fleet.hub.kubeconfig())
    async with fleet.running():
        await fleet.join()
        await fleet.admin.delete(SECRETS, "hub-kubeconfig-secret", AGENT_NAMESPACE)
        await until(lambda: _requests(fleet, 2), "a second request")
        await fleet.hub.approve()
        stored = await until(lambda: _has_key(fleet, "tls.crt"), "a certificate")
        assert stored["cluster-name"] == b"c1"


async def test_another_cluster_name_means_another_identity(fleet: Fleet) -> None:
    await fleet.give(fleet.hub.kubeconfig())
    async with fleet.running():
        await fleet.join()
    async with fleet.running(cluster_name="c2"):
        await until(lambda: fleet.hub.cluster("c2"), "the new ManagedCluster")
        pending = await until(lambda: _begun(fleet), "a pending request")
    assert pending["cluster-name"] == b"c2"
    assert await fleet.stored() == {}


async def test_nothing_of_the_certificates_key_reaches_the_log(fleet: Fleet, capfd: pytest.CaptureFixture[str]) -> None:
    await fleet.give(fleet.hub.kubeconfig())
    async with fleet.running():
        await fleet.join()
    key = (await fleet.stored())["tls.key"].decode().splitlines()[1]
    written = capfd.readouterr()
    assert key not in written.err + written.out
    assert fleet.hub.token not in written.err + written.out


def _accepted_cluster() -> dict[str, object]:
    kind = {"apiVersion": MANAGED_CLUSTERS.api_version, "kind": MANAGED_CLUSTERS.kind}
    return {**kind, "metadata": {"name": "c1"}, "spec": {"hubAcceptsClient": True}}


async def _requests(fleet: Fleet, count: int) -> bool:
    return len((await fleet.hub.admin.list(SIGNING_REQUESTS)).items) >= count


async def _later(fleet: Fleet, before: str) -> bool:
    return await fleet.hub.renewed() > before


async def _condition(fleet: Fleet, kind: str, wanted: str) -> bool:
    return await fleet.hub.condition(kind) == wanted


async def _other_certificate(fleet: Fleet, old: bytes) -> bool:
    return (await fleet.stored()).get("tls.crt", old) != old


async def _gone(fleet: Fleet) -> bool:
    return not await fleet.stored()


async def _begun(fleet: Fleet) -> dict[str, bytes] | None:
    pending = await fleet.pending()
    return pending if "key" in pending else None


async def _has_key(fleet: Fleet, key: str) -> dict[str, bytes] | None:
    stored = await fleet.stored()
    return stored if key in stored else None
