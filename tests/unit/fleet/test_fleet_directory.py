"""A fleet's directory: one process at a time, changes whole or not at all, and nothing of anybody else's is touched."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from muster.fleet.local.directory import AlreadyRunning, Fleet, FleetDirectory, ForeignDirectory, NoFleet, UnreadableFleet
from muster.fleet.local.processlog import ProcessLog

HOLDER = """
import sys
from pathlib import Path
from muster.fleet.local.directory import FleetDirectory
with FleetDirectory(Path(sys.argv[1])).claimed():
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def directory(tmp_path: Path) -> FleetDirectory:
    return FleetDirectory(tmp_path / "fleet")


def founded(directory: FleetDirectory, **fields: object) -> FleetDirectory:
    with directory.claimed():
        directory.edit(lambda fleet: fleet, Fleet(port=6443, **fields))  # type: ignore[arg-type]
    return directory


def test_a_new_fleet_is_read_back_as_it_was_written(directory: FleetDirectory) -> None:
    founded(directory)
    directory.edit(lambda fleet: fleet.with_cluster("a").with_cluster("b").with_cluster("a").leaving("b"))
    assert [(one.name, one.leaving) for one in directory.existing().clusters] == [("a", False), ("b", True)]
    assert [one.name for one in directory.edit(lambda fleet: fleet.without_cluster("b")).clusters] == ["a"]
    assert directory.path.stat().st_mode & 0o777 == 0o700
    assert directory.record.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("existing", ["muster.db", "notes.txt", ".git"])
def test_a_directory_with_other_things_in_it_is_refused_and_left_alone(directory: FleetDirectory, existing: str) -> None:
    directory.path.mkdir()
    (directory.path / existing).write_text("mine")
    with pytest.raises(ForeignDirectory, match="choose another --data-dir"), directory.claimed():
        pass
    with pytest.raises(NoFleet):
        directory.remove()
    assert [entry.name for entry in directory.path.iterdir()] == [existing]


def test_a_file_in_place_of_the_directory_is_refused(directory: FleetDirectory) -> None:
    directory.path.write_text("a file")
    with pytest.raises(ForeignDirectory), directory.claimed():
        pass


def test_what_an_interrupted_beginning_leaves_is_no_obstacle(directory: FleetDirectory) -> None:
    with directory.claimed():
        pass
    (directory.path / "fleet.tmp").write_text('{"version":')
    founded(directory)
    assert directory.existing().port == 6443


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ('{"version": 2, "port": 1}', "format 2"),
        ('{"version": 1, "port": "x"}', "damaged"),
        ('{"version": 1', "damaged"),
        ("", "damaged"),
        ("[]", "damaged"),
    ],
)
def test_a_record_that_cannot_be_understood_is_never_replaced(directory: FleetDirectory, content: str, problem: str) -> None:
    founded(directory)
    directory.record.write_text(content)
    with pytest.raises(UnreadableFleet, match=problem), directory.claimed():
        pass
    with pytest.raises(UnreadableFleet):
        directory.edit(lambda fleet: fleet)
    assert directory.record.read_text() == content


def test_the_process_that_runs_a_fleet_is_known_and_alone_until_it_is_killed(directory: FleetDirectory) -> None:
    founded(directory)
    assert directory.holder() is None
    command = [sys.executable, "-c", HOLDER, str(directory.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        assert directory.holder() == other.pid
        with pytest.raises(AlreadyRunning, match=f"process {other.pid}") as refused, directory.claimed():
            pass
        assert refused.value.pid == other.pid
        with pytest.raises(AlreadyRunning):
            directory.remove()
        other.kill()
        other.wait()
    assert directory.holder() is None
    with directory.claimed():
        assert int(directory.lock.read_text()) == os.getpid()


def test_changes_at_the_same_time_are_all_kept(directory: FleetDirectory) -> None:
    founded(directory)
    names = [f"cluster{number}" for number in range(20)]
    threads = [threading.Thread(target=directory.edit, args=(lambda fleet, name=name: fleet.with_cluster(name),)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {one.name for one in directory.existing().clusters} == set(names)


def test_removal_takes_the_directory_and_the_link_to_it_and_nothing_else(tmp_path: Path) -> None:
    real = founded(FleetDirectory(tmp_path / "real"))
    (tmp_path / "link").symlink_to(real.path)
    (tmp_path / "neighbour").write_text("mine")
    FleetDirectory(tmp_path / "link").remove()
    assert [entry.name for entry in tmp_path.iterdir()] == ["neighbour"]


def test_there_is_nothing_to_change_or_remove_where_there_is_no_fleet(directory: FleetDirectory) -> None:
    for act in (directory.existing, directory.remove, lambda: directory.edit(lambda fleet: fleet)):
        with pytest.raises(NoFleet, match="muster up"):
            act()
    assert not directory.path.exists()


def test_the_processs_log_stays_within_bounds_and_keeps_what_came_last(tmp_path: Path) -> None:
    path = tmp_path / "fleet.log"
    log = ProcessLog(path, limit=1000)
    for number in range(300):
        log.write(f"line {number}\n")
    log.close()
    kept = (tmp_path / "fleet.log.1").read_text() + path.read_text()
    assert kept.endswith("line 299\n")
    assert 900 < len(kept) < 2200
