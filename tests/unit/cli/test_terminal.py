"""What commands print fits the terminal: progress is cut and says how long it takes, tables are as wide as there is room."""

from __future__ import annotations

import sys

import pytest

from muster.cli.console import columns_of, echo_warning, fit
from muster.cli.output import table
from muster.cli.progress import ConsoleProgress, duration

REASON = "its agent has not come back with its certificate yet, and nobody knows why that is so on this long day"


def on_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream in (sys.stdout, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)


def test_progress_is_cut_with_an_ellipsis_and_says_how_long(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    on_terminal(monkeypatch)
    now = [100.0]
    monkeypatch.setattr("muster.cli.progress.time.monotonic", lambda: now[0])
    monkeypatch.setenv("NO_COLOR", "1")
    progress = ConsoleProgress()
    progress.waiting("managed cluster cluster1", REASON)
    now[0] += 95
    progress.waiting("managed cluster cluster1", REASON)
    last = capsys.readouterr().err.split("\r\x1b[2K")[-1]
    assert last.endswith("… (1m35s)")
    assert len(last) <= 59
    progress.waiting("another one", "why")
    assert capsys.readouterr().err.endswith("waiting: another one: why (0s)")


def test_colours_are_for_terminals_whose_users_want_them(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    on_terminal(monkeypatch)

    def said() -> str:
        echo_warning("look")
        ConsoleProgress().waiting("hub", "why")
        return capsys.readouterr().err.replace("\r\x1b[2K", "")

    assert "\x1b[33m" in said()
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in said()
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False)
    assert "\x1b" not in said()


def test_a_table_gives_way_in_its_last_column_which_goes_on_below_itself() -> None:
    rows = [["cluster1", True, REASON], ["cluster2", False, ""]]
    shown = table(["cluster", "available", "reason"], rows, 60).splitlines()
    assert max(map(len, shown)) <= 60
    assert " ".join(line[23:] for line in shown[1:-1]) == REASON, "and none of it is lost"
    assert shown[-1].startswith("cluster2   false")


def test_other_columns_are_cut_when_that_is_not_enough() -> None:
    shown = table(["name", "place", "why"], [["n" * 70, "p" * 50, "w" * 20]], 80).splitlines()
    assert max(map(len, shown)) <= 80
    assert "…" in shown[1]


def test_the_width_is_the_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    on_terminal(monkeypatch)
    assert max(map(len, table(["name", "reason"], [["c", REASON]]).splitlines())) <= 60


def test_what_a_program_reads_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False)
    assert REASON * 3 in table(["name", "reason"], [["c", REASON * 3]])


def test_wide_characters_take_two_columns() -> None:
    assert columns_of("集群") == 4
    assert fit("集群集群", 5) == "集群…"
    assert fit("short", 5) == "short"


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0s"), (59.9, "59s"), (60, "1m"), (125, "2m5s"), (7500, "2h5m")])
def test_durations_are_written_as_ages_are(seconds: float, text: str) -> None:
    assert duration(seconds) == text
