"""Logging of all programs: structured lines, with structlog imported by the first line that is written.

Importing structlog (and rich, which it imports if it is installed) takes longer than everything else at the start, and a healthy
server writes no line before it is ready; so loggers here only have their name until then.

Several programs may run in one process as tasks. `diverted` passes the lines of the current task, and of tasks it starts, to a
function instead of standard error: so each has a log of its own. Lines are printable, whatever fields contain.

A line has time, level and event, then the fields: as logfmt, or as JSON if that is configured.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from muster.machinery.printable import printable

DEBUG, INFO, WARNING, ERROR = 10, 20, 30, 40
_level = INFO
TEXT, JSON = "text", "json"
FORMATS = (TEXT, JSON)
_HEAD = ("timestamp", "level", "event")
_format: ContextVar[str] = ContextVar("log format", default=TEXT)
_sink: ContextVar[Callable[[str], object] | None] = ContextVar("log sink", default=None)


class Logger:
    """A module's logger. `event` is what happened; fields have the object and the cause."""

    __slots__ = ("_name", "_structured")

    def __init__(self, name: str) -> None:
        self._name = name
        self._structured: Any = None

    def debug(self, event: str, **fields: object) -> None:
        if _level <= DEBUG:
            self._write("debug", event, fields)

    def info(self, event: str, **fields: object) -> None:
        if _level <= INFO:
            self._write("info", event, fields)

    def warning(self, event: str, **fields: object) -> None:
        if _level <= WARNING:
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
    """The minimum level of lines from now on: `DEBUG`, `INFO`, `WARNING` or `ERROR`."""
    global _level
    _level = level


def set_format(name: str) -> None:
    """The format of lines of this context, and of tasks that it starts, from now on: one of `FORMATS`."""
    _format.set(name)


def current_format() -> str:
    return _format.get()


@contextmanager
def diverted(sink: Callable[[str], object] | None) -> Iterator[None]:
    """Inside, lines of this context are passed to `sink`, each with its line break; to standard error again if it is None."""
    token = _sink.set(sink)
    try:
        yield
    finally:
        _sink.reset(token)


class _Output:
    """Looks up the sink for every line: loggers outlive contexts."""

    def write(self, text: str) -> None:
        text = printable(text)
        sink = _sink.get()
        if sink is not None:
            sink(text)
        else:
            sys.stderr.write(text)

    def flush(self) -> None:
        if _sink.get() is None:
            sys.stderr.flush()


def _configure() -> None:
    import structlog

    if structlog.is_configured():
        return
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(_level),
        logger_factory=structlog.WriteLoggerFactory(_Output()),  # type: ignore[arg-type]  # of a file it uses these two
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
            _Renderer(),
        ],
    )


class _Renderer:
    """Looks up the format for every line: loggers outlive contexts."""

    def __init__(self) -> None:
        import structlog

        self._text = structlog.processors.LogfmtRenderer(key_order=_HEAD, drop_missing=True, bool_as_flag=False)

    def __call__(self, logger: Any, method: str, fields: MutableMapping[str, Any]) -> str:
        if _format.get() == TEXT:
            return str(self._text(logger, method, fields))
        ordered = {name: fields.pop(name) for name in _HEAD if name in fields}
        return json.dumps({**ordered, **fields}, default=str, ensure_ascii=False)
