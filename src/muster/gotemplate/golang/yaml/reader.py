"""Reads YAML: with the line-by-line decoder if the text is simple, otherwise with the full parser."""

from __future__ import annotations

from typing import Any

from muster.gotemplate.golang.yaml.characters import checked
from muster.gotemplate.golang.yaml.decoder import decode
from muster.gotemplate.golang.yaml.errors import YAMLError
from muster.gotemplate.golang.yaml.lines import UNSURE, read_lines
from muster.gotemplate.golang.yaml.parser import Node, Parser
from muster.gotemplate.limits import charge_size


def load(text: str) -> Any:
    """The first document of the text, None where there is none. Raises YAMLError."""
    charge_size(len(text))
    value = read_lines(text)
    return load_by_the_book(text) if value is UNSURE else value


def load_by_the_book(text: str) -> Any:
    node = _document(text)
    return None if node is None else decode(node)


def _document(text: str) -> Node | None:
    accepted, refusal = checked(text)
    parser = Parser(accepted)
    if refusal is None:
        return parser.document()
    # The text before an invalid character may be a document, or an invalid one: yaml.v3 reads no further than necessary.
    try:
        node = parser.document()
    except YAMLError:
        if parser.has_read(len(accepted)):
            raise refusal from None
        raise
    if parser.has_read(len(accepted)):
        raise refusal
    return node
