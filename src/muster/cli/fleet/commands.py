"""`muster up`, `status`, `logs`, `down` and `cluster add|remove`: a hub and managed clusters on this machine.

`up` runs the fleet until Ctrl-C, or with `--detach` starts itself again in the background and watches until the fleet is available.
The other commands find the fleet by its directory: they read that or query its hub, and to change the fleet they write there and
signal its process.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from muster.cli.console import echo
from muster.cli.examples import examples
from muster.cli.fleet.environment import DATA_DIR_VARIABLE, SHELLS
from muster.cli.grpc_persistence import DATABASE_VARIABLE, EXAMPLES, database_address, database_name, is_from_environment
from muster.cli.interruption import leaves_behind
from muster.cli.lazy import SuggestingGroup
from muster.cli.log_options import log_options
from muster.cli.loop import run_loop
from muster.cli.name_completion import members
from muster.cli.output import NAME, WIDE, document, format_option, table
from muster.cli.values import Duration
from muster.machinery.oserrors import explain_file_error, explain_listen_error
from muster.registration.drivers.flags import AWS, AWS_ALIAS, DEFAULT, GRPC
from muster.transport.persistence import KUBE, SQL

if TYPE_CHECKING:
    from muster.cli.fleet.view import FleetView
    from muster.fleet.local.directory import FleetDirectory
    from muster.fleet.local.status import FleetStatus

STOPS_WITHIN = 30.0
AWS_MODES = ("API_AND_CONFIG_MAP", "API", "CONFIG_MAP")
"""The first one is the default."""

data_dir = click.option(
    "--data-dir",
    type=click.Path(file_okay=False),
    default=".muster",
    show_default=True,
    envvar=DATA_DIR_VARIABLE,
    show_envvar=True,
    help="Directory of the fleet's state and kubeconfig.",
)
timeout = click.option(
    "--timeout", type=Duration(), default="2m", show_default=True, help="Maximum time to wait for clusters to become available."
)


@contextmanager
def reported() -> Iterator[None]:
    """Errors that the user can correct end the command with one line."""
    from muster.fleet.local.directory import FleetError

    try:
        yield
    except BrokenPipeError:
        raise  # the reader has closed the pipe, which click handles
    except (FleetError, OSError) as error:
        raise click.ClickException(explain(error)) from None


def explain(error: Exception) -> str:
    if not isinstance(error, OSError):
        return str(error)
    return f"{error.filename}: {explain_file_error(error)}" if error.filename else explain_listen_error(error)


@click.command(
    "up",
    short_help="Start a local fleet: a hub and managed clusters on this machine.",
    epilog=examples(
        "muster up",
        "muster up --clusters 3 --detach",
        "muster up --auth grpc --persistence sql",
    ),
)
@click.option("--clusters", type=click.IntRange(0, 200), help="Number of managed clusters.  [default: 2, or the running fleet's]")
@click.option(
    "--auth",
    type=click.Choice([DEFAULT, GRPC, AWS, AWS_ALIAS]),
    help=f"Registration driver of the clusters; {AWS_ALIAS} uses an AWS simulated on this machine.  "
    f"[default: {DEFAULT}, or the stored one]",
)
@click.option(
    "--aws-authentication-mode",
    "aws_mode",
    type=click.Choice(AWS_MODES),
    help=f"Authentication mode of the hub's EKS cluster, with --auth {AWS_ALIAS}.  [default: {AWS_MODES[0]}, or the stored one]",
)
@click.option(
    "--persistence",
    type=click.Choice([KUBE, SQL]),
    help=f"Storage of the hub's objects: its cluster, or (with --auth {GRPC}) a database.  [default: {KUBE}, or the stored one]",
)
@click.option(
    "--database",
    envvar=DATABASE_VARIABLE,
    help=f"Database of the hub with --persistence {SQL}: {EXAMPLES}.  [default: SQLite in the data directory, or the stored one]",
)
@click.option(
    "--gateway/--no-gateway",
    default=None,
    help="Install the gateway, which proxies requests to each cluster's API.  [default: installed unless the hub is a database]",
)
@click.option(
    "--hub-cluster",
    callback=lambda context, parameter, name: name if name is None else _cluster_name(name),
    help="Name under which the hub is also registered as a managed cluster.  [default: not registered, or the stored one]",
)
@click.option(
    "--simulate-images/--no-simulate-images",
    default=None,
    help="Let pods of images that are not Muster's count as running, though nothing of them runs.  [default: not, or as stored]",
)
@data_dir
@click.option(
    "-d", "--detach", is_flag=True, help="Return when all clusters are available, and keep the fleet running in the background."
)
@click.option("--ephemeral", is_flag=True, help="Keep all state in memory, and remove the data directory on exit.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="Port of the API server; 0 picks a free one. Another port than the stored one moves a stopped fleet.  "
    "[default: 6443 if it is free, or the stored one]",
)
@click.option(
    "--host",
    help="IP address to listen on. Another address than the stored one moves a stopped fleet.  "
    "[default: 127.0.0.1, or the stored one]",
)
@click.option(
    "--advertise",
    metavar="ADDRESS",
    help="Host name or IP address that kubeconfigs and agents are given.  [default: the address of --host; for 0.0.0.0 and ::, "
    "the machine's own address]",
)
@timeout
@log_options
@click.option("--last-words-to", type=int, hidden=True, help="File descriptor that receives the result of a detached start.")
def up(**options: Any) -> None:
    """Start a hub and managed clusters on this machine, or resume a stopped fleet.

    All clusters run in one process: embedded control planes with the components that clusteradm installs on real clusters. The
    data directory holds the state and a kubeconfig with one context per cluster. With --persistence sql the hub is a gRPC server
    with a database instead of a cluster.

    If the fleet is already running, its status is shown, and clusters are added if --clusters exceeds their number.
    """
    from muster.cli.fleet.request import FleetRequest
    from muster.cli.fleet.up import extend, run, start_detached
    from muster.fleet.local.directory import FleetDirectory

    if options["auth"] == AWS_ALIAS:
        options["auth"] = AWS
    database = _database(options.pop("database"), options["persistence"])
    address_flags = ("port", "host", "advertise")
    flags = (
        *address_flags,
        "clusters",
        "auth",
        "aws_mode",
        "persistence",
        "ephemeral",
        "gateway",
        "simulate_images",
        "hub_cluster",
    )
    settings = FleetRequest(database=database, **{name: options.pop(name) for name in flags})
    detach, directory = options.pop("detach"), FleetDirectory(Path(options["data_dir"]))
    with reported():
        directory.read()
        if options["last_words_to"] is None and (pid := directory.holder()) is not None:
            leaves_behind(lambda: "the fleet keeps running, with the requested clusters: see muster status")
            for note in extend(settings, directory, pid, options["timeout"]):
                echo(note)
            _print_status(_view(directory))
        elif detach:
            start_detached(settings, **options)
        else:
            run(settings, **options)


def _view(directory: FleetDirectory) -> FleetView:
    from muster.cli.fleet.view import view_fleet

    return run_loop(view_fleet(directory))


def _print_status(found: FleetView, *, wide: bool = False) -> None:
    echo(found.headline)
    if found.aws:
        echo(f"AWS at {found.aws}; for aws and boto3: AWS_CONFIG_FILE={found.aws_config}")
    columns = [
        "name",
        "accepted",
        "joined",
        "available",
        *(["gateway"] if found.gateway else []),
        *(["server"] if wide else []),
        "reason",
    ]
    rows = [
        ["unknown" if cell is None else cell for cell in (getattr(one, column) for column in columns)] for one in found.clusters
    ]
    echo(table(["cluster", *columns[1:]], rows))


def _cluster_name(name: str, parameter: str = "--hub-cluster") -> str:
    """Raises BadParameter for an invalid name of a cluster, or the fleet's name of its hub."""
    from muster.fleet.local.directory import HUB
    from muster.kube.names import dns1123_label
    from muster.registration.hub.clusters.rbac import name_problem
    from muster.registration.names import HUB_NAMESPACE

    if problem := next(iter(dns1123_label(name)), "") or name_problem(name, HUB_NAMESPACE, is_new=True):
        raise click.BadParameter(f"{name!r} cannot name a cluster: {problem}", param_hint=parameter)
    if name == HUB and parameter != "NAME":
        raise click.BadParameter(
            f"{HUB!r} is the context of the hub: choose another name, such as local-cluster", param_hint=parameter
        )
    return name


