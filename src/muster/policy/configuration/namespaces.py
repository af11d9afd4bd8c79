"""The namespaces of a policy's `namespaceSelector`: those that match its labels and an `include` pattern, and no `exclude`
pattern.

Patterns alone, or labels alone, are sufficient; without both, no namespace is selected. Terminating namespaces are included
unless the selector or, by default, the controller excludes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from muster.kube.selectors import Selector, SelectorError, from_label_selector_object
from muster.machinery.objects import Object
from muster.policy.configuration.patterns import PatternError, matcher

_LABELS: Final = ("matchLabels", "matchExpressions")


class NamespaceSelectorError(Exception):
    """The selector is invalid."""


def selects_none(selector: Object) -> bool:
    return not selector.get("include") and not any(key in selector for key in _LABELS)


def selected_namespaces(selector: Object, namespaces: Iterable[Object], *, drop_terminating: bool) -> list[str]:
    """Sorted names. `drop_terminating` is the meaning of the selector's `Default`. Raises NamespaceSelectorError."""
    if selects_none(selector):
        return []
    inclusion = selector.get("terminatingInclusion") or "Default"
    keep_terminating = inclusion == "IfMatch" or (inclusion == "Default" and not drop_terminating)
    labels = _labels(selector)
    found = sorted(
        namespace["metadata"]["name"]
        for namespace in namespaces
        if (keep_terminating or not namespace["metadata"].get("deletionTimestamp"))
        and labels.matches(namespace["metadata"].get("labels"))
    )
    return [name for name in found if _included(selector, name) and not _matches("exclude", selector.get("exclude") or (), name)]


def _included(selector: Object, name: str) -> bool:
    patterns = selector.get("include")
    return not patterns or _matches("include", patterns, name)


def _matches(field: str, patterns: Sequence[str], name: str) -> bool:
    """A malformed pattern is only detected when a name is compared with it."""
    for pattern in patterns:
        try:
            if matcher(pattern)(name):
                return True
        except PatternError as error:
            raise NamespaceSelectorError(f"error parsing '{field}' pattern '{pattern}': {error}") from error
    return False


def _labels(selector: Object) -> Selector:
    try:
        return from_label_selector_object({key: selector.get(key) for key in _LABELS})
    except SelectorError as error:
        raise NamespaceSelectorError(f"error parsing namespace LabelSelector: {error}") from error
