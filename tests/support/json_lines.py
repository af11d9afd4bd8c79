"""A program that is driven by JSON lines: each command is answered by one line, and what the program notices is told between them.

A thread reads, so that nothing the program says makes it wait. What it tells is kept, in order, for tests to look through.
"""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ANSWER_TIMEOUT = 30.0


class Refused(Exception):
    """A command that ended with an error; `error` is what the program said of it."""

    def __init__(self, error: Any) -> None:
        super().__init__(str(error))
        self.error = error


class JsonLines:
    """Use as a context manager."""

    def __init__(self, command: Sequence[str | Path], log: Path, environment: Mapping[str, str] | None = None) -> None:
        self.told: list[dict[str, Any]] = []
        self._log = log
        self._answers: queue.Queue[dict[str, Any] | None] = queue.Queue()
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=environment,
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> JsonLines:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, **command: Any) -> Any:
        """Raises Refused."""
        assert self._process.stdin is not None, "piped"
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(command) + "\n")
            self._process.stdin.flush()
        answer = self._answers.get(timeout=ANSWER_TIMEOUT)
        if answer is None:
            raise RuntimeError(f"{self._process.args!r} ended: {self._log.read_text()[-2000:]}")
        if "error" in answer:
            raise Refused(answer["error"])
        return answer["answer"]

    def close(self) -> None:
        assert self._process.stdin is not None, "piped"
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()

    def _read(self) -> None:
        assert self._process.stdout is not None, "piped"
        for line in self._process.stdout:
            said = json.loads(line)
            if "answer" in said or "error" in said:
                self._answers.put(said)
            else:
                self.told.append(said)
        self._answers.put(None)
