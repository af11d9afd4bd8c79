"""What this AWS says instead of a result: AWS' own code, a text, and the status it is sent with.

Operations raise the code that their API documents. What goes wrong before an operation is reached (signatures, rights, throttling)
has one code here, and the wire layer of each protocol spells it as that service does.
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
        """What a REST service adds beside the message."""


class MalformedPolicy(Exception):
    """A document that is no policy; the text says where."""


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
