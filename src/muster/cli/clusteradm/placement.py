"""`clusteradm create placement`, `delete placement`, and the explanation that `get placements --explain` shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from muster.cli.connection import Session, administer, connected
from muster.cli.console import echo
from muster.cli.values import Names

if TYPE_CHECKING:
    from muster.administration.content.placements import Explanation

EXAMPLES = """\b
Examples:
  clusteradm create placement web --clustersets prod --label-selectors region=east --count 3
  clusteradm create placement busy --prioritizers BuiltIn:Steady:3 --prioritizers AddOn:usage:cpu:1"""


@click.command("placement", epilog=EXAMPLES)
@click.argument("name")
@click.option("-n", "--namespace", default="default", show_default=True, help="Where it is.")
@click.option("--clustersets", type=Names(), multiple=True, help="Sets to choose from.  [default: all that are bound there]")
@click.option("--label-selectors", multiple=True, help="Labels of the clusters. Repeatable: one selector of several is enough.")
@click.option("--count", type=click.IntRange(0), help="How many clusters.  [default: all]")
@click.option(
    "--prioritizers",
    type=Names(),
    multiple=True,
    help="By what to rank: BuiltIn:<Name>:<weight>, AddOn:<resource>:<score>:<weight>.",
)
@click.option("--overwrite", is_flag=True, help="Change one that is there.")
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
    """Create a placement, which chooses clusters."""
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
        session.progress.say(await placements.create(session.client, name, namespace, options, overwrite=overwrite))

    administer(work)


@click.command("placement")
@click.argument("name")
@click.option("-n", "--namespace", default="default", show_default=True, help="Where it is.")
@connected
def delete(name: str, namespace: str) -> None:
    """Delete a placement; what stands on its decisions decides what becomes of that."""
    from muster.administration.content import placements

    async def work(session: Session) -> None:
        from muster.administration.hubs import require_hub

        await require_hub(session.client)
        session.progress.say(await placements.delete(session.client, name, namespace))

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
        rows = [(one.cluster, one.outcome, "" if one.score is None else one.score, one.reason) for one in found.verdicts]
        for condition in (found.choice.satisfied, found.choice.misconfigured):
            echo(f"{condition.type}: {condition.status} {condition.reason}: {condition.message}")
        for warning in found.choice.warnings:
            echo(f"warning: {warning}")
        echo(table(("Cluster", "Outcome", "Score", "Why"), rows))
    for kind in found.unseen:
        echo(f"you may not list {kind}: what they say is left out, and may change the answer", err=True)
