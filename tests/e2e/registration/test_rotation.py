"""Certificates that age and end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from muster.registration.agent.options import AgentOptions
from tests.e2e.registration.conftest import Fleet
from tests.support.administrator import AVAILABLE
from tests.support.shifted import HOUR, ONE_HOUR, lifetime, running


async def sooner_or_later(fleet: Fleet, look: Callable[[], object], what: str, timeout: float = 30) -> None:
    await asyncio.to_thread(fleet.hub.wait, look, what, timeout)


async def joined_for_an_hour(fleet: Fleet, name: str) -> tuple[AgentOptions, Path]:
    namespace = f"agent-{name}"
    kubeconfig = await asyncio.to_thread(fleet.spoke.prepare, namespace)
    fleet.spoke.introduce(namespace, fleet.hub.trusted_kubeconfig())
    options = AgentOptions(cluster_name=name, namespace=namespace, driver_options=ONE_HOUR)
    async with running(options, kubeconfig):
        await sooner_or_later(fleet, lambda: fleet.hub.status(name, AVAILABLE) == "True", f"{name} to be available")
    assert lifetime(fleet.spoke.secret(namespace)["tls.crt"]) < timedelta(hours=2)
    return replace(options, driver_options={}), kubeconfig


async def test_a_certificate_is_renewed_before_it_ends(fleet: Fleet) -> None:
    hub, name = fleet.hub, "evergreen"
    options, kubeconfig = await joined_for_an_hour(fleet, name)
    before = fleet.spoke.secret(options.namespace)

    async with running(options, kubeconfig, shift=0.7 * HOUR):
        await sooner_or_later(fleet, lambda: hub.renewed(name) > future(0.6 * HOUR), "the agent to work with the old certificate")
        assert fleet.spoke.secret(options.namespace) == before, "renewed too early"

    async with running(options, kubeconfig, shift=0.85 * HOUR):
        await sooner_or_later(fleet, lambda: len(hub.requests(name)) == 2, "a request for the next certificate")
        await sooner_or_later(
            fleet, lambda: fleet.spoke.secret(options.namespace)["tls.crt"] != before["tls.crt"], "the new certificate"
        )
        await sooner_or_later(
            fleet, lambda: hub.condition(name, "ClusterCertificateRotated").get("status") == "True", "the agent to say so"
        )

    after = fleet.spoke.secret(options.namespace)
    assert lifetime(after["tls.crt"]) > timedelta(days=1)
    assert after["tls.key"] != before["tls.key"]
    assert after["agent-name"] == before["agent-name"]
    renewal = hub.requests(name)[-1]
    assert renewal["spec"]["username"] == f"system:open-cluster-management:{name}:{after['agent-name'].decode()}"


async def test_a_cluster_whose_certificate_has_ended_introduces_itself_again(fleet: Fleet) -> None:
    hub, name = fleet.hub, "sleeper"
    options, kubeconfig = await joined_for_an_hour(fleet, name)
    before = fleet.spoke.secret(options.namespace)
    # Somebody who slept that long has no fresh lease that would guard the name.
    hub.patch(name, {"spec": {"leaseDurationSeconds": 1}}).expect(200)
    hub.wait_condition(name, AVAILABLE, "Unknown")

    async with running(options, kubeconfig, shift=1.2 * HOUR):
        await sooner_or_later(fleet, lambda: hub.status(name, AVAILABLE) == "True", "the cluster to be available again", 60)

    after = fleet.spoke.secret(options.namespace)
    assert after["tls.crt"] != before["tls.crt"]
    assert after["agent-name"] == before["agent-name"]
    assert [len(hub.requests(name)), hub.requests(name)[-1]["spec"]["username"].split(":")[-1]] == [
        2,
        "agent-registration-bootstrap",
    ]


def future(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
