"""Objects of Kubernetes, and the context, as templates see them.

Numbers of objects are int64 in Go, and an object says its kind. Objects that are read are shared with everybody and read often by
many policies, so what a template sees of one is made once and, where nothing in it has to be different, is the object itself. A
template that changes maps gets copies instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from muster.gotemplate.values import Int64, Map, Struct, int64s
from muster.machinery.objects import GVR, Object
from muster.policy.resolver.errors import InvalidContext

_CONTEXT_TYPES: Final = {"ManagedClusterLabels": "map[string]string"}
"""Fields of contexts that are no map[string]interface {} in Go."""
_PLAIN: Final = frozenset({str, bool, int, float, type(None)})
_KEPT: Final = 2048
"""Objects of which the view is kept."""


def typed(value: Any) -> Any:
    """The value with int64 for integers; what has none inside is not copied."""
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
    """The views of the objects read last. When there are too many all go: those that are in use come back at once."""

    def __init__(self) -> None:
        self._views: dict[int, tuple[Object, Object]] = {}

    def of(self, obj: Object, resource: GVR, *, private: bool = False) -> Object:
        """`private`: a copy that may be changed."""
        if private:
            return _with_kind(int64s(obj), resource)
        found = self._views.get(id(obj))
        if found is not None:
            return found[1]
        view = _with_kind(typed(obj), resource)
        if len(self._views) >= _KEPT:
            self._views.clear()
        # The object is kept too, so that nothing else can have its id.
        self._views[id(obj)] = obj, view
        return view


def _with_kind(obj: Object, resource: GVR) -> Object:
    """Servers leave apiVersion and kind out of the items of a list."""
    return obj if "kind" in obj else {"apiVersion": resource.api_version, "kind": resource.kind, **obj}


def context_struct(context: Mapping[str, Any] | None, *, private: bool) -> Any:
    """A template's dot: a struct, of which an unknown field is an error, or nil, of which any field has no value, where there is no
    context. (Upstream makes an empty struct of nil and then, where it caches what it reads, goes on with nil.) Raises
    InvalidContext."""
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
