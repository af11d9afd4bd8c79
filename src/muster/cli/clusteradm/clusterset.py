"""`clusteradm clusterset`: creates and deletes cluster sets, assigns clusters, and binds sets to namespaces."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import click

from muster.cli.connection import Session, administer, connected
from muster.cli.examples import examples
from muster.cli.lazy import SuggestingGroup
from muster.cli.name_completion import CLUSTERS, SETS, objects
from muster.cli.values import Names

if TYPE_CHECKING:
    from muster.runtime.client import KubeClient


@click.group("clusterset", cls=SuggestingGroup)
@connected
def command() -> None:
    """Manage cluster sets."""


def _do(work: Callable[[KubeClient], Awaitable[str | list[str]]]) -> None:
    async def in_session(session: Session) -> None:
        from muster.administration.hubs import require_hub

        await require_hub(session.client)
        given_terms = await work(session.client)
        for line in [given_terms] if isinstance(given_terms, str) else given_terms:
            session.progress.info(line)

    administer(in_session)


@command.command("create", epilog=examples("clusteradm clusterset create prod"))
@click.argument("name")
@connected
def create(name: str) -> None:
    """Create a cluster set."""
    from muster.administration.content import clustersets

    _do(lambda client: clustersets.create(client, name))


@command.command("delete", epilog=examples("clusteradm clusterset delete prod"))
@click.argument("name", shell_complete=objects(SETS))
@connected
def delete(name: str) -> None:
    """Delete a cluster set, which must not be bound to a namespace."""
    from muster.administration.content import clustersets

    _do(lambda client: clustersets.delete(client, name))


@command.command("bind", epilog=examples("clusteradm clusterset bind prod --namespace apps"))
@click.argument("name", shell_complete=objects(SETS))
@click.option("--namespace", default="default", show_default=True, help="Namespace to bind the cluster set to.")
@connected
def bind(name: str, namespace: str) -> None:
    """Bind a cluster set to a namespace."""
    from muster.administration.content import clustersets

    _do(lambda client: clustersets.bind(client, name, _named(namespace)))


@command.command("unbind", epilog=examples("clusteradm clusterset unbind prod --namespace apps"))
@click.argument("name", shell_complete=objects(SETS))
@click.option("--namespace", default="default", show_default=True, help="Namespace to unbind the cluster set from.")
@connected
def unbind(name: str, namespace: str) -> None:
    """Unbind a cluster set from a namespace."""
    from muster.administration.content import clustersets

    _do(lambda client: clustersets.unbind(client, name, _named(namespace)))


def _named(namespace: str) -> str:
    if not namespace:
        raise click.UsageError("--namespace: namespace name must be specified in --namespace")
    return namespace


@command.command(
    "set",
    epilog=examples(
        "clusteradm clusterset set prod --clusters cluster1,cluster2",
        "clusteradm clusterset set prod --namespaces web,db",
    ),
)
@click.argument("name", shell_complete=objects(SETS))
@click.option(
    "--clusters",
    type=Names(),
    multiple=True,
    shell_complete=objects(CLUSTERS),
    help="Names of the clusters to add to the set, separated by commas.",
)
@click.option(
    "--namespaces", type=Names(), multiple=True, help="Namespaces to create on every cluster of the set, separated by commas."
)
@connected
def set_(name: str, clusters: tuple[tuple[str, ...], ...], namespaces: tuple[tuple[str, ...], ...]) -> None:
    """Add clusters to a set, or create namespaces on its clusters."""
    from muster.administration.content import clustersets

    members = [one for group in clusters for one in group]
    managed = [one for group in namespaces for one in group]
    if not members and not managed:
        raise click.UsageError("at least one cluster (--clusters) or namespace (--namespaces) must be specified")

    async def both(client: KubeClient) -> list[str]:
        given_terms = await clustersets.set_clusters(client, name, members) if members else []
        return given_terms + (await clustersets.add_namespaces(client, name, managed) if managed else [])

    _do(both)
