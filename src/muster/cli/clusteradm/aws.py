"""`clusteradm aws`: the AWS objects that clusters need before they register, and the cleanup of leftover ones."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from muster.cli.connection import Globals, Session, administer, connected
from muster.cli.console import echo
from muster.cli.examples import examples
from muster.cli.lazy import SuggestingGroup
from muster.cli.loop import run_loop
from muster.cli.output import format_option
from muster.registration.names import AGENT_NAMESPACE, HUB_NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Callable

    from muster.administration.aws.prerequisites import WantedRole
    from muster.aws.arns import EksCluster
    from muster.aws.interfaces import Aws

MODES = ("Default", "Hosted", "Singleton", "SingletonHosted")
JSON, CLOUDFORMATION = "json", "cloudformation"


@click.group("aws", cls=SuggestingGroup)
@connected
def aws() -> None:
    """Prepare and clean up AWS for clusters that register with IAM roles."""


@aws.group("prerequisites")
@connected
def prerequisites() -> None:
    """Print the IAM roles that hub and managed clusters need, with trust policies and tags, or create them with --apply."""


def _role_options(command: Callable[..., Any]) -> Callable[..., Any]:
    options = (
        click.option(
            "--hub-cluster-arn",
            "--eks-hub-cluster-arn",
            "hub",
            required=True,
            help="ARN of the hub's EKS cluster, arn:aws:eks:REGION:ACCOUNT:cluster/NAME.",
        ),
        click.option("--oidc-provider", required=True, help="URL of the OIDC issuer of the cluster whose pods assume the role."),
        click.option(
            "--apply", is_flag=True, help="Create or update the role with your own AWS credentials instead of printing it."
        ),
        format_option(JSON, CLOUDFORMATION, default=JSON),
    )
    for option in reversed(options):
        command = option(command)
    return command


@prerequisites.command(
    "hub",
    epilog=examples(
        "clusteradm aws prerequisites hub --hub-cluster-arn arn:aws:eks:us-west-2:123456789012:cluster/hub --oidc-provider https://oidc.example/id/1"
    ),
)
@_role_options
@click.option("--namespace", default=HUB_NAMESPACE, show_default=True, help="Namespace of the hub's controllers.")
@click.option(
    "--aws-mapping",
    "mapping",
    type=click.Choice(("auto", "aws-auth", "access-entry")),
    default="auto",
    show_default=True,
    help="Mapping of IAM roles to users given to clusteradm init; without access entries the role needs fewer permissions.",
)
@connected
def hub_command(hub: str, oidc_provider: str, apply: bool, output: str, namespace: str, mapping: str) -> None:
    """Print or create the IAM role with which the hub creates identities for the clusters it accepts."""
    from muster.administration.aws import prerequisites as wanted

    arn = _arn(hub, "--hub-cluster-arn")
    make = partial(wanted.hub_role, arn, oidc_provider, namespace, entries=mapping != "aws-auth")
    _shown(make, arn.region, apply, output)


@prerequisites.command(
    "managed",
    epilog=examples(
        "clusteradm aws prerequisites managed --hub-cluster-arn arn:aws:eks:us-west-2:123456789012:cluster/hub"
        " --managed-cluster-arn arn:aws:eks:us-west-2:123456789012:cluster/one --oidc-provider https://oidc.example/id/2"
    ),
)
@_role_options
@click.option(
    "--managed-cluster-arn",
    "--eks-managed-cluster-arn",
    "managed",
    required=True,
    help="ARN of the managed cluster on EKS, arn:aws:eks:REGION:ACCOUNT:cluster/NAME.",
)
@click.option("--klusterlet", default="klusterlet", show_default=True, help="Name of the Klusterlet.")
@click.option("--namespace", default=AGENT_NAMESPACE, show_default=True, help="Namespace of the Klusterlet's agents.")
@click.option("--mode", type=click.Choice(MODES), default="Default", show_default=True, help="Install mode of the Klusterlet.")
@connected
def managed_command(
    hub: str, oidc_provider: str, apply: bool, output: str, managed: str, klusterlet: str, namespace: str, mode: str
) -> None:
    """Print or create the IAM role with which a managed cluster's agents authenticate.

    In hosted mode, give the OIDC provider of the cluster that the agents run on.
    """
    from muster.administration.aws import prerequisites as wanted
    from muster.aws.role_names import RoleNames

    pair = RoleNames(_arn(hub, "--hub-cluster-arn"), _arn(managed, "--managed-cluster-arn"))
    make = partial(wanted.managed_role, pair, oidc_provider, wanted.Agents(klusterlet, namespace, mode))
    _shown(make, pair.managed.region, apply, output)


@aws.command("cleanup", epilog=examples("clusteradm aws cleanup --dry-run"))
@click.option(
    "--hub-cluster-arn",
    "--eks-hub-cluster-arn",
    "hub",
    default="",
    help="ARN of the hub's EKS cluster.  [default: the ClusterManager's setting]",
)
@click.option("--namespace", default=HUB_NAMESPACE, show_default=True, help="Namespace of the hub components.")
@connected
def cleanup_command(hub: str, namespace: str) -> None:
    """Delete this hub's IAM roles that no managed cluster uses, with your own AWS credentials."""
    administer(lambda session: _clean(session, hub, namespace))


