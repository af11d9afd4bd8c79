"""Random structural schemas, values that mostly fit them, and small changes of such values: food for comparing validators.

Everything is drawn from one `random.Random`, so that a seed names a whole run.
"""

import random
from typing import Any

from muster.kube.structural_schema.default_checks import check_defaults
from muster.kube.structural_schema.keywords import check_keywords
from muster.kube.structural_schema.structural import check_structural

Schema = dict[str, Any]
NAMES = ["a", "b", "c"]
TEXTS = ["", "a", "ab", "abc", "x.y", "1.2.3.4", "é", "bb"]
FORMATS = ["ipv4", "date", "byte", "int32", "uuid"]


class Generator:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def fields(self, count: int, defaults: bool = True) -> dict[str, Schema]:
        """As many schemas as asked for, all of them fit for a CustomResourceDefinition."""
        found: dict[str, Schema] = {}
        while len(found) < count:
            schema = self.schema()
            if defaults and self.random.random() < 0.2:
                schema["default"] = self.value(2)
            raw = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"x": schema}}}}
            if not (check_structural(raw, "") or check_keywords(raw, "") or check_defaults(raw, "")):
                found[f"p{len(found):02}"] = schema
        return found

    def scalar(self) -> Any:
        pick = self.random
        choices = [None, True, False, pick.randint(-3, 12), pick.choice([0.5, 1.0, 2.5, 1e30])]
        return pick.choice([*choices, *pick.choices(TEXTS, k=3)])

    def value(self, depth: int = 3) -> Any:
        kind = self.random.random()
        if depth == 0 or kind < 0.4:
            return self.scalar()
        if kind < 0.7:
            return [self.value(depth - 1) for _ in range(self.random.randint(0, 3))]
        return {self.random.choice(NAMES): self.value(depth - 1) for _ in range(self.random.randint(0, 3))}

    def limits(self) -> Schema:
        pick = self.random
        drawn = {
            "minimum": pick.choice([-1, 1, 1.5, 5]),
            "maximum": pick.choice([0, 3, 10]),
            "exclusiveMinimum": pick.random() < 0.5,
            "exclusiveMaximum": pick.random() < 0.5,
            "multipleOf": pick.choice([2, 0.5, 3]),
            "minLength": pick.randint(0, 2),
            "maxLength": pick.randint(1, 3),
            "pattern": pick.choice(["^a", "b$", "[xyz]"]),
            "minItems": pick.randint(0, 2),
            "maxItems": pick.randint(0, 2),
            "minProperties": pick.randint(0, 2),
            "maxProperties": pick.randint(0, 2),
            "required": pick.sample(NAMES, pick.randint(1, 2)),
            "enum": [self.scalar() for _ in range(pick.randint(1, 3))],
            "format": pick.choice(FORMATS),
        }
        return {keyword: drawn[keyword] for keyword in pick.sample(list(drawn), pick.randint(0, 2))}

    def alternative(self, node: Schema, depth: int) -> Schema:
        """A restriction that only speaks about fields the node declares."""
        found = self.limits()
        if depth and node.get("properties") and self.random.random() < 0.5:
            name = self.random.choice(list(node["properties"]))
            found["properties"] = {name: self.alternative(node["properties"][name], depth - 1)}
        if depth and self.random.random() < 0.2:
            keyword = self.random.choice(["allOf", "anyOf", "oneOf"])
            found[keyword] = [self.alternative(node, depth - 1) for _ in range(self.random.randint(1, 2))]
        return found

    def shape(self, depth: int) -> Schema:
        pick = self.random
        kind = pick.random()
        if depth == 0 or kind < 0.3:
            return {"type": pick.choice(["string", "integer", "number", "boolean", "string", "integer"])}
        if kind < 0.6:
            return {
                "type": "object",
                "properties": {name: self.schema(depth - 1) for name in pick.sample(NAMES, pick.randint(1, 3))},
            }
        if kind < 0.7:
            return {"type": "object", "additionalProperties": pick.choice([self.schema(depth - 1), True, False])}
        if kind < 0.85:
            return {"type": "array", "items": self.schema(depth - 1)}
        if kind < 0.9:
            item = {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}, "b": self.schema(depth - 1)}}
            return {"type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]}
        if kind < 0.93:
            return {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}
        return {"x-kubernetes-int-or-string": True} if kind < 0.97 else {"x-kubernetes-preserve-unknown-fields": True}

    def schema(self, depth: int = 3) -> Schema:
        node = {**self.shape(depth), **self.limits()}
        if self.random.random() < 0.15:
            node["nullable"] = True
        for keyword in ("anyOf", "oneOf", "allOf"):
            if self.random.random() < 0.15:
                node[keyword] = [self.alternative(node, 2) for _ in range(self.random.randint(1, 3))]
        if self.random.random() < 0.1:
            node["not"] = self.alternative(node, 1)
        return node

    def fitting(self, node: Schema) -> Any:
        """A value of about the right shape."""
        pick, kind = self.random, node.get("type")
        if pick.random() < 0.12 or kind is None:
            return self.value(2)
        if kind == "array":
            return [self.fitting(node["items"]) for _ in range(pick.randint(0, 3))]
        if kind == "object":
            additional = node.get("additionalProperties")
            if "properties" in node:
                known = {name: self.fitting(child) for name, child in node["properties"].items() if pick.random() < 0.7}
                return known | ({"zz": 1} if pick.random() < 0.1 else {})
            count = pick.randint(0, 2)
            return {
                pick.choice(NAMES): self.fitting(additional) if isinstance(additional, dict) else self.value(1)
                for _ in range(count)
            }
        simple = {"string": pick.choice(TEXTS), "integer": pick.randint(-3, 12), "number": pick.choice([3, 0.5, 2.5])}
        return simple.get(kind, pick.random() < 0.5)

    def changed(self, value: Any, node: Schema) -> Any:
        """A small change somewhere in a value."""
        pick = self.random
        if pick.random() < 0.25 or not isinstance(value, dict | list) or not value:
            return self.fitting(node)
        if isinstance(value, list):
            items = list(value)
            position = pick.randrange(len(items))
            kind = pick.random()
            if kind < 0.3:
                pick.shuffle(items)
            elif kind < 0.7:
                items[position] = self.changed(items[position], node.get("items") or {})
            else:
                items.append(self.fitting(node.get("items") or {}))
            return items
        name = pick.choice(list(value))
        additional = node.get("additionalProperties")
        below = (node.get("properties") or {}).get(name) or (additional if isinstance(additional, dict) else {})
        kind = pick.random()
        if kind < 0.2:
            return {key: item for key, item in value.items() if key != name}
        return {**value, name: self.changed(value[name], below)} if kind < 0.7 else {**value, pick.choice(NAMES): self.value(1)}
