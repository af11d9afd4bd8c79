"""Tells news from echoes: a change that a watch brings is no news if it is what we have just written ourselves.

An echo is known by its resourceVersion. It often comes before the answer to the write that made it, so while a write is under way
what comes about its object is held back; when the answer is there, it is either that version, and forgotten, or told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Echoes:
    def __init__(self) -> None:
        self._handlers: list[Callable[[str], None]] = []
        self._ours: dict[str, str] = {}
        """By name: the version that we wrote last."""
        self._held: dict[str, str | None] = {}
        """By name, while a write is under way: the version that came last."""
        self._gone: set[str] = set()
        """Of those that are being written: what the watch has told to be gone."""

    def on_change(self, handler: Callable[[str], None]) -> None:
        self._handlers.append(handler)

    def came(self, name: str, version: str) -> None:
        """A watch has brought this version."""
        if name in self._held:
            self._held[name] = version
            self._gone.discard(name)
        elif self._ours.get(name) != version:
            self._notify(name)

    def went(self, name: str) -> None:
        self._ours.pop(name, None)
        if name in self._held:
            self._gone.add(name)
        self._notify(name)

    @contextmanager
    def writing(self, name: str) -> Iterator[Callable[[str], None]]:
        """Around a write; what it gives is to be told the version that came of it. One write per object at a time."""
        self._held.setdefault(name, None)

        def wrote(version: str) -> None:
            self._ours[name] = version

        try:
            yield wrote
        finally:
            held = self._held.pop(name, None)
            if name in self._gone:
                # The write took the last finalizer away, and its answer came after the word of the end: no more will come.
                self._gone.discard(name)
                self._ours.pop(name, None)
            elif held is not None and held != self._ours.get(name):
                self._notify(name)

    def _notify(self, name: str) -> None:
        for handler in self._handlers:
            handler(name)