def _database(address: str | None, persistence: str | None) -> str | None:
    """The database option; the environment variable is used only with persistence `sql`."""
    if not address or (persistence != SQL and is_from_environment("database")):
        return None
    return database_address(address, lambda name: Path(name).absolute())


@click.command(
    "down",
    short_help="Stop the local fleet.",
    epilog=examples(
        "muster down",
        "muster down --purge",
    ),
)
@data_dir
@click.option("--purge", is_flag=True, help="Remove the fleet's state as well.")
def down(data_dir: str, purge: bool) -> None:
    """Stop the local fleet. Its state is kept for the next muster up unless --purge is given."""
    from muster.cli.fleet.follow import until
    from muster.fleet.local.directory import FleetDirectory

    directory = FleetDirectory(Path(data_dir))
    with reported():
        fleet = directory.existing()
        pid = directory.holder()
        leaves_behind(lambda: "the fleet may still be stopping: see muster status")
        if pid is None:
            echo("the fleet is not running")
        else:
            _stop(directory, pid)
            if fleet.ephemeral:
                until(lambda: not directory.path.exists(), 5.0)
        if purge and directory.path.exists():
            directory.remove()
            echo(f"removed {directory.path}")
            if fleet.database:
                echo(f"the hub's objects are still in {database_name(fleet.database)}: empty it before another fleet uses it")


