"""One subscription: its scope, its listener, and its end.

A listener runs in the middle of a publication, so its exceptions are logged and not propagated: they must affect neither the other
listeners nor the writer. A watch registers itself under its scope and removes itself when it is closed.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from muster.store.api import Event, Listener, Lost

logger = logging.getLogger(__name__)

Scope = tuple[str | None, str | None, str | None]
"""Cluster, resource and prefix: one key, or all keys below a namespace ("name/"). None stands for all."""


class Watch:
    """A subscription. `after` excludes events that were replayed, or that the reader has from another server."""

    __slots__ = ("_listener", "_on_lost", "_scope", "_scopes", "after", "closed")

    def __init__(
        self, scopes: dict[Scope, dict[Watch, None]], scope: Scope, after: int, listener: Listener, on_lost: Lost | None
    ) -> None:
        self._scopes = scopes
        self._scope = scope
        self.after = after
        self._listener = listener
        self._on_lost = on_lost
        self.closed = False
        scopes.setdefault(scope, {})[self] = None

    def deliver(self, events: Sequence[Event]) -> None:
        if self.closed:
            return
        if events[0].entry.revision <= self.after:
            events = [event for event in events if event.entry.revision > self.after]
            if not events:
                return
        try:
            self._listener(events)
        except Exception:
            logger.exception("a listener of %s failed; other listeners and the write are not affected", self._scope)

    def lose(self) -> None:
        if self.closed:
            return
        self.close()
        if self._on_lost is None:
            logger.warning("history of %s is gone and its listener cannot be notified; its subscription ends", self._scope)
            return
        try:
            self._on_lost()
        except Exception:
            logger.exception("the on_lost callback of %s failed", self._scope)

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        watches = self._scopes.get(self._scope)
        if watches is not None:
            watches.pop(self, None)
            if not watches:
                del self._scopes[self._scope]
