"""The log of every program: structured lines, with the machinery for them loaded by the first line that is written.

Importing structlog (and rich, which it pulls in where it is installed) takes longer than everything else a start does
together, and a healthy server writes no line before it is ready; so loggers here only remember their name until then.
"""

from __future__ import annotations

import sys
from typing import Any

DEBUG, INFO = 10, 20
_level = INFO


class Logger:
    """What a module logs with. `event` says what happened; fields say to whom and why."""

    __slots__ = ("_name", "_structured")

    def __init__(self, name: str) -> None:
        self._name = name
        self._structured: Any = None

    def debug(self, event: str, **fields: object) -> None:
        if _level <= DEBUG:
            self._write("debug", event, fields)

    def info(self, event: str, **fields: object) -> None:
        self._write("info", event, fields)

    def warning(self, event: str, **fields: object) -> None:
        self._write("warning", event, fields)

    def error(self, event: str, **fields: object) -> None:
        self._write("error", event, fields)

    def _write(self, level: str, event: str, fields: dict[str, object]) -> None:
        if self._structured is None:
            _configure()
            import structlog

            self._structured = structlog.get_logger(self._name)
        getattr(self._structured, level)(event, **fields)


def get_logger(name: str) -> Logger:
    return Logger(name)


def set_level(level: int) -> None:
    """Which lines are written from now on: `DEBUG` and up, or `INFO` and up."""
    global _level
    _level = level


def _configure() -> None:
    import structlog

    if structlog.is_configured():
        return
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(_level),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
            structlog.processors.LogfmtRenderer(bool_as_flag=False),
        ],
    )
