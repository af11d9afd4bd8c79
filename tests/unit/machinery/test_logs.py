"""The log's level decides what is written, and its format how."""

import contextvars
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from muster.machinery import logs
from muster.machinery.logs import diverted, get_logger


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


def test_a_line_begins_with_time_level_and_what_happened() -> None:
    lines: list[str] = []
    with diverted(lines.append):
        get_logger("test").warning("it happened", a="first", why="a test")
    assert re.fullmatch(r'timestamp=\S+ level=warning event="it happened" a=first why="a test"\n', lines[0])


def test_as_json_a_line_has_the_same_in_the_same_order() -> None:
    lines: list[str] = []

    def write() -> None:
        with diverted(lines.append):
            logs.set_format(logs.JSON)
            get_logger("test").error("it happened", path=Path("/data"), count=3)

    contextvars.copy_context().run(write)
    assert list(json.loads(lines[0]).items())[1:] == [("level", "error"), ("event", "it happened"), ("path", "/data"), ("count", 3)]
    with diverted(lines.append):
        get_logger("test").error("elsewhere nothing has changed")
    assert lines[1].startswith("timestamp=")


@pytest.mark.parametrize("how", [["--log-format", "json"], []], ids=["flag", "variable"])
def test_commands_take_the_format_by_flag_or_variable(how: list[str], tmp_path: Path) -> None:
    program = (
        "import click; from muster.cli.log_options import log_options; from muster.machinery.logs import get_logger\n"
        "@click.command()\n@log_options\ndef main(verbose): get_logger('x').info('it happened')\nmain()"
    )
    environ = {"PATH": os.environ["PATH"], **({} if how else {"MUSTER_LOG_FORMAT": "json"})}
    done = subprocess.run([sys.executable, "-c", program, *how], capture_output=True, text=True, check=True, env=environ)
    assert json.loads(done.stderr)["event"] == "it happened"
