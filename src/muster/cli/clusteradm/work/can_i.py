"""`clusteradm work can-i`: whether a work would be accepted and its executor allowed; also by the exit code."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from muster.cli.clusteradm.bundle_flags import flat
from muster.cli.clusteradm.work.terms import given_terms, term_options
from muster.cli.connection import Globals, Session, administer, connected
from muster.cli.console import echo
from muster.cli.examples import examples
from muster.cli.executor_options import review_options
from muster.cli.output import document, format_option, table
from muster.cli.values import Files

if TYPE_CHECKING:
    from muster.administration.content.permits import Check
    from muster.api.work.v1 import ManifestWork
    from muster.cli.process import FoundCluster

CANNOT_TELL = 3
COLUMNS = ("Where", "What", "Verbs", "Allowed", "Reason")


class CannotTell(click.ClickException):
    exit_code = CANNOT_TELL


EXAMPLES = examples(
    "clusteradm work can-i cluster1 -f web.yaml --executor shop/deployer",
    "clusteradm work can-i cluster1 -f work.yaml --managed-context cluster1 -o json",
)


@click.command("can-i", epilog=EXAMPLES)
@click.argument("cluster")
@click.option(
    "-f",
    "--filename",
    "files",
    type=Files(),
    multiple=True,
    help="File or directory with a ManifestWork or manifests, or - for standard input. Repeatable.",
)
@click.option("-R", "--recursive", is_flag=True, help="Process the directories given with -f recursively.")
@term_options
@click.option(
    "--managed-kubeconfig",
    type=click.Path(dir_okay=False),
    help="Path to the kubeconfig file of the managed cluster, to check permissions there too.",
)
@click.option("--managed-context", default="", help="Context of the managed cluster, to check permissions there too.")
@review_options
@format_option("table", "json", "yaml", default="table")
@connected
def command(cluster: str, output: str, **given: Any) -> None:
    """Check whether the hub would accept a work for CLUSTER, and whether its executor has all permissions it needs.

    If not, the missing permissions are printed. Give the same --executor-… options as the cluster's work agent. Exits with 0 for
    yes, 1 for no, and 3 if that cannot be determined.
    """
    if not given["files"]:
        raise click.UsageError("--filename: name at least one file")
    try:
        managed = _managed(given["managed_kubeconfig"], given["managed_context"])
        answered = administer(lambda session: _ask(session, cluster, managed, given), machine=True)
    except click.UsageError:
        raise
    except click.ClickException as error:
        raise CannotTell(error.message) from None
    except KeyboardInterrupt:
        raise CannotTell("interrupted before there was an answer") from None
    work, checks = answered
    if managed is None:
        echo("only the hub was asked: give --managed-context or --managed-kubeconfig to ask the cluster too", err=True)
    elif not work.spec.executor:
        echo("without executor a work is applied with the agent's own rights: those were not asked about", err=True)
    try:
        _show(cluster, work, checks, output)
    except BrokenPipeError:
        # The reader of the output has exited; the exit code is unchanged.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    _exit(checks)


def _managed(kubeconfig: str | None, context: str) -> FoundCluster | None:
    from muster.cli.process import find_cluster

    if not kubeconfig and not context:
        return None
    try:
        return find_cluster(kubeconfig or Globals.current().kubeconfig, context)
    except click.ClickException as error:
        flag = "--managed-context" if context else "--managed-kubeconfig"
        raise click.ClickException(f"{flag}: {error.message}") from None


async def _ask(
    session: Session, cluster: str, managed: FoundCluster | None, given: dict[str, Any]
) -> tuple[ManifestWork, list[Check]]:
    from muster.administration.content.manifests import is_work, read_manifests
    from muster.administration.content.permits import MANAGED, check_cluster, check_hub, unchecked, work_of
    from muster.administration.content.terms import spec_parts
    from muster.administration.errors import AdministrationError
    from muster.administration.hubs import require_hub
    from muster.runtime.client import HttpClient, KubeError

    terms = given_terms(given)
    documents = read_manifests(flat(given["files"]), recursive=given["recursive"])
    if any(map(is_work, documents)) and (terms.update_strategy or terms.delete_option):
        raise AdministrationError("--update-strategy and --delete-option: are for manifests; a ManifestWork says so itself")
    await require_hub(session.client)
    work = work_of(documents, await spec_parts(session.client, terms, documents))
    # A separate client: its dry run is a query, not an action of this command.
    hub = HttpClient(session.config, agent="clusteradm")
    try:
        checks = await check_hub(hub, cluster, work)
    finally:
        await hub.close()
    if managed is not None:
        client = managed.connect("clusteradm")
        try:
            checks += await check_cluster(
                client,
                work,
                every_verb=given["executor_verbs"] == "all",
                review_all=given["executor_reviews"] == "always",
            )
        except KubeError as error:
            checks.append(unchecked(MANAGED, client.server, error))
        finally:
            await client.close()
    return work, checks


def _show(cluster: str, work: ManifestWork, checks: list[Check], output: str) -> None:
    from muster.administration.content.grants import commands
    from muster.administration.content.permits import HUB, MANAGED, executor_of, verdict

    answer = verdict(checks)
    places = {HUB: "the hub", MANAGED: f"cluster {cluster}"}
    lacking = {target: commands([one.grant for one in checks if one.target == target and one.grant]) for target in places}
    if output == "table":
        rows = [(one.target, one.subject, one.verbs, one.answer.value, " ".join(one.reason.split())) for one in checks]
        echo(table(COLUMNS, rows))
        for target, lines in lacking.items():
            if lines:
                echo("\n".join([f"an administrator of {places[target]} can allow it:", *(f"  {line}" for line in lines)]))
        echo(answer.value)
    else:
        account = executor_of(work.spec)
        told = {
            "cluster": cluster,
            "executor": f"{account.namespace}/{account.name}" if account else None,
            "answer": answer.value,
            "checks": [
                {
                    "where": one.target,
                    "what": one.subject,
                    "verbs": list(one.verbs),
                    "allowed": one.answer.value,
                    "reason": one.reason,
                }
                for one in checks
            ],
            "grants": {target: lines for target, lines in lacking.items() if lines},
        }
        echo(document(told, output))


def _exit(checks: list[Check]) -> None:
    from muster.administration.content.permits import Answer, verdict

    answer = verdict(checks)
    if answer is not Answer.YES:
        raise SystemExit(1 if answer is Answer.NO else CANNOT_TELL)
