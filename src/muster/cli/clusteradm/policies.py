"""`clusteradm get policies`: policies of the context's cluster, or of many clusters through the hub's gateway.

Policies without the policy framework have no status on the hub, so they are read on their clusters. A cluster that does not answer
does not delay the others: their policies are printed, and the cluster is named at the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from muster.cli.connection import Session, administer, connected
from muster.cli.examples import examples
from muster.cli.name_completion import CLUSTERS, objects
from muster.cli.output import Item, Listing, listing_options, show
from muster.cli.values import Names

if TYPE_CHECKING:
    from muster.administration.content.policies import PolicyView

EXAMPLES = examples(
    "clusteradm get policies --context cluster1 -o wide",
    "clusteradm get policies --clusters cluster1,cluster2 -o table",
    "clusteradm get policies --selector environment=prod --noncompliant",
)


@click.command("policies", epilog=EXAMPLES)
@click.argument("names", nargs=-1)
@click.option("-n", "--namespace", default="", help="Namespace of the policies.  [default: all]")
@click.option(
    "-c",
    "--cluster",
    "--clusters",
    "on",
    type=Names(),
    multiple=True,
    shell_complete=objects(CLUSTERS),
    help="Names of the managed clusters to query through the gateway, separated by commas.",
)
@click.option("-l", "--selector", default="", help="Label selector of the managed clusters to query through the gateway.")
@click.option("--noncompliant", is_flag=True, help="Show only policies that are not compliant.")
@listing_options
@connected
def command(
    names: tuple[str, ...], namespace: str, on: tuple[tuple[str, ...], ...], selector: str, noncompliant: bool, output: str
) -> None:
    """Show the policies of a cluster and whether it complies with them."""
    from muster.administration.errors import AdministrationError
    from muster.kube.selectors import SelectorError, parse_label_selector

    clusters = tuple(name for group in on for name in group)
    if clusters and selector:
        raise click.UsageError("--selector: it cannot be combined with --clusters")
    try:
        parse_label_selector(selector)
    except SelectorError as error:
        raise click.BadParameter(str(error), param_hint="--selector") from None
    wanted = frozenset(names)

    def chosen(policy: PolicyView) -> bool:
        return (not wanted or policy.name in wanted) and not (noncompliant and policy.compliant == "Compliant")

    async def read(session: Session) -> None:
        if clusters or selector:
            found, silent = await _of_many(session, clusters, selector, namespace)
        else:
            found, silent = await _of_one(session, namespace), []
        if not silent:
            _require(wanted, found)
        _print([one for one in found if chosen(one)], output, several=bool(clusters or selector))
        if silent:
            raise AdministrationError(f"not all clusters answer: {'; '.join(silent)}", "see gateway health, and doctor")

    administer(read, machine=True)


async def _of_one(session: Session, namespace: str) -> list[PolicyView]:
    from muster.administration.content.policies import policies_of
    from muster.administration.errors import AdministrationError

    found = await policies_of(session.client, namespace)
    if found is None:
        remedy = "enable config-policy-controller on it, or name clusters of a hub with --clusters or --selector"
        raise AdministrationError(f"{session.client.server} serves no policies", remedy)
    return found


async def _of_many(
    session: Session, clusters: tuple[str, ...], selector: str, namespace: str
) -> tuple[list[PolicyView], list[str]]:
    """The clusters' policies, and the errors of those that do not answer."""
    from muster.administration.content.policies import policies_through
    from muster.administration.gateway.clusters import choose, find_api
    from muster.gateway.client import fanout

    api = await find_api(session.client)
    names = await choose(session.client, api, names=clusters, selector=selector)

    async def read(cluster: str) -> list[PolicyView] | None:
        return await policies_through(session.client, api, cluster, namespace)

    answers = {one.cluster: one async for one in fanout(names, read, timeout=session.timeout, api=api)}
    found, silent = [], []
    for name in names:
        answer = answers[name]
        if answer.error is not None:
            silent.append(f"{name}: {answer.error or type(answer.error).__name__}")
        elif answer.value is None:
            session.progress.warn(f"{name} serves no policies: config-policy-controller is not enabled there")
        else:
            found += answer.value
    return found, silent


def _print(found: list[PolicyView], output: str, *, several: bool) -> None:
    columns = ("Name", *(("Cluster",) if several else ()), "Namespace", "Kind", "Action", "Compliant")
    show(Listing("Policy", columns, [_item(one, several) for one in found], ("Message",)), output)


def _item(policy: PolicyView, several: bool) -> Item:
    where = "/".join(filter(None, (policy.cluster, policy.namespace, policy.name)))
    cells = (policy.name, *((policy.cluster,) if several else ()), policy.namespace, policy.kind, policy.action, policy.compliant)
    fields = {"Kind": policy.kind, "Action": policy.action, "Compliant": policy.compliant, "Message": policy.message}
    return Item(f"{where} ({policy.kind})", cells, fields, policy.document, (policy.message,))


def _require(wanted: frozenset[str], found: list[PolicyView]) -> None:
    from muster.administration.errors import AdministrationError

    if missing := wanted - {one.name for one in found}:
        raise AdministrationError(f"there is no policy {', '.join(sorted(missing))}", "see get policies")
