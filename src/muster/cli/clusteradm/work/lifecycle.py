"""`clusteradm create work` and `clusteradm delete work`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from muster.cli.clusteradm.bundle_flags import flat
from muster.cli.clusteradm.work.terms import given_terms, term_options
from muster.cli.connection import Session, administer, connected, explain
from muster.cli.console import echo_error
from muster.cli.examples import examples
from muster.cli.name_completion import CLUSTERS, WORKS, objects
from muster.cli.values import Files, Names

if TYPE_CHECKING:
    from muster.administration.content.works import WorkResult

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


CREATE_EXAMPLES = examples(
    "clusteradm create work web -f web.yaml --clusters cluster1,cluster2 --wait",
    "clusteradm create work web -f web/ --recursive --clusters cluster1 --overwrite",
    "clusteradm create work web -f web.yaml --clusters cluster1 --executor shop/deployer",
    "clusteradm create work web -f web.yaml --placement default/near --replicaset",
)
DELETE_EXAMPLES = examples(
    "clusteradm delete work web --clusters cluster1,cluster2 --wait",
    "clusteradm delete work web --replicaset default",
)


@click.command("work", epilog=CREATE_EXAMPLES)
@click.argument("name")
@click.option(
    "-f",
    "--filename",
    "files",
    type=Files(),
    multiple=True,
    help="File or directory with manifests, or - for standard input. Repeatable.",
)
@click.option("-R", "--recursive", is_flag=True, help="Process the directories given with -f recursively.")
@_CLUSTERS
@click.option("--placement", default="", help="Placement (namespace/name) that has selected the clusters.")
@click.option("--overwrite", is_flag=True, help="Replace the manifests of the work if it already exists.")
@click.option("-r", "--replicaset", is_flag=True, help="Create a ManifestWorkReplicaSet, which follows the Placement's decisions.")
@term_options
@click.option("--wait", is_flag=True, help="Wait until all manifests are applied and available.")
@connected
def create(name: str, **given: Any) -> None:
    """Create the work NAME on clusters from files with manifests."""
    names = list(dict.fromkeys(flat(given["clusters"])))
    if not given["files"]:
        raise click.UsageError("--filename: name at least one file")
    if bool(names) == bool(given["placement"]):
        raise click.UsageError("give either --clusters or --placement")
    if given["replicaset"] and not given["placement"]:
        raise click.UsageError("--replicaset: needs --placement")
    if given["replicaset"] and given["wait"]:
        raise click.UsageError("--wait: not with --replicaset, whose works the hub makes")
    _exit(administer(lambda session: _create(session, name, names, given)))


async def _create(session: Session, name: str, clusters: list[str], given: dict[str, Any]) -> list[WorkResult]:
    from muster.administration.content.manifests import is_work, read_manifests
    from muster.administration.content.terms import spec_parts
    from muster.administration.content.works import (
        Done,
        await_works,
        chosen_clusters,
        create_replica_set,
        create_works,
        parse_placement,
    )
    from muster.administration.errors import AdministrationError
    from muster.administration.hubs import require_hub

    manifests = read_manifests(flat(given["files"]), recursive=given["recursive"])
    if any(map(is_work, manifests)):
        # a hub may be a managed cluster of another hub
        inside = f"work {name} would bring a ManifestWork, which only hubs know"
        session.progress.warn(f"{inside}; if that is the work itself, make it with kubectl apply")
    placement, overwrite = given["placement"], given["overwrite"]
    key = parse_placement(placement) if placement else None
    terms = given_terms(given)
    client = session.client
    await require_hub(client)
    parts = await spec_parts(client, terms, manifests)
    if key is not None and given["replicaset"]:
        results = [await create_replica_set(client, name, manifests, key, overwrite=overwrite, parts=parts)]
        _print_results(session, name, results, "namespace")
        return results
    if key is not None:
        clusters = await chosen_clusters(client, key)
    results = await create_works(client, name, manifests, clusters, placement=key, overwrite=overwrite, parts=parts)
    _print_results(session, name, results)
    placed = [one.target for one in results if one.done in (Done.CREATED, Done.UPDATED, Done.UNCHANGED)]
    if given["wait"] and placed:
        await await_works(client, name, placed, within=session.timeout, progress=session.progress)
        session.finished(f"work {name} is applied and available in {', '.join(placed)}")
    if key is not None and not clusters:
        remedy = f"see why with get placements {key.name} --namespace {key.namespace} --explain, or have the hub wait: --replicaset"
        raise AdministrationError(f"Placement {placement} has chosen no cluster, so there is no work {name}", remedy)
    return results


@click.command("work", epilog=DELETE_EXAMPLES)
@click.argument("name", shell_complete=objects(WORKS))
@_CLUSTERS
@click.option("-r", "--replicaset", default="", metavar="NAMESPACE", help="Namespace of the ManifestWorkReplicaSet to delete.")
@click.option(
    "--force", is_flag=True, help="Remove the finalizers instead of waiting for the agents; applied objects stay on the clusters."
)
@click.option("--wait", is_flag=True, help="Wait until the works are gone.")
@connected
def delete(name: str, clusters: tuple[tuple[str, ...], ...], replicaset: str, force: bool, wait: bool) -> None:
    """Delete the work NAME and the objects it has applied."""
    names = list(dict.fromkeys(flat(clusters)))
    if bool(names) == bool(replicaset):
        raise click.UsageError("give either --clusters or --replicaset")
    if replicaset and (force or wait):
        raise click.UsageError("--force and --wait: not with --replicaset")
    _exit(administer(lambda session: _delete(session, name, names, replicaset, force, wait)))


async def _delete(session: Session, name: str, clusters: list[str], namespace: str, force: bool, wait: bool) -> list[WorkResult]:
    from muster.administration.content.works import Done, await_works_gone, delete_replica_set, delete_works
    from muster.administration.hubs import require_hub

    await require_hub(session.client)
    if namespace:
        results = [await delete_replica_set(session.client, name, namespace)]
        _print_results(session, name, results, "namespace")
        return results
    results = await delete_works(session.client, name, clusters, force=force)
    _print_results(session, name, results)
    going = [one.target for one in results if one.done is Done.DELETED]
    if wait and going:
        await await_works_gone(session.client, name, going, within=session.timeout, progress=session.progress)
        session.finished(f"work {name} is gone from {', '.join(going)}")
    return results


def _print_results(session: Session, name: str, results: list[WorkResult], kind: str = "cluster") -> None:
    from muster.administration.content.works import Done

    for one in results:
        if one.error is not None:
            echo_error(f"{kind} {one.target}: {explain(one.error)}")
        elif one.done is Done.MISSING:
            session.progress.info(f"work {name} not found in {kind} {one.target}")
        elif one.done is Done.UNCHANGED:
            session.progress.info(f"work {name} in {kind} {one.target} is as it should be")
        else:
            session.progress.info(f"{one.done.value} work {name} in {kind} {one.target}")


def _exit(results: list[WorkResult]) -> None:
    from muster.administration.content.works import Done

    if any(one.done is Done.FAILED for one in results):
        raise SystemExit(1)
