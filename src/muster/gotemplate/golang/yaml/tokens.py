"""The output of a scanner: tokens, and the error with the position of a failure."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from muster.gotemplate.golang.yaml.errors import YAMLError


class Kind(IntEnum):
    STREAM_START = 0
    STREAM_END = 1
    VERSION_DIRECTIVE = 2
    TAG_DIRECTIVE = 3
    DOCUMENT_START = 4
    DOCUMENT_END = 5
    BLOCK_SEQUENCE_START = 6
    BLOCK_MAPPING_START = 7
    BLOCK_END = 8
    FLOW_SEQUENCE_START = 9
    FLOW_SEQUENCE_END = 10
    FLOW_MAPPING_START = 11
    FLOW_MAPPING_END = 12
    BLOCK_ENTRY = 13
    FLOW_ENTRY = 14
    KEY = 15
    VALUE = 16
    ALIAS = 17
    ANCHOR = 18
    TAG = 19
    SCALAR = 20


class Token(NamedTuple):
    kind: Kind
    line: int
    """The line of its start; the first line is 0."""
    value: str = ""
    """The value of a scalar, anchor or alias; the handle of a tag; the number of a version."""
    suffix: str = ""
    """Of a tag."""
    plain: bool = False
    """Whether a scalar is neither quoted nor a block."""
    end_line: int = 0


class ScanError(YAMLError):
    """yaml.v3 counts lines from 0, adds 1 for the scanner's errors only, and omits the first line."""

    def __init__(self, problem: str, context_line: int, line: int, *, scanning: bool = False) -> None:
        at = context_line or line
        where = f"line {at + scanning}: " if at else ""
        super().__init__(f"yaml: {where}{problem}")
