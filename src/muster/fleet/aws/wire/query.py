"""The Query protocol: an action with flat parameters, in a form or in the URL, answered in XML, or in JSON on request.

`Tags.member.1.Key=team` is the key of the first of several tags. A duplicate parameter is refused: it would be ambiguous which
value was checked and which one is used.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final
from xml.sax.saxutils import escape

import orjson

from muster.fleet.aws.errors import AwsRefusal

SERVICES: Final = {"2011-06-15": "sts", "2010-05-08": "iam"}
"""By the version of the API."""
NAMESPACES: Final = {"sts": "https://sts.amazonaws.com/doc/2011-06-15/", "iam": "https://iam.amazonaws.com/doc/2010-05-08/"}
XML: Final = "text/xml"
JSON: Final = "application/json"
DEEPEST: Final = 8
_NUMBER: Final = re.compile(r"[0-9]{1,6}")
_NOT_IN_XML: Final = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def unique(pairs: list[tuple[str, str]]) -> dict[str, str]:
    """Raises AwsRefusal for a duplicate parameter, compared case-insensitively."""
    found: dict[str, str] = {}
    seen: set[str] = set()
    for name, value in pairs:
        if name.lower() in seen:
            raise AwsRefusal("MalformedQueryString", f"The parameter {name[:100]} is there more than once.")
        seen.add(name.lower())
        found[name] = value
    return found


def nested(flat: Mapping[str, str]) -> dict[str, Any]:
    """Raises AwsRefusal."""
    tree: dict[str, Any] = {}
    for name, value in flat.items():
        parts = name.split(".")
        if len(parts) > DEEPEST:
            raise _malformed(name)
        level = tree
        for part in parts[:-1]:
            level = level.setdefault(part, {})
            if not isinstance(level, dict):
                raise _malformed(name)
        if parts[-1] in level:
            raise _malformed(name)
        level[parts[-1]] = value
    return {name: _listed(value) for name, value in tree.items()}


def _listed(value: Any) -> Any:
    """Convert numbered members to a list."""
    if not isinstance(value, dict):
        return value
    members = value.get("member")
    if value.keys() == {"member"} and isinstance(members, dict) and all(map(_NUMBER.fullmatch, members)):
        return [_listed(members[key]) for key in sorted(members, key=int)]
    return {name: _listed(one) for name, one in value.items()}


def _malformed(name: str) -> AwsRefusal:
    return AwsRefusal("MalformedQueryString", f"The parameter {name[:100]} contradicts another one.")


def answer(service: str, operation: str, result: Mapping[str, Any] | None, request_id: str, media: str) -> bytes:
    metadata = {"RequestId": request_id}
    body = {"ResponseMetadata": metadata} if result is None else {f"{operation}Result": result, "ResponseMetadata": metadata}
    if media == JSON:
        return orjson.dumps({f"{operation}Response": body}, default=_json_value, option=orjson.OPT_PASSTHROUGH_DATETIME)
    return _document(f"{operation}Response", service, body)


def refusal(service: str, error: AwsRefusal, request_id: str, media: str) -> bytes:
    fields = {"Type": "Sender" if error.status < 500 else "Receiver", "Code": error.code, "Message": error.message}
    if media == JSON:
        return orjson.dumps({"Error": fields, "RequestId": request_id})
    return _document("ErrorResponse", service, {"Error": fields, "RequestId": request_id})


def _document(name: str, service: str, body: Mapping[str, Any]) -> bytes:
    return f'<{name} xmlns="{NAMESPACES[service]}">{_inside(body)}</{name}>\n'.encode()


def _inside(value: Any) -> str:
    if isinstance(value, Mapping):
        return "".join(f"<{name}>{_inside(one)}</{name}>" for name, one in value.items())
    if isinstance(value, list):
        return "".join(f"<member>{_inside(one)}</member>" for one in value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return escape(_NOT_IN_XML.sub("�", str(value)))


def _json_value(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.timestamp()
    raise TypeError(f"{type(value).__name__} has no JSON")
