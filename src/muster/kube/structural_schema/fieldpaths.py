"""Simple JSON paths that name one field of a schema, such as `.spec.replicas` or `.spec['odd.name']`.

Rules use them for the field of an error, and CustomResourceDefinitions to declare selectable fields. A path is resolved against the
schema, so that a misspelt one is refused when the definition is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'", "\\": "\\"}


class BadFieldPath(ValueError):
    """A path that does not parse or does not exist in the schema."""


@dataclass(frozen=True, slots=True)
class FieldPath:
    """A resolved path: its spelling in messages, its first step, and the schema of its field."""

    text: str
    first: str
    schema: Mapping[str, Any] | None


def resolve(path: str, raw: Mapping[str, Any], brackets: bool = True) -> FieldPath:
    """Follow a path through a schema; `brackets` is whether `['name']` may be used."""
    tokens = _tokens(path)
    node: Mapping[str, Any] | None = raw
    text = first = ""
    for token in tokens:
        if token == "." or (token == "[" and brackets):
            step = _next(tokens)
            if token == "[":
                step = _unquoted(step)
            properties = (node or {}).get("properties")
            additional = (node or {}).get("additionalProperties")
            if properties:
                if step not in properties:
                    raise BadFieldPath("does not refer to a valid field")
                node = properties[step]
                text = f"{text}.{step}" if text else step
            elif additional is not None:
                node = additional if isinstance(additional, Mapping) else None
                text = f"{text}[{step}]"
            else:
                raise BadFieldPath("does not refer to a valid field")
            first = first or step
            if token == "[" and (closing := _next(tokens)) != "]":
                raise BadFieldPath(f"expected ] but got {closing}")
        elif token == "[":
            raise BadFieldPath("array notation is not allowed")
        else:
            raise BadFieldPath(f"expected [ or . but got: {token}")
    return FieldPath(text, first, node)


def _next(tokens: Iterator[str]) -> str:
    token = next(tokens, None)
    if token is None:
        raise BadFieldPath("unexpected end of JSON path")
    return token


def _tokens(path: str) -> Iterator[str]:
    """Delimiters one by one, and the text between them; quotes protect delimiters."""
    rest = path
    while rest:
        if rest[0] == "'":
            end = next((i for i in range(1, len(rest)) if rest[i] == "'" and rest[i - 1] != "\\"), len(rest) - 1) + 1
        elif rest[0] in ".[]":
            end = 1
        else:
            end = next((i for i, char in enumerate(rest) if char in ".[]"), len(rest))
        yield rest[:end]
        rest = rest[end:]


def _unquoted(token: str) -> str:
    if len(token) < 2 or token[0] != "'" or token[-1] != "'":
        raise BadFieldPath(f"expected single quoted string but got {token}")
    text, parts, position = token[1:-1], [], 0
    while position < len(text):
        char = text[position]
        if char == "\\" and position + 1 < len(text):
            position += 1
            if text[position] not in _ESCAPES:
                raise BadFieldPath(f"invalid string literal: invalid escape char \\{text[position]}")
            char = _ESCAPES[text[position]]
        parts.append(char)
        position += 1
    return "".join(parts)
