"""Run as a program: fills the place where a store lives, checks what the store does about it, frees space, checks again.

`limit DIRECTORY` uses the file size limit of this process, `tmpfs DIRECTORY` mounts a small filesystem (in a mount namespace).
"""

from __future__ import annotations

import asyncio
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from muster.store import Conflict, Entry, Store, Unavailable
from muster.store.sqlite import SQLiteStore
from tests.unit.store.histories import PODS, Watcher, contents

BLOCK = b"x" * 20_000


def limit_file_size(directory: Path) -> Callable[[], None]:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))


def mount_small(directory: Path) -> Callable[[], None]:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m,mode=0700", "tmpfs", directory], check=True)
    ballast = directory / "ballast"
    ballast.write_bytes(bytes(2 << 20))
    return ballast.unlink


async def fill(store: Store) -> list[str]:
    """Write groups until one fails; the keys that were acknowledged."""
    acknowledged: list[str] = []
    for group in range(1_000):
        keys = [f"{group:04}-{n}" for n in range(8)]
        results = await asyncio.gather(*(store.commit("c", PODS, key, lambda _: BLOCK, 0) for key in keys), return_exceptions=True)
        acknowledged += [key for key, result in zip(keys, results, strict=True) if isinstance(result, Entry)]
        failed = [result for result in results if not isinstance(result, Entry)]
        if failed:
            assert all(isinstance(result, Unavailable) for result in failed), failed
            return acknowledged
    raise AssertionError("the disk never filled")


async def main(how: str, place: str) -> None:
    directory = Path(place)
    free_space = {"limit": limit_file_size, "tmpfs": mount_small}[how](directory)
    store = SQLiteStore(directory / "muster.db")
    await store.start()
    store.add_cluster("c")
    watcher = Watcher(store, "c", PODS, None)
    acknowledged = await fill(store)
    assert acknowledged
    failed_at = store.revision

    def nothing_else_shows() -> None:
        assert [entry.key for entry in store.list("c", PODS)] == acknowledged
        assert [event.entry.key for event in watcher.events] == acknowledged
        assert store.revision == failed_at

    nothing_else_shows()
    first = asyncio.ensure_future(store.commit("c", PODS, "a", lambda _: BLOCK * 20))
    await asyncio.sleep(0)
    head = store.head("c", PODS, "a")
    assert head is not None
    on_top = asyncio.ensure_future(store.commit("c", PODS, "a", lambda _: b"small", head.revision))
    beside = asyncio.ensure_future(store.commit("c", PODS, acknowledged[0], lambda _: b"small"))
    results = await asyncio.gather(first, on_top, beside, return_exceptions=True)
    assert all(isinstance(result, Unavailable) for result in results), results
    assert store.head("c", PODS, "a") is None
    nothing_else_shows()

    free_space()
    with pytest.raises(Conflict) as conflict:
        await store.commit("c", PODS, "a", lambda _: b"again", head.revision)
    assert conflict.value.head is None
    written = await store.commit("c", PODS, "a", lambda _: BLOCK * 20, 0)
    assert written.revision > head.revision
    assert watcher.events[-1].entry is written
    before = contents(store.list("c", PODS))
    await store.close()
    store = SQLiteStore(directory / "muster.db")
    await store.start()
    assert contents(store.list("c", PODS)) == before
    assert store.revision == written.revision
    await store.close()
    print("survived")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
