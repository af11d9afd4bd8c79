"""Hubs that go away, come back elsewhere or under another authority, and introductions that run out."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.e2e.registration.conftest import Fleet
from tests.support.administrator import AVAILABLE, Administrator
from tests.support.link import Link
from tests.support.registration import Agent, Hub
from tests.support.sites import beside_kube

pytestmark = beside_kube


@pytest.fixture
def link(fleet: Fleet) -> Iterator[Link]:
    link = Link(fleet.hub.cluster.url)
    yield link
    link.close()


def test_a_hub_that_was_away_for_ten_lease_periods_gets_its_cluster_back(fleet: Fleet, link: Link) -> None:
    hub = fleet.hub
    agent = fleet.agent("patient", hub.trusted_kubeconfig(link.url(hub.cluster.url)))
    hub.wait_available("patient")
    hub.patch("patient", {"spec": {"leaseDurationSeconds": 1}}).expect(200)
    hub.wait_renewed("patient", times=2)
    before = agent.secret

    link.cut()

    hub.wait_condition("patient", AVAILABLE, "Unknown", "ManagedClusterLeaseUpdateStopped")
    unreachable = hub.wait(lambda: taints(hub, "patient"), "the taint of an unreachable cluster")
    assert unreachable == ["cluster.open-cluster-management.io/unreachable"]
    since = hub.renewed("patient")
    hub.wait(lambda: seconds_since(since) > 10, "ten lease periods to pass")
    assert hub.renewed("patient") == since
    assert agent.process.running

    link.mend()

    hub.wait_condition("patient", AVAILABLE)
    hub.wait_renewed("patient", times=2)
    hub.wait(lambda: not taints(hub, "patient"), "the taint to go")
    assert agent.secret == before
    assert len(hub.requests("patient")) == 1


def taints(hub: Administrator, name: str) -> list[str]:
    return [taint["key"] for taint in (hub.find(name) or {}).get("spec", {}).get("taints") or ()]


def seconds_since(moment: str) -> float:
    return (datetime.now(UTC) - datetime.fromisoformat(moment.replace("Z", "+00:00"))).total_seconds()


def test_an_expired_introduction_is_replaced_without_touching_the_agent(fleet: Fleet) -> None:
    hub = fleet.hub
    agent = fleet.agent("late", hub.token_kubeconfig(expires_in=-60))
    hub.wait(lambda: "expired or was revoked" in agent.process.log.read_text(), "the agent to say why it is not let in")
    assert hub.find("late") is None
    assert agent.process.running

    agent.introduce(hub.trusted_kubeconfig())

    hub.wait_available("late")


def test_a_hub_under_a_new_address_and_authority_is_followed(fleet: Fleet, link: Link) -> None:
    """The hub secret then names both; the hub itself is the same, so the certificate stays and nobody has to approve anything."""
    hub = fleet.hub
    agent = fleet.joined("mover")
    before = agent.secret
    text = yaml.safe_load(hub.trusted_kubeconfig(link.url(hub.cluster.url)))
    place = text["clusters"][0]["cluster"]
    # The old authority and a new one side by side, as while a hub's serving certificate is replaced.
    both = hub.cluster.ca.read_bytes() + self_signed()
    place["certificate-authority-data"] = base64.b64encode(both).decode()

    agent.introduce(yaml.safe_dump(text))

    hub.wait(lambda: str(link.port).encode() in agent.secret["kubeconfig"], "the hub kubeconfig to name the new address", 60)
    named = yaml.safe_load(agent.secret["kubeconfig"])["clusters"][0]["cluster"]
    assert base64.b64decode(named["certificate-authority-data"]).split() == both.split()
    assert {key for key, value in agent.secret.items() if before.get(key) != value} == {"kubeconfig"}
    hub.wait(lambda: link.connections > 1, "the agent to come by the new way")
    hub.patch("mover", {"spec": {"leaseDurationSeconds": 1}}).expect(200)
    hub.wait_renewed("mover", times=2)
    assert hub.status("mover", AVAILABLE) == "True"
    assert len(hub.requests("mover")) == 1


def self_signed() -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "the next authority")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(now).not_valid_after(now + timedelta(days=1))
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def test_an_agent_goes_to_the_second_hub_when_the_first_denies_it(fleet: Fleet, second_hub: Hub, tmp_path: Path) -> None:
    files = [tmp_path / "first.kubeconfig", tmp_path / "second.kubeconfig"]
    for file, hub in zip(files, (fleet.hub, second_hub), strict=True):
        file.write_text(hub.trusted_kubeconfig())
    flags = [f"--bootstrap-kubeconfigs={file}" for file in files]
    agent = fleet.agent("wanderer", flags=["--feature-gates=MultipleHubs=true", *flags])
    fleet.hub.wait_available("wanderer")
    assert second_hub.find("wanderer") is None

    fleet.hub.deny("wanderer")

    second_hub.servers.append(agent.process)
    second_hub.wait_available("wanderer", timeout=60)
    assert second_hub.cluster.url.encode() in agent.secret["kubeconfig"]


def test_an_agent_goes_to_the_second_hub_when_the_first_is_lost(fleet: Fleet, second_hub: Hub, link: Link, tmp_path: Path) -> None:
    files = [tmp_path / "first.kubeconfig", tmp_path / "second.kubeconfig"]
    files[0].write_text(fleet.hub.trusted_kubeconfig(link.url(fleet.hub.cluster.url)))
    files[1].write_text(second_hub.trusted_kubeconfig())
    flags = [*(f"--bootstrap-kubeconfigs={file}" for file in files), "--hub-connection-timeout-seconds=3"]
    agent: Agent = fleet.agent("refugee", flags=["--feature-gates=MultipleHubs=true", *flags])
    fleet.hub.wait_available("refugee")
    fleet.hub.patch("refugee", {"spec": {"leaseDurationSeconds": 1}}).expect(200)
    fleet.hub.wait_renewed("refugee")

    link.cut()

    second_hub.servers.append(agent.process)
    second_hub.wait_available("refugee", timeout=60)


def test_a_denied_cluster_is_removed_when_its_time_is_up(fleet: Fleet, second_hub: Hub) -> None:
    fleet.joined("forgotten", hub=second_hub)
    second_hub.deny("forgotten")
    second_hub.wait_condition("forgotten", "HubAcceptedManagedCluster", "False")
    assert second_hub.find("forgotten") is not None

    second_hub.wait_gone("forgotten")

    assert second_hub.admin.get("/api/v1/namespaces/forgotten").status == 200


def test_a_hub_cut_off_from_its_api_server_goes_on_where_it_was(fleet: Fleet, second_hub: Hub, hub_link: Link) -> None:
    hub = second_hub
    fleet.joined("before", hub=hub, lease=1)

    hub_link.cut()
    try:
        # Webhooks that cannot ask who may do what let nobody in; clusters that are in do not need them to live.
        agent = fleet.agent("during", hub=hub)
        hub.wait(lambda: "cannot register" in agent.process.log.read_text(), "the agent to be turned away")
        hub.wait_renewed("before", times=2)
        assert hub.find("during") is None
    finally:
        hub_link.mend()

    hub.wait_available("during", timeout=60)
    assert hub.status("before", AVAILABLE) == "True"
    assert hub.process.running
