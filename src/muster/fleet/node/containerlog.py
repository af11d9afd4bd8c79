"""The log of a container: lines on disk in the CRI format, of bounded size, kept for one restart, and followable.

Each attempt to run a container has a file `<attempt>.log`; when it is full it becomes `<attempt>.log.1` and a new one begins, so an
attempt keeps its last lines, between one and two limits' worth. Of earlier attempts only the last is kept (`kubectl logs -p`). A
line on disk is `<time> <stream> F <text>`; a part of an overlong line has P in place of F.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO

from muster.apiserver.nodes import LogOptions
from muster.machinery.clock import Clock
from muster.machinery.golang.timestamps import format_micro_time
from muster.machinery.privatefiles import make_directories

LIMIT = 1024 * 1024
"""Bytes of one file."""
LONGEST_LINE = 16 * 1024
CHUNK = 64 * 1024


@dataclass(frozen=True, slots=True)
class Position:
    rotations: int
    offset: int


class ContainerLog:
    """The writer: one attempt of one container, in this process."""

    def __init__(self, directory: Path, attempt: int, clock: Clock, limit: int = LIMIT) -> None:
        make_directories(directory)
        _forget_before(directory, attempt - 1)
        self.path = directory / f"{attempt}.log"
        self._clock = clock
        self._limit = limit
        self._partial: dict[str, str] = {}
        self._waiting: set[asyncio.Future[None]] = set()
        self._rotations = 0
        self._open()
        self.closed = False

    def _open(self) -> None:
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        self._size = os.fstat(self._file).st_size

    def write(self, stream: str, text: str) -> None:
        """Write text; an incomplete line is kept until its line break."""
        if self.closed:
            return
        *lines, rest = (self._partial.pop(stream, "") + text).split("\n")
        if len(rest) >= LONGEST_LINE:
            lines, rest = [*lines, rest], ""
        if rest:
            self._partial[stream] = rest
        if lines:
            self._append(b"".join(self._encoded(stream, line) for line in lines))

    def _encoded(self, stream: str, line: str) -> bytes:
        head = f"{format_micro_time(self._clock.now())} {stream} "
        pieces = [line[start : start + LONGEST_LINE] for start in range(0, len(line), LONGEST_LINE)] or [""]
        tagged = [f"{head}{'F' if number == len(pieces) else 'P'} {piece}\n" for number, piece in enumerate(pieces, 1)]
        return "".join(tagged).encode(errors="replace")

    def _append(self, data: bytes) -> None:
        if self._size and self._size + len(data) > self._limit:
            os.close(self._file)
            os.replace(self.path, _older(self.path))
            self._rotations += 1
            self._open()
        try:
            self._size += os.write(self._file, data)
        except OSError:
            return  # a full disk costs lines, not the program that writes them
        self._wake()

    def close(self) -> None:
        if self.closed:
            return
        for stream in list(self._partial):
            self.write(stream, "\n")
        self.closed = True
        os.close(self._file)
        self._wake()

    def _wake(self) -> None:
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)
        self._waiting.clear()

    @property
    def position(self) -> Position:
        return Position(self._rotations, self._size)

    def read_from(self, position: Position) -> tuple[bytes, Position]:
        """At most one chunk after `position`, in whole lines, and the position after it."""
        if position.rotations < self._rotations:
            offset = position.offset if position.rotations == self._rotations - 1 else 0
            with open(_older(self.path), "rb") as older:
                older.seek(offset)
                data = older.read()
            return data, Position(self._rotations, 0)
        with open(self.path, "rb") as file:
            file.seek(position.offset)
            data = file.read(min(CHUNK, self._size - position.offset))
        whole = data[: data.rfind(b"\n") + 1] or data
        return whole, Position(position.rotations, position.offset + len(whole))

    async def changed(self) -> None:
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(waiting)
        try:
            await waiting
        finally:
            self._waiting.discard(waiting)


def _older(path: Path) -> Path:
    return path.with_name(path.name + ".1")


def _forget_before(directory: Path, attempt: int) -> None:
    for path in directory.iterdir():
        number = path.name.partition(".")[0]
        if number.isdigit() and int(number) < attempt:
            path.unlink(missing_ok=True)


def has_log(directory: Path, attempt: int) -> bool:
    return (directory / f"{attempt}.log").exists()


async def read_log(
    directory: Path, attempt: int, options: LogOptions, now: datetime, live: ContainerLog | None = None
) -> AsyncGenerator[bytes, None]:
    """The output of an attempt with the options of `kubectl logs`. `live` is its writer, if it still runs."""
    since = options.since_time or (now - timedelta(seconds=options.since_seconds) if options.since_seconds else None)
    stamp = format_micro_time(since) if since is not None else ""
    path = directory / f"{attempt}.log"
    position = live.position if live is not None else None
    # Opened here, in the event loop that rotates: later renames do not matter.
    files = [each.open("rb") for each in (_older(path), path) if each.exists()]
    known = await asyncio.to_thread(_read, files, position.offset if position is not None else None)
    shown = list(formatted(known, stamp, options.timestamps))
    if options.tail_lines is not None:
        shown = shown[-options.tail_lines :] if options.tail_lines else []
    for start in range(0, len(shown), 500):
        yield b"".join(shown[start : start + 500])
    while options.follow and live is not None and position is not None:
        data, position = live.read_from(position)
        if data:
            text = b"".join(formatted(data.splitlines(), stamp, options.timestamps))
            if text:
                yield text
        elif live.closed and position == live.position:
            return
        else:
            await live.changed()


def _read(files: Sequence[IO[bytes]], end: int | None) -> list[bytes]:
    lines: list[bytes] = []
    for number, file in enumerate(files, 1):
        with file:
            lines += (file.read(end) if number == len(files) and end is not None else file.read()).splitlines()
    return lines


def formatted(lines: Iterable[bytes], since: str, timestamps: bool) -> Iterator[bytes]:
    """Lines in the format of `kubectl logs`; parts of one line are joined."""
    pieces: list[bytes] = []
    first = b""
    earliest = since.encode()
    for line in lines:
        stamp, _, rest = line.partition(b" ")
        _, _, rest = rest.partition(b" ")
        tag, _, text = rest.partition(b" ")
        first = first or stamp
        pieces.append(text)
        if tag == b"P":
            continue
        if first >= earliest:
            yield (first + b" " if timestamps else b"") + b"".join(pieces) + b"\n"
        pieces, first = [], b""


def last_lines(directory: Path, attempt: int, most: int = 2048, lines: int = 80) -> str:
    """The end of a log, for a termination message."""
    path = directory / f"{attempt}.log"
    if not path.exists():
        return ""
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - 8 * most, 0))
        found = list(formatted(file.read().splitlines(), "", timestamps=False))[-lines:]
    return b"".join(found)[-most:].decode(errors="replace")
