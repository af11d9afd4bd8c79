"""`clusteradm accept`: accepts clusters that have requested to join."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from muster.cli.clusteradm.bundle_flags import flat
from muster.cli.connection import Session, administer, connected, explain
from muster.cli.console import echo_error
from muster.cli.examples import examples
from muster.cli.name_completion import CLUSTERS, objects
from muster.cli.values import Fingerprints, Names

if TYPE_CHECKING:
    from muster.administration.members.accept import Accepted, AcceptOptions


@click.command(
    "accept",
    epilog=examples(
        "clusteradm accept --clusters cluster1,cluster2 --wait",
        "clusteradm accept --clusters cluster1 --requesters alice",
    ),
)
@click.option(
    "-c",
    "--cluster",
    "--clusters",
    "clusters",
    type=Names(),
    multiple=True,
    shell_complete=objects(CLUSTERS),
    help="Names of the managed clusters, separated by commas.",
)
@click.option("--wait", is_flag=True, help="Wait for the clusters to request registration, and then for them to become available.")
@click.option(
    "--skip-approve-check",
    "skip_check",
    is_flag=True,
    help="Approve pending requests of any requester, and accept clusters without requests.",
)
@click.option(
    "--requesters",
    type=Names(),
    multiple=True,
    help="Users, or common names of requested certificates, whose requests are approved.",
)
@click.option(
    "--fingerprint",
    "--fingerprints",
    "fingerprints",
    type=Fingerprints(),
    multiple=True,
    help="Fingerprints (sha256:…) of the public keys to approve, as the agents log them.",
)
@click.option(
    "--grpc-server-account",
    "servers",
    type=Names(),
    multiple=True,
    help="User as which the hub's gRPC server makes requests.  [default: the ClusterManager's setting]",
)
@click.option(
    "--managed-cluster-arn",
    "--eks-managed-cluster-arn",
    "identity",
    default="",
    help="ARN of the EKS cluster, if one cluster is accepted whose ManagedCluster has no ARN yet (awsirsa).",
)
@connected
def command(
    clusters: tuple[tuple[str, ...], ...],
    wait: bool,
    skip_check: bool,
    requesters: tuple[tuple[str, ...], ...],
    fingerprints: tuple[tuple[str, ...], ...],
    servers: tuple[tuple[str, ...], ...],
    identity: str,
) -> None:
    """Accept clusters: approve their agents' certificate signing requests, and set hubAcceptsClient."""
    from muster.administration.members.accept import AcceptOptions
    from muster.administration.members.requests import RequestFilter
    from muster.aws.process_env import found

    names = list(dict.fromkeys(flat(clusters)))
    if not names:
        raise click.UsageError("--clusters: name at least one cluster")
    if identity and len(names) > 1:
        raise click.UsageError("--managed-cluster-arn: is one cluster's; name one with --clusters")
    wanted = RequestFilter(flat(requesters), flat(fingerprints), skip_check)
    options = AcceptOptions(replace(wanted, servers=frozenset(flat(servers))), wait, identity=identity, process_env=found())
    failed = administer(lambda session: _accept(session, names, options))
    if failed:
        raise SystemExit(1)


async def _accept(session: Session, names: list[str], options: AcceptOptions) -> list[str]:
    """Accept one after the other; a failure of one does not stop the others. Returns those that were not accepted."""
    from muster.administration.errors import AdministrationError
    from muster.administration.hubs import require_hub
    from muster.administration.members.requests import request_servers
    from muster.runtime.client import KubeError, Unreachable

    await require_hub(session.client)
    servers = options.wanted.servers or await request_servers(session.client)
    options = replace(options, wanted=replace(options.wanted, servers=servers), timeout=session.timeout)
    failed = []
    for name in names:
        try:
            await _accept_one(session, name, options)
        except Unreachable:
            raise
        except AdministrationError as error:
            failed.append(name)
            echo_error(f"cluster {name}: {error}")
        except KubeError as error:
            failed.append(name)
            echo_error(f"cluster {name}: {explain(error)}")
    return failed


async def _accept_one(session: Session, name: str, options: AcceptOptions) -> None:
    from muster.administration.members.accept import accept

    result = await accept(session.client, name, options, session.progress)
    session.progress.info(_outcome(result, options.wait and not session.dry_run, session.dry_run))


def _outcome(result: Accepted, joined: bool, dry_run: bool) -> str:
    if dry_run:
        return f"\n Your managed cluster {result.cluster} would be accepted."
    if joined:
        return f"\n Your managed cluster {result.cluster} has joined the Hub successfully."
    if not result.newly and not result.approved:
        return f"\n Your managed cluster {result.cluster} was accepted before; nothing was changed."
    return f"\n Your managed cluster {result.cluster} is accepted and will join the Hub. See get clusters."
