"""Merges a template into an existing value. Follows `mergeSpecsHelper` of config-policy-controller.

Fields that the template does not have are kept, and so are items of lists: each existing item is compared with the template's
items that are not matched yet. Maps with the same `name` are merged; others match only if the template changes nothing in them.
Items of the template come first, unmatched existing ones follow. Therefore a changed value in a list of unnamed items adds an
item.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from muster.policy.comparison.equivalence import equivalent, text_of


class Merged(NamedTuple):
    value: Any
    missing_key: bool = False
    """Whether the template has fields that do not exist."""


def merge(template: Any, existing: Any, *, zero_is_absent: bool) -> Merged:
    if isinstance(template, dict) and isinstance(existing, dict):
        return _merge_fields(template, existing, zero_is_absent)
    if isinstance(template, list) and isinstance(existing, list):
        return _merge_lists(template, existing, zero_is_absent)
    if template is None and isinstance(existing, dict):
        return Merged(existing)
    return Merged(template)


def _merge_fields(template: dict[str, Any], existing: dict[str, Any], zero_is_absent: bool) -> Merged:
    missing_key = False
    result = dict(existing)
    for key, value in template.items():
        if key in existing:
            result[key], missing = merge(value, existing[key], zero_is_absent=zero_is_absent)
            missing_key = missing_key or missing
        else:
            result[key] = value
            missing_key = True
    return Merged(result, missing_key)


def _same_name(one: dict[str, Any], other: dict[str, Any]) -> bool:
    name = one.get("name")
    return isinstance(name, str) and name != "" and other.get("name") == name


def _merge_lists(template: Sequence[Any], existing: Sequence[Any], zero_is_absent: bool) -> Merged:
    result = list(template)
    unmet = list(range(len(template)))
    texts = [text_of(item) for item in existing]
    counts = Counter(texts)
    missing_key = False
    seen: set[str] = set()
    for item, text in zip(existing, texts, strict=True):
        if text in seen:
            continue
        seen.add(text)
        count = 0
        for at in tuple(unmet):
            wanted, same_name = template[at], False
            candidate = wanted
            if isinstance(item, dict):
                if not isinstance(wanted, dict):
                    continue
                same_name = _same_name(item, wanted)
                # Missing fields of an earlier item are dropped here, as upstream does.
                candidate, missing_key = merge(wanted, item, zero_is_absent=zero_is_absent)
            equal, missing = equivalent(candidate, item, zero_is_absent=zero_is_absent)
            missing_key = missing_key or missing
            if same_name or equal:
                count += 1
                result[at] = candidate
                unmet.remove(at)
            if count == counts[text]:
                break
        result.extend([item] * (counts[text] - count))
    return Merged(result, missing_key)
