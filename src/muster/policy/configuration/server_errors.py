"""Classifies errors of the API server for a policy, and redacts their text.

A server's message quotes the values it refuses, and keys are values too. If templates have read Secrets, a message therefore
contains only the names of top-level fields.
"""

from __future__ import annotations

import re
from typing import Final

from muster.runtime.client import BadRequest, Forbidden, Invalid, KubeError, NotFound, StatusError

_STRICT_DECODING: Final = "strict decoding error:"
"""The only sign of an unknown or duplicate field in a server's answer."""
_TOP_LEVEL: Final = re.compile(r"[A-Za-z]+")
_NAMESPACE_TERMINATING: Final = "NamespaceTerminating"


def is_invalid(error: KubeError) -> bool:
    return isinstance(error, Invalid)


def is_permanent(error: KubeError) -> bool:
    """Whether the same object would be refused again, so that only a change helps."""
    return isinstance(error, BadRequest | Invalid | NotFound)


def is_strict_decoding(error: KubeError) -> bool:
    return isinstance(error, BadRequest) and _STRICT_DECODING in str(error)


def is_namespace_missing(error: KubeError) -> bool:
    """Whether an object could not be created because its namespace is missing or terminating."""
    if isinstance(error, NotFound):
        return error.details.get("kind") == "namespaces"
    if isinstance(error, Forbidden):
        causes = error.causes
        return bool(causes) and causes[0].get("reason") == _NAMESPACE_TERMINATING
    return False


def error_text(error: KubeError, sensitive: bool) -> str:
    """The error's text, redacted if it may contain sensitive values."""
    if not sensitive or not isinstance(error, StatusError):
        return str(error)
    paths = (str(cause.get("field") or "") for cause in error.causes)
    fields = ", ".join(dict.fromkeys(found[0] for path in paths if (found := _TOP_LEVEL.match(path)) is not None))
    what = error.reason or f"HTTP {error.code}"
    return f"{what}{f' ({fields})' if fields else ''}; the rest is redacted because templates have read sensitive data"
