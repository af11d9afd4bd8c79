"""CloudEvents' structured mode, the whole event as JSON, which OCM never writes but its readers accept.

The message's own fields are ignored then: `binary_data` has everything, in CloudEvents' JSON format.
"""

from __future__ import annotations

import binascii
from datetime import datetime
from typing import Any, Final

import orjson

from muster.machinery.golang.errors import GoError
from muster.machinery.golang.timestamps import parse_time
from muster.transport.contract.event import SPEC_VERSION, TIME, Attribute, CloudEvent, InvalidEvent, is_attribute_name
from muster.transport.contract.wire.checks import check_reference, is_json

_STRUCTURED: Final = "application/cloudevents"
_STRUCTURED_JSON: Final = "application/cloudevents+json"
_INT32: Final = range(-(1 << 31), 1 << 31)
_TEXTS: Final = frozenset(("subject", "dataschema"))
_DATA: Final = ("data", "data_base64")


def _media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def is_structured(content_type: str) -> bool:
    """Whether the data has the whole event, in a format that may be supported."""
    return content_type.startswith(_STRUCTURED)


def read_structured(content_type: str, data: bytes | None) -> CloudEvent:
    """Raises InvalidEvent."""
    if _media_type(content_type) != _STRUCTURED_JSON:
        raise InvalidEvent(f"attribute 'contenttype': {content_type!r}; {_STRUCTURED_JSON} is expected of an event that is data")
    try:
        document = orjson.loads(data or b"")
    except orjson.JSONDecodeError as error:
        raise InvalidEvent(f"the event in binary_data is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise InvalidEvent("the event in binary_data is no JSON object")
    if document.pop("specversion", None) != SPEC_VERSION:
        raise InvalidEvent(f"specversion: {SPEC_VERSION!r} is expected")
    for name in ("source", "dataschema"):
        if (reference := document.get(name)) == "":
            raise InvalidEvent(f"{name} is empty")
        if isinstance(reference, str):
            check_reference(name, reference)
    kind = _text(document, "datacontenttype")
    body = _read_data(kind, {name: document.pop(name) for name in _DATA if name in document})
    return CloudEvent(
        id=_text(document, "id"),
        source=_text(document, "source"),
        type=_text(document, "type"),
        attributes={name.lower(): _attribute(name.lower(), value) for name, value in document.items() if value is not None},
        data=body,
    )


def _text(document: dict[str, Any], name: str) -> str:
    value = document.pop(name, "")
    if not isinstance(value, str):
        raise InvalidEvent(f"{name}: a string is expected")
    return value


def _read_data(content_type: str, found: dict[str, Any]) -> bytes | None:
    if not found:
        return None
    if len(found) > 1:
        raise InvalidEvent("the event has both data and data_base64")
    if content_type and not is_json(content_type):
        raise InvalidEvent(f"datacontenttype: {content_type!r}; application/json is expected")
    try:
        return orjson.dumps(found["data"]) if "data" in found else binascii.a2b_base64(found["data_base64"], strict_mode=True)
    except (TypeError, ValueError) as error:
        # JSON that is nested too deeply to be encoded, or invalid base64.
        raise InvalidEvent(f"{next(iter(found))}: {error}") from None


def _attribute(name: str, value: Any) -> Attribute:
    if not is_attribute_name(name):
        raise InvalidEvent(f"attribute {name!r}: names are of lower-case letters and digits")
    if name == TIME:
        return _moment(value)
    if isinstance(value, str) or (isinstance(value, bool) and name not in _TEXTS):
        return value
    if isinstance(value, int) and value in _INT32 and name not in _TEXTS:
        return value
    raise InvalidEvent(f"attribute {name!r}: a string, a boolean or an integer of 32 bits is expected")


def _moment(value: Any) -> datetime:
    try:
        return parse_time(value)
    except (GoError, TypeError) as error:
        raise InvalidEvent(f"attribute {TIME!r}: {error}") from None
