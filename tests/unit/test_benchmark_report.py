"""docs/benchmarks.md: a section that is measured anew replaces the old one and leaves the others as they are."""

from pathlib import Path

import pytest
from bench import report
from bench.report import Row


def test_only_what_was_measured_is_written_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "DOCUMENT", tmp_path / "docs" / "benchmarks.md")
    order = ["One", "Two"]
    report.write([("Two", "how two", [Row("speed", "/s", 1, 2)]), ("Gone", "", [])], ["Gone", "Two"])
    before = report.written_sections(report.DOCUMENT.read_text())["Two"]
    report.write([("One", "how one", [Row("time", "s", 3, 6, "less", target=2)])], order)
    written = report.DOCUMENT.read_text()
    sections = report.written_sections(written)
    assert list(sections) == order
    assert sections["Two"] == before
    assert "how one" in sections["One"]
    assert "| time | s | 3.00 | 6.00 | 2.0× | ≥ 2× | yes |" in sections["One"]
    assert written.startswith(report.HEADER)


@pytest.mark.parametrize(("ours", "met"), [(9.0, True), (10.0, True), (11.0, False), (None, False)])
def test_a_limit_is_met_up_to_itself(ours: float | None, met: bool) -> None:
    assert Row("time", "s", ours, None, "less", limit=10).met is met


@pytest.mark.parametrize(("ours", "met"), [(51.0, True), (50.0, True), (49.0, False), (None, False)])
def test_a_limit_of_what_should_be_much_is_met_down_to_itself(ours: float | None, met: bool) -> None:
    row = Row("speed", "MB/s", ours, None, limit=50)
    assert row.met is met
    assert row.wanted == "≥ 50.0 MB/s"


@pytest.mark.parametrize("ours", [None, 0.0, -0.3])
def test_what_is_missing_or_not_above_zero_has_no_ratio(ours: float | None) -> None:
    """A time may be below zero that is counted from an event which came later than what is measured."""
    assert Row("time", "ms", ours, 2.0, "less").ratio is None
    assert Row("time", "ms", 2.0, ours, "less").ratio is None
