"""`clusteradm get`: lists join tokens, the hub's components, and its objects.

Lists are OCM's, as tree, table, JSON or YAML. With `--watch` a table continues: after each change, the changed rows are printed
again. Works that are requested by name continue as trees, because their changes are seldom in the columns of the table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from muster.cli.connection import Session, administer, connected, write_file
from muster.cli.console import echo
from muster.cli.examples import examples
from muster.cli.lazy import Entry, LazyGroup
from muster.cli.name_completion import ADDONS, CLUSTERS, PLACEMENTS, SETS, WORKS, objects
from muster.cli.output import WIDE, Listing, listing_options, news, show
from muster.cli.values import Names

if TYPE_CHECKING:
    import asyncio

    from muster.administration.hub.initialize import Initialized
    from muster.cli.clusteradm.listings import Collect, Question
    from muster.machinery.objects import GVR

F = TypeVar("F", bound=Callable[..., Any])
HERE = "muster.cli.clusteradm.get"
KINDS = {
    "addons": Entry(HERE, "Show add-ons and the clusters they are enabled on.", "addons"),
    "clusters": Entry(HERE, "Show managed clusters.", "clusters"),
    "clustersets": Entry(HERE, "Show cluster sets, their clusters and their bindings.", "cluster_sets"),
    "hub-info": Entry("muster.cli.clusteradm.hubinfo", "Show the components of the hub and their status."),
    "klusterlet-info": Entry(
        "muster.cli.clusteradm.hubinfo", "Show the components of a Klusterlet and their status.", "klusterlet"
    ),
    "placements": Entry(HERE, "Show placements and the clusters they select.", "placements"),
    "policies": Entry("muster.cli.clusteradm.policies", "Show policies of a cluster, or of many through the gateway."),
    "token": Entry(HERE, "Show a bootstrap token with which clusters join.", "token"),
    "works": Entry(HERE, "Show works and whether they are applied.", "works"),
}
OTHERS = {"addon": "addons", "cluster": "clusters", "clusterset": "clustersets", "placement": "placements", "work": "works"}
OTHERS |= {"policy": "policies"}


@click.group("get", cls=LazyGroup, entries=KINDS, others=OTHERS)
@connected
def command() -> None:
    """Show clusters, works, add-ons and other objects of the hub."""


def _listed(command: F) -> F:
    watching = click.option(
        "-w", "--watch", is_flag=True, help="Watch for changes after the first output; lists are printed as tables."
    )
    return watching(listing_options(command))


@click.command(
    "clusters",
    epilog=examples(
        "clusteradm get clusters",
        "clusteradm get clusters --clusterset prod -o table",
    ),
)
@click.argument("names", nargs=-1, shell_complete=objects(CLUSTERS))
@click.option("--clusterset", "cluster_set", default="", help="Name of the cluster set whose clusters are shown.")
@click.option("-l", "--selector", default="", help="Label selector that chooses managed clusters.")
@_listed
@connected
def clusters(names: tuple[str, ...], cluster_set: str, selector: str, output: str, watch: bool) -> None:
    """Show managed clusters."""
    from muster.cli.clusteradm.listings import Question
    from muster.kube.selectors import SelectorError, parse_label_selector

    try:
        parse_label_selector(selector)
    except SelectorError as error:
        raise click.BadParameter(str(error), param_hint="--selector") from None
    _show("clusters", Question(names, cluster_set=cluster_set, selector=selector), output, watch)


WORK_EXAMPLES = examples(
    "clusteradm get works -o wide",
    "clusteradm get works web --clusters cluster1,cluster2 --watch",
)


@click.command("works", epilog=WORK_EXAMPLES)
@click.argument("name", required=False, shell_complete=objects(WORKS))
@click.option(
    "-c",
    "--cluster",
    "--clusters",
    "on",
    type=Names(),
    multiple=True,
    shell_complete=objects(CLUSTERS),
    help="Names of the managed clusters, separated by commas.",
)
@_listed
@connected
def works(name: str | None, on: tuple[tuple[str, ...], ...], output: str, watch: bool) -> None:
    """Show works. With NAME, also show its failures, their reasons, and its feedback values."""
    from muster.cli.clusteradm.listings import Question

    _show("works", Question((name,) if name else (), clusters=_flat(on)), output, watch)


@click.command(
    "addons",
    epilog=examples(
        "clusteradm get addons",
        "clusteradm get addons hello --clusters cluster1",
    ),
)
@click.argument("names", nargs=-1, shell_complete=objects(ADDONS))
@click.option(
    "-c",
    "--cluster",
    "--clusters",
    "on",
    type=Names(),
    multiple=True,
    shell_complete=objects(CLUSTERS),
    help="Names of the managed clusters, separated by commas.",
)
@_listed
@connected
def addons(names: tuple[str, ...], on: tuple[tuple[str, ...], ...], output: str, watch: bool) -> None:
    """Show add-ons: their conditions on each cluster, and what is missing if they are not available."""
    from muster.cli.clusteradm.listings import Question

    _show("addons", Question(names, clusters=_flat(on)), output, watch)


PLACEMENT_EXAMPLES = examples(
    "clusteradm get placements -n apps -o table",
    "clusteradm get placements web -n apps --explain",
    "clusteradm get placements --explain -f placement.yaml",
)


@click.command("placements", epilog=PLACEMENT_EXAMPLES)
@click.argument("name", required=False, shell_complete=objects(PLACEMENTS))
@click.option(
    "-n", "--namespace", default="", help="Namespace of the placements.  [default: all namespaces; with --explain: default]"
)
@click.option("--explain", is_flag=True, help="Explain for every cluster why it was selected or not.")
@click.option("-f", "--filename", help="File with a placement to explain without creating it, or - for standard input.")
@_listed
@connected
def placements(name: str | None, namespace: str, explain: bool, filename: str | None, output: str, watch: bool) -> None:
    """Show placements, their conditions and the clusters they select."""
    from muster.cli.clusteradm.listings import Question

    if explain or filename:
        from muster.cli.clusteradm import placement

        if bool(name) == bool(filename) or not explain or watch:
            raise click.UsageError("--explain: give the NAME of a placement or a file with -f, and no --watch")
        placement.explain(name, namespace, filename, output)
        return

    _show("placements", Question((name,) if name else (), namespace=namespace), output, watch)


@click.command("clustersets", epilog=examples("clusteradm get clustersets -o table"))
@click.argument("names", nargs=-1, shell_complete=objects(SETS))
@_listed
@connected
def cluster_sets(names: tuple[str, ...], output: str, watch: bool) -> None:
    """Show cluster sets."""
    from muster.cli.clusteradm.listings import Question

    _show("clustersets", Question(names), output, watch)


def _flat(given: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
    return tuple(name for group in given for name in group)


def _show(kind: str, question: Question, output: str, watch: bool) -> None:
    if watch and output not in ("tree", "table", WIDE):
        raise click.UsageError(f"--watch: shows a table; it cannot be combined with -o {output}")
    named = kind == "works" and bool(question.names)
    shown = "table" if watch and output == "tree" and not named else output
    administer(lambda session: _run(session, kind, question, shown, watch), machine=True)


async def _run(session: Session, kind: str, question: Question, output: str, watch: bool) -> None:
    from muster.administration.content.works import require_cluster
    from muster.administration.errors import AdministrationError
    from muster.administration.hubs import require_hub
    from muster.cli.clusteradm import listings
    from muster.runtime.client import Forbidden

    await require_hub(session.client)
    collect = listings.COLLECTORS[kind]
    try:
        found = await collect(session.client, question)
    except Forbidden as error:
        if kind != "works" or question.clusters:
            raise
        raise AdministrationError(str(error), "name the clusters whose works you may see with --clusters") from None
    known = {str(item.cells[0]) for item in found.items}
    missing = [name for name in question.names if name not in known]
    if missing and not watch:
        raise AdministrationError(f"there is no {found.kind} {', '.join(missing)}", f"see get {kind}")
    if kind == "works":
        namespaces = {item.document["metadata"]["namespace"] for item in found.items}
        for cluster in question.clusters:
            if cluster not in namespaces:
                await require_cluster(session.client, cluster)
    show(found, output)
    if watch:
        await _follow(session, kind, question, output, collect, found)


async def _follow(session: Session, kind: str, question: Question, output: str, collect: Collect, shown: Listing) -> None:
    """Print changes until interrupted. Changes that arrive together are printed together."""
    import asyncio

    from muster.cli.clusteradm import listings

    known = shown
    stirred = asyncio.Event()
    try:
        async with asyncio.TaskGroup() as watches:
            for resource in listings.WATCHED[kind]:
                for namespace in question.places if resource.namespaced else ("",):
                    watches.create_task(_watch(session, resource, namespace, stirred))
            while True:
                await stirred.wait()
                stirred.clear()
                now = await collect(session.client, question)
                if lines := news(known, now, output):
                    echo(lines)
                known = now
    except ExceptionGroup as group:
        # An error of one task is the error of the command.
        raise group.exceptions[0] from None


async def _watch(session: Session, resource: GVR, namespace: str, stirred: asyncio.Event) -> None:
    from muster.runtime.client import Expired

    while True:
        try:
            async for event in session.client.watch(resource, namespace):
                if event.type != "BOOKMARK":
                    stirred.set()
        except Expired:
            continue


@click.command(
    "token",
    epilog=examples(
        "clusteradm get token",
        "clusteradm get token --use-bootstrap-token",
    ),
)
@click.option(
    "--use-bootstrap-token", is_flag=True, help="Show the bootstrap token that clusteradm init created, which does not expire."
)
@click.option(
    "--cluster-name", "cluster", default="", help="Name of the only cluster that may register with the token (gRPC only)."
)
@click.option("--output-file", type=click.Path(dir_okay=False), help="File to which the token is also written.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Output format of the token and command.",
)
@connected
def token(use_bootstrap_token: bool, cluster: str, output_file: str | None, output: str) -> None:
    """Show a bootstrap token, and the command with which clusters join."""
    from muster.cli.clusteradm.init import access_json, join_commands, pending_remark

    if use_bootstrap_token and cluster:
        raise click.UsageError("--use-bootstrap-token: it is good for every cluster; it cannot be combined with --cluster-name")
    hub = administer(lambda session: _token(session, use_bootstrap_token, cluster), machine=output == "json")
    if output_file:
        write_file(output_file, f"{hub.token}\n", "--output-file")
    remark = pending_remark(hub)
    if output == "json":
        echo(access_json(hub))
        if remark:
            echo(remark, err=True)
        return
    echo(f"token={hub.token}")
    (_, usual), *others = join_commands(hub)
    name = hub.cluster or "<cluster_name>"
    echo(f"please log on spoke and run:\n{usual} --cluster-name {name}")
    for caption, command in others:
        echo(f"or, {caption}:\n{command} --cluster-name {name}")
    if remark:
        echo(remark)


async def _token(session: Session, use_bootstrap_token: bool, cluster: str) -> Initialized:
    from muster.administration.hub.initialize import access
    from muster.administration.hubs import HubAddress

    address = HubAddress.of(session.config)
    return await access(session.client, address, use_bootstrap_token=use_bootstrap_token, cluster=cluster)
