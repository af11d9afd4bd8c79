"""The file with the impersonation rules. It is polled while the gateway runs: a ConfigMap's content changes without a restart."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from muster.gateway.authorization.impersonation import ConfigurationError, Impersonation
from muster.machinery.clock import SYSTEM, Clock, sleep
from muster.machinery.confinement import own
from muster.machinery.logs import get_logger

log = get_logger(__name__)
POLL_INTERVAL: Final = 10.0
MAX_FILE_SIZE: Final = 1024 * 1024


class ImpersonationFile:
    """`impersonation` has the current rules; the owner runs `run` as a task."""

    def __init__(self, path: Path, *, clock: Clock = SYSTEM) -> None:
        """Raises ConfigurationError, which names the file."""
        self._path = path
        self._clock = clock
        try:
            self._text = _content(path)
            self.impersonation = Impersonation(self._text)
        except (OSError, ConfigurationError) as problem:
            raise ConfigurationError(f"{path}: {problem.strerror if isinstance(problem, OSError) else problem}") from None

    async def run(self) -> None:
        while True:
            await sleep(self._clock, POLL_INTERVAL)
            await self.refresh()

    async def refresh(self) -> None:
        """Reload the file. If it cannot be read, because it is being replaced or was removed, the last rules stay in effect."""
        try:
            text = await asyncio.to_thread(_content, self._path)
        except OSError as problem:
            log.warning("impersonation rules not readable", path=str(self._path), error=problem.strerror)
            return
        if text == self._text:
            return
        self._text = text
        self.impersonation.replace(text)
        if self.impersonation.problem:
            log.error("impersonation rules invalid; requests are not forwarded", error=self.impersonation.problem)
        else:
            log.info("impersonation rules changed", path=str(self._path))


def _content(path: Path) -> bytes:
    with own(path).open("rb") as file:
        text = file.read(MAX_FILE_SIZE + 1)
    if len(text) > MAX_FILE_SIZE:
        raise OSError(0, f"it has more than {MAX_FILE_SIZE} bytes")
    return text
