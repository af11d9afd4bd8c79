"""The log of the process that runs a fleet: a file of bounded size, and the previous one beside it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from muster.machinery.privatefiles import open_private

LIMIT: Final = 4 * 1024 * 1024


class ProcessLog:
    """With `standard`, standard output and standard error are redirected to it."""

    def __init__(self, path: Path, *, standard: bool = False, limit: int = LIMIT) -> None:
        self._path = path
        self._limit = limit
        self._standard = standard
        self._file = self._open()

    def _open(self) -> int:
        descriptor = open_private(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        if self._standard:
            os.dup2(descriptor, 1)
            os.dup2(descriptor, 2)
        return descriptor

    def write(self, text: str) -> None:
        try:
            if os.fstat(self._file).st_size > self._limit:
                os.replace(self._path, self._path.with_suffix(".log.1"))
                os.close(self._file)
                self._file = self._open()
            os.write(self._file, text.encode(errors="replace"))
        except OSError:
            return  # a full disk costs lines, not the fleet

    def close(self) -> None:
        os.close(self._file)
