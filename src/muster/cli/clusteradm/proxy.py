"""`clusteradm proxy`: OCM's own commands for clusters behind the hub, implemented with the gateway."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click

from muster.cli.cluster_names import ClusterNames
from muster.cli.clusteradm.bundle_flags import flat
from muster.cli.clusteradm.gateway import chosen, hub_gateway, selecting
from muster.cli.connection import Session, administer, connected
from muster.cli.console import echo_warning
from muster.cli.examples import examples
from muster.cli.lazy import SuggestingGroup
from muster.cli.name_completion import CLUSTERS, objects
from muster.cli.output import Item, Listing, format_option, show

if TYPE_CHECKING:
    from muster.administration.gateway.health import ClusterHealth
    from muster.gateway.client import Gateway

PROBE_SECONDS = 30.0
COLUMNS = ("Cluster Name", "Healthy", "Reason", "Probed Health", "Latency")


@click.group("proxy", cls=SuggestingGroup)
@connected
def command() -> None:
    """Run kubectl on managed clusters, and check their health, through the hub."""


KUBECTL = examples(
    'clusteradm proxy kubectl --cluster cluster1 --args="get nodes"',
    "clusteradm proxy kubectl --cluster cluster1 -- exec -it web-0 -- sh",
)


@command.command("kubectl", epilog=KUBECTL)
@click.option(
    "-c",
    "--cluster",
    "name",
    type=ClusterNames(),
    required=True,
    shell_complete=objects(CLUSTERS),
    help="Name of the managed cluster.",
)
@click.option("--sa", "account", default="", help="Name of a ManagedServiceAccount; accepted for compatibility and not used.")
@click.option("--args", "line", default="", help="Arguments of kubectl as one string.")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGS...]")
@connected
def kubectl(name: tuple[str, ...], account: str, line: str, arguments: tuple[str, ...]) -> None:
    """Run kubectl on a cluster with your credentials of the hub.

    OCM's own tool uses the token of the ManagedServiceAccount given with --sa. Here no token of a cluster leaves the hub: the
    gateway authenticates to the cluster, and roles on the hub authorize your requests (see clusteradm gateway grant).
    """
    from muster.administration.errors import AdministrationError
    from muster.administration.gateway.kubectl import arguments_of, run_attached

    if bool(line) == bool(arguments):
        raise click.UsageError("--args: give kubectl's arguments there, or behind --")
    if len(name) != 1:
        raise click.UsageError("--cluster: name one cluster; for several there is gateway exec")
    try:
        given = arguments_of(_split(line) if line else arguments)
    except AdministrationError as error:
        raise click.UsageError(str(error)) from None
    if account:
        echo_warning(f"--sa {account}: not needed; the gateway uses its own account on the cluster, and the hub authorizes you")
    gateway = administer(lambda session: _ready(session, name, given))
    if gateway is None:
        return
    try:
        code = run_attached(gateway, name[0], given)
    except AdministrationError as error:
        raise click.ClickException(str(error)) from None
    raise SystemExit(code)


def _split(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--args") from None


async def _ready(session: Session, name: tuple[str, ...], arguments: list[str]) -> Gateway | None:
    api, (cluster,) = await chosen(session, name)
    if session.dry_run:
        session.progress.note(f"would run kubectl {' '.join(arguments)} on {cluster}")
        return None
    return hub_gateway(api)


@command.command(
    "health",
    epilog=examples(
        "clusteradm proxy health",
        "clusteradm proxy health --clusters cluster1",
    ),
)
@click.option(
    "-c",
    "--cluster",
    "--clusters",
    "names",
    type=ClusterNames(),
    multiple=True,
    shell_complete=objects(CLUSTERS),
    help="Names of the managed clusters, separated by commas.",
)
@click.option("-l", "--selector", default="", help="Label selector that chooses managed clusters.")
@format_option("table", "tree", "json", "yaml", default="table")
@connected
def health(names: tuple[tuple[str, ...], ...], selector: str, output: str) -> None:
    """Show whether the API servers of clusters respond through the hub.

    For each cluster, the health that the gateway reports is shown next to a request to its /healthz and the latency of that
    request. Exits with 1 if a cluster does not respond.
    """
    clusters = tuple(flat(names))
    if clusters and selector:
        raise click.UsageError("--selector: chooses the clusters; it cannot be combined with --clusters")
    found = administer(lambda session: _health(session, clusters, selecting(selector)), machine=True)
    show(Listing("ClusterGateway", COLUMNS, [_item(one) for one in found]), output)
    if not all(one.ok for one in found):
        raise SystemExit(1)


async def _health(session: Session, names: tuple[str, ...], selector: str) -> list[ClusterHealth]:
    from muster.administration.gateway.clusters import find_api, gateways
    from muster.administration.gateway.health import probe
    from muster.administration.hubs import require_hub

    await require_hub(session.client)
    api = await find_api(session.client)
    found = await gateways(session.client, api, names=names, selector=selector)
    return await probe(hub_gateway(api), found, min(session.timeout, PROBE_SECONDS))


def _item(one: ClusterHealth) -> Item:
    status = one.gateway.status
    latency = f"{one.seconds * 1000:.0f}ms"
    fields = {"healthy": status.healthy, "reason": status.healthy_reason, "probedHealth": one.probed, "latency": latency}
    document = {**one.gateway.document(), "probe": {"healthy": one.ok, "answer": one.probed, "seconds": round(one.seconds, 3)}}
    return Item(one.name, (one.name, *fields.values()), fields, document)
