"""Random objects that a schema accepts, and unknown fields strewn into them.

Only what our schemas use is understood: shapes, enums, patterns, lengths, bounds, formats, keyed lists. What those rules do not
decide (oneOf, not) is left to the caller, who drops candidates that the validator refuses. Strings for patterns come from a
pool that holds at least two for every pattern our definitions have.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from functools import cache
from random import Random
from typing import Any

Raw = Mapping[str, Any]
POOL = (
    *("a", "b-1", "ab", "x.y", "Zed", "a_b", "example.com/key", "example.com", "host-1.example.com", "10.0.0.1", "192.168.1.254"),
    *("open-cluster-management-agent", "open-cluster-management-x", "work-agent", "work-agent-ssa", "signer.example.com/v1"),
    *("kubernetes.io/kube-apiserver-client", "deployments:a:b", "*:*:*", "100%", "7%", "25", "3", "10s", "5m", "None", "1h"),
    *("watch", "never", "Reason", "Another_Reason", "1Gi", "250m", "0", "1e3", "FOO_BAR"),
    *("arn:aws:eks:us-west-2:123456789012:cluster/hub", "arn:aws:eks:eu-north-1:210987654321:cluster/spoke-1"),
)
MAPS_OF_LISTS = ("driverOptions",)
_TIMES = ("2024-02-29T12:00:00Z", "2031-01-01T00:00:00.123456789Z", "1999-12-31T23:59:59+02:00")
_BYTES = ("aGVsbG8=", "AAECAw==")
_FORMATS = {"date-time": _TIMES, "byte": _BYTES}
_BITS = {"int32": 31, "int64": 63}
_ALPHABET = 'abcXYZ019 -_./:{}"\\äß語😀'


class Maker:
    """Draws objects from one source of randomness; free-form parts hold nulls, and strings may be empty, unless told otherwise."""

    def __init__(self, seed: int, nulls: bool = True, empty: bool = True) -> None:
        self.random = Random(seed)
        self.least = 0 if empty else 1
        self.free: list[Any] = [1.5, "text", [1, {}], {"deep": []}, *([None] if nulls else [])]

    def object(self, raw: Raw, api_version: str, kind: str) -> dict[str, Any]:
        """A whole object: named, of the right kind, otherwise as the schema likes it."""
        given = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x", "namespace": "y"}}
        return {**self._map(raw), **given}

    def value(self, raw: Raw) -> Any:
        if "enum" in raw:
            return self.random.choice(raw["enum"])
        if any("enum" in part for part in raw.get("allOf", ())):
            return self.random.choice(sorted(set.intersection(*(set(part["enum"]) for part in raw["allOf"]))))
        if raw.get("x-kubernetes-int-or-string"):
            return self.random.randrange(10**6) if self.random.random() < 0.5 else self._text(raw)
        if raw.get("x-kubernetes-embedded-resource"):
            return self._manifest()
        makers: Any = {
            "string": self._text,
            "integer": self._number,
            "boolean": self._flag,
            "array": self._list,
            "object": self._map,
        }
        return makers[raw["type"]](raw)

    def word(self) -> str:
        return self.random.choice(POOL[:11])

    def with_unknown_fields(self, document: dict[str, Any]) -> dict[str, Any]:
        """The document with a field that no type knows in some of its objects, maps of lists left out: there it would be wrong."""
        document = copy.deepcopy(document)
        pending: list[Any] = [document]
        while pending:
            value = pending.pop()
            if isinstance(value, dict):
                pending += (item for name, item in value.items() if name not in MAPS_OF_LISTS)
                if self.random.random() < 0.5:
                    value["x-unknown"] = self.word()
            elif isinstance(value, list):
                pending += value
        return document

    def _flag(self, raw: Raw) -> bool:
        return self.random.random() < 0.5

    def _text(self, raw: Raw) -> str:
        if raw.get("format") in _FORMATS:
            return self.random.choice(_FORMATS[raw["format"]])
        shortest, longest = raw.get("minLength", self.least), raw.get("maxLength", 1000)
        if "pattern" in raw:
            return self.random.choice(_matching(raw["pattern"], shortest, longest))
        return "".join(self.random.choices(_ALPHABET, k=self.random.randint(shortest, min(longest, shortest + 8))))

    def _number(self, raw: Raw) -> int:
        limit = 1 << _BITS.get(raw.get("format", ""), 31)
        lowest = raw.get("minimum", -limit) + bool(raw.get("exclusiveMinimum"))
        highest = raw.get("maximum", limit - 1)
        return self.random.choice([lowest, highest, self.random.randint(lowest, highest), max(lowest, min(highest, 0))])

    def _list(self, raw: Raw) -> list[Any]:
        items = [self.value(raw["items"]) for _ in range(self.random.randint(raw.get("minItems", 0), 3))]
        keys = raw.get("x-kubernetes-list-map-keys")
        if not keys:
            return items
        properties = raw["items"]["properties"]
        return list({tuple(item.get(key, properties[key].get("default")) for key in keys): item for item in items}.values())

    def _map(self, raw: Raw) -> dict[str, Any]:
        if "additionalProperties" in raw:
            return {self.word(): self.value(raw["additionalProperties"]) for _ in range(self.random.randrange(3))}
        if raw.get("x-kubernetes-preserve-unknown-fields"):
            return {self.word(): self.random.choice(self.free) for _ in range(self.random.randrange(3))}
        required = raw.get("required", ())
        properties = raw.get("properties", {})
        return {name: self.value(below) for name, below in properties.items() if name in required or self.random.random() < 0.6}

    def _manifest(self) -> dict[str, Any]:
        version, kind = self.random.choice([("v1", "ConfigMap"), ("apps/v1", "Deployment"), ("example.com/v1", "Widget")])
        return {"apiVersion": version, "kind": kind, "metadata": {"name": "m"}, "data": {self.word(): self.word()}}


@cache
def _matching(pattern: str, shortest: int, longest: int) -> list[str]:
    found = [text for text in POOL if re.search(pattern, text) and shortest <= len(text) <= longest]
    assert found, f"the pool has nothing that matches {pattern}"
    return found