async def _clean(session: Session, hub: str, namespace: str) -> None:
    from muster.administration.aws.cleanup import moved, records_of, remove, remove_other, unclaimed
    from muster.administration.errors import AdministrationError
    from muster.aws.errors import AwsError
    from muster.registration.drivers.awsirsa.awsauth import Unreadable

    arn = _arn(hub, "--hub-cluster-arn") if hub else await _hub_of(session)
    aws = _connected(arn.region)
    try:
        await _same_account(aws, arn)
        found = await unclaimed(session.client, aws, arn, namespace)
        for one in found:
            whose = f" of cluster {one.cluster}" if one.cluster else ""
            if session.dry_run:
                session.progress.info(f"role {one.arn}{whose} would be removed")
                continue
            await remove(session.client, aws, arn, one, namespace, session.progress.info)
            session.progress.info(f"role {one.arn}{whose} is removed")
        others = moved((await records_of(session.client, namespace)).values())
        for record in others:
            entry = f"entry for {record.role_arn} of cluster {record.cluster} in aws-auth"
            if session.dry_run:
                session.progress.info(f"{entry} would be removed")
                continue
            await remove_other(session.client, record, namespace)
            session.progress.info(f"{entry} is removed")
    except Unreadable as error:
        remedy = "correct it by hand: until then no entry can be removed there"
        raise AdministrationError(f"ConfigMap kube-system/aws-auth: {error}", remedy) from None
    except AwsError as error:
        remedy = "use an AWS identity of the hub's account that may: see aws prerequisites hub"
        raise AdministrationError(f"AWS: {error}", remedy) from None
    finally:
        await aws.close()
    if not found and not others:
        session.progress.info("nothing is left on AWS that no cluster claims")


async def _hub_of(session: Session) -> EksCluster:
    from muster.administration.drivers import aws_driver
    from muster.administration.errors import AdministrationError
    from muster.administration.members.accept import configured_drivers

    own = aws_driver(await configured_drivers(session.client))
    if own is None or not own.hub_cluster_arn:
        raise AdministrationError(
            "--hub-cluster-arn: required, since the hub's ClusterManager does not have it", "give the ARN of this hub"
        )
    return _arn(own.hub_cluster_arn, "--hub-cluster-arn")


async def _same_account(aws: Aws, hub: EksCluster) -> None:
    from muster.administration.errors import Refused

    caller = await aws.caller_identity()
    if caller.account != hub.account:
        raise Refused(f"your AWS identity is of account {caller.account}, and the hub's is {hub.account}", "choose another profile")


def _connected(region: str) -> Aws:
    from muster.aws.identity import connect
    from muster.aws.process_env import found

    return connect(found(), region)


def _arn(text: str, flag: str) -> EksCluster:
    from muster.aws.arns import BadArn, parse_cluster_arn

    try:
        return parse_cluster_arn(text)
    except BadArn as error:
        raise click.BadParameter(str(error), param_hint=flag) from None


def _shown(make: Callable[[], WantedRole], region: str, apply: bool, output: str) -> None:
    from muster.administration.errors import AdministrationError
    from muster.machinery.printable import printable_json

    try:
        role = make()
    except AdministrationError as error:
        raise click.ClickException(str(error)) from None
    if apply and Globals.current().dry_run:
        echo(f"role {role.arn} would be made, or set right")
        return
    if apply:
        run_loop(_apply(role, region))
        return
    shown = role.template() if output == CLOUDFORMATION else role.document()
    echo(printable_json(json.dumps(shown, indent=2, ensure_ascii=False)))


async def _apply(role: WantedRole, region: str) -> None:
    from muster.administration.aws.prerequisites import apply
    from muster.aws.errors import AwsError

    aws = _connected(region)
    try:
        caller = await aws.caller_identity()
        if caller.account != role.account:
            raise click.ClickException(f"your AWS identity is of account {caller.account}; the role belongs to {role.account}")
        made = await apply(aws, role)
    except AwsError as error:
        raise click.ClickException(f"AWS: {error}") from None
    finally:
        await aws.close()
    echo(f"role {role.arn} is {'made' if made else 'as it should be'}")
