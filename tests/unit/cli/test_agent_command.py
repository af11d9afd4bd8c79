"""`muster agent`: upstream's spellings are understood, and wrong values are refused by the flag that named them."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from muster.apiserver.adminkubeconfig import write_kubeconfig
from muster.apiserver.server import ApiServer, ServerConfig
from muster.cli import agent as module
from muster.cli.agent import Settings, command

KUBECONFIG = """
current-context: c
contexts: [{name: c, context: {cluster: c, namespace: somewhere}}]
clusters: [{name: c, cluster: {server: "https://c.example", certificate-authority-data: Y2E=}}]
"""


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    path = tmp_path / "kubeconfig"
    path.write_text(KUBECONFIG)
    return path


@pytest.fixture
def settings(kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What a command line asks for, without running it."""

    def parse(*arguments: str) -> Settings:
        heard: list[Settings] = []
        monkeypatch.setattr(module, "run_agent", heard.append)
        result = CliRunner().invoke(command, ["--kubeconfig", str(kubeconfig), *arguments])
        assert result.exit_code == 0, result.output
        return heard[0]

    return parse


def refused(kubeconfig: Path, *arguments: str) -> str:
    result = CliRunner().invoke(command, ["--kubeconfig", str(kubeconfig), *arguments])
    assert result.exit_code != 0
    return result.output


def test_an_empty_command_line_gives_the_defaults(settings: Any) -> None:
    options = settings().options
    assert (options.cluster_name, options.agent_name, options.driver) == ("", "", "csr")
    assert options.namespace == "open-cluster-management-agent"
    assert options.bootstrap_secrets == ("bootstrap-hub-kubeconfig",)
    assert (options.hub_secret, options.health_check_seconds, options.hub_connection_timeout) == ("hub-kubeconfig-secret", 60, 600)
    assert (options.cluster_claims, options.cluster_properties, options.max_custom_claims) == (True, False, 20)


def test_upstreams_spellings_are_understood(settings: Any) -> None:
    given = settings(
        "--spoke-cluster-name=c1",
        "--agent-id=me",
        "--bootstrap-kubeconfigs=/spoke/a/kubeconfig",
        "--bootstrap-kubeconfigs=/spoke/b/kubeconfig",
        "--hub-kubeconfig-dir=/spoke/hub",
        "--client-cert-expiration-seconds=3600",
        "--spoke-external-server-urls=https://c1.example:6443",
        "--cluster-healthcheck-period=90s",
        "--reserved-cluster-claim-suffixes=a.example,b.example",
        "--cluster-annotations=agent.open-cluster-management.io/x=y",
        "--hub-connection-timeout-seconds=30",
        "--feature-gates=MultipleHubs=true,ClusterClaim=false,ClusterProperty=true",
    ).options
    assert (given.cluster_name, given.agent_name) == ("c1", "me")
    assert given.bootstrap_kubeconfigs == (Path("/spoke/a/kubeconfig"), Path("/spoke/b/kubeconfig"))
    assert given.hub_kubeconfig_dir == Path("/spoke/hub")
    assert given.driver_options == {"client-cert-expiration-seconds": ("3600",)}
    assert (given.external_server_urls, given.external_ca) == (("https://c1.example:6443",), b"ca")
    assert (given.health_check_seconds, given.hub_connection_timeout) == (90, 30)
    assert given.reserved_claim_suffixes == ("a.example", "b.example")
    assert given.cluster_annotations == {"agent.open-cluster-management.io/x": "y"}
    assert (given.cluster_claims, given.cluster_properties) == (False, True)


def test_upstreams_flags_for_grpc_say_where_the_files_are(settings: Any) -> None:
    """As upstream's operator has them; the kubeconfig is then none of this driver's."""
    given = settings(
        "--registration-auth=grpc",
        "--bootstrap-kubeconfig=/spoke/bootstrap/kubeconfig",
        "--grpc-bootstrap-config=/spoke/bootstrap/config.yaml",
        "--grpc-config=/spoke/hub-kubeconfig/config.yaml",
        "--client-cert-expiration-seconds=3600",
    ).options
    assert given.driver == "grpc"
    assert given.bootstrap_kubeconfigs == (Path("/spoke/bootstrap/config.yaml"),)
    assert given.hub_kubeconfig_dir == Path("/spoke/hub-kubeconfig")
    both = ("--registration-auth=grpc", "--hub-kubeconfig-dir=/spoke/hub", "--grpc-config=/spoke/hub/config.yaml")
    assert settings(*both).options.hub_kubeconfig_dir == Path("/spoke/hub")
    assert settings("--registration-auth=grpc", "--bootstrap-kubeconfig=/a/config.yaml").options.bootstrap_kubeconfigs == (
        Path("/a/config.yaml"),
    )


