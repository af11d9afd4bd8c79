"""Watches of ConfigurationPolicies on the managed cluster: names of followers, and the namespaces of selectors.

With `watch`, a policy watches everything that its last evaluation read. With an interval, or `never`, it watches only the
namespaces that its selector has selected: it is evaluated when these change, whatever the interval is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from muster.api.policy.v1 import ConfigurationPolicy, RelatedResource
from muster.machinery.objects import Object, ObjectKey
from muster.policy.configuration.namespaces import NamespaceSelectorError, selected_namespaces, selects_none
from muster.runtime.cache import FollowedSelections, Selection
from muster.runtime.client.builtin import NAMESPACES, SECRETS

KIND: Final = ConfigurationPolicy.resource.kind
_NAMESPACES: Final = "namespaces"
_ALL_NAMESPACES: Final = Selection(NAMESPACES)


def follower_of(key: ObjectKey) -> str:
    return f"{KIND}/{key.namespace}/{key.name}"


def policy_of(follower: str) -> ObjectKey | None:
    """The policy of a follower; None for other kinds."""
    kind, namespace, name, *_ = follower.split("/")
    return ObjectKey(namespace, name) if kind == KIND else None


async def followed_objects(selections: FollowedSelections, key: ObjectKey) -> Mapping[RelatedResource, Object]:
    """The objects that a policy watches, keyed as in its status; except Secrets, which others must not see."""
    follower = follower_of(key)
    found: dict[RelatedResource, Object] = {}
    for selection in selections.selections_of(follower):
        resource = selection.resource
        if resource == SECRETS:
            continue
        for obj in await selections.read(follower, selection):
            metadata = {field: obj["metadata"].get(field) or "" for field in ("name", "namespace")}
            named = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
            found[msgspec.convert(named, RelatedResource)] = obj
    return found


@dataclass(frozen=True)
class _Selection:
    selector: Object
    namespaces: tuple[str, ...]


class SelectedNamespaces:
    """The namespaces that the selectors of policies without other watches have selected."""

    def __init__(self, selections: FollowedSelections, *, drop_terminating: bool) -> None:
        self._selections = selections
        self._drop_terminating = drop_terminating
        self._selected: dict[ObjectKey, _Selection] = {}

    async def track(self, key: ObjectKey, selector: Object) -> None:
        """Record the current selection. Raises KubeError."""
        if selects_none(selector):
            self.forget(key)
        else:
            self._selected[key] = _Selection(selector, await self._select(key, selector))

    async def changed(self, key: ObjectKey) -> bool:
        """Whether the selection has changed. Raises KubeError."""
        before = self._selected.get(key)
        return before is not None and await self._select(key, before.selector) != before.namespaces

    def forget(self, key: ObjectKey) -> None:
        if self._selected.pop(key, None) is not None:
            self._selections.forget(self._name(key))

    async def _select(self, key: ObjectKey, selector: Object) -> tuple[str, ...]:
        namespaces = await self._selections.read(self._name(key), _ALL_NAMESPACES)
        try:
            return tuple(selected_namespaces(selector, namespaces, drop_terminating=self._drop_terminating))
        except NamespaceSelectorError:
            return ()

    @staticmethod
    def _name(key: ObjectKey) -> str:
        return f"{follower_of(key)}/{_NAMESPACES}"
