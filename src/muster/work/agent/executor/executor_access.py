"""Permissions of an executor (`muster.runtime.auth.SubjectAccess`), with the cached results of its dry runs."""

from __future__ import annotations

from typing import Any, Final

from muster.runtime.auth import SubjectAccess, TTLCache

REFUSED_TTL: Final = 60.0
"""Seconds a rehearsal is remembered that was refused, ..."""
ACCEPTED_TTL: Final = 1800.0
"""... or accepted, where changes of RBAC are noticed."""


class ExecutorAccess(SubjectAccess):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.rehearsals: TTLCache[str] = TTLCache(self._remembered_for, self._clock)

    def _remembered_for(self, problem: str) -> float:
        if problem:
            return REFUSED_TTL if self.followed else self.UNSYNCED_TTL
        return ACCEPTED_TTL if self.followed else 0.0
