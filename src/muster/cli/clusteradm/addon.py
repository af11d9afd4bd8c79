"""`clusteradm addon`: switch addons of clusters on and off, and see which there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from muster.cli.clusteradm.bundling import flat
from muster.cli.connection import Session, administer, connected, explain, write_resources
from muster.cli.console import echo_error
from muster.cli.output import format_option, show
from muster.cli.values import Names, Pairs

if TYPE_CHECKING:
    from muster.administration.content.addons import Outcome

_NAMES = click.option("--names", "--name", "names", type=Names(), multiple=True, help="Of addons.")
_CLUSTERS = click.option("-c", "--cluster", "--clusters", "clusters", type=Names(), multiple=True, help="Names of the clusters.")


@click.group("addon")
@connected
def command() -> None:
    """Switch addons of clusters on and off, and see which there are."""


@command.command("enable")
@_NAMES
@_CLUSTERS
@click.option("-n", "--namespace", default="open-cluster-management-agent-addon", show_default=True, help="Of the addon's agent.")
@click.option("--annotate", "annotations", type=Pairs(), multiple=True, help="Annotations of the ManagedClusterAddOn.")
@click.option("--labels", type=Pairs(), multiple=True, help="Labels of the ManagedClusterAddOn.")
@click.option("--config-file", "configs", multiple=True, help="Configuration objects for the addon (repeatable).")
@click.option("--output-file", type=click.Path(dir_okay=False), help="Also write all that is applied to this file.")
@connected
def enable(**given: Any) -> None:
    """Enable addons on clusters."""
    names, clusters = _chosen(given)
    if not clusters:
        raise click.UsageError("--clusters: name at least one cluster")
    _end(administer(lambda session: _enable(session, names, clusters, given)))


async def _enable(session: Session, names: list[str], clusters: list[str], given: dict[str, Any]) -> list[Outcome]:
    from muster.administration.content.addons import AddonSettings
    from muster.administration.content.addons import enable as enable_addons
    from muster.administration.content.manifests import read_manifests
    from muster.administration.hubs import require_hub

    configs = tuple(read_manifests(given["configs"])) if given["configs"] else ()
    settings = AddonSettings(given["namespace"], dict(flat(given["annotations"])), dict(flat(given["labels"])), configs)
    await require_hub(session.client)
    outcomes = await enable_addons(session.client, names, clusters, settings)
    for one in outcomes:
        text = f"Deploying {one.addon} add-on to namespaces {settings.namespace} of managed cluster: {one.cluster}."
        _tell(session, one, text)
    if given["output_file"]:
        write_resources(given["output_file"], session.journal)
    return outcomes


@command.command("disable")
@_NAMES
@_CLUSTERS
@click.option("--all-clusters", type=bool, is_flag=False, flag_value=True, default=False, help="On every cluster there is.")
@connected
def disable(**given: Any) -> None:
    """Disable addons on clusters."""
    names, clusters = _chosen(given)
    if bool(clusters) == given["all_clusters"]:
        raise click.UsageError("give either --clusters or --all-clusters")
    _end(administer(lambda session: _disable(session, names, clusters)))


async def _disable(session: Session, names: list[str], clusters: list[str]) -> list[Outcome]:
    from muster.administration.content.addons import all_clusters
    from muster.administration.content.addons import disable as disable_addons
    from muster.administration.hubs import require_hub

    await require_hub(session.client)
    outcomes = await disable_addons(session.client, names, clusters or await all_clusters(session.client))
    for one in outcomes:
        if one.there:
            _tell(session, one, f"Undeploying {one.addon} add-on in managed cluster: {one.cluster}.")
        elif clusters:
            session.progress.say(f"{one.addon} add-on not found in cluster: {one.cluster}.")
    return outcomes


@command.command("list")
@_CLUSTERS
@format_option()
@connected
def list_addons(clusters: tuple[tuple[str, ...], ...], output: str) -> None:
    """Show which addons there are, and on which clusters."""
    administer(lambda session: _list(session, flat(clusters), output), machine=True)


async def _list(session: Session, clusters: tuple[str, ...], output: str) -> None:
    from muster.administration.hubs import require_hub
    from muster.cli.clusteradm.listings import Question, addons

    await require_hub(session.client)
    show(await addons(session.client, Question(clusters=clusters)), output)


def _chosen(given: dict[str, Any]) -> tuple[list[str], list[str]]:
    names, clusters = (list(dict.fromkeys(flat(given[part]))) for part in ("names", "clusters"))
    if not names:
        raise click.UsageError("--names: name at least one addon")
    return names, clusters


def _tell(session: Session, outcome: Outcome, text: str) -> None:
    if outcome.error is not None:
        echo_error(f"{outcome.addon} add-on of cluster {outcome.cluster}: {explain(outcome.error)}")
    else:
        session.progress.say(text)


def _end(outcomes: list[Outcome]) -> None:
    if any(one.error for one in outcomes):
        raise SystemExit(1)
