"""Comparison of a manifest with its live object, and the merge that keeps all fields which the manifest does not set.

`agrees` is whether all fields of the manifest have their values already. Defaults of the server, dropped empty fields and other
spellings of quantities are no differences. `overlay` sets the manifest's fields and keeps the rest. `drop_unspecified` removes the
fields that an earlier manifest had set and this one does not. Some maps are *closed*: the manifest has all their entries (the
data of a ConfigMap, a selector), because one more entry changes their meaning.

Nothing here changes its arguments; a result shares with them what did not change. Manifests pass through `drop_nulls` first: a null
sets nothing. After `overlay(desired, live)`, `agrees(desired, …)` is true.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from muster.machinery.golang.quantities import QuantityError, parse_quantity

_KEYS: Final = (
    ("name",),
    ("key",),
    ("containerPort", "protocol"),
    ("containerPort",),
    ("port", "protocol"),
    ("port",),
    ("mountPath",),
    ("devicePath",),
    ("topologyKey", "whenUnsatisfiable"),
    ("type",),
    ("ip",),
)
"""Keys that identify elements of Kubernetes' lists; the first one is used that all elements of both lists have."""
_MAPS: Final = frozenset(
    ("annotations", "binaryData", "data", "labels", "limits", "matchLabels", "nodeSelector", "requests", "selector")
)
"""Fields of built-in kinds that are maps: an empty one is dropped by the server, unlike an empty struct (`emptyDir: {}`)."""
_QUANTITIES: Final = frozenset(
    ("capacity", "default", "defaultRequest", "hard", "limits", "max", "maxLimitRequestRatio", "min", "overhead", "requests")
)
_QUANTITY: Final = frozenset(("divisor", "maximumVolumeSize", "sizeLimit"))


@dataclass(frozen=True, slots=True)
class ComparisonRules:
    """How the fields of a kind are read."""

    builtin: bool = False
    """Whether the server drops empty fields, as it does for its own kinds; it keeps those of custom resources."""
    closed: frozenset[str] = frozenset()
    """Names of fields, at any depth, whose value is all there may be."""


def drop_nulls(desired: Any) -> Any:
    """The manifest without nulls in maps."""
    if isinstance(desired, dict):
        return {key: drop_nulls(value) for key, value in desired.items() if value is not None}
    return [drop_nulls(value) for value in desired] if isinstance(desired, list) else desired


def agrees(desired: Any, live: Any, rules: ComparisonRules, field: str = "", parent: str = "") -> bool:
    """Whether `live` has all fields of `desired`; None is a missing field."""
    if isinstance(desired, dict):
        return _map_agrees(desired, live, rules, field)
    if isinstance(desired, list):
        return _list_agrees(desired, live, rules, field)
    if live is None:
        return desired is None or (rules.builtin and desired in ("", 0, False))
    if desired == live:
        return isinstance(desired, bool) is isinstance(live, bool)
    return rules.builtin and (parent in _QUANTITIES or field in _QUANTITY) and _same_quantity(desired, live)


def _map_agrees(desired: dict[str, Any], live: Any, rules: ComparisonRules, field: str) -> bool:
    if live is None:
        return rules.builtin and not desired and field in _MAPS
    if not isinstance(live, dict) or (field in rules.closed and any(key not in desired for key in live)):
        return False
    return all(agrees(value, live.get(key), rules, key, field) for key, value in desired.items())


def _list_agrees(desired: list[Any], live: Any, rules: ComparisonRules, field: str) -> bool:
    if live is None:
        return rules.builtin and not desired
    if not isinstance(live, list) or len(desired) != len(live):
        return False
    if field in rules.closed:
        return all(_alike(mine, theirs) for mine, theirs in zip(desired, live, strict=True))
    return all(agrees(mine, theirs, rules, "", field) for mine, theirs in zip(desired, live, strict=True))


def _alike(desired: Any, live: Any) -> bool:
    """Equal but for what is empty."""
    if isinstance(desired, dict) and isinstance(live, dict):
        return all(_alike(desired.get(key) or None, live.get(key) or None) for key in desired.keys() | live.keys())
    return bool(desired == live)


