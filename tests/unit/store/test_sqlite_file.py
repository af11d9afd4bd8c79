"""The data file: who may open it, what is refused, and what happens when the disk is full."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from muster.store import Entry, Retention, StoreError, buckets, datafile, open_store
from muster.store.sqlite import SQLiteStore
from tests.unit.store.histories import PODS, Watcher, contents, create, delete, put

_CHECKOUT = Path(__file__).parents[3]


async def test_a_second_server_on_the_same_file_is_told_so(tmp_path: Path) -> None:
    path = tmp_path / "muster.db"
    store = SQLiteStore(path)
    await store.start()
    open_it = (
        "import asyncio, pathlib, sys; from muster.store.sqlite import SQLiteStore; "
        "asyncio.run(SQLiteStore(pathlib.Path(sys.argv[1])).start())"
    )
    second = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", open_it, str(path)], capture_output=True, text=True, timeout=30, cwd=_CHECKOUT
    )
    with pytest.raises(StoreError, match="in use by another process"):
        await SQLiteStore(path).start()
    await store.close()
    assert second.returncode != 0
    assert str(path) in second.stderr
    assert "in use by another process; stop that server or choose another data directory" in second.stderr
    again = SQLiteStore(path)
    await again.start()
    await again.close()


async def test_a_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "muster.db"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE t (x)")
    other.close()
    with pytest.raises(StoreError, match="another program"):
        await SQLiteStore(path).start()


async def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "muster.db"
    path.write_text("just a text " * 500)
    with pytest.raises(StoreError, match=r"muster\.db is not a database"):
        await SQLiteStore(path).start()


async def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "muster.db"
    store = SQLiteStore(path)
    await store.start()
    await store.close()
    with sqlite3.connect(path) as other:
        other.execute("PRAGMA user_version=99")
    other.close()
    with pytest.raises(StoreError, match=r"newer Muster \(format 99"):
        await SQLiteStore(path).start()


async def test_a_network_filesystem_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = tmp_path / "mountinfo"
    share = tmp_path / "a share"
    share.mkdir()
    mounts.write_text(
        "22 1 254:0 / / rw,relatime - ext4 /dev/root rw\n"
        f"36 22 0:33 / {str(share).replace(' ', chr(92) + '040')} rw - nfs4 server:/export rw\n"
    )
    monkeypatch.setattr(datafile, "_MOUNTS", mounts)
    with pytest.raises(StoreError, match=r"network filesystem \(nfs4\)"):
        await SQLiteStore(share / "muster.db").start()
    store = SQLiteStore(tmp_path / "muster.db")
    await store.start()
    await store.close()


async def test_the_file_is_for_its_owner_only(tmp_path: Path) -> None:
    store = open_store("sqlite", tmp_path / "data")
    await store.start()
    store.add_cluster("c")
    await create(store, "a", "secret")
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "data").iterdir()}
    await store.close()
    assert modes["muster.db"] == 0o600
    assert set(modes.values()) == {0o600}


async def test_a_bad_start_leaves_nothing_locked(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(StoreError, match="cannot open"):
        await SQLiteStore(blocked / "muster.db").start()


async def test_history_older_than_its_age_is_dropped(tmp_path: Path) -> None:
    now = 0.0
    store = SQLiteStore(tmp_path / "muster.db", retention=Retention(age_seconds=1_000), clock=lambda: now)
    await store.start()
    store.add_cluster("c")
    old = await put(store, "a", "1")
    await put(store, "a", "2")
    store.mark_time()
    now = 900.0
    await put(store, "a", "3")
    store.mark_time()
    assert len(Watcher(store, "c", PODS, old.revision).events) == 2
    now = 1_000.0
    store.mark_time()
    await store.compact(0)
    with pytest.raises(StoreError):
        store.subscribe("c", PODS, old.revision, lambda events: None)
    assert [event[4] for event in Watcher(store, "c", PODS, old.revision + 1).seen] == ["3"]
    await store.close()


def _size_of(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.glob("muster.db*"))


async def test_renewals_without_end_do_not_make_the_file_larger(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "muster.db", "OFF", Retention(log_rows=500))
    await store.start()
    store.add_cluster("c")
    sizes = []
    for _ in range(5):
        for n in range(40):
            await asyncio.gather(*(put(store, f"cluster{number:03}/lease", f"{n}" + "x" * 800) for number in range(100)))
        sizes.append(_size_of(tmp_path))
    await store.close()
    # Without compaction each round would add some 4 MB.
    assert sizes[-1] <= sizes[1] + (1 << 20)
    assert _size_of(tmp_path) < 4 << 20


async def test_many_writes_share_a_transaction(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "muster.db")
    await store.start()
    store.add_cluster("c")
    batches: list[int] = []
    store.subscribe("c", PODS, None, lambda events: batches.append(len(events)))
    await asyncio.gather(*(create(store, f"{n:04}", "x") for n in range(1_000)))
    assert sum(batches) == 1_000
    assert len(batches) <= 4
    assert max(batches) <= 512
    chained = create(store, "chain", "0"), put(store, "chain", "1"), put(store, "chain", "2")
    first, second, third = await asyncio.gather(*chained)
    assert first.revision < second.revision < third.revision
    assert contents(store.list("c", PODS, "chain")) == [("chain", "2")]
    await store.close()


async def test_the_head_of_a_key_is_its_last_queued_write_until_that_is_visible(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "muster.db")
    await store.start()
    store.add_cluster("c")
    heads: list[bytes | None] = []

    def look(events: object) -> None:
        head = store.head("c", PODS, "key")
        heads.append(head.value if head is not None else None)

    store.subscribe("c", PODS, None, look)
    # As many as fit one transaction, then one more: two transactions.
    queued = [put(store, "key", "first"), *(put(store, str(n), "x") for n in range(511)), put(store, "key", "second")]
    await asyncio.gather(*queued)
    await delete(store, "key")
    await store.close()
    assert heads == [b"second", b"second", None]


def test_a_connection_that_broke_is_replaced(tmp_path: Path) -> None:
    file = datafile.DataFile(tmp_path / "muster.db", "FULL")

    def write(revision: int) -> None:
        file.write([datafile.LoggedChange("c", PODS, Entry("a", revision, b"x"), buckets.PUT, None)])

    write(2)
    file.open().close()
    with pytest.raises(sqlite3.Error):
        write(3)
    write(4)
    assert file.revisions() == (4, 0)
    assert [row[3] for row in file.objects()] == [4]
    file.close()


@pytest.mark.parametrize("how", ["limit", "tmpfs"])
def test_a_full_disk_fails_writes_and_nothing_else(how: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.unit.store.full_disk", how, str(tmp_path)]
    if how == "tmpfs":
        namespace = ["unshare", "--user", "--map-root-user", "--mount"]
        try:
            subprocess.run([*namespace, "mount", "-t", "tmpfs", "tmpfs", tmp_path], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            pytest.skip("mounting in a namespace is not permitted here")
        command = [*namespace, *command]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=_CHECKOUT)
    assert done.stdout == "survived\n", done.stderr
