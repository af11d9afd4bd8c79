"""Kubernetes objects and the context, as templates see them.

Numbers of objects are int64 in Go, and an object has its kind. Objects are shared and read often by many policies, so their
views are cached and, if nothing has to be different, are the objects themselves. A template that modifies maps gets copies.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from muster.gotemplate.values import Int64, Map, Struct, int64s
from muster.machinery.objects import GVR, Object
from muster.policy.resolver.errors import InvalidContext

_CONTEXT_TYPES: Final = {"ManagedClusterLabels": "map[string]string"}
"""Fields of contexts that are not map[string]interface {} in Go."""
_PLAIN: Final = frozenset({str, bool, int, float, type(None)})
_KEPT: Final = 2048
"""Number of cached views."""


def typed(value: Any) -> Any:
    """The value with int64 for integers; values without integers are not copied."""
    cls = value.__class__
    if cls is int:
        return Int64(value)
    if cls is not dict and cls is not list:
        return value
    made: Any = None
    for key, item in value.items() if cls is dict else enumerate(value):
        changed = typed(item)
        if changed is not item:
            if made is None:
                made = value.copy()
            made[key] = changed
    return value if made is None else made


class ObjectViews:
    """A cache of views. When it is full, it is emptied: views in use are created again at once."""

    def __init__(self) -> None:
        self._views: dict[int, tuple[Object, Object]] = {}

    def of(self, obj: Object, resource: GVR, *, private: bool = False) -> Object:
        """`private`: a copy that may be modified."""
        if private:
            return _with_kind(int64s(obj), resource)
        found = self._views.get(id(obj))
        if found is not None:
            return found[1]
        view = _with_kind(typed(obj), resource)
        if len(self._views) >= _KEPT:
            self._views.clear()
        # The object is referenced, so that its id cannot be reused.
        self._views[id(obj)] = obj, view
        return view


def _with_kind(obj: Object, resource: GVR) -> Object:
    """Servers omit apiVersion and kind in the items of a list."""
    return obj if "kind" in obj else {"apiVersion": resource.api_version, "kind": resource.kind, **obj}


def context_struct(context: Mapping[str, Any] | None, *, private: bool) -> Any:
    """The template's dot: a struct, whose unknown fields are errors, or nil without a context, of which any field is <no value>.
    (Upstream converts nil to an empty struct and then, if it caches reads, continues with nil.) Raises InvalidContext."""
    if context is None:
        return None
    return Struct({name: _field(name, value, private) for name, value in context.items()})


def _field(name: str, value: Any, private: bool) -> Any:
    if name in _CONTEXT_TYPES:
        return Map(value or (), _CONTEXT_TYPES[name], is_nil=value is None)
    if value.__class__ in _PLAIN:
        return value
    if isinstance(value, (dict, list, Struct)):
        return int64s(value) if private else typed(value)
    raise InvalidContext(
        "the input context must be a struct that recurses to kinds bool, int, float, or string, "
        f"found value of kind {type(value).__name__} in {name}"
    )