def test_flags_of_another_driver_are_heard_by_nobody(settings: Any) -> None:
    given = settings("--bootstrap-kubeconfig=/a/kubeconfig", "--grpc-bootstrap-config=/b/config.yaml", "--grpc-config=/c/x").options
    assert given.bootstrap_kubeconfigs == (Path("/a/kubeconfig"),)
    assert given.hub_kubeconfig_dir is None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--cluster-name=Not_A_Name"], ["--cluster-name", "Not_A_Name"]),
        (["--client-cert-expiration-seconds=60"], ["--client-cert-expiration-seconds", "3600"]),
        (["--spoke-external-server-urls=http://c1"], ["--spoke-external-server-urls", "https"]),
        (["--cluster-healthcheck-period=0"], ["--cluster-healthcheck-period", "greater than zero"]),
        (["--cluster-healthcheck-period=soon"], ["--cluster-healthcheck-period", "duration"]),
        (["--registration-auth=magic"], ["magic", "csr"]),
        (["--driver-option=nonsense"], ["--driver-option", "nonsense"]),
        (["--driver-option=csr.unknown=1"], ["unknown"]),
        (["--registration-auth=grpc", "--grpc-config=/a/hub.yaml"], ["/a/hub.yaml", "config.yaml"]),
        (["--registration-auth=grpc", "--grpc-config=/a/config.yaml", "--hub-kubeconfig-dir=/b"], ["/a/config.yaml", "/b"]),
        (["--registration-auth=grpc", "--driver-option=grpc.unknown=1"], ["--unknown", "--grpc-bootstrap-config"]),
        (["--registration-auth=grpc", "--client-cert-expiration-seconds=60"], ["--client-cert-expiration-seconds", "3600"]),
        (["--feature-gates=Nonsense=true"], ["--feature-gates", "Nonsense"]),
        (["--feature-gates=MultipleHubs=true"], ["MultipleHubs", "two"]),
        (["--cluster-annotations=novalue"], ["--cluster-annotations", "novalue"]),
        (["--kubeconfig=/does/not/exist"], ["/does/not/exist", "--kubeconfig"]),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else None,
)
def test_a_wrong_value_is_refused_by_its_flag(arguments: list[str], words: list[str], kubeconfig: Path) -> None:
    output = refused(kubeconfig, *arguments)
    assert all(word in output for word in words), output


def test_annotations_that_an_agent_may_not_set_are_warned_of(kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "run_agent", lambda settings: None)
    result = CliRunner().invoke(command, ["--kubeconfig", str(kubeconfig), "--cluster-annotations=mine=b"])
    assert result.exit_code == 0
    assert "mine" in result.output
    assert "passed over" in result.output


def test_installing_makes_what_an_agent_needs_and_ends(tmp_path: Path) -> None:
    ready, done = threading.Event(), threading.Event()
    path = tmp_path / "admin"
    found: list[str] = []

    async def serve() -> None:
        server = ApiServer(ServerConfig(store="memory", namespace_grace_period=0))
        await server.start()
        await write_kubeconfig(server, path)
        ready.set()
        await asyncio.to_thread(done.wait, 60)
        client = server.client(next(iter(server.clusters.values())))
        accounts = await client.get("/api/v1/namespaces/edge/serviceaccounts")
        found.extend(item["metadata"]["name"] for item in accounts["items"])
        await server.stop(grace=0.1)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert ready.wait(60)
        result = CliRunner().invoke(command, ["--kubeconfig", str(path), "--namespace=edge", "--install-only"])
    finally:
        done.set()
        thread.join(60)
    assert result.exit_code == 0, result.output
    assert "installed on" in result.output
    assert "klusterlet-registration-sa" in found


HUB_ARN = "arn:aws:eks:us-west-2:111111111111:cluster/hub-0"
MANAGED_ARN = "arn:aws:eks:us-west-2:222222222222:cluster/managed-0"
BY_AWS = ("--registration-auth=aws-irsa", f"--hub-cluster-arn={HUB_ARN}", f"--managed-cluster-arn={MANAGED_ARN}")


def test_an_agent_by_aws_identities_is_told_both_arns_and_the_suffix_that_belongs_to_them(settings: Any, kubeconfig: Path) -> None:
    suffix = "a21fefa5047b57e2e7876e799a5595de"
    options = settings(*BY_AWS, f"--managed-cluster-role-suffix={suffix}", "--driver-option=awsirsa.token-command=aws").options
    assert options.driver_options["managed-cluster-role-suffix"] == (suffix,)
    settings(*BY_AWS)
    wrong = refused(kubeconfig, *BY_AWS, f"--managed-cluster-role-suffix={suffix[::-1]}")
    assert f"expected {suffix}" in wrong
    assert "--managed-cluster-arn: not given" in refused(kubeconfig, *BY_AWS[:2])
    assert "identity for one hub" in refused(kubeconfig, *BY_AWS, "--bootstrap-kubeconfig-secret=a,b")
    assert "neither muster nor aws" in refused(kubeconfig, *BY_AWS, "--driver-option=awsirsa.token-command=sh")
