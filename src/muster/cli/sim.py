"""`muster sim`: joins many simulated managed clusters to a hub on this machine, keeps them for a while, and reports the costs."""

from __future__ import annotations

import dataclasses
import signal
import sys
import tempfile
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from muster.cli.console import echo
from muster.cli.examples import examples
from muster.cli.interruption import Interrupted
from muster.cli.process import run_until_stopped
from muster.cli.values import Duration
from muster.machinery.oserrors import explain_file_error
from muster.machinery.privatefiles import make_private_directory
from muster.registration.drivers.flags import DEFAULT, GRPC

if TYPE_CHECKING:
    from muster.fleet.simulation import SimulationOptions, SimulationResult


@click.command(
    "sim",
    short_help="Simulate a fleet of managed clusters on one hub.",
    epilog=examples(
        "muster sim --clusters 100 --duration 2m --ephemeral",
        "muster sim --clusters 100 --auth grpc --addon -o json",
    ),
)
@click.option("--clusters", type=click.IntRange(1), default=1000, show_default=True, help="Number of managed clusters to simulate.")
@click.option(
    "--duration",
    type=Duration(),
    default="10m",
    show_default=True,
    help="Duration of the simulation, from the start of the first agent.",
)
@click.option(
    "--join-within", type=Duration(), default="5m", show_default=True, help="Maximum time for all clusters to become Available."
)
@click.option(
    "--batch",
    type=click.IntRange(0),
    default=100,
    show_default=True,
    help="Number of clusters that join at the same time; 0 means all.",
)
@click.option(
    "--data-dir", type=click.Path(file_okay=False), help="Directory of the hub's state.  [default: a temporary directory]"
)
@click.option("--ephemeral", is_flag=True, help="Keep the hub's state in memory only.")
@click.option(
    "--auth", type=click.Choice([DEFAULT, GRPC]), default=DEFAULT, show_default=True, help="Registration driver of the clusters."
)
@click.option(
    "--addon", is_flag=True, help="Enable an add-on on all clusters once they have joined; each cluster then also has a work agent."
)
@click.option(
    "--addon-within",
    type=Duration(),
    default="5m",
    show_default=True,
    help="Maximum time for the add-on to become Available on all clusters.",
)
@click.option("-v", "--verbose", is_flag=True, help="Log what the hub and the agents do.")
@click.option(
    "-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Output format of the report."
)
def command(
    clusters: int,
    duration: float,
    join_within: float,
    batch: int,
    data_dir: str | None,
    ephemeral: bool,
    auth: str,
    addon: bool,
    addon_within: float,
    verbose: bool,
    output: str,
) -> None:
    """Simulate a fleet: one hub in a process of its own, and managed clusters with real agents in this process.

    Progress is printed to standard error. With --addon, an add-on is then installed on all clusters by a placement. Exits with 1 if
    clusters or add-on were not Available in time, or a cluster became unavailable afterwards.
    """
    from muster.fleet.simulation import SimulationOptions

    store = "memory" if ephemeral else "sqlite"
    plan = SimulationOptions(clusters, duration, join_within, batch, store, verbose, auth, addon, addon_within)
    outcome = _run(plan, data_dir)
    echo(_json(outcome) if output == "json" else _text(outcome))
    if not outcome.good:
        sys.exit(1)


def _run(plan: SimulationOptions, data_dir: str | None) -> SimulationResult:
    from muster.fleet.simulation import SimulationFailed, simulate

    found: list[SimulationResult] = []

    async def work(directory: Path) -> None:
        found.append(await simulate(plan, directory, lambda line: echo(line, err=True)))

    directory_context: AbstractContextManager[str] = (
        nullcontext(data_dir) if data_dir else tempfile.TemporaryDirectory(prefix="muster-sim-")
    )
    with directory_context as name:
        directory = Path(name)
        try:
            make_private_directory(directory)
        except OSError as error:
            raise click.ClickException(f"--data-dir: {error.filename}: {explain_file_error(error)}") from None
        try:
            stopped = run_until_stopped(work(directory))
        except SimulationFailed as error:
            raise click.ClickException(str(error)) from None
    if not found:
        left = f"; the state of the simulation is in {data_dir}" if data_dir else "; nothing is left of the simulation"
        raise Interrupted(f"there is no result{left}") if stopped is signal.SIGINT else click.Abort()
    return found[0]


def _json(outcome: SimulationResult) -> str:
    import orjson

    return orjson.dumps({**dataclasses.asdict(outcome), "good": outcome.good}, option=orjson.OPT_INDENT_2).decode()


def _text(outcome: SimulationResult) -> str:
    plan, joining, steady = outcome.plan, outcome.joining, outcome.steady
    after = outcome.all_available_after
    joined = f"all Available after {after:.1f} s" if after is not None else f"{outcome.available_at_end} Available at the end"
    lines = [
        f"{plan.clusters} clusters: {joined}; fewest since: {outcome.lowest_since}; agents restarted: {outcome.agent_restarts}",
        f"joining:  {outcome.requests_per_join:.1f} requests per cluster, {joining.requests_per_second:,.0f}/s; "
        f"hub {joining.hub_cores:.2f} cores, agents {joining.agents_cores:.2f}",
        f"after:    {steady.requests_per_second:,.1f} requests/s over {steady.seconds:.0f} s, {outcome.open_watches} open watches; "
        f"hub {steady.hub_cores:.2f} cores, agents {steady.agents_cores:.2f}",
        f"memory:   hub {outcome.hub_mib:,.0f} MiB, all agents and their clusters {outcome.agents_mib:,.0f} MiB",
    ]
    if plan.addon:
        lines.insert(1, _addon(outcome))
    return "\n".join(lines)


def _addon(outcome: SimulationResult) -> str:
    after = outcome.addon_available_after
    if after is None:
        return f"addon:    Available on {outcome.addon_available_at_end} of {outcome.plan.clusters} clusters at the end"
    return f"addon:    Available on all clusters {after:.1f} s after it was enabled, by {outcome.addon_writes:.1f} writes each"