def _stop(directory: FleetDirectory, pid: int) -> None:
    """Stop the process that holds the fleet's lock."""
    from muster.cli.fleet.follow import until

    for number, timeout in ((signal.SIGTERM, STOPS_WITHIN), (signal.SIGKILL, 5.0)):
        if directory.holder() == pid:
            if number == signal.SIGKILL:
                echo(f"warning: process {pid} did not end within {STOPS_WITHIN:g} s; killing it", err=True)
            os.kill(pid, number)
        if until(lambda: directory.holder() != pid, timeout):
            echo("the fleet has stopped")
            return
    raise click.ClickException(f"process {pid} does not end")


@click.command(
    "status",
    short_help="Show the status of the local fleet.",
    epilog=examples("muster status", "muster status -o wide", "muster status -o json"),
)
@data_dir
@format_option("table", WIDE, NAME, "json", "yaml", default="table")
def status(data_dir: str, output: str) -> None:
    """Show whether the fleet is running and its clusters are available. Exits with 1 unless all of them are.

    The status of a cluster is unknown (null in JSON and YAML) if the fleet is stopped or its hub does not answer.
    """
    from muster.fleet.local.directory import FleetDirectory

    with reported():
        found = _view(FleetDirectory(Path(data_dir)))
    if output in ("table", WIDE):
        _print_status(found, wide=output == WIDE)
    elif output == NAME:
        for one in found.clusters:
            echo(f"managedcluster.cluster.open-cluster-management.io/{one.name}")
    else:
        echo(document(found.as_document(), output))
    if not found.good:
        raise click.exceptions.Exit(1)


@click.command(
    "env",
    short_help="Print environment variables for using the local fleet.",
    epilog=examples("muster env", "muster env --unset", "muster env --shell fish"),
)
@data_dir
@click.option("--shell", type=click.Choice(SHELLS), help="Shell that evaluates the output.  [default: that of $SHELL, or bash]")
@click.option("--unset", is_flag=True, help="Print the commands that unset the variables.")
def env(data_dir: str, shell: str | None, unset: bool) -> None:
    """Print environment variables for using the fleet with kubectl, clusteradm and muster: eval "$(muster env)".

    They are KUBECONFIG and MUSTER_DATA_DIR, the variables of AWS if the fleet simulates it, and PATH if it lacks the programs.
    """
    from muster.cli.fleet import environment
    from muster.fleet.local.directory import FleetDirectory

    shell = shell or environment.shell_of(os.environ)
    with reported():
        found = environment.variables(FleetDirectory(Path(data_dir)))
    lines = environment.removals(found, shell) if unset else environment.exports(found, shell, environment.missing_tools())
    for line in [*lines, *([] if unset else [environment.how_to_evaluate(shell)])]:
        echo(line)


