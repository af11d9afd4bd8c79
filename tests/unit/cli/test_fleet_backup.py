"""`muster backup` and `restore` of a fleet that does not run: nothing is lost, overwritten unasked, or readable by others."""

from __future__ import annotations

import io
import sqlite3
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from muster.cli.muster import main
from muster.fleet.local.directory import FleetDirectory
from muster.store.datafile import DataFile
from tests.support.processes import free_ports
from tests.unit.cli.test_fleet_request import written


def muster(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """Its directory."""
    written(tmp_path, clusters=1)
    database = DataFile(tmp_path / "data/muster.db", "FULL")
    database.open().execute("INSERT INTO obj VALUES ('hub', '/configmaps', 'default/a', 7, 'value')")
    database.close()
    return tmp_path / "data"


@pytest.fixture
def archive(stopped: Path, tmp_path: Path) -> Path:
    done = muster("backup", tmp_path / "a.backup", "--data-dir", stopped)
    assert done.exit_code == 0, done.output
    return tmp_path / "a.backup"


def objects(directory: Path) -> list[tuple[str, str]]:
    return sqlite3.connect(directory / "muster.db").execute("SELECT cluster, key FROM obj").fetchall()


def test_a_backup_is_its_owners_alone_and_leaves_no_traces(archive: Path, stopped: Path) -> None:
    assert archive.stat().st_mode & 0o777 == 0o600
    assert [one.name for one in stopped.iterdir() if one.name.startswith("backup")] == []
    assert [one.name for one in archive.parent.iterdir() if one.name.startswith(".")] == []


def test_a_restored_fleet_is_what_was_backed_up(archive: Path, stopped: Path, tmp_path: Path) -> None:
    done = muster("restore", archive, "--data-dir", tmp_path / "other")
    assert done.exit_code == 0, done.output
    assert objects(tmp_path / "other") == objects(stopped) == [("hub", "default/a")]
    before, after = (FleetDirectory(path).existing() for path in (stopped, tmp_path / "other"))
    assert (after.port, after.clusters) == (before.port, before.clusters)
    assert (tmp_path / "other").stat().st_mode & 0o077 == 0
    assert [one.name for one in tmp_path.iterdir() if "restore-" in one.name] == []


def test_it_can_be_restored_to_another_port_and_address(archive: Path, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    done = muster("restore", archive, "--data-dir", tmp_path / "other", "--port", port, "--advertise", "fleet.example")
    assert done.exit_code == 0, done.output
    after = FleetDirectory(tmp_path / "other").existing()
    assert (after.port, after.address, after.installed) == (port, "fleet.example", "")


def test_nothing_is_overwritten_unasked(archive: Path, stopped: Path) -> None:
    content = archive.read_bytes()
    assert "--overwrite" in muster("backup", archive, "--data-dir", stopped).stderr
    assert archive.read_bytes() == content
    assert "--overwrite" in muster("restore", archive, "--data-dir", stopped).stderr
    (stopped / "muster.db").unlink()
    assert muster("restore", archive, "--data-dir", stopped, "--overwrite").exit_code == 0
    assert objects(stopped) == [("hub", "default/a")]


def test_a_fleet_that_runs_is_not_replaced_even_when_that_is_asked_for(archive: Path, stopped: Path) -> None:
    with FleetDirectory(stopped).claimed():
        refused = muster("restore", archive, "--data-dir", stopped, "--overwrite")
    assert refused.exit_code == 1
    assert "muster down" in refused.stderr
    assert objects(stopped) == [("hub", "default/a")]


def test_a_directory_with_other_things_is_left_alone(archive: Path, tmp_path: Path) -> None:
    thesis = tmp_path / "mine/thesis.txt"
    thesis.parent.mkdir(mode=0o700)
    thesis.write_text("years of work")
    refused = muster("restore", archive, "--data-dir", thesis.parent, "--overwrite")
    assert refused.exit_code == 1
    assert thesis.read_text() == "years of work"


def _truncated(archive: Path) -> None:
    archive.write_bytes(archive.read_bytes()[:-200])


def _of_text(archive: Path) -> None:
    archive.write_text("no backup")


def _with(name: str, kind: bytes = tarfile.REGTYPE) -> Callable[[Path], None]:
    def change(archive: Path) -> None:
        with tarfile.open(archive, "w:gz") as tar:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "/etc/passwd"
            tar.addfile(member, io.BytesIO())

    return change


@pytest.mark.parametrize(
    "change",
    [_truncated, _of_text, _with("../escaped"), _with("/tmp/escaped"), _with("fleet.json", tarfile.SYMTYPE), _with("fleet.json")],
    ids=["truncated", "text", "path", "absolute", "link", "incomplete"],
)
def test_what_is_no_backup_is_refused_and_leaves_nothing(archive: Path, tmp_path: Path, change: Callable[[Path], None]) -> None:
    change(archive)
    refused = muster("restore", archive, "--data-dir", tmp_path / "other")
    assert refused.exit_code == 1, refused.output
    assert "choose another file" in refused.stderr
    assert not (tmp_path / "other").exists()
    assert not (tmp_path / "escaped").exists()
    assert [one.name for one in tmp_path.iterdir() if "restore-" in one.name] == []


def test_fleets_that_have_nothing_to_back_up_here_say_so(tmp_path: Path) -> None:
    written(tmp_path, persistence="sql", auth="grpc")
    refused = muster("backup", tmp_path / "a.backup", "--data-dir", tmp_path / "data")
    assert (refused.exit_code, (tmp_path / "a.backup").exists()) == (1, False)
    assert "is a database" in refused.stderr
