"""EKS' REST protocol with JSON: an operation is a method and a path, parameters are in path, query and body.

Paths are split before they are decoded, because an ARN in a path contains slashes.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final
from urllib.parse import unquote

import orjson

from muster.fleet.aws.errors import AwsRefusal

JSON: Final = "application/json"
ROUTES: Final = (
    ("GET", ("clusters",), "ListClusters"),
    ("GET", ("clusters", "{name}"), "DescribeCluster"),
    ("GET", ("clusters", "{name}", "access-entries"), "ListAccessEntries"),
    ("POST", ("clusters", "{name}", "access-entries"), "CreateAccessEntry"),
    ("GET", ("clusters", "{name}", "access-entries", "{principalArn}"), "DescribeAccessEntry"),
    ("POST", ("clusters", "{name}", "access-entries", "{principalArn}"), "UpdateAccessEntry"),
    ("DELETE", ("clusters", "{name}", "access-entries", "{principalArn}"), "DeleteAccessEntry"),
    ("POST", ("tags", "{resourceArn}"), "TagResource"),
)
CODES: Final = {
    "AccessDenied": "AccessDeniedException",
    "InvalidClientTokenId": "UnrecognizedClientException",
    "SignatureDoesNotMatch": "InvalidSignatureException",
    "IncompleteSignature": "IncompleteSignatureException",
    "MissingAuthenticationToken": "MissingAuthenticationTokenException",
    "ExpiredToken": "ExpiredTokenException",
    "Throttling": "ThrottlingException",
    "InternalFailure": "ServerException",
    "ServiceUnavailable": "ServiceUnavailableException",
    "InvalidAction": "UnknownOperationException",
    "ValidationError": "InvalidParameterException",
    "MalformedQueryString": "InvalidParameterException",
}
"""EKS' codes for the general ones."""


def route(method: str, raw_path: str) -> tuple[str, dict[str, str]] | None:
    """The operation, and the parameters in the path; None if there is none."""
    parts = raw_path.strip("/").split("/")
    for wanted, pattern, operation in ROUTES:
        if wanted != method or len(pattern) != len(parts):
            continue
        if all(one.startswith("{") or one == part for one, part in zip(pattern, parts, strict=True)):
            named = ((one, part) for one, part in zip(pattern, parts, strict=True) if one.startswith("{"))
            return operation, {one.strip("{}"): unquote(part) for one, part in named}
    return None


def parameters(path: Mapping[str, str], query: Mapping[str, str], body: bytes) -> dict[str, Any]:
    """Raises AwsRefusal. Query and body must not override the parameters of the path."""
    try:
        body_fields = orjson.loads(body) if body else {}
    except orjson.JSONDecodeError:
        raise AwsRefusal("SerializationException", "The request body is not JSON.") from None
    if not isinstance(body_fields, dict):
        raise AwsRefusal("SerializationException", "The request body is no JSON object.")
    return {**query, **body_fields, **path}


def answer(result: Mapping[str, Any] | None) -> bytes:
    return orjson.dumps(result or {}, default=_value, option=orjson.OPT_PASSTHROUGH_DATETIME)


def refusal(error: AwsRefusal) -> tuple[str, bytes]:
    """The type, for its header, and the body."""
    code = CODES.get(error.code, error.code)
    return code, orjson.dumps({"message": error.message, **error.fields})


def _value(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.timestamp()
    raise TypeError(f"{type(value).__name__} has no JSON")
