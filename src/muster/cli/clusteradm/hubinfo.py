"""`clusteradm get hub-info` and `klusterlet-info`: the operator, its CRDs and components, and their pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from muster.cli.connection import Session, administer, connected
from muster.cli.console import echo
from muster.cli.examples import examples
from muster.cli.output import LISTINGS, NAME, WIDE, document, format_option, table, tree
from muster.machinery.printable import one_line

if TYPE_CHECKING:
    from muster.administration.hubinfo import HubInfo


@click.command("hub-info", epilog=examples("clusteradm get hub-info", "clusteradm get hub-info -o wide"))
@format_option(*LISTINGS)
@connected
def command(output: str) -> None:
    """Show the components of the hub and their status."""

    async def read(session: Session) -> HubInfo:
        from muster.administration.hubinfo import hub_info

        return await hub_info(session.client)

    _show("Hub", administer(read, machine=True), output)


@click.command(
    "klusterlet-info",
    epilog=examples(
        "clusteradm get klusterlet-info",
        "clusteradm get klusterlet-info klusterlet -o yaml",
    ),
)
@click.argument("name", default="klusterlet")
@format_option(*LISTINGS)
@connected
def klusterlet(name: str, output: str) -> None:
    """Show the components of a Klusterlet (NAME, by default klusterlet) and their status."""

    async def read(session: Session) -> HubInfo:
        from muster.administration.hubinfo import klusterlet_info

        return await klusterlet_info(session.client, name)

    _show("Klusterlet", administer(read, machine=True), output)


def _show(what: str, found: HubInfo, output: str) -> None:
    if output in ("json", "yaml"):
        from dataclasses import asdict

        echo(document(asdict(found), output))
    elif output == NAME:
        # Without components there is not even an empty line.
        for one in (*found.operator, *(one for ones in found.components.values() for one in ones)):
            echo(f"deployment.apps/{one_line(one.name)}")
    elif output in ("table", WIDE):
        more = ("Namespace",) if output == WIDE else ()
        columns = ("Part", "Component", "Pods", "Image", *more)
        echo(table(columns, [row[: len(columns)] for row in _rows(found)]))
    else:
        echo(tree(what, _branches(found)))


def _rows(found: HubInfo) -> list[tuple[str, ...]]:
    parts = {"Registration Operator": found.operator, **found.components}
    return [(part, one.name, one.pods, one.image, one.namespace) for part, deployments in parts.items() for one in deployments]


def _branches(found: HubInfo) -> dict[str, Any]:
    parts: dict[str, Any] = {
        part: {one.name: f"({one.pods}) {one.image}" for one in deployments} for part, deployments in found.components.items()
    }
    if found.definitions:
        parts["CustomResourceDefinition"] = dict(found.definitions)
    branches: dict[str, Any] = {
        "Registration Operator": {one.name: f"({one.pods}) {one.image}" for one in found.operator} or "<none>",
        "Components": parts or "<uninstalled>",
    }
    if found.drivers:
        branches["Registration Drivers"] = {name: called or "enabled" for name, called in found.drivers.items()}
    if found.key:
        branches["Key"] = found.key
    if found.problem:
        branches["Problem"] = found.problem
    return branches
