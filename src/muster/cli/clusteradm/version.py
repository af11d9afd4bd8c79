"""`clusteradm version`: the versions of this tool, of what it installs, and of the cluster, if it is reachable."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from muster.cli.connection import Globals, connected
from muster.cli.console import echo
from muster.cli.examples import examples
from muster.cli.loop import run_loop
from muster.cli.output import document, format_option

if TYPE_CHECKING:
    from muster.runtime.client import KubeClient


@click.command(
    "version",
    epilog=examples(
        "clusteradm version",
        "clusteradm version --client",
    ),
)
@click.option("--client", "client_only", is_flag=True, help="Show the version of this program only, without contacting a cluster.")
@format_option("text", "json", "yaml", default="text")
@connected
def command(client_only: bool, output: str) -> None:
    """Show the versions of this program, the hub's components and the cluster's API server."""
    from importlib.metadata import version

    own = version("muster")
    given_terms: dict[str, str] = {"clusteradm": own, "bundle": own}
    if not client_only:
        given_terms |= _server(Globals.current())
    if output != "text":
        echo(document(given_terms, output))
        return
    echo(f"clusteradm\tversion\t:{given_terms['clusteradm']}")
    echo(f"default bundle\tversion\t:{given_terms['bundle']}")
    if "server" in given_terms:
        echo(f"server release\tversion\t:{given_terms['server']}")
    if "hub" in given_terms:
        echo(f"hub\tversion\t:{given_terms['hub']}")


def _server(options: Globals) -> dict[str, str]:
    """The cluster's versions; an unreachable cluster is no failure of this command."""
    from muster.cli.process import find_cluster
    from muster.runtime.client import HttpClient, KubeError

    async def read() -> dict[str, str]:
        client = HttpClient(config, agent="clusteradm", timeout=min(options.timeout, 5.0))
        given_terms: dict[str, str] = {}
        try:
            given_terms["server"] = await client.server_version()
            if image := await _operator_image(client):
                given_terms["hub"] = image.rpartition(":")[2]
        except KubeError as error:
            echo(f"server: {error}", err=True)
        finally:
            await client.close()
        return given_terms

    try:
        config = find_cluster(options.kubeconfig, options.context).config
    except click.ClickException as error:
        echo(f"server: {error.message}", err=True)
        return {}
    return run_loop(read())


async def _operator_image(client: KubeClient) -> str:
    from muster.operator.names import CLUSTER_MANAGER, OPERATOR_NAMESPACE
    from muster.runtime.client import Forbidden, NotFound
    from muster.runtime.client.builtin import DEPLOYMENTS

    try:
        found = await client.get(DEPLOYMENTS, CLUSTER_MANAGER, OPERATOR_NAMESPACE)
    except (NotFound, Forbidden):
        return ""
    return str(found["spec"]["template"]["spec"]["containers"][0].get("image") or "")