@click.command(
    "logs",
    short_help="Print the logs of the local fleet's components.",
    epilog=examples("muster logs", "muster logs cluster1/klusterlet --follow"),
)
@click.argument("component", default="")
@data_dir
@click.option("-f", "--follow", is_flag=True, help="Follow the logs and print new lines as they are written.")
@click.option(
    "--tail",
    type=click.IntRange(-1),
    default=-1,
    help="Number of lines to show of each component.  [default: 10; all lines of a named component]",
)
def logs(component: str, data_dir: str, follow: bool, tail: int) -> None:
    """Print the log of one component (`cluster1/klusterlet`), of all with one name (`klusterlet`), or of a cluster (`hub`).

    `fleet` selects the process itself. Without a name, the last lines of all components are printed.
    """
    from muster.cli.fleet.components import show
    from muster.fleet.local.directory import FleetDirectory

    with reported():
        leaves_behind(str)  # following a log normally ends so
        run_loop(show(FleetDirectory(Path(data_dir)), component, follow, tail))


@click.group("cluster", cls=SuggestingGroup, short_help="Add or remove managed clusters of the local fleet.")
def cluster() -> None:
    """Add or remove managed clusters of the running fleet."""


@cluster.command("add", epilog=examples("muster cluster add cluster3"))
@click.argument("name")
@data_dir
@timeout
def add(name: str, data_dir: str, timeout: float) -> None:
    """Create the cluster NAME, join it to the hub, and wait until it is available."""
    from muster.cli.fleet.follow import follow
    from muster.fleet.local.directory import HUB, FleetDirectory

    _cluster_name(name, "NAME")
    directory = FleetDirectory(Path(data_dir))
    with reported():
        pid = _running(directory)
        fleet = directory.existing()
        if name == HUB or fleet.has(name):
            raise click.ClickException(f"the fleet has a cluster {name} already")
        directory.edit(lambda fleet: fleet.with_cluster(name))
        leaves_behind(lambda: f"{name} goes on joining: see muster status, or take it back with muster cluster remove {name}")
        follow(directory, pid, f"{name} to be available", timeout, lambda found: _unavailable(found, name))
    echo(f"{name} is available; its context in {directory.kubeconfig} is {name}")


@cluster.command("remove", epilog=examples("muster cluster remove cluster3"))
@click.argument("name", shell_complete=members)
@data_dir
@timeout
def remove(name: str, data_dir: str, timeout: float) -> None:
    """Remove the cluster NAME from the hub, and delete it with all its state."""
    from muster.cli.fleet.follow import follow
    from muster.fleet.local.directory import HUB, FleetDirectory

    directory = FleetDirectory(Path(data_dir))
    with reported():
        pid = _running(directory)
        if name == HUB:
            raise click.ClickException("the hub cannot be removed from its fleet: end the fleet with muster down --purge")
        if not directory.existing().has(name):
            raise click.ClickException(f"the fleet has no cluster {name}: see muster status")
        directory.edit(lambda fleet: fleet.leaving(name))
        leaves_behind(lambda: f"{name} goes on leaving: see muster status")
        follow(directory, pid, f"{name} to be gone", timeout, lambda found: _present(directory, found, name))
    echo(f"{name} is gone")


def _running(directory: FleetDirectory) -> int:
    directory.existing()
    pid = directory.holder()
    if not pid:
        raise click.ClickException(f"the fleet in {directory.path} is not running: start it with muster up")
    return pid


def _unavailable(found: FleetStatus, name: str) -> str:
    one = found.clusters.get(name)
    if one is None:
        return "the fleet has not looked at it yet"
    return "" if one.state == "Available" else one.reason or one.state


def _present(directory: FleetDirectory, found: FleetStatus, name: str) -> str:
    if not directory.existing().has(name):
        return ""
    one = found.clusters.get(name)
    return (one.reason or one.state) if one is not None else "the fleet has not looked at it yet"
