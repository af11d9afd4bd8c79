"""`muster work-hub`: what its options become, and that it installs, judges works and stops cleanly."""

import re
import socket
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from muster.apiserver.server import ApiServer
from muster.cli import work_hub
from muster.cli.muster import main
from muster.fleet.in_process import InProcessClient
from muster.runtime.client.builtin import LEASES
from muster.runtime.client.errors import BadRequest
from muster.work.hub.options import ExecutorAuthorization, WorkHubOptions
from muster.work.kinds import MANIFEST_WORKS
from tests.support.commands import serving
from tests.support.fetching import fetch


def settings(kubeconfig: Path, *arguments: str) -> work_hub.Settings:
    context = work_hub.command.make_context("work-hub", ["--kubeconfig", str(kubeconfig), *arguments])
    return work_hub.settings(context.params)


def test_an_empty_command_line_gives_the_defaults(kubeconfig: Path) -> None:
    found = settings(kubeconfig)
    assert found.options == WorkHubOptions()
    assert found.common.install
    assert found.common.webhooks is not None
    assert found.common.controllers


def test_every_option_arrives(kubeconfig: Path) -> None:
    gates = "NilExecutorValidating=true,ManifestWorkReplicaSet=true,CleanUpCompletedManifestWork=true"
    flags = ("--executor-authorization=either", "--manifest-limit=7", "--addon-namespace=msa", "--namespace=there")
    assert settings(kubeconfig, f"--feature-gates={gates}", *flags).options == WorkHubOptions(
        namespace="there",
        nil_executor_validating=True,
        replica_sets=True,
        clean_up_completed=True,
        authorization=ExecutorAuthorization.EITHER,
        manifest_limit=7,
        addon_namespace="msa",
    )


@pytest.mark.parametrize(
    ("flags", "found"),
    [
        (["--feature-gates=ExecutorByBinding=true"], ExecutorAuthorization.EITHER),
        (["--feature-gates=ExecutorByBindingOnly=true"], ExecutorAuthorization.BINDINGS),
        (["--feature-gates=ExecutorByBinding=true,ExecutorByBindingOnly=true"], ExecutorAuthorization.BINDINGS),
        (["--feature-gates=ExecutorByBinding=false", "--executor-authorization=bindings"], ExecutorAuthorization.BINDINGS),
    ],
)
def test_a_gate_has_bindings_count_too(kubeconfig: Path, flags: list[str], found: ExecutorAuthorization) -> None:
    assert settings(kubeconfig, *flags).options.authorization is found


def test_upstreams_spelling_of_the_limit_is_taken(kubeconfig: Path) -> None:
    assert settings(kubeconfig, "--manifestLimit=9").options.manifest_limit == 9


@pytest.mark.parametrize(
    ("argument", "problem"),
    [
        ("--feature-gates=Unheard=true", "Unheard is no feature gate"),
        ("--feature-gates=CloudEventsDrivers=true", "CloudEventsDrivers is not supported"),
        ("--executor-authorization=nobody", "'nobody' is not one of"),
        ("--manifest-limit=0", "--manifest-limit"),
    ],
)
def test_a_wrong_value_is_refused_by_name(kubeconfig: Path, argument: str, problem: str) -> None:
    result = CliRunner().invoke(main, ["work-hub", "--kubeconfig", str(kubeconfig), argument])
    assert result.exit_code == 2
    assert problem in " ".join(result.output.split())


async def test_it_installs_judges_works_and_on_sigterm_gives_up_its_lease_and_ends_well(
    server: ApiServer, admin_kubeconfig: Path
) -> None:
    admin = InProcessClient(server.client(server.clusters["default"]))
    words = ("work-hub", "--kubeconfig", str(admin_kubeconfig), "--webhook-port=0", "--health-port=0")
    async with serving(*words) as line:
        assert line.startswith("ready: work hub of https://127.0.0.1:"), line
        port = re.search(r"port (\d+)", line)
        assert port is not None
        for page in ("healthz", "readyz", "metrics"):
            code, text = await fetch(f"http://127.0.0.1:{port[1]}/{page}")
            assert code == 200, text
        work: dict[str, Any] = {"apiVersion": MANIFEST_WORKS.api_version, "kind": MANIFEST_WORKS.kind}
        with pytest.raises(BadRequest, match="manifests should not be empty"):
            await admin.create(MANIFEST_WORKS, {**work, "metadata": {"name": "w", "namespace": "default"}})
    lease = await admin.get(LEASES, "work-controller-lock", "open-cluster-management-hub")
    assert not lease["spec"].get("holderIdentity")


@pytest.mark.parametrize("flag", ["--webhook-port", "--health-port"])
async def test_a_port_that_another_program_has_is_told_with_the_flag_that_chooses_another(
    admin_kubeconfig: Path, flag: str
) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        ports = {"--webhook-port": 0, "--health-port": 0, flag: port}
        chosen = settings(admin_kubeconfig, *(f"{name}={number}" for name, number in ports.items()))
        with pytest.raises(click.ClickException) as refused:
            await work_hub.serve(chosen)
    assert str(port) in refused.value.message
    assert [name for name in ports if name in refused.value.message] == [flag]
