"""The benchmark runs, and both sides render the same text in it."""

from __future__ import annotations

from bench import gotemplate as bench

from muster.gotemplate import Template
from tests.interop.gotemplate.wire import Oracle, oracle_directory, to_wire


def test_the_benchmark_runs_in_short_mode() -> None:
    results = bench.run(short=True)
    assert len(results) == len(bench.rows())
    assert all(row["ours_us"] > 0 and row["go_us"] > 0 for row in results)


def test_both_sides_of_the_benchmark_render_the_same() -> None:
    oracle = Oracle(oracle_directory() / "oracle")
    cases = [
        (bench.SMALL, bench.SMALL_DATA),
        (bench.policy_text(), bench.POLICY_DATA),
        (bench.ITEMS, bench.ITEMS_DATA),
    ]
    replies = [oracle.ask([{"t": text, "d": to_wire(data)}])[0] for text, data in cases]
    oracle.close()
    assert [reply["o"] if reply else None for reply in replies] == [Template(text).render(data) for text, data in cases]


def test_the_policy_has_its_size_and_its_actions() -> None:
    text = bench.policy_text()
    assert 4000 <= len(text) <= 6000
    assert text.count("{{") >= 40
