"""The log's level decides what is written."""

import pytest

from muster.machinery import logs


@pytest.mark.parametrize(
    ("level", "expected"),
    [(logs.DEBUG, ["a", "b", "c", "d"]), (logs.INFO, ["b", "c", "d"]), (logs.WARNING, ["c", "d"]), (logs.ERROR, ["d"])],
)
def test_only_lines_of_the_level_and_above_are_written(monkeypatch: pytest.MonkeyPatch, level: int, expected: list[str]) -> None:
    written: list[str] = []
    monkeypatch.setattr(logs, "_level", logs.INFO)
    monkeypatch.setattr(logs.Logger, "_write", lambda self, level, event, fields: written.append(event))
    logs.set_level(level)
    log = logs.get_logger("test")
    log.debug("a")
    log.info("b")
    log.warning("c")
    log.error("d")
    assert written == expected
