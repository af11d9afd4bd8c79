"""A source that records what is read, and the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from muster.machinery.objects import GVR, Object, ObjectKey, key_of
from muster.policy.resolver.interfaces import ObjectSource
from muster.runtime.cache import Selection
from muster.runtime.client import KubeError


@dataclass(frozen=True)
class Read:
    """One selection, which a controller would watch."""

    selection: Selection
    found: tuple[ObjectKey, ...] = ()
    error: str = ""

    @property
    def what(self) -> str:
        """A short description of the object or objects."""
        selection = self.selection
        if selection.name:
            return selection.name
        return selection.label_selector or "all"


class RecordingSource:
    """Wraps another source; each selection is read only once."""

    def __init__(self, source: ObjectSource) -> None:
        self._source = source
        self._reads: dict[Selection, Read] = {}

    @property
    def reads(self) -> tuple[Read, ...]:
        return tuple(self._reads.values())

    async def mapping(self, api_version: str, kind: str) -> GVR:
        return await self._source.mapping(api_version, kind)

    async def read(self, selection: Selection) -> Sequence[Object]:
        try:
            objects = await self._source.read(selection)
        except KubeError as error:
            self._reads[selection] = Read(selection, error=str(error))
            raise
        self._reads[selection] = Read(selection, tuple(map(key_of, objects)))
        return objects
