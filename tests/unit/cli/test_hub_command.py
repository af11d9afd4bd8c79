"""`muster hub`: what its options become, what it says when they are wrong, and that it starts, serves and stops cleanly."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from muster.apiserver.server import ApiServer
from muster.cli import component, hub
from muster.cli.muster import main
from muster.cli.process import FoundCluster
from muster.fleet.in_process import InProcessClient
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import HUB_LOCK
from muster.runtime.client.builtin import LEASES
from muster.runtime.client.errors import BadRequest
from tests.support.commands import begun, serving
from tests.support.fetching import fetch


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch, kubeconfig: Path) -> Any:
    """The settings that a command line becomes; nothing is run."""
    seen: list[hub.Settings] = []
    monkeypatch.setattr(hub, "run_hub", seen.append)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)

    def of(*arguments: str) -> hub.Settings:
        result = run(kubeconfig, *arguments)
        assert result.exit_code == 0, result.output
        return seen[-1]

    return of


def run(kubeconfig: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["hub", "--kubeconfig", str(kubeconfig), *arguments])


def test_an_empty_command_line_gives_the_defaults(settings: Any) -> None:
    found = settings()
    assert found.options == hub_options()
    assert found.common.install
    assert found.common.elect
    assert not found.common.install_only
    assert (found.common.webhooks.host, found.common.webhooks.port, found.common.webhooks.service) == ("127.0.0.1", 9443, False)
    assert found.common.health == ("127.0.0.1", 8081)


def hub_options(**changes: Any) -> Any:
    from muster.registration.hub.options import HubOptions

    return HubOptions(**changes)


def test_every_option_arrives(settings: Any) -> None:
    found = settings(
        "--enabled-registration-drivers=csr,other",
        "--auto-approved-csr-users=a,b",
        "--driver-option=other.key=v=1",
        "--feature-gates=ManagedClusterAutoApproval=true,ResourceCleanup=false",
        "--feature-gates=DefaultClusterSet=false",
        "--gc-resource-list=a/v1/bs,c/v1/ds",
        "--labels=team=blue,tier=1",
        "--remove-denied-after=7d",
        "--namespace=elsewhere",
        "--no-leader-elect",
        "--no-install",
        "--no-webhook",
        "--health-port=0",
    )
    assert found.options == hub_options(
        namespace="elsewhere",
        drivers=("csr", "other"),
        driver_options={"csr": {"auto-approved-csr-users": ("a", "b")}, "other": {"key": ("v=1",)}},
        auto_approval=True,
        default_cluster_set=False,
        resource_cleanup=False,
        cleaned_resources=("a/v1/bs", "c/v1/ds"),
        labels={"team": "blue", "tier": "1"},
        remove_denied_after=604800.0,
    )
    assert (found.common.elect, found.common.install, found.common.webhooks, found.common.health) == (
        False,
        False,
        None,
        ("127.0.0.1", 0),
    )


def test_what_is_said_to_the_grpc_driver_arrives(settings: Any) -> None:
    said = {
        "auto-approved-grpc-users": "a,b",
        "grpc-ca-file": "/certs/tls.crt",
        "grpc-key-file": "/certs/tls.key",
        "grpc-signing-duration": "24h",
        "grpc-server-account": "system:serviceaccount:hosted:grpc-server-sa",
    }
    found = settings("--enabled-registration-drivers=csr,grpc", *(f"--{option}={value}" for option, value in said.items()))
    assert found.options.drivers == ("csr", "grpc")
    assert found.options.driver_options == {
        "grpc": {**{name: (value,) for name, value in said.items()}, "auto-approved-grpc-users": ("a", "b")}
    }


def test_upstreams_spellings_are_taken(settings: Any) -> None:
    found = settings("--cluster-auto-approval-users=a", "--disable-leader-election", "--listen=0.0.0.0:8443")
    assert found.options.driver_options == {"csr": {"auto-approved-csr-users": ("a",)}}
    assert not found.common.elect
    assert found.common.health == ("0.0.0.0", 8443)


def test_in_a_pod_it_listens_to_all_and_is_called_through_its_service(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    from muster.runtime.client import kubeconfig

    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.delenv("KUBECONFIG", raising=False)
    found = settings()
    assert not found.common.webhooks.service, "a kubeconfig was named: the cluster is another one"
    seen: list[hub.Settings] = []
    monkeypatch.setattr(hub, "run_hub", seen.append)
    monkeypatch.setattr(
        component, "find_cluster", lambda path, context, here: FoundCluster(kubeconfig.ClientConfig("https://10.0.0.1:443"))
    )
    assert CliRunner().invoke(main, ["hub"]).exit_code == 0
    assert seen[0].common.webhooks is not None
    assert (seen[0].common.webhooks.host, seen[0].common.webhooks.service) == ("0.0.0.0", True)
    assert seen[0].common.health == ("0.0.0.0", 8081)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--feature-gates=Unheard=true"], "Invalid value for '--feature-gates': Unheard is no feature gate"),
        (["--feature-gates=ClusterProfile=true"], "ClusterProfile is not supported"),
        (["--labels=oops"], "Invalid value for '--labels': 'oops' is not key=value"),
        (["--remove-denied-after=soon"], "Invalid value for '--remove-denied-after'"),
        (["--gc-resource-list=works"], "Invalid value for --gc-resource-list: 'works' names no resource"),
        (["--labels=a b=c"], "Invalid value for --labels: a b=c: name part must consist of"),
        (["--namespace=Over_there"], "Invalid value for --namespace: 'Over_there'"),
        (["--driver-option=oops"], "--driver-option 'oops'"),
        (["--webhook-url=http://plain"], "Invalid value for --webhook-url"),
        (["--webhook-cert-dir=/certs"], "has no CA bundle for the webhooks"),
        (["--no-controllers", "--no-webhook"], "leave nothing to run"),
        (["--listen=nowhere"], "Invalid value for --listen: 'nowhere' is not HOST:PORT"),
        (["--context=other"], "other"),
        (["--install-only", "--no-install"], "contradict each other"),
        (["--install-only", "--webhook-port=0"], "give --webhook-port or --webhook-url"),
    ],
)
def test_a_wrong_value_is_refused_by_name(kubeconfig: Path, arguments: list[str], problem: str) -> None:
    result = run(kubeconfig, *arguments)
    assert result.exit_code != 0
    assert problem in " ".join(result.output.split())


def test_an_unknown_driver_is_named_before_anything_is_touched(kubeconfig: Path) -> None:
    result = run(kubeconfig, "--enabled-registration-drivers=carrier-pigeon")
    assert result.exit_code != 0
    assert "Invalid value for --enabled-registration-drivers" in result.output
    assert "carrier-pigeon" in result.output


def test_a_cluster_that_is_away_is_one_line(kubeconfig: Path) -> None:
    result = run(kubeconfig, "--no-leader-elect")
    assert result.exit_code == 1
    assert "https://127.0.0.1:1" in result.output
    assert "Traceback" not in result.output


async def test_it_installs_serves_and_on_sigterm_gives_up_its_lease_and_ends_well(
    server: ApiServer, admin_kubeconfig: Path
) -> None:
    admin = InProcessClient(server.client(server.clusters["default"]))
    words = ("hub", "--kubeconfig", str(admin_kubeconfig), "--health-port=0", "--webhook-port=0")
    async with serving(*words) as line:
        assert line.startswith("ready: hub of https://127.0.0.1:"), line
        port = re.search(r"port (\d+)", line)
        assert port is not None
        for page in ("healthz", "readyz", "metrics"):
            code, text = await fetch(f"http://127.0.0.1:{port[1]}/{page}")
            assert code == 200, text
        bad = {"apiVersion": MANAGED_CLUSTERS.api_version, "kind": MANAGED_CLUSTERS.kind, "metadata": {"name": "a.b"}}
        with pytest.raises(BadRequest):
            await admin.create(MANAGED_CLUSTERS, bad)
    lease = await admin.get(LEASES, HUB_LOCK, "open-cluster-management-hub")
    assert not lease["spec"].get("holderIdentity")


async def test_install_only_installs_and_ends_though_the_port_is_taken(server: ApiServer, admin_kubeconfig: Path) -> None:
    """By a hub that runs, for instance."""
    process = await begun("hub", "--kubeconfig", str(admin_kubeconfig), "--install-only", f"--webhook-port={server.port}")
    async with asyncio.timeout(60):
        out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    assert out.startswith(b"installed on https://127.0.0.1:")
    admin = InProcessClient(server.client(server.clusters["default"]))
    assert (await admin.list(MANAGED_CLUSTERS)).items == []
