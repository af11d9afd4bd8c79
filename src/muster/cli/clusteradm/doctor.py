"""`clusteradm doctor`: explains why clusters are not available, with remedies. Exits with 1 if there is a problem."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from muster.cli.connection import Session, administer, connected
from muster.cli.console import echo
from muster.cli.examples import examples
from muster.cli.output import NAME, WIDE, document, format_option, table
from muster.cli.process import find_cluster
from muster.machinery.printable import one_line

if TYPE_CHECKING:
    from muster.administration.findings import Finding

HUB_ON_AWS = "AWS"
"""Listed beside the clusters, whose names cannot have capital letters: findings about all clusters on AWS."""
CLUSTER_RESOURCE = "managedcluster.cluster.open-cluster-management.io"
HUB_RESOURCE = "clustermanager.operator.open-cluster-management.io/cluster-manager"
MARKS = {"ok": "✓", "note": "·", "problem": "✗"}


@click.command(
    "doctor",
    epilog=examples(
        "clusteradm doctor",
        "clusteradm doctor cluster1 --managed-cluster-kubeconfig cluster1.kubeconfig",
    ),
)
@click.argument("clusters", nargs=-1)
@click.option(
    "--managed-cluster-kubeconfig",
    "kubeconfig",
    type=click.Path(dir_okay=False),
    help="Path to the kubeconfig file of the managed cluster, to check its agent too.",
)
@click.option(
    "--managed-cluster-context",
    "context",
    default="",
    help="Context of the managed cluster in that kubeconfig, or in the one given with --kubeconfig.",
)
@format_option("text", WIDE, NAME, "json", "yaml", default="text")
@connected
def command(clusters: tuple[str, ...], kubeconfig: str | None, context: str, output: str) -> None:
    """Diagnose why CLUSTERS, by default all of them, are not available.

    With -o wide each finding is a row of a table, and with -o name only clusters with problems are listed.
    """
    if (kubeconfig or context) and len(clusters) != 1:
        raise click.UsageError("--managed-cluster-kubeconfig and --managed-cluster-context: name the one cluster that it is")
    found = administer(lambda session: _examine(session, clusters, kubeconfig, context), machine=True)
    if output == "text":
        _print(found)
    elif output == WIDE:
        rows = [(name, one.verdict, one.subject, one.text, one.remedy) for name, findings in found.items() for one in findings]
        echo(table(("Cluster", "Verdict", "Subject", "Text", "Remedy"), rows))
    elif output == NAME:
        for name in (name for name, findings in found.items() if _problems(findings)):
            echo(HUB_RESOURCE if name == HUB_ON_AWS else f"{CLUSTER_RESOURCE}/{one_line(name)}")
    else:
        echo(document({name: [asdict(one) for one in findings] for name, findings in found.items()}, output))
    if any(_problems(findings) for findings in found.values()):
        raise SystemExit(1)


async def _examine(session: Session, clusters: tuple[str, ...], kubeconfig: str | None, context: str) -> dict[str, list[Finding]]:
    from muster.administration.aws.diagnosis import diagnose_hub
    from muster.administration.aws.view import open_view
    from muster.administration.doctor import diagnose
    from muster.administration.drivers import aws_driver
    from muster.administration.errors import AdministrationError
    from muster.administration.findings import Diagnosis, Finding
    from muster.administration.hubs import require_hub
    from muster.administration.members.accept import configured_drivers
    from muster.aws.process_env import found as surroundings_here
    from muster.registration.kinds import MANAGED_CLUSTERS

    await require_hub(session.client)
    async with AsyncExitStack() as stack:
        managed = None
        if kubeconfig or context:
            managed = find_cluster(kubeconfig or session.options.kubeconfig, context).connect("clusteradm")
            stack.push_async_callback(managed.close)
        by_aws = aws_driver(await configured_drivers(session.client))
        process_env, aws = surroundings_here(), None
        found: dict[str, list[Finding]] = {}
        try:
            if by_aws is not None:
                aws = await stack.enter_async_context(open_view(session.client, by_aws, process_env))
        except AdministrationError as error:
            found[HUB_ON_AWS] = [Finding("problem", "ClusterManager", error.message, error.remedy)]
        if aws is not None and not clusters:
            found[HUB_ON_AWS] = await diagnose_hub(aws)
        names = clusters or tuple(sorted(one["metadata"]["name"] for one in (await session.client.list(MANAGED_CLUSTERS)).items))
        for name in names:
            found[name] = await diagnose(Diagnosis(name, session.client, managed, aws=aws, process_env=process_env))
        return found


def _problems(findings: list[Finding]) -> int:
    return sum(one.verdict == "problem" for one in findings)


def _print(found: dict[str, list[Finding]]) -> None:
    if not found.keys() - {HUB_ON_AWS}:
        echo("There are no managed clusters.")
    for name, findings in found.items():
        problems = _problems(findings)
        echo(f"{name}: {f'{problems} problem(s)' if problems else 'nothing wrong'}")
        for one in findings:
            echo(f"  {MARKS[one.verdict]} {one_line(f'{one.subject}: {one.text}')}")
            if one.remedy:
                echo(f"      → {one_line(one.remedy)}")