def _same_quantity(desired: Any, live: Any) -> bool:
    try:
        return parse_quantity(str(desired)) == parse_quantity(str(live))
    except QuantityError:
        return False


def overlay(desired: Any, live: Any, rules: ComparisonRules, field: str = "") -> Any:
    """`live` with all fields of `desired`."""
    if isinstance(desired, dict) and isinstance(live, dict) and field not in rules.closed:
        return {**live, **{key: overlay(value, live.get(key), rules, key) for key, value in desired.items()}}
    if isinstance(desired, list) and isinstance(live, list) and field not in rules.closed:
        return [element if match is None else overlay(element, match, rules) for element, match in paired(desired, live)]
    return desired


def replacement(desired: Any, live: Any, rules: ComparisonRules, depth: int = 0, field: str = "") -> Any:
    """`live` with all that `desired` says, where a map of which something changes loses what is not said.

    For alternatives: one kind of volume, of probe or of rollout instead of another. The object's own fields and those of its spec
    are spared, where what others say (how many replicas) lives.
    """
    if isinstance(desired, dict) and isinstance(live, dict) and field not in rules.closed:
        if depth > 1 and any(not agrees(value, live.get(key), rules, key, field) for key, value in desired.items()):
            return desired
        return {**live, **{key: replacement(value, live.get(key), rules, depth + 1, key) for key, value in desired.items()}}
    if isinstance(desired, list) and isinstance(live, list) and field not in rules.closed:
        return [
            element if match is None else replacement(element, match, rules, depth + 1) for element, match in paired(desired, live)
        ]
    return desired


def paired(desired: list[Any], live: list[Any]) -> list[tuple[Any, Any]]:
    """Each said element with the live one it is about, or with None: by a key, else by place in lists of one length."""
    for key in _KEYS:
        mine, theirs = _indexed(desired, key), _indexed(live, key)
        if mine is not None and theirs is not None:
            return [(element, theirs.get(identity)) for identity, element in mine.items()]
    if len(desired) == len(live):
        return list(zip(desired, live, strict=True))
    return [(element, None) for element in desired]


def _indexed(elements: list[Any], key: tuple[str, ...]) -> dict[tuple[Any, ...], Any] | None:
    found: dict[tuple[Any, ...], Any] = {}
    for element in elements:
        if not isinstance(element, dict):
            return None
        identity = tuple(element.get(part) for part in key)
        if not all(isinstance(part, str | int) for part in identity) or identity in found:
            return None
        found[identity] = element
    return found


def drop_unspecified(before: Any, desired: Any, live: Any) -> Any:
    """`live` without the fields that `before` had and `desired` has not; only the names of fields count, not their values."""
    if isinstance(before, dict) and isinstance(desired, dict) and isinstance(live, dict):
        gone = {key for key in before if key in live and key not in desired}
        kept = {
            key: drop_unspecified(before[key], desired[key], value) if key in before and key in desired else value
            for key, value in live.items()
            if key not in gone
        }
        return kept if gone or any(kept[key] is not live[key] for key in kept) else live
    if isinstance(before, list) and isinstance(desired, list) and isinstance(live, list):
        return _drop_unspecified_elements(before, desired, live)
    return live


def _drop_unspecified_elements(before: list[Any], desired: list[Any], live: list[Any]) -> list[Any]:
    earlier = {id(mine): old for mine, old in paired(desired, before)}
    kept = [drop_unspecified(earlier.get(id(mine)), mine, element) for element, mine in paired(live, desired)]
    return kept if any(new is not old for new, old in zip(kept, live, strict=True)) else live


def shape(desired: Any, rules: ComparisonRules) -> Any:
    """The names of a manifest's fields without their values: enough to find later which fields were removed from it."""
    if isinstance(desired, dict):
        return {key: _outline(key, value, rules) for key, value in desired.items()}
    if isinstance(desired, list):
        return [shape(element, rules) for element in desired]
    return 0


def _outline(key: str, value: Any, rules: ComparisonRules) -> Any:
    if key in rules.closed:
        return 0
    # What tells elements apart is kept, so that they are found again.
    return value if key in _IDENTIFYING and isinstance(value, str | int) else shape(value, rules)


_IDENTIFYING: Final = frozenset(part for key in _KEYS for part in key)
