"""There is one way to the terminal, and it lets nothing through that acts on it."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import muster.cli
from muster.cli.console import echo_coloured
from muster.cli.fleet import components
from muster.cli.lazy import LazyGroup
from muster.cli.progress import ConsoleProgress
from muster.fleet.local.directory import FleetDirectory
from muster.machinery import logs

HOSTILE = "before\x1b[2J\x9b31m\u202eafter"
SHOWN = "before\\x1b[2J\\x9b31m\\u202eafter"
WAYS = {"console.py": {"click.echo"}}
"""Who may use what else."""
FORBIDDEN = {
    "click.echo",
    "click.secho",
    "click.echo_via_pager",
    "print",
    "sys.stdout.write",
    "sys.stderr.write",
    "traceback.print_exc",
}


def calls(path: Path) -> set[str]:
    """What a module calls, or names to have it called."""
    tree = ast.parse(path.read_text())
    return {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute | ast.Name)}


def test_no_command_prints_by_another_way() -> None:
    root = Path(muster.cli.__file__).parent
    found = {
        str(path.relative_to(root)): used
        for path in root.rglob("*.py")
        if (used := (calls(path) & FORBIDDEN) - WAYS.get(path.name, set()))
    }
    assert found == {}


def test_our_colours_are_let_through_and_nothing_else_is(capsys: pytest.CaptureFixture[str]) -> None:
    echo_coloured(f"\x1b[31m{HOSTILE}\x1b[0m \x1b[8mhidden\x1b[1;31m")
    assert capsys.readouterr().out == f"\x1b[31m{SHOWN}\x1b[0m \\x1b[8mhidden\\x1b[1;31m\n"


def test_errors_that_commands_end_with_are_printable() -> None:
    @click.command()
    def fail() -> None:
        raise click.ClickException(HOSTILE)

    @click.command()
    def misuse() -> None:
        raise click.BadParameter(HOSTILE, param_hint="--that")

    group = LazyGroup("group", entries={})
    inner = LazyGroup("inner", entries={})
    for command in (fail, misuse):
        inner.add_command(command)
    group.add_command(inner)
    assert CliRunner().invoke(group, ["inner", "fail"]).output == f"Error: {SHOWN}\n"
    assert f"Invalid value for --that: {SHOWN}" in CliRunner().invoke(group, ["inner", "misuse"]).output


def test_traces_of_errors_that_nobody_caught_are_printable() -> None:
    program = f"""
from muster.cli.console import echo_coloured
from muster.cli.fleet import components
from muster.cli.lazy import LazyGroup
group = LazyGroup("group", entries={{}})
@group.command()
def fail():
    raise ValueError({HOSTILE!r})
group(["fail"])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback")
    assert done.stderr.endswith(f"ValueError: {SHOWN}\n")


@pytest.mark.parametrize("live", [False, True], ids=["in a file", "on a terminal"])
def test_progress_is_printable(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, live: bool) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: live)
    monkeypatch.setenv("NO_COLOR", "1")
    progress = ConsoleProgress()
    progress.info(HOSTILE)
    progress.note(HOSTILE)
    progress.warn(HOSTILE)
    progress.waiting(HOSTILE, f"{HOSTILE}\nmore")
    progress.done()
    out, err = capsys.readouterr()
    assert out == f"{SHOWN}\n"
    said = err.replace("\r\x1b[2K", "").replace("… (0s)", "").replace(" (0s)", "")
    assert said.startswith(f"{SHOWN}\nwarning: {SHOWN}\nwaiting: {SHOWN}: {SHOWN}"[: len(said)])
    assert "\x1b" not in said


def test_logs_are_printable() -> None:
    lines: list[str] = []
    with logs.diverted(lines.append):
        logs.get_logger("test").warning("something", message=HOSTILE, key="a\nb")
    [line] = lines
    assert SHOWN in line
    assert line.count("\n") == 1


async def test_logs_of_a_fleet_are_printable_whoever_wrote_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = FleetDirectory(tmp_path)
    directory.log.write_text(f"{HOSTILE}\n")
    for put in (components._plain, components._prefixed("fleet", 8)):
        await components._show_file(directory, False, -1, put)
    assert capsys.readouterr().out == f"{SHOWN}\nfleet    | {SHOWN}\n"
