"""`muster gateway`: what its options become, and which do not go together."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from muster.cli import gateway
from muster.cli.muster import main
from muster.gateway.konnectivity.cluster_proxy import ClusterProxyOptions

FILES = ("--proxy-ca-cert=/p/ca.crt", "--proxy-cert=/p/tls.crt", "--proxy-key=/p/tls.key")


def settings(kubeconfig: Path, *arguments: str) -> gateway.Settings:
    context = gateway.command.make_context("gateway", ["--kubeconfig", str(kubeconfig), "--no-install", *arguments])
    return gateway.settings(context.params)


def test_the_way_to_cluster_proxy(kubeconfig: Path) -> None:
    assert settings(kubeconfig).options.cluster_proxy is None
    files = (Path("/p/ca.crt"), Path("/p/tls.crt"), Path("/p/tls.key"))
    found = settings(kubeconfig, "--proxy-host=proxy.example", *FILES).options.cluster_proxy
    assert found == ClusterProxyOptions("proxy.example", 8090, *files), "files need not be there yet"
    found = settings(kubeconfig, "--proxy-host=proxy.example", "--proxy-port=8443", *FILES).options.cluster_proxy
    assert found == ClusterProxyOptions("proxy.example", 8443, *files)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--proxy-host=proxy.example",), "--proxy-host needs --proxy-ca-cert, --proxy-cert, --proxy-key too"),
        (("--proxy-host=proxy.example", FILES[0]), "--proxy-host needs --proxy-cert, --proxy-key too"),
        (FILES, "give its address with --proxy-host"),
        (("--proxy-host=proxy.example", "--proxy-port=0", *FILES), "--proxy-port"),
    ],
)
def test_what_does_not_go_together_is_refused_by_name(kubeconfig: Path, arguments: tuple[str, ...], problem: str) -> None:
    result = CliRunner().invoke(main, ["gateway", "--kubeconfig", str(kubeconfig), "--no-install", *arguments])
    assert result.exit_code == 2
    assert problem in " ".join(result.output.split())
