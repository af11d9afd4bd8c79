"""Says what is wrong with the subjects of commits.

    python -m tools.commit_subject MESSAGE_FILE
    python -m tools.commit_subject --range main..HEAD

A subject starts with the room that the commit is about, has at most 72 characters and a line of its own: `work: say why it waits`.
Rooms are the packages of `src/muster` and what stands beside `src`. They come and go, so a commit is judged by the rooms that there
were before or after it; only what is given is looked at, so older history may be as it is. Exit code 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

LIMIT = 72
BESIDE = frozenset({"tests", "bench", "tools", "docs", "ci", "peers", "deploy", "examples", "build"})
PACKAGES = "src/muster"
_NOT_YET = ("fixup! ", "squash! ", "amend! ", "Merge ")
"""How messages begin that git makes: to be melted into other commits, or of merges."""
_SCISSORS = "# ------------------------ >8 ------------------------"


class GitFailed(Exception):
    """What git says."""


def problems(message: str, rooms: Collection[str]) -> Iterator[str]:
    """What is wrong with the subject of a message, each with what to do about it."""
    subject, _, rest = message.strip("\n").partition("\n")
    if not subject.strip():
        yield "there is no subject: say in a line what the commit does"
        return
    room, colon, text = subject.partition(":")
    if not colon or room not in rooms:
        yield f'it starts with no room: write "room: …", with one of {", ".join(sorted(rooms))}'
    elif not text.startswith(" ") or not text.strip():
        yield f'there is nothing to read behind "{room}:": write a space and what the commit does'
    if len(subject) > LIMIT:
        yield f"it has {len(subject)} characters: write at most {LIMIT}, and the rest into the body"
    if rest and not rest.startswith("\n"):
        yield "it goes on in the next line: leave that empty, the body comes behind it"


def uncommented(text: str) -> str:
    """A message file without what git put there for whoever edits it."""
    lines = text.partition(_SCISSORS)[0].splitlines()
    return "\n".join(line for line in lines if not line.startswith("#")).strip("\n")


def of_file(path: Path) -> list[str]:
    message = uncommented(path.read_text())
    if message.startswith(_NOT_YET):
        return []
    present = {entry.name for entry in Path(PACKAGES).iterdir() if (entry / "__init__.py").exists()}
    return _told(message, present | _rooms_of("HEAD") | BESIDE)


def of_range(commits: str) -> list[str]:
    found = []
    for commit in _git("rev-list", "--reverse", "--no-merges", "--end-of-options", commits, "--").split():
        rooms = _rooms_of(commit) | _rooms_of(f"{commit}~") | BESIDE
        found += [f"{commit[:10]} {line}" for line in _told(_git("show", "--no-patch", "--format=%B", commit), rooms)]
    return found


def _told(message: str, rooms: Collection[str]) -> list[str]:
    subject = message.strip("\n").partition("\n")[0]
    return [f"{subject!r}: {problem}" for problem in problems(message, rooms)]


def _rooms_of(commit: str) -> set[str]:
    """Its packages; none if there is no such commit, as before the first."""
    try:
        return {Path(line).name for line in _git("ls-tree", "-d", "--name-only", commit, f"{PACKAGES}/").splitlines()}
    except GitFailed:
        return set()


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise GitFailed(done.stderr.strip())
    return done.stdout


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.commit_subject", description="Says what is wrong with commit subjects.")
    given = parser.add_mutually_exclusive_group(required=True)
    given.add_argument("message", nargs="?", type=Path, help="the file of a message that is being written")
    given.add_argument("--range", metavar="BASE..HEAD", help="commits that are there")
    chosen = parser.parse_args(arguments)
    try:
        found = of_file(chosen.message) if chosen.range is None else of_range(chosen.range)
    except (GitFailed, OSError) as problem:
        print(problem, file=sys.stderr)
        return 2
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
