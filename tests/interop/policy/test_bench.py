"""The benchmark of templates runs, and both sides resolve the same in it."""

from __future__ import annotations

import orjson
from bench import templates as bench


def test_the_benchmark_runs_in_short_mode() -> None:
    rows = bench.run(short=True)
    assert [row.title for row in rows] == [case.title for case in bench.CASES]
    assert all(row.ours and row.theirs for row in rows)


async def test_both_sides_of_the_benchmark_resolve_the_same() -> None:
    peer = bench.Peer()
    try:
        peer.ask({"kinds": bench.KINDS, "objects": [bench.config_map(number) for number in range(bench.COUNT)]})
        async with bench.scene() as ours:
            for document in sorted({case.document for case in bench.CASES}):
                theirs = orjson.loads(peer.ask({"resolve": bench.resolution(document)})["result"])
                assert await ours.at_rest(document) == theirs
    finally:
        peer.close()
