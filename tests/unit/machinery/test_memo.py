"""Results are kept for short texts only."""

from __future__ import annotations

from muster.machinery.memo import memoized


def test_short_texts_are_worked_out_once_and_long_ones_each_time() -> None:
    asked: list[str] = []

    @memoized(8, longest=4)
    def length(text: str) -> int:
        asked.append(text)
        return len(text)

    assert [length("ab"), length("ab"), length("abcdef"), length("abcdef")] == [2, 2, 6, 6]
    assert asked == ["ab", "abcdef", "abcdef"]
