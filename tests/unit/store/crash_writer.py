"""Run as a program: writes to a store as fast as it can and notes on stdout what was acknowledged, until it is killed.

Lines: `ack REVISION KEY OP`, `saw REVISION` for what its watcher was shown. Every value carries its own revision and a checksum.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path

from muster.store import Conflict, Event, open_store


def encode(revision: int) -> bytes:
    body = f"{revision} ".encode() * random.randint(1, 400)
    return b"%d %d %s" % (revision, zlib.crc32(body), body)


def check(value: bytes, revision: int) -> None:
    """The bytes are whole and were made for this revision."""
    written, checksum, body = value.split(b" ", 2)
    assert int(written) == revision
    assert int(checksum) == zlib.crc32(body)


def note(line: str) -> None:
    os.write(1, line.encode() + b"\n")


def heard(events: Sequence[Event]) -> None:
    note("\n".join(f"saw {event.entry.revision}" for event in events))


async def main(spec: str, directory: str) -> None:
    store = open_store(spec, Path(directory))
    await store.start()
    store.add_cluster("c")
    store.subscribe("c", None, None, heard)
    note(f"open {store.revision}")

    async def writer(number: int) -> None:
        while True:
            key = f"{number}/{random.randint(0, 20)}"
            gone = random.random() < 0.2
            try:
                entry = await store.commit("c", "/pods", key, encode, delete=gone)
            except Conflict:
                await asyncio.sleep(0)
                continue
            note(f"ack {entry.revision} {key} {'delete' if gone else 'put'}")

    await asyncio.gather(*(writer(number) for number in range(16)))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
