"""Which namespaces a policy's `namespaceSelector` means: those that match its labels and an `include` pattern, and no `exclude`.

Patterns alone, or labels alone, are enough; with neither no namespace is meant. Namespaces that are being deleted count, unless the
selector or, by default, the controller says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from muster.kube.selectors import Selector, SelectorError, from_label_selector_object
from muster.machinery.objects import Object
from muster.policy.configuration.patterns import PatternError, matcher

_LABELS: Final = ("matchLabels", "matchExpressions")


class NamespaceSelectorError(Exception):
    """The selector cannot be understood."""


def selects_none(selector: Object) -> bool:
    return not selector.get("include") and not any(key in selector for key in _LABELS)


def selected_namespaces(selector: Object, namespaces: Iterable[Object], *, drop_terminating: bool) -> list[str]:
    """Names, sorted. `drop_terminating` is what the selector's `Default` means. Raises NamespaceSelectorError."""
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
    """A malformed pattern is found out when a name gets to it."""
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
