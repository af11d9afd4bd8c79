"""`clusteradm create placement`, `delete placement`, and the explanation of `get placements --explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from muster.cli.connection import Session, administer, connected
from muster.cli.console import echo
from muster.cli.examples import examples
from muster.cli.name_completion import PLACEMENTS, objects
from muster.cli.values import Names

if TYPE_CHECKING:
    from muster.administration.content.placements import Explanation

EXAMPLES = examples(
    "clusteradm create placement web --clustersets prod --label-selectors region=east --count 3",
    "clusteradm create placement busy --prioritizers BuiltIn:Steady:3 --prioritizers AddOn:usage:cpu:1",
)


@click.command("placement", epilog=EXAMPLES)
@click.argument("name")
@click.option("-n", "--namespace", default="default", show_default=True, help="Namespace of the placement.")
@click.option(
    "--clustersets", type=Names(), multiple=True, help="Cluster sets to select from.  [default: all sets bound to the namespace]"
)
@click.option(
    "--label-selectors", multiple=True, help="Label selector of the clusters. Repeatable: a cluster must match one of them."
)
@click.option("--count", type=click.IntRange(0), help="Number of clusters to select.  [default: all]")
@click.option(
    "--prioritizers",
    type=Names(),
    multiple=True,
    help="Prioritizers that rank clusters: BuiltIn:<name>:<weight> or AddOn:<resource>:<score>:<weight>.",
)
@click.option("--overwrite", is_flag=True, help="Update the placement if it already exists.")
@connected
def create(
    name: str,
    namespace: str,
    clustersets: tuple[tuple[str, ...], ...],
    label_selectors: tuple[str, ...],
    count: int | None,
    prioritizers: tuple[tuple[str, ...], ...],
    overwrite: bool,
) -> None:
    """Create a placement, which selects clusters."""
    from muster.administration.content import placements

    options = placements.PlacementOptions(
        tuple(one for group in clustersets for one in group),
        label_selectors,
        count,
        tuple(one for group in prioritizers for one in group),
    )

    async def work(session: Session) -> None:
        from muster.administration.hubs import require_hub

        await require_hub(session.client)
        session.progress.info(await placements.create(session.client, name, namespace, options, overwrite=overwrite))

    administer(work)


@click.command("placement", epilog=examples("clusteradm delete placement web --namespace apps"))
@click.argument("name", shell_complete=objects(PLACEMENTS))
@click.option("-n", "--namespace", default="default", show_default=True, help="Namespace of the placement.")
@connected
def delete(name: str, namespace: str) -> None:
    """Delete a placement. Add-ons and works that refer to it handle its absence by their own rules."""
    from muster.administration.content import placements

    async def work(session: Session) -> None:
        from muster.administration.hubs import require_hub

        await require_hub(session.client)
        session.progress.info(await placements.delete(session.client, name, namespace))

    administer(work)


def explain(name: str | None, namespace: str, filename: str | None, output: str) -> None:
    """Show which clusters a placement chooses, and why the others are left out."""
    from muster.administration.content import placements

    async def work(session: Session) -> Explanation:
        from muster.administration.hubs import require_hub

        await require_hub(session.client)
        if filename:
            placement = placements.read_placement(filename, namespace or "default")
        else:
            placement = await placements.get_placement(session.client, name or "", namespace or "default")
        return await placements.explain(session.client, placement)

    _show(administer(work, machine=True), output)


def _show(found: Explanation, output: str) -> None:
    from muster.cli.output import document, table
    from muster.placement.explanation import debug_document

    if output in ("json", "yaml"):
        echo(document(debug_document(found.placement, found.choice), output))
    else:
        rows = [
            (verdict.cluster, verdict.outcome, "" if verdict.score is None else verdict.score, verdict.reason)
            for verdict in found.verdicts
        ]
        for condition in (found.choice.satisfied, found.choice.misconfigured):
            echo(f"{condition.type}: {condition.status} {condition.reason}: {condition.message}")
        for warning in found.choice.warnings:
            echo(f"warning: {warning}")
        echo(table(("Cluster", "Outcome", "Score", "Why"), rows))
    for kind in found.unseen:
        echo(f"you may not list {kind}: they are left out, which may change the answer", err=True)
