"""Records the tour of README.md as a terminal shows it: `python -m tools.tour`.

Each command of the tour is run as it is printed, in a terminal of its own and an empty directory. What appears there becomes
`docs/tour.cast`, which asciinema plays, and `docs/tour.md`, which is read. A unit test fails once the commands are not those of
README.md any more. Nothing of this machine and no credential is kept: a recording that has either is refused.
"""

from __future__ import annotations

import codecs
import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
README: Final = "README.md"
CAST, PAGE = ROOT / "docs/tour.cast", ROOT / "docs/tour.md"
DONE_BEFORE: Final = frozenset({"make setup", "export PATH=$PWD/.venv/bin:$PATH"})
"""By whoever records, and by whoever runs tests."""
COLUMNS, LINES = 110, 30
SECONDS: Final = 240
IDLE: Final = 2
"""Longer pauses are shortened by the player."""
PROMPT: Final = "$ "
HOME: Final = "/home/you"
_CONTROL: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_SECRET: Final = re.compile(r"eyJ[\w-]{8,}|PRIVATE KEY")
HEAD: Final = """\
# The tour, recorded

What a terminal shows while the commands of the [tour](../README.md#a-tour-of-five-minutes) run. `asciinema play docs/tour.cast`
plays the same recording; `python -m tools.tour` makes both anew.
"""
MARK: Final = "<!-- not run: the record of a run; tests/e2e/test_readme_tour.py runs the commands -->"


class RecordingError(Exception):
    """Nothing was written."""


@dataclass(frozen=True)
class Output:
    seconds: float
    """Since the beginning."""
    text: str


def blocks(page: str) -> list[str]:
    """What a page has its readers type."""
    return re.findall(r"^```sh\n(.*?)^```$", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)


def commands(page: str) -> list[str]:
    """One for each line; a line that ends in a backslash goes on."""
    lines = "\n".join(blocks(page)).replace("\\\n", " ").splitlines()
    return [line for line in lines if line.strip() and line not in DONE_BEFORE]


def record(lines: Sequence[str], place: Path) -> Iterator[Output]:
    """Raises RecordingError where a command fails."""
    tools = Path(sys.executable).parent
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS", "KUBE", "MUSTER"))}
    environment = {
        **kept,
        "PATH": f"{tools}:{os.environ['PATH']}",
        "HOME": str(place),
        "TERM": "xterm-256color",
        "LC_ALL": "C.UTF-8",
    }
    script = "set -eo pipefail\n" + "".join(f"printf '%s\\n' {_quoted(PROMPT + line)}\n{line}\n" for line in lines)
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    shell = subprocess.Popen(
        ["bash", "-c", script], cwd=place, env=environment, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    )
    os.close(theirs)
    began, decoder = time.monotonic(), codecs.getincrementaldecoder("utf-8")("replace")
    try:
        while True:
            left = began + SECONDS - time.monotonic()
            if left <= 0 or not select.select([ours], [], [], left)[0]:
                raise RecordingError(f"the tour was not over within {SECONDS} s")
            try:
                chunk = os.read(ours, 65536)
            except OSError:  # as Linux reports that nobody writes there any more
                chunk = b""
            if not chunk:
                break
            if text := decoder.decode(chunk):
                yield Output(time.monotonic() - began, text)
    finally:
        os.close(ours)
        if shell.poll() is None:
            try:
                shell.wait(10)
            except subprocess.TimeoutExpired:
                shell.kill()
                shell.wait()
    if shell.returncode:
        raise RecordingError(f"a command of the tour ended with {shell.returncode}")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def anonymous(outputs: Sequence[Output], place: Path) -> list[Output]:
    """Without the directory of the recording. Raises RecordingError if that or a credential is left."""
    found = [Output(one.seconds, one.text.replace(str(place), HOME)) for one in outputs]
    whole = "".join(one.text for one in found)
    if str(place) in whole or str(ROOT) in whole:
        raise RecordingError("the recording has a path of this machine: record again")
    if _SECRET.search(whole):
        raise RecordingError("the recording has a credential")
    return found


def cast(outputs: Sequence[Output]) -> str:
    """asciicast v2: a header, and an event on each line."""
    header = {"version": 2, "width": COLUMNS, "height": LINES, "idle_time_limit": IDLE, "title": "Muster: the tour of README.md"}
    events = [[round(one.seconds, 3), "o", one.text] for one in outputs]
    return "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in (header, *events))


def recorded(cast: str) -> list[str]:
    """The lines that stood in the terminal at the end, progress that was overwritten left out."""
    text = "".join(json.loads(line)[2] for line in cast.splitlines()[1:])
    shown = []
    for line in text.split("\n"):
        parts = [part for part in _CONTROL.sub("", line).split("\r") if part]
        shown.append(parts[-1].rstrip() if parts else "")
    return shown


def page(cast: str) -> str:
    parts, current = [HEAD], list[str]()
    for line in [*recorded(cast), PROMPT]:
        if line.startswith(PROMPT) and current:
            parts.append(f"{MARK}\n```text\n" + "\n".join(current).strip("\n") + "\n```\n")
            current = []
        current.append(line)
    return "\n".join(parts)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="tour-") as name:
        place = Path(name).resolve()
        try:
            outputs = anonymous(list(record(commands(README), place)), place)
        except RecordingError as error:
            sys.exit(f"tour: {error}")
        finally:
            for state in place.glob(".*/fleet.json"):
                down = [str(Path(sys.executable).parent / "muster"), "down", "--purge", "--data-dir", str(state.parent)]
                subprocess.run(down, capture_output=True, timeout=60, check=False)
    CAST.write_text(cast(outputs))
    PAGE.write_text(page(CAST.read_text()))
    print(f"tour: {len(outputs)} events in {outputs[-1].seconds:.0f} s")


if __name__ == "__main__":
    main()
