"""The event loop of every command, and its handling of exceptions that no task awaits.

The limit on open files is raised first: every connection is one, and the default limit suffices for a few hundred agents only.

A connection that is abandoned while it is being opened may fail afterwards, when no task awaits it: the loop would print a
traceback although nothing is wrong. The same is true of TLS on a connection that the peer has closed: uvloop closes its socket
while it reads earlier data, then writes to it and reports an error of its own. All other exceptions that no task awaits are bugs,
and are printed.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Coroutine
from typing import Any, TypeVar

from muster.cli.console import echo
from muster.machinery.logs import get_logger

log = get_logger("muster.cli")

T = TypeVar("T")


def run_loop(work: Coroutine[Any, Any, T]) -> T:
    import uvloop

    from muster.http.filelimit import raise_file_limit

    raise_file_limit()
    return uvloop.run(_tended(work))


async def _tended(work: Coroutine[Any, Any, T]) -> T:
    asyncio.get_running_loop().set_exception_handler(_unheard)
    return await work


def _unheard(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    error = context.get("exception")
    if isinstance(error, OSError) and "future" in context and not isinstance(context["future"], asyncio.Task):
        log.debug("a connection failed that was given up before", error=f"{type(error).__name__}: {error}")
        return
    if isinstance(error, RuntimeError) and _is_of_closed_connection(context) and _is_raised_by_loop(error):
        log.debug("a connection was written to that is closed", error=str(error))
        return
    text = context.get("message") or "Unhandled exception in event loop"
    trace = traceback.format_exception(error) if isinstance(error, BaseException) else []
    echo("".join([f"{text}\n", *trace]).rstrip("\n"), err=True)


def _is_of_closed_connection(context: dict[str, Any]) -> bool:
    transport = context.get("transport")
    return transport is not None and bool(transport.is_closing())


def _is_raised_by_loop(error: BaseException) -> bool:
    """Whether no code of ours was running: frames of uvloop have its own source files."""
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and frames[-1].filename.startswith("uvloop/")
