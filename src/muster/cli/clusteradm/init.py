"""`clusteradm init`: initializes a hub, and prints how clusters join it.

The flags are OCM's, with the aliases that its documentation uses. `muster.administration.hub.initialize` evaluates and validates
them together.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from muster.cli.clusteradm.bundle_flags import bundle_of, flat, gates_of, installing, report_flags, resources_of, version_of
from muster.cli.connection import Session, administer, connected, program, write_file, write_resources
from muster.cli.console import echo
from muster.cli.driver_flags import driver_flags, driver_settings
from muster.cli.examples import examples
from muster.cli.values import Names
from muster.registration.drivers.flags import DEFAULT, GRPC, INIT_FLAGS

if TYPE_CHECKING:
    from muster.administration.hub.initialize import Initialized, InitOptions


@click.command(
    "init",
    epilog=examples(
        "clusteradm init --wait",
        "clusteradm init --image-registry registry.example/ops --bundle-version 0.1.0 --output-join-command-file join.sh",
    ),
)
@click.option("--output-file", type=click.Path(dir_okay=False), help="File to which all applied objects are also written.")
@click.option("--force", is_flag=True, help="Skip the preflight checks before installing.")
@click.option(
    "--output-join-command-file",
    "join_file",
    type=click.Path(dir_okay=False),
    help="File to write a shell script to, which joins the cluster named by its first argument.",
)
@click.option("--wait", is_flag=True, help="Wait until the hub's components are available.")
@click.option(
    "-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Output format of the result."
)
@click.option(
    "--use-bootstrap-token", is_flag=True, help="Create a bootstrap token that does not expire, instead of a service account token."
)
@click.option(
    "--cluster-manager-values-file",
    "values",
    type=click.Path(dir_okay=False),
    help="Values file of OCM's cluster-manager Helm chart.",
)
@click.option(
    "--registration-drivers",
    "--registration-auth",
    "drivers",
    type=Names(),
    multiple=True,
    help=f"Registration drivers by which clusters may authenticate.  [default: {DEFAULT}]",
)
@driver_flags(INIT_FLAGS)
@click.option(
    "--remove-denied-after",
    metavar="DURATION",
    default="",
    help="Duration, such as 72h, after which denied clusters are deleted.  [default: never]",
)
@click.option(
    "--enable-sync-labels",
    "sync_labels",
    is_flag=True,
    help="Copy the labels of the ClusterManager to all objects that the operator creates.",
)
@click.option(
    "--singleton", is_flag=True, hidden=True, help="Run the control plane in one process; not supported here, see muster up."
)
@click.option("--singleton-name", default="", hidden=True, help="Name of that control plane; not supported here, see muster up.")
@installing
@connected
def command(**given: Any) -> None:
    """Initialize a hub: install the operator and a ClusterManager, and print the command with which clusters join."""
    if given["wait"] and given["output"] != "text":
        raise click.UsageError("--output: output should be text if --wait is set")
    if given["singleton"] or given["singleton_name"]:
        raise click.UsageError("--singleton: a control plane in one process is not made by init; see muster up")
    machine = given["output"] == "json"
    if not machine:
        report_flags()
    result = administer(lambda session: _initialize(session, given), machine=machine)
    if given["join_file"]:
        write_file(
            given["join_file"], f"#!/bin/sh\n{join_command(result)} --cluster-name $1\n", "--output-join-command-file", 0o700
        )
    _report(result, machine, given["wait"])


async def _initialize(session: Session, given: dict[str, Any]) -> Initialized:
    from dataclasses import replace

    from muster.administration.hub.initialize import initialize
    from muster.administration.hubs import HubAddress

    options = replace(_options(given), timeout=session.timeout, called=session.config.cluster)
    result = await initialize(session.client, HubAddress.of(session.config), options, session.progress)
    if given["output_file"]:
        write_resources(given["output_file"], session.journal)
    return result


def _options(given: dict[str, Any]) -> InitOptions:
    from muster.administration.chartvalues import HUB_CHART, with_values
    from muster.administration.hub.initialize import InitOptions
    from muster.administration.images import read_mapping

    options = InitOptions(
        bundle=bundle_of(given, *(("--enable-sync-labels",) if given["sync_labels"] else ())),
        feature_gates=gates_of(given),
        drivers=flat(given["drivers"]),
        driver_options=driver_settings(INIT_FLAGS, given),
        remove_denied_after=_duration(given["remove_denied_after"]),
        resources=resources_of(given),
        use_bootstrap_token=given["use_bootstrap_token"],
        checks=not given["force"],
        wait=given["wait"],
    )
    if given["values"]:
        path = Path(given["values"])
        options = with_values(options, read_mapping(path, HUB_CHART.flag), given["registry"], version_of(given), HUB_CHART)
    return options


def _duration(text: str) -> str:
    from muster.api.operator.v1 import DURATION

    if not re.fullmatch(DURATION, text):
        raise click.BadParameter(f"{text!r} is no duration such as 72h or 1h30m", param_hint="--remove-denied-after")
    return text


def join_command(hub: Initialized, driver: str = "", *, wait: bool = False) -> str:
    """The command without the cluster's name, for the hub's first driver unless the default or another is selected.

    A command that authenticates the hub's gRPC server omits the API server: agents of the one need not reach the other.
    """
    if not driver and hub.drivers and DEFAULT not in hub.drivers:
        driver = hub.drivers[0]
    own = list(hub.join_flags.get(driver, ()))
    if driver and driver == hub.grpc and hub.pending:
        own += [SERVER_FLAG, SERVER_PLACEHOLDER]
    parts = ["join", "--hub-token", hub.token]
    if not (driver and driver == hub.grpc and HASH_FLAG in own):
        parts += ["--hub-apiserver", hub.address.server]
        parts += ["--hub-ca-hash", hub.address.ca_hash] if hub.address.ca_hash else []
    parts += ["--registration-auth", driver, *own] if driver else []
    parts += ["--wait"] if wait else []
    return f"{program()} {' '.join(part if part in (hub.token, SERVER_PLACEHOLDER) else shlex.quote(part) for part in parts)}"


def join_commands(hub: Initialized, *, wait: bool = False) -> list[tuple[str, str]]:
    """Join commands, each with a description of when to use it: that of the hub's default driver, which needs none, and one for
    each other driver; only the one for gRPC if the token is valid only there.
    """
    over_grpc = (OVER_GRPC, join_command(hub, hub.grpc, wait=wait))
    if hub.cluster:
        return [over_grpc]
    usual = join_command(hub, wait=wait)
    others = [
        over_grpc if name == hub.grpc else (f"for a cluster that registers by {name}", join_command(hub, name, wait=wait))
        for name in hub.drivers
        if name != DEFAULT
    ]
    return [("", usual), *((caption, command) for caption, command in others if command != usual)]


OVER_GRPC = "from where only the hub's gRPC server can be reached"
HASH_FLAG = f"--{GRPC}-ca-hash"
SERVER_FLAG = f"--{GRPC}-server"
SERVER_PLACEHOLDER = "<grpc_server>"
"""Printed while the address is unknown."""


def pending_remark(hub: Initialized) -> str:
    """What is missing before agents can use the gRPC server; empty if its address is known."""
    return f"{SERVER_PLACEHOLDER} is not known yet: {hub.pending}" if hub.pending else ""


def _report(hub: Initialized, machine: bool, wait: bool) -> None:
    if machine:
        echo(access_json(hub))
        if remark := pending_remark(hub):
            echo(remark, err=True)
        return
    echo("The multicluster hub control plane has been initialized successfully!\n")
    echo("You can now register cluster(s) to the hub control plane. Log onto those cluster(s) and run the following command:\n")
    (_, usual), *others = join_commands(hub, wait=wait)
    echo(f"    {usual} --cluster-name <cluster_name>\n")
    for caption, command in others:
        echo(f"or, {caption}:\n\n    {command} --cluster-name <cluster_name>\n")
    echo("Replace <cluster_name> with a cluster name of your choice. For example, cluster1.")
    if remark := pending_remark(hub):
        echo(remark)


def access_json(hub: Initialized) -> str:
    """The data for joining as JSON, for programs."""
    from muster.cli.output import document

    found = {"hub-token": hub.token, "hub-apiserver": hub.address.server, "hub-ca-hash": hub.address.ca_hash}
    flags = hub.join_flags.get(hub.grpc, ())
    found |= {flag.removeprefix("--"): value for flag, value in zip(flags[::2], flags[1::2], strict=True)}
    found |= {"cluster-name": hub.cluster}
    return document({key: value for key, value in found.items() if value}, "json")
