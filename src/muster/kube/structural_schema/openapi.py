"""The exact walk over an invalid value: every error the real server would report, with its words and in its order.

The walk mirrors kube-openapi's validator: at each node it looks at type, combinations (anyOf, oneOf, allOf, not), string, format,
number, list, enum and object, in this order. `Findings` keep an error once per message and count the checks that passed, because of
several failed alternatives the one that matched most is reported. With a `Correlation`, errors of a field or item that did not
change since the old object are dropped where they arise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeVar

from muster.kube.fielderrors import MOST, NOT_SUPPORTED, TYPE_INVALID, FieldError, invalid, required, too_long, too_many, uncounted
from muster.kube.structural_schema.accept import accept
from muster.kube.structural_schema.constraints import (
    INT64_MAX,
    INT64_MIN,
    Constraints,
    as_int64,
    breaks_multiple,
    has_repeats,
    is_whole,
)
from muster.kube.structural_schema.ratchet import Correlation
from muster.machinery.golang import formatting
from muster.machinery.golang.quoting import quote

NOWHERE: Final = "<nil>"
"""The field of an error that belongs to the object as a whole."""
_TYPE_META: Final = frozenset({"apiVersion", "kind"})
_NUMBERS: Final = frozenset({"integer", "number"})
_DATA_FORMAT: Final = {"integer": "int64", "number": "float64"}


class Findings:
    """Errors by message and the number of checks passed."""

    __slots__ = ("errors", "matches")

    def __init__(self) -> None:
        self.errors: dict[str, FieldError] = {}
        self.matches = 0

    def merge(self, other: Findings) -> None:
        for message, error in other.errors.items():
            self.errors.setdefault(message, error)
        self.matches += other.matches


class Walk:
    """One validation; `base` is put before every field, paths in messages stay relative (status is validated on its own)."""

    __slots__ = ("_base",)

    def __init__(self, base: str = "") -> None:
        self._base = base

    def errors(self, node: Constraints, value: Any, correlation: Correlation | None = None) -> list[FieldError]:
        with uncounted():
            return list(self._descend(node, value, "", correlation).errors.values())

    def _field(self, path: str) -> str:
        return ".".join(part for part in (self._base, path.removeprefix(".")) if part) or NOWHERE

    def _descend(self, node: Constraints, value: Any, path: str, correlation: Correlation | None) -> Findings:
        findings = self._check(node, value, path, correlation)
        if findings.errors and correlation is not None and correlation.unchanged:
            findings.errors.clear()
        return findings

    def _check(self, node: Constraints, value: Any, path: str, correlation: Correlation | None) -> Findings:
        findings = Findings()
        if value is None:
            self._check_null(node, path, findings)
            return findings
        kind = json_type(value)
        if node.types or node.format:
            self._check_type(node, value, kind, path, findings)
            findings.matches += 1
        findings.merge(self._check_combinations(node, value, path))
        findings.matches += 1
        if kind == "string":
            self._check_string(node, value, path, findings)
            findings.matches += 1
            if node.format_check is not None:
                if not node.format_check(value):
                    self._wrong_type(findings, path, node.format, value)
                findings.matches += 1
        elif kind in _NUMBERS:
            self._check_number(node, value, path, findings)
            findings.matches += 2
        elif kind == "array":
            self._check_array(node, value, path, correlation, findings)
            findings.matches += 2
        if node.enum and value not in node.choices:
            self._not_in_enum(node, value, path, findings)
        findings.matches += 1
        if kind == "object":
            self._check_object(node, value, path, correlation, findings)
            findings.matches += 1
        findings.matches += 1
        return findings

    def _check_null(self, node: Constraints, path: str, findings: Findings) -> None:
        if node.types and not node.nullable:
            self._wrong_type(findings, path, ",".join(node.types), "null")
        else:
            findings.matches += 1
        if node.enum:
            self._not_in_enum(node, None, path, findings)

    def _check_type(self, node: Constraints, value: Any, kind: str, path: str, findings: Findings) -> None:
        numeric = "number" in node.types or "integer" in node.types
        fits = (
            kind in node.types
            or (kind == "number" and "integer" in node.types and is_whole(value))
            or (kind == "integer" and "number" in node.types)
        )
        if node.format and kind not in ("string", "array") and not fits:
            self._wrong_type(findings, path, node.format, _DATA_FORMAT.get(kind, ""))
        elif fits or (node.format and not numeric and kind in ("string", "array")):
            findings.matches += 1
        else:
            self._wrong_type(findings, path, ",".join(node.types), kind)

    def _wrong_type(self, findings: Findings, path: str, expected: str, found: str) -> None:
        message = f"{path} in body must be of type {expected}: {quote(found)}"
        findings.errors.setdefault(message, FieldError(TYPE_INVALID, self._field(path), found, message))

    def _not_in_enum(self, node: Constraints, value: Any, path: str, findings: Findings) -> None:
        detail = node.choices.detail
        # Equal texts are one error; the texts themselves would be too long for as many keys.
        message = f"{path} in body should be one of {hash(detail)}"
        findings.errors.setdefault(message, FieldError(NOT_SUPPORTED, self._field(path), value, detail))

    def _refuse(self, findings: Findings, path: str, value: Any, message: str) -> None:
        findings.errors.setdefault(message, invalid(self._field(path), value, message))

    def _refuse_whole(self, findings: Findings, message: str) -> None:
        findings.errors.setdefault(message, invalid(self._base or NOWHERE, "", message))

    def _check_combinations(self, node: Constraints, value: Any, path: str) -> Findings:
        """Inside alternatives nothing is let through for being unchanged; only the node that has them may be."""
        main = Findings()
        if node.any_of:
            results = self._alternatives(node.any_of, value, path)
            best = _first_valid_or_best(results)
            if best.errors:
                self._refuse_whole(main, f"{quote(path)} must validate at least one schema (anyOf)")
            main.merge(best)
        if node.one_of:
            self._check_one_of(list(self._alternatives(node.one_of, value, path)), path, main)
        if node.all_of:
            passed = 0
            for result in self._alternatives(node.all_of, value, path):
                passed += not result.errors
                main.merge(result)
            if passed != len(node.all_of):
                none = "" if passed else ". None validated"
                self._refuse_whole(main, f"{quote(path)} must validate all the schemas (allOf){none}")
        if node.not_ is not None and not self._check(node.not_, value, path, None).errors:
            self._refuse_whole(main, f"{quote(path)} must not validate the schema (not)")
        main.matches += 1
        return main

    def _alternatives(self, nodes: tuple[Constraints, ...], value: Any, path: str) -> Iterator[Findings]:
        return (self._check(node, value, path, None) for node in nodes)

    def _check_one_of(self, results: list[Findings], path: str, main: Findings) -> None:
        valid = [result for result in results if not result.errors]
        if len(valid) == 1:
            main.merge(valid[0])
            return
        found = f"Found {len(valid)} valid alternatives" if valid else "Found none valid"
        self._refuse_whole(main, f"{quote(path)} must validate one and only one schema (oneOf). {found}")
        if not valid:
            main.merge(_first_valid_or_best(iter(results)))

    def _check_string(self, node: Constraints, value: str, path: str, findings: Findings) -> None:
        """Only the first failure counts."""
        if node.max_length is not None and len(value) > node.max_length:
            message = f"{path} in body should be at most {node.max_length} chars long"
            findings.errors.setdefault(message, too_long(self._field(path), node.max_length))
        elif node.min_length is not None and len(value) < node.min_length:
            self._refuse(findings, path, value, f"{path} in body should be at least {node.min_length} chars long")
        elif node.matches is not None and not node.matches(value):
            self._refuse(findings, path, value, f"{path} in body should match '{node.pattern}'")

    def _check_number(self, node: Constraints, value: float, path: str, findings: Findings) -> None:
        whole = value.__class__ is int
        if node.multiple_of is not None and breaks_multiple(value, node.multiple_of):
            factor = as_int64(node.multiple_of) if whole else float(node.multiple_of)
            if factor <= 0:
                self._refuse(
                    findings, path, factor, f"factor MultipleOf declared for {path} must be positive: {formatting.number(factor)}"
                )
            else:
                self._refuse(findings, path, value, f"{path} in body should be a multiple of {formatting.number(factor)}")
        if node.minimum is not None:
            limit = as_int64(node.minimum) if whole else float(node.minimum)
            if value < limit or (node.exclusive_minimum and value == limit):
                phrase = "greater than" if node.exclusive_minimum else "greater than or equal to"
                self._refuse(findings, path, value, f"{path} in body should be {phrase} {formatting.number(limit)}")
        if node.maximum is not None:
            limit = as_int64(node.maximum) if whole else float(node.maximum)
            if value > limit or (node.exclusive_maximum and value == limit):
                phrase = "less than" if node.exclusive_maximum else "less than or equal to"
                self._refuse(findings, path, value, f"{path} in body should be {phrase} {formatting.number(limit)}")

    def _check_array(
        self, node: Constraints, value: list[Any], path: str, correlation: Correlation | None, findings: Findings
    ) -> None:
        if node.items is not None:
            for index, item in _suspects(node.items, enumerate(value), len(value)):
                child = None if correlation is None else correlation.index(index)
                findings.merge(self._descend(node.items, item, f"{path}[{index}]", child))
                if len(findings.errors) >= MOST:
                    break
        if node.min_items is not None and len(value) < node.min_items:
            self._refuse(findings, path, len(value), f"{path} in body should have at least {node.min_items} items")
        if node.max_items is not None and len(value) > node.max_items:
            message = f"{path} in body should have at most {node.max_items} items"
            findings.errors.setdefault(message, too_many(self._field(path), len(value), node.max_items))
        if node.unique_items and has_repeats(value):
            self._refuse(findings, path, "", f"{path} in body shouldn't contain duplicates")

    def _check_object(
        self, node: Constraints, value: dict[str, Any], path: str, correlation: Correlation | None, findings: Findings
    ) -> None:
        if node.min_properties is not None and len(value) < node.min_properties:
            self._refuse(findings, path, len(value), f"{path} in body should have at least {node.min_properties} properties")
        if node.max_properties is not None and len(value) > node.max_properties:
            message = f"{path} in body should have at most {node.max_properties} properties"
            findings.errors.setdefault(message, too_many(self._field(path), len(value), node.max_properties))
        strangers = ((name, field) for name, field in value.items() if name not in node.properties)
        for name, field in _suspects(node.additional, strangers, len(value)):
            if len(findings.errors) >= MOST:
                break
            if node.forbids_additional:
                self._refuse(findings, path, name, f"{path}.{name} in body is a forbidden property")
            elif node.additional is not None:
                child = self._field_correlation(correlation, name, path)
                findings.merge(self._descend(node.additional, field, f"{path}.{name}", child))
        for name, property_node in node.properties.items():
            if name in value:
                child = self._field_correlation(correlation, name, path)
                below = f"{path}.{name}" if path else name
                findings.merge(self._descend(property_node, value[name], below, child))
        for name in node.required:
            if name not in value:
                message = f"{path}.{name} in body is required"
                findings.errors.setdefault(message, required(self._field(f"{path}.{name}")))

    @staticmethod
    def _field_correlation(correlation: Correlation | None, name: str, path: str) -> Correlation | None:
        """Kind and apiVersion of the resource itself always look unchanged, so they get no leniency."""
        if correlation is None or (not path and name in _TYPE_META):
            return None
        return correlation.key(name)


_LARGE: Final = 1_000
"""Lists and maps beyond this are looked through for what is wrong first: the exact walk is slow, and most may be right."""
_Key = TypeVar("_Key")


def _suspects(node: Constraints | None, found: Iterable[tuple[_Key, Any]], size: int) -> Iterable[tuple[_Key, Any]]:
    if node is None or size < _LARGE:
        return found
    accepted = accept(node)
    return ((key, value) for key, value in found if not accepted(value))


def json_type(value: Any) -> str:
    """The JSON type of a value; an integer beyond 64 bits is a number, as it would be in the server's decoder."""
    if value.__class__ is int and not INT64_MIN <= value <= INT64_MAX:
        return "number"
    return _TYPES[value.__class__]


_TYPES: Final = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}


def _first_valid_or_best(results: Iterator[Findings]) -> Findings:
    """The first alternative without errors, else the earliest of those that matched most."""
    best: Findings | None = None
    for result in results:
        if not result.errors:
            return result
        if best is None or result.matches > best.matches:
            best = result
    return best or Findings()
