"""`muster grpc-server --persistence`: what its flags become, and what it says of those that do not go together."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from muster.cli import grpc_server
from muster.cli.muster import main
from muster.cli.process import FoundCluster
from muster.transport.services.store.hub import SqlHubOptions


def settings(*arguments: str, env: dict[str, str] | None = None) -> grpc_server.Settings:
    found: list[grpc_server.Settings] = []

    def read(**given: object) -> None:
        found.append(grpc_server.settings(given))

    command = click.Command("grpc-server", params=grpc_server.command.params, callback=read)
    result = CliRunner().invoke(command, arguments, env=env, standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return found[0]


def test_a_database_and_a_kubeconfig_are_all_it_takes() -> None:
    found = settings("--persistence=sql", "--database=sqlite:///hub.db", "--write-kubeconfig=hub.kubeconfig")
    assert found.objects == SqlHubOptions("sqlite:///hub.db", Path("hub.kubeconfig"), port=6443)


def test_every_flag_arrives() -> None:
    found = settings(
        "--persistence=sql",
        "--database=postgresql://hub@db/muster",
        "--write-kubeconfig=/run/hub.kubeconfig",
        "--api-host=10.0.0.1",
        "--api-port=0",
        "--api-host-name=hub.example.com",
        "--api-host-name=hub",
        "--namespace=there",
    )
    assert found.objects == SqlHubOptions(
        "postgresql://hub@db/muster",
        Path("/run/hub.kubeconfig"),
        host="10.0.0.1",
        port=0,
        host_names=("hub.example.com", "hub"),
        namespace="there",
    )


def test_the_database_may_come_from_the_environment_and_is_not_heeded_where_objects_are_in_the_hub_cluster(
    kubeconfig: Path,
) -> None:
    env = {"MUSTER_DATABASE": "postgresql://hub:secret@db/muster"}
    found = settings("--persistence=sql", "--write-kubeconfig=k", env=env)
    assert isinstance(found.objects, SqlHubOptions)
    assert found.objects.database == env["MUSTER_DATABASE"]
    assert isinstance(settings(f"--kubeconfig={kubeconfig}", env=env).objects, FoundCluster)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--persistence=sql",), "--write-kubeconfig"),
        (("--persistence=sql", "--write-kubeconfig=k"), "needs --database"),
        (("--persistence=sql", "--write-kubeconfig=k", "--database=sqlite:///"), "four slashes"),
        (("--persistence=sql", "--write-kubeconfig=k", "--database=hub.db"), "no scheme"),
        (("--persistence=sql", "--write-kubeconfig=k", "--database=sqlite:///a", "--context=x"), "--context is for"),
        (("--database=sqlite:///hub.db",), "--database is for --persistence sql"),
        (("--api-port=1",), "--api-port is for --persistence sql"),
    ],
)
def test_flags_that_do_not_go_together_are_named(arguments: tuple[str, ...], words: str) -> None:
    with pytest.raises(click.UsageError) as refused:
        settings(*arguments)
    assert words in refused.value.format_message()


def test_a_password_is_not_repeated() -> None:
    with pytest.raises(click.UsageError) as refused:
        settings("--persistence=sql", "--write-kubeconfig=k", "--database=mysql://hub:secret@db/muster")
    assert "secret" not in refused.value.format_message()


def test_a_database_that_cannot_be_reached_ends_it_with_one_line(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("{}")
    address = "postgresql://hub:secret@127.0.0.1:1/muster"
    command = ["grpc-server", "--persistence=sql", f"--database={address}", f"--write-kubeconfig={tmp_path}/k"]
    result = CliRunner().invoke(main, [*command, f"--server-config={config}", "--health-port=0", "--api-port=0"])
    assert result.exit_code == 1
    assert result.output.startswith("Error: ")
    assert "PostgreSQL 127.0.0.1 muster" in result.output
    assert "secret" not in result.output


def test_a_pod_of_the_node_runtime_keeps_objects_in_the_hub_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.cli.grpc_persistence.current", object)
    with pytest.raises(click.UsageError, match="not for a pod of the node runtime"):
        settings("--persistence=sql", "--database=sqlite:///hub.db", "--write-kubeconfig=k")
