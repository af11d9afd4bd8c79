"""A data directory that somebody else has prepared is not used, whatever the command; what a link in one leads to is left alone.

Those that need another user's files are made where the tests run as root; for everybody else
tests/unit/machinery/test_private_files.py has them.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import peers
from tests.support.processes import Server, free_ports
from tests.support.sites import embedded_only

pytestmark = embedded_only

MUSTER = peers.ROOT / ".venv/bin/muster"
SOMEBODY = 54321


def writable_by_others(directory: Path) -> None:
    directory.mkdir()
    directory.chmod(0o777)


def below_one_that_is(directory: Path) -> None:
    directory.mkdir(mode=0o700)
    directory.parent.chmod(0o777)


def of_somebody(directory: Path) -> None:
    directory.mkdir(mode=0o700)
    os.chown(directory, SOMEBODY, SOMEBODY)


def with_a_link_of_somebody(directory: Path) -> None:
    directory.mkdir(mode=0o700)
    (directory / "kubeconfig").symlink_to(directory.parent / "victim")
    os.chown(directory / "kubeconfig", SOMEBODY, SOMEBODY, follow_symlinks=False)


PREPARED: dict[Callable[[Path], None], str] = {
    writable_by_others: "chmod 700",
    below_one_that_is: "everybody may write to",
}
if os.geteuid() == 0:
    PREPARED |= {
        of_somebody: f"belongs to another user (uid {SOMEBODY}",
        with_a_link_of_somebody: "kubeconfig: belongs to another user",
    }

COMMANDS = {
    "up": ("up", "--port", "0", "--data-dir"),
    "up in the background": ("up", "--port", "0", "-d", "--data-dir"),
    "status": ("status", "--data-dir"),
    "logs": ("logs", "--data-dir"),
    "down": ("down", "--purge", "--data-dir"),
    "cluster": ("cluster", "add", "c1", "--data-dir"),
    "apiserver": ("apiserver", "--port", "0", "--data-dir"),
    "sim": ("sim", "--clusters", "1", "--data-dir"),
}


def refused(*words: str | Path) -> str:
    done = subprocess.run([MUSTER, *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.mark.parametrize("prepare", PREPARED, ids=lambda prepare: prepare.__name__)
@pytest.mark.parametrize("command", COMMANDS)
def test_what_others_have_prepared_is_refused_by_every_command(
    command: str, prepare: Callable[[Path], None], tmp_path: Path
) -> None:
    (tmp_path / "place").mkdir()
    directory = tmp_path / "place/data"
    prepare(directory)
    before = sorted(directory.iterdir())
    assert PREPARED[prepare] in refused(*COMMANDS[command], directory)
    assert sorted(directory.iterdir()) == before
    assert not (tmp_path / "place/victim").exists()


def test_the_directory_of_a_node_is_looked_at_too(tmp_path: Path) -> None:
    directory = tmp_path / "node"
    writable_by_others(directory)
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],"
        " clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}], users: [{name: u, user: {token: t}}]}"
    )
    assert "chmod 700" in refused("node", "--kubeconfig", kubeconfig, "--directory", directory)


def test_links_in_an_own_directory_are_not_followed(tmp_path: Path) -> None:
    """As they come out of an archive: what they lead to is neither written nor read."""
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (data / "kubeconfig").symlink_to(victim)
    (port,) = free_ports(1)
    server = Server("apiserver", [MUSTER, "apiserver", "--data-dir", data, "--port", str(port)], tmp_path / "log")
    server.start()
    try:
        server.wait_until(lambda: "ready: " in (tmp_path / "log").read_text(), 30)
        assert not (data / "kubeconfig").is_symlink()
    finally:
        server.stop()
    for name in ("muster.db", "muster.db-wal"):
        (data / name).unlink(missing_ok=True)
        (data / name).symlink_to(victim)
        assert "symbolic link" in refused("apiserver", "--port", "0", "--data-dir", data)
        (data / name).unlink()
    assert victim.read_text() == "mine"


def test_the_locks_and_log_of_a_fleet_are_no_links(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    for name in ("lock", "edit.lock"):
        data = tmp_path / f"with-{name}"
        data.mkdir(mode=0o700)
        (data / name).symlink_to(victim)
        assert "symbolic link" in refused("up", "--port", "0", "--data-dir", data)
    assert victim.read_text() == "mine"


def test_an_own_directory_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o755)
    refused("apiserver", "--port", "0", "--store", "bogus", "--data-dir", data)
    assert data.stat().st_mode & 0o777 == 0o700
