"""A fake cluster: objects in memory, with a client's methods and none of a server's rules.

Like client-go's fake client, on which upstream's dryrun runs: no defaulting, no validation, namespaces need not exist, and a dry
run writes. The changes of one template are therefore visible to the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from muster.kube.selectors import parse_label_selector
from muster.machinery.objects import GVR, Object
from muster.policy.dryrun.mappings import Mappings
from muster.runtime.cache import Selection
from muster.runtime.client import AlreadyExists, NoKindMatch, NotFound
from muster.runtime.client.builtin import NAMESPACES

DEFAULT_NAMESPACE = "default"
_SERVERS = ("resourceVersion", "generatedName", "creationTimestamp", "selfLink", "uid")
"""Metadata of objects read from a cluster that new objects do not have."""


class InvalidObject(Exception):
    """An input object that no cluster would accept."""


class FakeCluster:
    """The source of objects for templates and comparisons, and the target of writes."""

    def __init__(self, mappings: Mappings, objects: Iterable[Object] = ()) -> None:
        """Raises InvalidObject."""
        self._mappings = mappings
        self._objects: dict[GVR, dict[tuple[str, str], Object]] = {}
        self._add(NAMESPACES, "", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": DEFAULT_NAMESPACE}})
        for obj in objects:
            self._take(obj)

    def _take(self, obj: Object) -> None:
        api_version, kind, metadata = obj.get("apiVersion"), obj.get("kind"), obj.get("metadata")
        if not isinstance(api_version, str) or not isinstance(kind, str) or not isinstance(metadata, dict):
            raise InvalidObject("an input object needs apiVersion, kind and metadata")
        resource = self._mappings.get(api_version, kind)
        if resource is None:
            raise InvalidObject(
                "the resource version was not found for kind "
                f"{kind}: if this is a custom resource, it may need an entry in the mappings file"
            )
        metadata = {key: value for key, value in metadata.items() if key not in _SERVERS}
        if resource.namespaced and not metadata.get("namespace"):
            metadata["namespace"] = DEFAULT_NAMESPACE
        namespace = metadata.get("namespace", "") if resource.namespaced else ""
        self._add(resource, namespace, {**obj, "metadata": metadata})

    def _add(self, resource: GVR, namespace: str, obj: Object) -> None:
        """The first object of a name is kept."""
        self._objects.setdefault(resource, {}).setdefault((namespace, obj["metadata"].get("name", "")), obj)

    # Reads

    async def mapping(self, api_version: str, kind: str) -> GVR:
        found = self._mappings.get(api_version, kind)
        if found is None:
            raise NoKindMatch(api_version, kind)
        return found

    async def read(self, selection: Selection) -> Sequence[Object]:
        every = self._objects.get(selection.resource, {})
        if selection.name:
            namespace = selection.namespace if selection.resource.namespaced else ""
            found = every.get((namespace, selection.name))
            return () if found is None else (found,)
        labels = parse_label_selector(selection.label_selector)
        return [
            obj
            for (namespace, _), obj in sorted(every.items())
            if (not selection.namespace or namespace == selection.namespace) and labels.matches(obj["metadata"].get("labels"))
        ]

    # Writes

    async def get(self, resource: GVR, name: str, namespace: str = "") -> Object:
        found = self._objects.get(resource, {}).get((namespace, name))
        if found is None:
            raise self._missing(resource, name)
        return found

    async def create(self, resource: GVR, obj: Object, namespace: str = "", **_: Any) -> Object:
        name = obj["metadata"].get("name", "")
        if (namespace, name) in self._objects.get(resource, {}):
            raise AlreadyExists(409, "AlreadyExists", f'{resource} "{name}" already exists')
        self._add(resource, namespace, obj)
        return obj

    async def update(self, resource: GVR, obj: Object, **_: Any) -> Object:
        metadata = obj["metadata"]
        key = (metadata.get("namespace", "") if resource.namespaced else "", metadata.get("name", ""))
        objects = self._objects.get(resource, {})
        if key not in objects:
            raise self._missing(resource, key[1])
        objects[key] = obj
        return obj

    async def delete(self, resource: GVR, name: str, namespace: str = "") -> Object:
        found = await self.get(resource, name, namespace)
        del self._objects[resource][(namespace, name)]
        return found

    @staticmethod
    def _missing(resource: GVR, name: str) -> NotFound:
        return NotFound(404, "NotFound", f'{resource} "{name}" not found')
