"""Separates changes by others from watch events of our own writes, as client-go's MutationCache does by resourceVersion.

The event of a write often comes before the answer to the write, so events of an object are held back while a write to it is under
way; with the answer they are either recognized as its echo and dropped, or delivered.
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
        """By name, during a write: the version that arrived last."""
        self._gone: set[str] = set()
        """During a write: names whose deletion the watch has reported."""

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
        """Context of a write; the function that it yields takes the resulting version. One write per object at a time."""
        self._held.setdefault(name, None)

        def wrote(version: str) -> None:
            self._ours[name] = version

        try:
            yield wrote
        finally:
            held = self._held.pop(name, None)
            if name in self._gone:
                # The write removed the last finalizer, and its answer came after the deletion's event: no other event will come.
                self._gone.discard(name)
                self._ours.pop(name, None)
            elif held is not None and held != self._ours.get(name):
                self._notify(name)

    def _notify(self, name: str) -> None:
        for handler in self._handlers:
            handler(name)
