"""`muster backup` and `muster restore`: save a local fleet to one file, and restore it."""

from __future__ import annotations

import os
import signal
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from muster.cli.console import echo
from muster.cli.examples import examples
from muster.cli.fleet.commands import data_dir, reported
from muster.cli.interruption import leaves_behind

if TYPE_CHECKING:
    from muster.fleet.local.directory import FleetDirectory

BACKUP_TIMEOUT = 120.0
"""Seconds within which the fleet's process has to copy its database."""


@click.command(
    "backup",
    short_help="Back up the local fleet to a file.",
    epilog=examples("muster backup fleet.backup", "muster backup fleet.backup --overwrite"),
)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@data_dir
@click.option("--overwrite", is_flag=True, help="Replace FILE if it exists.")
def backup(file: Path, data_dir: str, overwrite: bool) -> None:
    """Back up the fleet, running or stopped, to FILE: its objects at one moment, keys and tokens included.

    Only its owner can read FILE. Objects written after the copy began are not in it.
    """
    from muster.fleet.local import backup as backups
    from muster.fleet.local.directory import FleetDirectory

    directory = FleetDirectory(Path(data_dir))
    with reported():
        fleet = backups.check_can_be_backed_up(directory)
        if file.exists() and not overwrite:
            raise click.ClickException(f"{file} exists already: name another file, or replace it with --overwrite")
        leaves_behind(lambda: f"{file} was not written")
        about = backups.About(backups.FORMAT, version("muster"), datetime.now(UTC).isoformat(timespec="seconds"), fleet.staying)
        pid = directory.holder()
        if pid is None:
            with directory.claimed(), backups.request(directory) as staging:
                _copy_stopped(directory, staging)
                backups.pack(staging, file, about)
        else:
            with backups.request(directory) as staging:
                os.kill(pid, signal.SIGUSR1)
                _await(directory, pid, staging)
                backups.pack(staging, file, about)
        size = file.stat().st_size / (1 << 20)
        echo(
            f"{file}: the fleet in {directory.path} as of {about.created}, {size:.1f} MiB; it holds keys and tokens, keep it secret"
        )


def _copy_stopped(directory: FleetDirectory, staging: Path) -> None:
    from muster.fleet.local import backup as backups
    from muster.store import StoreError

    try:
        backups.copy_stopped(directory, staging)
    except StoreError as error:
        raise click.ClickException(str(error)) from None


def _await(directory: FleetDirectory, pid: int, staging: Path) -> None:
    from muster.cli.fleet.follow import until
    from muster.fleet.local import backup as backups

    def done() -> bool:
        return backups.outcome(staging) is not None or directory.holder() != pid

    if not until(done, BACKUP_TIMEOUT):
        raise click.ClickException(f"the fleet's process {pid} has made no copy in {BACKUP_TIMEOUT:g} s: see muster logs fleet")
    problem = backups.outcome(staging)
    if problem is None:
        raise click.ClickException("the fleet has ended meanwhile: run muster backup once more")
    if problem:
        raise click.ClickException(f"the fleet could not be copied: {problem}")


@click.command(
    "restore",
    short_help="Restore a local fleet from a backup.",
    epilog=examples("muster restore fleet.backup --data-dir .restored", "muster restore fleet.backup --port 7443 --overwrite"),
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@data_dir
@click.option("--overwrite", is_flag=True, help="Replace the stopped fleet in the data directory, with all its objects.")
@click.option("--port", type=click.IntRange(1, 65535), help="Port of the API server.  [default: the stored one]")
@click.option("--host", help="IP address to listen on.  [default: the stored one]")
@click.option(
    "--advertise",
    metavar="ADDRESS",
    help="Host name or IP address that kubeconfigs and agents are given.  [default: the stored one, or that of --host]",
)
def restore(file: Path, data_dir: str, overwrite: bool, port: int | None, host: str | None, advertise: str | None) -> None:
    """Restore a fleet from FILE, which muster backup has written, into the data directory; muster up then starts it.

    A fleet that is in the data directory is kept unless --overwrite is given, and always while it is running.
    """
    from muster.cli.fleet.request import FleetRequest
    from muster.fleet.local import backup as backups
    from muster.fleet.local.directory import FleetDirectory

    directory = FleetDirectory(Path(data_dir))
    settings = FleetRequest(None, None, None, None, None, False, port, host=host, advertise=advertise)
    with reported():
        leaves_behind(lambda: f"{directory.path} is as it was")
        before = directory.read()
        if (pid := directory.holder()) is not None:
            raise click.ClickException(f"the fleet in {directory.path} is running (process {pid}): stop it with muster down")
        if before is not None and not overwrite:
            raise click.ClickException(
                f"there is a fleet in {directory.path}: choose another --data-dir, or replace it with --overwrite"
            )
        with backups.unpacked(file, directory) as (staging, about, fleet):
            moved = settings.moved(fleet, directory.path)
            if before is not None:
                directory.remove()
            elif directory.path.exists():
                directory.clear()
            backups.install_backup(staging, directory, msgspec.structs.replace(moved, restored=True))
    clusters = f"hub, {', '.join(about.clusters)}" if about.clusters else "hub"
    echo(f"{directory.path}: the fleet of {about.created} ({clusters}), at {moved.address}, port {moved.port}")
    echo(f"Start it with muster up --data-dir {directory.path}; do not run the fleet it is a copy of at the same address.")
