"""The resource table of one logical cluster: the built-in rows, which all clusters share, and its custom rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from muster.apiserver.registry.resource import ServedResource

Key = tuple[str, str, str]
"""(group, version, plural)"""


class ResourceTable:
    """Rows by (group, version, plural). `generation` changes with every change of custom rows, to invalidate documents that are
    built from the table (discovery, OpenAPI)."""

    def __init__(self, builtin: dict[Key, ServedResource]) -> None:
        self._builtin = builtin
        self._custom: dict[Key, ServedResource] = {}
        self._stored: dict[str, tuple[ServedResource, ...]] = {}
        self.generation = 0

    def get(self, group: str, version: str, plural: str) -> ServedResource | None:
        key = (group, version, plural)
        return self._builtin.get(key) or self._custom.get(key)

    def __iter__(self) -> Iterator[ServedResource]:
        yield from self._builtin.values()
        yield from self._custom.values()

    def custom(self) -> Iterable[ServedResource]:
        return self._custom.values()

    def is_builtin(self, group: str) -> bool:
        """Whether a group is built in; CRDs cannot add versions or resources to it."""
        return any(key[0] == group for key in self._builtin)

    def has_version(self, group: str, version: str) -> bool:
        return any(row.group == group and row.version == version for row in self)

    def by_kind(self, group: str, version: str, kind: str) -> ServedResource | None:
        return next((r for r in self if (r.group, r.version, r.kind) == (group, version, kind)), None)

    def by_group_kind(self, group: str, kind: str) -> ServedResource | None:
        return next((r for r in self if (r.group, r.kind) == (group, kind)), None)

    def stored_as(self, storage: str) -> tuple[ServedResource, ...]:
        """All rows with this storage name. Cached, because every write under admission needs it."""
        found = self._stored.get(storage)
        if found is None:
            found = self._stored[storage] = tuple(row for row in self if row.storage == storage)
        return found

    def by_storage(self, storage: str) -> ServedResource | None:
        """A row with this storage name, preferably that of the storage version."""
        rows = self.stored_as(storage)
        return next((r for r in rows if r.api_version == r.storage_version), rows[0] if rows else None)

    def storages(self) -> dict[str, ServedResource]:
        """One row per stored resource: versions of one resource count once."""
        found: dict[str, ServedResource] = {}
        for row in self:
            if row.api_version == row.storage_version or row.storage not in found:
                found[row.storage] = row
        return found

    def replace_custom(self, group: str, plural: str, rows: Iterable[ServedResource]) -> None:
        """Set the served versions of one custom resource; an empty `rows` removes it."""
        for key in [k for k in self._custom if k[0] == group and k[2] == plural]:
            del self._custom[key]
        for row in rows:
            self._custom[(row.group, row.version, row.plural)] = row
        self._stored.clear()
        self.generation += 1
