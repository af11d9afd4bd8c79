"""Agents of a simulated cluster beside the registration agent: the work agent, started when the hub's kubeconfig exists."""

from __future__ import annotations

import asyncio
from typing import Final

from muster.registration.agent.options import AgentOptions
from muster.registration.drivers import endpoints_of
from muster.registration.drivers.endpoints import ClientSettings
from muster.runtime.client import KubeClient
from muster.work.agent.agent import WorkAgent
from muster.work.agent.options import WorkAgentOptions
from muster.work.names import AGENT

POLL_INTERVAL: Final = 1.0


async def run_work_agent(spoke: KubeClient, registered: AgentOptions) -> None:
    """Run until cancelled; `registered` has the options of the registration agent, which maintains the hub's kubeconfig."""
    endpoints, cluster = endpoints_of(registered.driver), registered.cluster_name
    assert registered.hub_kubeconfig_dir is not None, "a simulated agent keeps files"
    file = registered.hub_kubeconfig_dir / endpoints.key
    # Files have no event to wait for.
    while not file.is_file():  # noqa: ASYNC110
        await asyncio.sleep(POLL_INTERVAL)
    endpoint = endpoints.read(file, file.read_bytes())
    hub = endpoint.connect(ClientSettings(AGENT, cluster=cluster))
    try:
        await WorkAgent(hub, spoke, WorkAgentOptions(cluster_name=cluster, hub_url=endpoint.url)).run()
    finally:
        await hub.close()
