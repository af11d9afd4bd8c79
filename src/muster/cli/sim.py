"""`muster sim`: join many simulated managed clusters to a hub on this machine, keep them for a while, and tell what it cost."""

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
from muster.cli.interruption import Interrupted
from muster.cli.process import run_until_stopped
from muster.cli.values import Duration
from muster.machinery.oserrors import explain_file_error
from muster.machinery.privatefiles import make_private_directory
from muster.registration.drivers.flags import DEFAULT, GRPC

if TYPE_CHECKING:
    from muster.fleet.simulation import Outcome, Plan


@click.command("sim", short_help="Simulate a fleet of managed clusters on one hub.")
@click.option("--clusters", type=click.IntRange(1), default=1000, show_default=True, help="How many managed clusters.")
@click.option("--duration", type=Duration(), default="10m", show_default=True, help="From the first agent's start to the end.")
@click.option("--join-within", type=Duration(), default="5m", show_default=True, help="Give up when not all are Available by then.")
@click.option("--batch", type=click.IntRange(0), default=100, show_default=True, help="How many join at a time; 0: all at once.")
@click.option("--data-dir", type=click.Path(file_okay=False), help="Keep the hub's state here.  [default: a temporary directory]")
@click.option("--ephemeral", is_flag=True, help="Keep the hub's state in memory only.")
@click.option("--auth", type=click.Choice([DEFAULT, GRPC]), default=DEFAULT, show_default=True, help="How clusters register.")
@click.option("--addon", is_flag=True, help="When all have joined, enable an addon on all; each then has a work agent too.")
@click.option("--addon-within", type=Duration(), default="5m", show_default=True, help="From enabling it until all are Available.")
@click.option("-v", "--verbose", is_flag=True, help="Log what hub and agents do.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="How to report.")
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
    """Simulate a fleet: one hub in a process of its own, and here as many managed clusters with real agents as you like.

    Progress goes to standard error. Ends with 1 when not all clusters were Available in time, or one was lost afterwards. With
    --addon, an addon made of a template is then installed on all of them by a placement, and has to be Available in time too.
    """
    from muster.fleet.simulation import Plan

    store = "memory" if ephemeral else "sqlite"
    plan = Plan(clusters, duration, join_within, batch, store, verbose, auth, addon, addon_within)
    outcome = _run(plan, data_dir)
    echo(_json(outcome) if output == "json" else _text(outcome))
    if not outcome.good:
        sys.exit(1)


def _run(plan: Plan, data_dir: str | None) -> Outcome:
    from muster.fleet.simulation import SimulationFailed, simulate

    found: list[Outcome] = []

    async def work(directory: Path) -> None:
        found.append(await simulate(plan, directory, lambda line: echo(line, err=True)))

    place: AbstractContextManager[str] = nullcontext(data_dir) if data_dir else tempfile.TemporaryDirectory(prefix="muster-sim-")
    with place as name:
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


def _json(outcome: Outcome) -> str:
    import orjson

    return orjson.dumps({**dataclasses.asdict(outcome), "good": outcome.good}, option=orjson.OPT_INDENT_2).decode()


def _text(outcome: Outcome) -> str:
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


def _addon(outcome: Outcome) -> str:
    after = outcome.addon_available_after
    if after is None:
        return f"addon:    Available on {outcome.addon_available_at_end} of {outcome.plan.clusters} clusters at the end"
    return f"addon:    Available on all clusters {after:.1f} s after it was enabled, by {outcome.addon_writes:.1f} writes each"
