"""The recorded tour is one of the commands that README.md has now, and a recording keeps nothing of the machine it was made on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tools.tour import CAST, COLUMNS, HOME, PAGE, PROMPT, Output, RecordingError, anonymous, cast, commands, page, record, recorded


def test_the_recording_is_of_the_commands_of_the_readme() -> None:
    shown = [line.removeprefix(PROMPT) for line in recorded(CAST.read_text()) if line.startswith(PROMPT)]
    assert shown == commands("README.md"), "README.md has changed: run `python -m tools.tour`"


def test_the_page_is_what_the_recording_shows() -> None:
    assert PAGE.read_text() == page(CAST.read_text())


def test_the_recording_is_an_asciicast() -> None:
    header, *events = [json.loads(line) for line in CAST.read_text().splitlines()]
    assert (header["version"], header["width"]) == (2, COLUMNS)
    assert {kind for _, kind, _ in events} == {"o"}
    times = [seconds for seconds, _, _ in events]
    assert times == sorted(times)


def test_commands_run_in_one_terminal_of_a_directory(tmp_path: Path) -> None:
    lines = ["export A=1", "echo a$A > file", "cat file", "test -t 1", "pwd"]
    found = anonymous(list(record(lines, tmp_path)), tmp_path)
    expected = ["$ export A=1", "$ echo a$A > file", "$ cat file", "a1", "$ test -t 1", "$ pwd", HOME, ""]
    assert recorded(cast(found)) == expected


def test_progress_that_was_overwritten_is_left_out() -> None:
    text = cast([Output(0.1, "waiting (1s)\r\x1b[Kwaiting (2s)"), Output(0.2, "\r\x1b[K\x1b[32mdone\x1b[0m\r\nnext\r\n")])
    assert recorded(text) == ["done", "next", ""]


def test_a_command_that_fails_is_no_recording(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="ended with 3"):
        list(record(["true", "(exit 3)", "true"], tmp_path))


@pytest.mark.parametrize(
    ("pieces", "problem"),
    [
        (["token: eyJhbGciOiJSUzI1NiJ9"], "credential"),
        (["-----BEGIN PRIVATE ", "KEY-----"], "credential"),
        (["in /ma", "chine/here"], "path of this machine"),
    ],
)
def test_credentials_and_paths_are_refused(pieces: list[str], problem: str) -> None:
    with pytest.raises(RecordingError, match=problem):
        anonymous([Output(0.0, piece) for piece in pieces], Path("/machine/here"))
