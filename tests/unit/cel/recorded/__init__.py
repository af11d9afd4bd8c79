"""Expressions with the answers cel-go gave in Kubernetes' environment, and how ours are put into the same form.

The JSON files beside this module hold the questions and the recorded answers together with the versions they came from;
`python -m tests.interop.cel.record` asks the oracle again and rewrites them.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from muster.cel import (
    BOOL,
    BYTES,
    DOUBLE,
    DYN,
    INT,
    STRING,
    UINT,
    CelError,
    CompileError,
    Duration,
    Environment,
    InstantiationError,
    Optional,
    Timestamp,
    Type,
    Uint,
    from_structural_schema,
    list_type,
    map_type,
)
from muster.cel.times import format_timestamp
from muster.cel.values import elements, is_list, is_map, map_items
from muster.machinery.golang.numbers import format_shortest

DIRECTORY = Path(__file__).parent
TYPES = {
    "dyn": DYN,
    "int": INT,
    "uint": UINT,
    "double": DOUBLE,
    "string": STRING,
    "bool": BOOL,
    "bytes": BYTES,
    "list(dyn)": list_type(DYN),
    "list(int)": list_type(INT),
    "list(string)": list_type(STRING),
    "map(string, dyn)": map_type(STRING, DYN),
    "map(string, int)": map_type(STRING, INT),
    "map(string, string)": map_type(STRING, STRING),
}
Answer = dict[str, Any]


def load(name: str) -> list[dict[str, Any]]:
    """The cases of one file, each a question with its `answer`."""
    document = json.loads((DIRECTORY / f"{name}.json").read_text())
    shared = document["shared"]
    return [{**shared, **case} for case in document["cases"]]


def render(value: Any) -> str:
    """A value as the oracle prints it."""
    kind = value.__class__
    if value is None:
        return "null"
    if kind is bool:
        return "true" if value else "false"
    if kind is Uint:
        return f"{int(value)}u"
    if kind is int:
        return str(value)
    if kind is float:
        return f"double({format_shortest(value)})" if math.isfinite(value) else format_shortest(value)
    if kind is str:
        return json.dumps(value, ensure_ascii=False)
    if kind is bytes:
        return f"b'{value.hex()}'"
    if kind is Timestamp:
        return f"timestamp({format_timestamp(value)})"
    if kind is Duration:
        return f"duration({value.ns})"
    if kind is Optional:
        return f"optional.of({render(value.value)})" if value.present else "optional.none()"
    if kind is Type:
        return f"type({value.name})"
    if is_list(value):
        return "[" + ", ".join(map(render, elements(value))) + "]"
    if is_map(value):
        return "{" + ", ".join(sorted(f"{render(key)}: {render(item)}" for key, item in map_items(value))) + "}"
    return f"{value.cel_type.name}({value})"


def environment(question: dict[str, Any]) -> Environment:
    schema = question.get("schema")
    if schema is None:
        return Environment({name: TYPES[type_] for name, type_ in question.get("vars", {}).items()})
    declared = from_structural_schema(schema, root=question.get("root", False))
    assert declared is not None
    return Environment({"self": declared, "oldSelf": declared})


def ask_ours(question: dict[str, Any]) -> Answer:
    """Our answer: a value with its cost, an error, or a compile error."""
    try:
        program = environment(question).compile(question["expr"])
    except InstantiationError as error:
        return {"compileError": f"program: {error}"}
    except CompileError as error:
        return {"compileError": str(error)}
    try:
        value, cost = program.evaluate_with_cost(question.get("values", {}))
    except CelError as error:
        return {"error": str(error)}
    return {"value": render(value), "cost": cost}


def worst_case(question: dict[str, Any]) -> int:
    """Our estimate of the most the expression can cost."""
    env = environment(question)
    return env.compile(question["expr"]).maximum_cost(env.declaration("self"))


def comparable(answer: Answer) -> Answer:
    """The parts of the oracle's answer that ours has too."""
    if answer.get("compileError"):
        text = answer["compileError"].removeprefix("compilation failed: ")
        return {"compileError": text.replace("program instantiation failed: ", "program: ", 1)}
    if answer.get("error"):
        return {"error": answer["error"]}
    return {"value": answer["value"], "cost": answer["cost"]}
