"""Compares an expected status with the one of a dry run.

Only expected fields are compared. An expected item of a list must match some item of the actual list; messages from comparing
items are dropped, since every item is tried.
"""

from __future__ import annotations

import re
from typing import Any, Final

from muster.gotemplate.golang.fmt import show
from muster.machinery.objects import Object
from muster.policy.dryrun.output import Palette

_INSIDE_AN_ITEM: Final = re.compile(r"\.\w+\[\d+\]\.\w")
_GO_TYPES: Final = {dict: "map[string]interface {}", list: "[]interface {}", str: "string", bool: "bool"}


class StatusComparison:
    """Compares, and collects the messages."""

    def __init__(self, palette: Palette) -> None:
        self._palette = palette
        self.lines: list[str] = []

    def compare(self, expected: Object, actual: Object) -> bool:
        self.lines.append("# Status compare:")
        equal = self._objects("", expected, actual)
        verdict = "matches" if equal else "does not match"
        colour = self._palette.good if equal else self._palette.bad
        self.lines.append(colour(self._palette.bold(f" Expected status {verdict} the actual status")))
        return equal

    def _objects(self, parent: str, expected: Object, actual: Object) -> bool:
        results = []
        for key in sorted(expected):
            if key not in actual:
                self._note(parent, self._palette.bad(f"Key '{key}' not found in result at path '{parent}'"))
                results.append(False)
            else:
                results.append(self._values(f"{parent}.{key}", key, expected[key], actual[key]))
        return all(results)

    def _values(self, path: str, key: str, expected: Any, actual: Any) -> bool:
        if isinstance(expected, list):
            if not isinstance(actual, list):
                self.lines.append(self._palette.doubtful(f"skip {key}, {path} is not array,"))
                return False
            return self._lists(path, expected, actual)
        if isinstance(expected, dict):
            if not isinstance(actual, dict):
                self._wrong_type(path, actual)
                return False
            return self._objects(path, expected, actual)
        return self._equal(path, show(expected), show(actual))

    def _equal(self, path: str, expected: str, actual: str) -> bool:
        equal = expected == actual
        verb, colour = ("does match", self._palette.good) if equal else ("does not match", self._palette.bad)
        self._note(path, colour(f"{path}: '{expected}' {verb} '{actual}'"))
        return equal

    def _lists(self, path: str, expected: list[Any], actual: list[Any]) -> bool:
        if not expected or not isinstance(expected[0], dict):
            return self._equal(path, show(expected), show(actual))
        for number, item in enumerate(expected):
            where = f"{path}[{number}]"
            if not any(self._item(path, where, item, candidate) for candidate in actual):
                self._note(where, self._palette.bad(f"{where} does not match any elements"))
                self._note(path, self._palette.bad(f"{path} does not match the elements"))
                return False
            self._note(where, self._palette.good(f"{where} matches"))
        self._note(path, self._palette.good(f"{path} matches"))
        return True

    def _item(self, path: str, where: str, expected: Any, actual: Any) -> bool:
        if not isinstance(expected, dict):
            self.lines.append(self._palette.bad(f"failed to parse, skip {path}"))
            return False
        if not isinstance(actual, dict):
            self._wrong_type(path, actual)
            return False
        return self._objects(where, expected, actual)

    def _wrong_type(self, path: str, actual: Any) -> None:
        found = _GO_TYPES.get(type(actual), "float64")
        self.lines.append(self._palette.bad(f"The input status field '{path}' is not the right type - expected '{found}'"))

    def _note(self, path: str, line: str) -> None:
        if _INSIDE_AN_ITEM.search(path) is None:
            self.lines.append(line)
