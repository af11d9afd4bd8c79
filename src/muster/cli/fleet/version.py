"""`muster version` and `muster completion`: the versions of this program and of the fleet, and the completion scripts."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import click

from muster.cli.completion import SHELLS, print_script
from muster.cli.console import echo
from muster.cli.examples import examples
from muster.cli.fleet.commands import data_dir
from muster.cli.loop import run_loop
from muster.cli.output import document, format_option

REQUEST_TIMEOUT = 5.0


@click.command(
    "version",
    short_help="Show the versions of this program and of the local fleet.",
    epilog=examples("muster version", "muster version --client", "muster version -o json"),
)
@data_dir
@click.option("--client", "client_only", is_flag=True, help="Show the version of this program only.")
@format_option("text", "json", "yaml", default="text")
def show(data_dir: str, client_only: bool, output: str) -> None:
    """Show the version of this program and, if the fleet is running, of its hub and the Kubernetes version it serves."""
    server, problem = ({}, "") if client_only else _server(Path(data_dir))
    found = {"client": version("muster"), **server}
    if output == "text":
        for name, value in found.items():
            echo(f"{name}: {value}")
    else:
        echo(document(found, output))
    if problem:
        echo(f"server: {problem}", err=True)


def _server(path: Path) -> tuple[dict[str, str], str]:
    """The hub's versions, or why they are unknown, which is no failure of this command."""
    from muster.fleet.local.directory import FleetDirectory, FleetError
    from muster.runtime.client import HttpClient, KubeconfigError, KubeError, load_kubeconfig

    directory = FleetDirectory(path)
    try:
        fleet = directory.existing()
        if directory.holder() is None:
            return {}, f"the fleet in {path} is not running"
        config = load_kubeconfig(directory.kubeconfig, "hub")
    except (FleetError, KubeconfigError) as error:
        return {}, str(error)

    async def read() -> str:
        client = HttpClient(config, agent="muster", timeout=REQUEST_TIMEOUT)
        try:
            return await client.server_version()
        finally:
            await client.close()

    try:
        served = run_loop(read())
    except KubeError as error:
        return {}, str(error)
    return {"server": served, **({"hub": fleet.installed} if fleet.installed else {})}, ""


@click.command(
    "completion",
    short_help="Print a shell completion script.",
    epilog=examples("source <(muster completion bash)", "muster completion fish > ~/.config/fish/completions/muster.fish"),
)
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print a script that completes commands, options and names of clusters in SHELL."""
    print_script(shell, "muster")
