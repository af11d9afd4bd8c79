"""`muster addon-manager`: what its options become, and that it installs, runs and stops cleanly."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from muster.addon.framework.rules import AGGREGATED_ROLE
from muster.addon.install import ACCOUNT
from muster.addon.options import AddonOptions
from muster.apiserver.adminkubeconfig import write_kubeconfig
from muster.apiserver.server import ApiServer, ServerConfig
from muster.cli import addon_manager
from muster.cli.muster import main
from muster.fleet.in_process import InProcessClient
from muster.runtime.client.builtin import CLUSTER_ROLES, LEASES, SERVICE_ACCOUNTS
from tests.support.eventually import eventually


def settings(kubeconfig: Path, *arguments: str) -> addon_manager.Settings:
    context = addon_manager.command.make_context("addon-manager", ["--kubeconfig", str(kubeconfig), *arguments])
    return addon_manager.settings(context.params)


def test_an_empty_command_line_gives_the_defaults(kubeconfig: Path) -> None:
    found = settings(kubeconfig)
    assert (found.options, found.common.webhooks) == (AddonOptions(), None)
    assert found.common.install
    assert found.common.elect


def test_every_option_arrives(kubeconfig: Path) -> None:
    found = settings(kubeconfig, "--namespace=there", "--feature-gates=AddonManagement=true", "--disable-leader-election")
    assert found.options == AddonOptions(namespace="there")
    assert not found.common.elect


@pytest.mark.parametrize(
    ("argument", "problem"),
    [
        ("--feature-gates=Unheard=true", "Unheard is no feature gate"),
        ("--feature-gates=AddonManagement=false", "leaves nothing to run"),
        ("--webhook-port=1", "--webhook-port"),
    ],
)
def test_a_wrong_value_is_refused_by_name(kubeconfig: Path, argument: str, problem: str) -> None:
    result = CliRunner().invoke(main, ["addon-manager", "--kubeconfig", str(kubeconfig), argument])
    assert result.exit_code == 2
    assert problem in " ".join(result.output.split())


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    server = ApiServer(ServerConfig(store="memory", namespace_grace_period=0, clusters=("default",), host="127.0.0.1", port=0))
    await server.start()
    yield server
    await server.stop(grace=0.1)


async def test_it_installs_runs_and_on_sigterm_gives_up_its_lease_and_ends_well(server: ApiServer, tmp_path: Path) -> None:
    admin = InProcessClient(server.client(server.clusters["default"]))
    path = tmp_path / "admin.kubeconfig"
    await write_kubeconfig(server, path)
    command = (sys.executable, "-c", "from muster.cli.muster import main; main()", "addon-manager", "--kubeconfig", str(path))
    pipe = asyncio.subprocess.PIPE
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = await asyncio.create_subprocess_exec(*command, "--health-port=0", stdout=pipe, stderr=pipe, env=environment)
    assert process.stdout is not None

    async def leads() -> bool:
        leases = (await admin.list(LEASES, "open-cluster-management-hub")).items
        return any(one["metadata"]["name"] == "manager-lock" and one["spec"].get("holderIdentity") for one in leases)

    try:
        async with asyncio.timeout(60):
            line = (await process.stdout.readline()).decode()
            assert line.startswith("ready: addon manager of https://127.0.0.1:"), line
            await eventually(leads, "it leads")
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    lease = await admin.get(LEASES, "manager-lock", "open-cluster-management-hub")
    assert not lease["spec"].get("holderIdentity")
    assert await admin.get(SERVICE_ACCOUNTS, ACCOUNT, "open-cluster-management-hub")
    assert await admin.get(CLUSTER_ROLES, AGGREGATED_ROLE)
