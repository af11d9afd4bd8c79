"""Values built from events are those that a walk over PyYAML's nodes gives, whatever the text."""

from __future__ import annotations

import contextlib
import time
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from muster.kube import yaml
from tests.unit.kube import yaml_by_nodes

PIECES = [
    "a", "b: ", "- ", "\n", "  ", "    ", "&x ", "*x", "[", "]", "{", "}", ", ", "? ", ": ", "<<: ", "<<", "'q'", '"d"', "1",
    "0x1f", "1e3",
    "010", "1_0", ".inf", "-.5", "~", "yes", "n", "2020-01-01", "!!str ", "!!int ", "!!binary ", "!foo ", "! ", "|\n  t\n",
    "---\n", "...\n", "# c\n", "&y ", "*y", "- a: 1\n  b: 2\n", "a: 1\n", "k: &z {m: n}\n", "j: *z\n", "w: {<<: *z, m: 3}\n",
    "v: {<<: [*z, {o: p}]}\n", "9" * 30, "é",
]  # fmt: skip
TEXTS = st.lists(st.sampled_from(PIECES), min_size=1, max_size=14).map("".join)


def outcome(module: Any, text: str, duplicates: list[str] | None) -> Any:
    try:
        return repr(list(module.load_all(text, duplicates)))
    except module.YAMLError:
        return "refused"


@settings(max_examples=1500)
@given(TEXTS)
@example("a: 1\na: 2\nb: {c: 1, c: 2}\n")
@example("- &a {x: y, x: z}\n- <<: *a\n")
@example("a: {<<: {b: 1, b: 2}, b: 3}\n")
@example("&a [*a]\n")
@example("&k key: *k\n*k : 1\n")
@example("[" * 499 + "1" + "]" * 499)
@example("[" * 501 + "1" + "]" * 501)
def test_events_and_nodes_mean_the_same(text: str) -> None:
    assert outcome(yaml, text, None) == outcome(yaml_by_nodes, text, None)
    found: list[str] = []
    wanted: list[str] = []
    read = outcome(yaml, text, found)
    assert read == outcome(yaml_by_nodes, text, wanted)
    if (
        read != "refused" and "*" not in text
    ):  # A repeated key in an aliased map is named where it is written, not wherever it is used.
        assert found == wanted


@pytest.mark.parametrize(
    "item", ["- a\n", "- 1\n", "- {}\n", "- [x, y]\n", "- &a x\n", "k: v\n", "# c\n", "- 'q'\n", "- |\n  t\n", "- <<: {a: b}\n"]
)
def test_reading_takes_time_in_step_with_the_text(item: str) -> None:
    def seconds(size: int) -> float:
        text = (item * (size // len(item))).encode()
        began = time.process_time()
        with contextlib.suppress(yaml.YAMLError):
            yaml.load(text, [])
        return time.process_time() - began

    seconds(10_000)
    small, large = seconds(100_000), seconds(800_000)
    assert large < 8 * max(small, 0.005) * 2.5


def test_long_scalars_are_not_kept() -> None:
    """What is remembered of scalars is bounded in size, too."""
    for number in range(50):
        assert yaml.load(f"- 1{'0' * 20_000}{number}x\n") == [f"1{'0' * 20_000}{number}x"]
