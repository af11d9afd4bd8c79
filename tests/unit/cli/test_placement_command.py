"""`muster placement`: what its options become, and that it installs, chooses and stops cleanly."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from muster.apiserver.server import ApiServer
from muster.cli import placement
from muster.cli.muster import main
from muster.fleet.in_process import InProcessClient
from muster.placement.hub.debug_server import DebugOptions
from muster.placement.hub.options import PlacementOptions
from muster.runtime.client.builtin import LEASES
from tests.support.choosing import SATISFIED, Chooser
from tests.support.commands import serving


def settings(kubeconfig: Path, *arguments: str) -> placement.Settings:
    context = placement.command.make_context("placement", ["--kubeconfig", str(kubeconfig), *arguments])
    return placement.settings(context.params)


def test_an_empty_command_line_gives_the_defaults(kubeconfig: Path) -> None:
    found = settings(kubeconfig)
    assert (found.options, found.debug, found.common.webhooks) == (PlacementOptions(), None, None)
    assert found.common.install
    assert found.common.elect


def test_every_option_arrives(kubeconfig: Path) -> None:
    debug = ("--feature-gates=PlacementDebugServer=true", "--debug-host=127.0.0.2", "--debug-port=0")
    found = settings(kubeconfig, "--namespace=there", *debug)
    assert found.options == PlacementOptions(namespace="there")
    assert found.debug == DebugOptions("127.0.0.2", 0)
    assert settings(kubeconfig, *debug[1:]).debug is None, "only its gate opens the debug service"


@pytest.mark.parametrize(
    ("argument", "problem"),
    [
        ("--feature-gates=Unheard=true", "Unheard is no feature gate"),
        ("--feature-gates=SIGPlacementDecision=true", "SIGPlacementDecision is not supported"),
        ("--webhook-port=1", "--webhook-port"),
    ],
)
def test_a_wrong_value_is_refused_by_name(kubeconfig: Path, argument: str, problem: str) -> None:
    result = CliRunner().invoke(main, ["placement", "--kubeconfig", str(kubeconfig), argument])
    assert result.exit_code == 2
    assert problem in " ".join(result.output.split())


async def test_it_installs_chooses_and_on_sigterm_gives_up_its_lease_and_ends_well(
    server: ApiServer, admin_kubeconfig: Path
) -> None:
    chooser = Chooser()
    chooser.admin = InProcessClient(server.client(server.clusters["default"]))
    chooser.ns = "default"
    async with serving("placement", "--kubeconfig", str(admin_kubeconfig), "--health-port=0") as line:
        assert line.startswith("ready: placement of https://127.0.0.1:"), line
        await chooser.place("p")
        await chooser.until_says("p", SATISFIED, "False", "NoManagedClusterSetBindings")
    lease = await chooser.admin.get(LEASES, "placement-lock", "open-cluster-management-hub")
    assert not lease["spec"].get("holderIdentity")
