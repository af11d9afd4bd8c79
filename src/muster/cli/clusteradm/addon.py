"""`clusteradm addon`: creates addons from manifests, and enables, disables and lists them on clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from muster.cli.clusteradm.bundle_flags import flat
from muster.cli.connection import Session, administer, connected, explain, write_resources
from muster.cli.console import echo, echo_error
from muster.cli.examples import examples
from muster.cli.lazy import SuggestingGroup
from muster.cli.name_completion import ADDONS, CLUSTERS, PLACEMENTS, objects
from muster.cli.output import document, format_option, listing_options, show
from muster.cli.values import Files, Names, Pairs

if TYPE_CHECKING:
    from muster.administration.content.addons import AddonResult

NAMESPACE = "open-cluster-management-agent-addon"
_NAMES = click.option(
    "--names",
    "--name",
    "names",
    type=Names(),
    multiple=True,
    shell_complete=objects(ADDONS),
    help="Names of the add-ons, separated by commas.",
)
_PLACEMENT = click.option(
    "--placement",
    default="",
    metavar="NAMESPACE/NAME",
    shell_complete=objects(PLACEMENTS, namespaced=True),
    help="Placement that selects the clusters.",
)
_CLUSTERS = click.option(
    "-c",
    "--cluster",
    "--clusters",
    "clusters",
    type=Names(),
    multiple=True,
    shell_complete=objects(CLUSTERS),
    help="Names of the managed clusters, separated by commas.",
)


@click.group("addon", cls=SuggestingGroup)
@connected
def command() -> None:
    """Create, enable, disable and list add-ons."""


CREATING = examples(
    "clusteradm addon create hello -f deployment.yaml",
    "clusteradm addon create hello -f manifests/ --placement-ref default/all",
    "clusteradm addon create hello -f manifests/ --version 0.0.2 --overwrite",
)


@command.command("create", epilog=CREATING)
@click.argument("name")
@click.option(
    "-f",
    "--filename",
    "files",
    type=Files(),
    multiple=True,
    required=True,
    help="File or directory with manifests, or - for standard input. Repeatable.",
)
@click.option("-R", "--recursive", is_flag=True, help="Process the directories given with -f recursively.")
@click.option(
    "--version", default="0.0.1", show_default=True, help="Version of the add-on; its AddOnTemplate is named <name>-<version>."
)
@click.option("--overwrite", is_flag=True, help="Update the add-on if it already exists.")
@click.option(
    "--hub-registration", is_flag=True, help="Enable registration of the add-on's agent with the hub, with a credential of its own."
)
@click.option(
    "--cluster-role-bind",
    "cluster_role",
    default="",
    help="ClusterRole bound to the add-on's agent in the namespace of its cluster on the hub.",
)
@click.option("--labels", type=Pairs(), multiple=True, help="Labels of the ClusterManagementAddOn and the AddOnTemplate.")
@click.option(
    "--placement-ref",
    default="",
    metavar="NAMESPACE/NAME",
    help="Placement that selects the clusters on which the add-on is installed.",
)
@format_option("text", "json", "yaml", default="text")
@connected
def create(**given: Any) -> None:
    """Create the add-on NAME from manifests."""
    administer(lambda session: _create(session, given), machine=given["output"] != "text")


async def _create(session: Session, given: dict[str, Any]) -> None:
    from muster.administration.content import addon_placements, addon_templates
    from muster.administration.content.manifests import read_manifests
    from muster.administration.hubs import require_hub

    reference, output = given["placement_ref"], given["output"]
    draft = addon_templates.AddonDraft(
        given["name"],
        given["version"],
        read_manifests(flat(given["files"]), recursive=given["recursive"]),
        given["hub_registration"],
        given["cluster_role"],
        dict(flat(given["labels"])),
        addon_placements.parse_reference(reference, "--placement-ref") if reference else None,
    )
    await require_hub(session.client)
    messages = await addon_templates.create(session.client, draft, overwrite=given["overwrite"])
    if output == "text":
        for line in messages:
            session.progress.info(line)
    else:
        echo(document({"apiVersion": "v1", "kind": "List", "items": [draft.template(), draft.definition()]}, output))
    if draft.cluster_role and (warning := await addon_templates.role_warning(session.client, draft.cluster_role)):
        session.progress.warn(warning)
    if draft.placement is not None and (warning := await addon_placements.offline_warning(session.client, draft.placement)):
        session.progress.warn(warning)


@command.command(
    "enable",
    epilog=examples(
        "clusteradm addon enable --names hello --clusters cluster1,cluster2 --wait",
        "clusteradm addon enable --names hello --placement default/all",
    ),
)
@_NAMES
@_CLUSTERS
@_PLACEMENT
@click.option(
    "-n", "--namespace", default=NAMESPACE, show_default=True, help="Namespace of the add-on's agent on the managed clusters."
)
@click.option(
    "--annotate", "annotations", type=Pairs(), multiple=True, help="Annotations of the ManagedClusterAddOn, as key=value pairs."
)
@click.option("--labels", type=Pairs(), multiple=True, help="Labels of the ManagedClusterAddOn, as key=value pairs.")
@click.option("--config-file", "configs", multiple=True, help="File with configuration objects for the add-on. Repeatable.")
@click.option("--output-file", type=click.Path(dir_okay=False), help="File to which all applied objects are also written.")
@click.option("--wait", is_flag=True, help="Wait until the add-ons are available.")
@connected
def enable(**given: Any) -> None:
    """Enable add-ons on the given clusters, or on those that a placement selects."""
    names, clusters = _chosen(given)
    if given["placement"]:
        _refuse_with_placement(given, clusters)
        administer(lambda session: _enable_by_placement(session, names, given))
        return
    if not clusters:
        raise click.UsageError("--clusters: name at least one cluster, or a --placement")
    _end(administer(lambda session: _enable(session, names, clusters, given)))


def _refuse_with_placement(given: dict[str, Any], clusters: list[str]) -> None:
    if clusters or given.get("all_clusters"):
        raise click.UsageError("--placement: chooses the clusters; it cannot be combined with --clusters")
    of_each = {"--annotate": given.get("annotations"), "--labels": given.get("labels")}
    of_each["--namespace"] = given.get("namespace", NAMESPACE) != NAMESPACE
    if given_flags := [flag for flag, value in of_each.items() if value]:
        raise click.UsageError(f"--placement: the hub makes the addon on each cluster; it cannot be combined with {given_flags[0]}")


async def _enable_by_placement(session: Session, names: list[str], given: dict[str, Any]) -> None:
    from muster.administration.content.addon_placements import (
        await_enabled_by_placement,
        enable_by_placement,
        offline_warning,
        parse_reference,
    )
    from muster.administration.content.manifests import read_manifests
    from muster.administration.hubs import require_hub
    from muster.operator.hub_addons import with_required

    names = with_required(names)
    placement = parse_reference(given["placement"], "--placement")
    configs = read_manifests(given["configs"]) if given["configs"] else []
    await require_hub(session.client)
    for name, new in zip(names, await enable_by_placement(session.client, names, placement, configs), strict=True):
        done = "is installed" if new else "is installed already"
        session.progress.info(f"{name} add-on {done} on the clusters of Placement {placement}.")
    if warning := await offline_warning(session.client, placement):
        session.progress.warn(warning)
    if given["output_file"]:
        write_resources(given["output_file"], session.journal)
    if given["wait"]:
        await await_enabled_by_placement(session.client, names, placement, within=session.timeout, progress=session.progress)
        for name in names:
            session.finished(f"{name} add-on is available on the clusters of Placement {placement}.")


async def _enable(session: Session, names: list[str], clusters: list[str], given: dict[str, Any]) -> list[AddonResult]:
    from muster.administration.content.addon_placements import chooses_by_placement
    from muster.administration.content.addons import AddonSettings, await_enabled
    from muster.administration.content.addons import enable as enable_addons
    from muster.administration.content.manifests import read_manifests
    from muster.administration.hubs import require_hub
    from muster.api.addons import MANUAL_ANNOTATION

    configs = tuple(read_manifests(given["configs"])) if given["configs"] else ()
    settings = AddonSettings(given["namespace"], dict(flat(given["annotations"])), dict(flat(given["labels"])), configs)
    await require_hub(session.client)
    outcomes = await enable_addons(session.client, names, clusters, settings)
    for one in outcomes:
        text = f"Deploying {one.addon} add-on to namespaces {settings.namespace} of managed cluster: {one.cluster}."
        _report(session, one, text)
    for name in names:
        if MANUAL_ANNOTATION not in settings.annotations and await chooses_by_placement(session.client, name):
            text = f"placements select the clusters of {name}, and remove it from others"
            session.progress.warn(f"{text}; keep it with --annotate {MANUAL_ANNOTATION}=true")
    if given["output_file"]:
        write_resources(given["output_file"], session.journal)
    if given["wait"]:
        enabled = [outcome for outcome in outcomes if outcome.error is None]
        await await_enabled(session.client, enabled, within=session.timeout, progress=session.progress)
        for one in enabled:
            session.finished(f"{one.addon} add-on is available on managed cluster: {one.cluster}.")
    return outcomes


@command.command(
    "disable",
    epilog=examples(
        "clusteradm addon disable --names hello --clusters cluster1 --wait",
        "clusteradm addon disable --names hello --all-clusters",
    ),
)
@_NAMES
@_CLUSTERS
@_PLACEMENT
@click.option(
    "--all-clusters", type=bool, is_flag=False, flag_value=True, default=False, help="Disable the add-ons on all clusters."
)
@click.option("--wait", is_flag=True, help="Wait until the add-ons are removed from the clusters.")
@connected
def disable(**given: Any) -> None:
    """Disable add-ons on the given clusters, on all, or on those that a placement selects."""
    names, clusters = _chosen(given)
    if given["placement"]:
        _refuse_with_placement(given, clusters)
        administer(lambda session: _disable_by_placement(session, names, given["placement"], wait=given["wait"]))
        return
    if bool(clusters) == given["all_clusters"]:
        raise click.UsageError("give either --clusters or --all-clusters")
    _end(administer(lambda session: _disable(session, names, clusters, wait=given["wait"])))


async def _disable_by_placement(session: Session, names: list[str], reference: str, *, wait: bool) -> None:
    from muster.administration.content.addon_placements import (
        await_disabled_by_placement,
        disable_by_placement,
        parse_reference,
    )
    from muster.administration.hubs import require_hub

    placement = parse_reference(reference, "--placement")
    await require_hub(session.client)
    for name, was in zip(names, await disable_by_placement(session.client, names, placement), strict=True):
        done = "is removed from the clusters that only" if was else "is not installed by"
        session.progress.info(f"{name} add-on {done} Placement {placement}{' chose' if was else ''}.")
    if wait:
        await await_disabled_by_placement(session.client, names, placement, within=session.timeout, progress=session.progress)
        for name in names:
            session.finished(f"{name} add-on is gone from the clusters that only Placement {placement} chose.")


async def _disable(session: Session, names: list[str], clusters: list[str], *, wait: bool) -> list[AddonResult]:
    from muster.administration.content.addon_placements import chooses_by_placement
    from muster.administration.content.addons import all_clusters, await_disabled
    from muster.administration.content.addons import disable as disable_addons
    from muster.administration.hubs import require_hub

    await require_hub(session.client)
    outcomes = await disable_addons(session.client, names, clusters or await all_clusters(session.client))
    for one in outcomes:
        if one.there:
            _report(session, one, f"Undeploying {one.addon} add-on in managed cluster: {one.cluster}.")
        elif clusters:
            session.progress.info(f"{one.addon} add-on not found in cluster: {one.cluster}.")
    for name in names:
        if await chooses_by_placement(session.client, name):
            session.progress.warn(
                f"placements select the clusters of {name}, and install it again there; remove them with --placement"
            )
    if wait:
        gone = [outcome for outcome in outcomes if outcome.there and outcome.error is None]
        await await_disabled(session.client, gone, within=session.timeout, progress=session.progress)
        for one in gone:
            session.finished(f"{one.addon} add-on is gone from managed cluster: {one.cluster}.")
    return outcomes


@command.command(
    "list",
    epilog=examples(
        "clusteradm addon list",
        "clusteradm addon list -o table",
    ),
)
@_CLUSTERS
@listing_options
@connected
def list_addons(clusters: tuple[tuple[str, ...], ...], output: str) -> None:
    """List the available add-ons and the clusters they are enabled on."""
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


def _report(session: Session, outcome: AddonResult, text: str) -> None:
    if outcome.error is not None:
        echo_error(f"{outcome.addon} add-on of cluster {outcome.cluster}: {explain(outcome.error)}")
    else:
        session.progress.info(text)


def _end(outcomes: list[AddonResult]) -> None:
    if any(outcome.error for outcome in outcomes):
        raise SystemExit(1)
