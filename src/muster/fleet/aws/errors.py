"""Errors of the simulated AWS: AWS' own code, a message, and the HTTP status.

Operations raise the codes that their API documents. Errors before an operation is reached (signatures, permissions, throttling)
have one code here, and the wire module of each protocol translates it for its service.
"""

from __future__ import annotations

from collections.abc import Mapping


class AwsRefusal(Exception):
    def __init__(self, code: str, message: str, status: int = 400, fields: Mapping[str, str] | None = None) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.status = status
        self.fields = fields or {}
        """Fields that a REST service adds beside the message."""


class MalformedPolicy(Exception):
    """An invalid policy document; the message has the position."""


def access_denied(message: str) -> AwsRefusal:
    return AwsRefusal("AccessDenied", message, 403)


def no_such_entity(message: str) -> AwsRefusal:
    return AwsRefusal("NoSuchEntity", message, 404)


def already_exists(message: str) -> AwsRefusal:
    return AwsRefusal("EntityAlreadyExists", message, 409)


def limit_exceeded(message: str) -> AwsRefusal:
    return AwsRefusal("LimitExceeded", message, 409)


def delete_conflict(message: str) -> AwsRefusal:
    return AwsRefusal("DeleteConflict", message, 409)


def malformed(message: str) -> AwsRefusal:
    return AwsRefusal("MalformedPolicyDocument", message)


def invalid(message: str) -> AwsRefusal:
    return AwsRefusal("ValidationError", message)
