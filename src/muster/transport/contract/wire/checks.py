"""Validation of CloudEvents' own attributes, in both modes of encoding."""

from __future__ import annotations

import re
from typing import Final

from muster.machinery.golang.errors import GoError
from muster.machinery.golang.urls import parse_url
from muster.transport.contract.event import InvalidEvent

_is_json: Final = re.compile(r"(application|text)/json([ \t]*;[ \t]*charset=[a-z0-9-]+)?", re.IGNORECASE).fullmatch
_is_plain: Final = re.compile(r"[A-Za-z0-9._-]*").fullmatch
"""Plain characters, which are always a valid reference."""


def is_json(content_type: str) -> bool:
    return content_type == "application/json" or _is_json(content_type) is not None


def check_reference(where: str, text: str) -> None:
    """Check that a text is a URI reference by Go's rules. Raises InvalidEvent with the position."""
    if _is_plain(text):
        return
    try:
        parse_url(text)
    except GoError as error:
        raise InvalidEvent(f"{where}: {error}") from None
