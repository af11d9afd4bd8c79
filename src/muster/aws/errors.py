"""Errors of AWS as types, so that no caller matches texts.

`code` is AWS' own, `operation` the call. No error contains a credential, nor a request with one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final


class AwsError(Exception):
    def __init__(self, operation: str, code: str, message: str) -> None:
        super().__init__(f"{operation}: {code}: {message}" if code else f"{operation}: {message}")
        self.operation = operation
        self.code = code
        self.message = message


class AccessDenied(AwsError):
    """The identity lacks a permission: AccessDenied and similar codes."""


class NoIdentity(AwsError):
    """There is no credential, or AWS refuses it: missing, expired, unknown, a refused web identity."""


class NotFound(AwsError):
    """NoSuchEntity, ResourceNotFoundException."""


class AlreadyExists(AwsError):
    """EntityAlreadyExists, ResourceInUseException."""


class Malformed(AwsError):
    """MalformedPolicyDocument: also for a principal that does not exist (yet)."""


class InvalidParameter(AwsError):
    """InvalidParameterException: also if a role was just created and EKS does not know it yet."""


class InvalidRequest(AwsError):
    """InvalidRequestException: also if the cluster's authentication mode has no access entries."""


class Conflict(AwsError):
    """DeleteConflict: something is still attached; ConcurrentModification."""


class LimitExceeded(AwsError):
    """A quota of the account."""


class Throttled(AwsError):
    """Too many calls; a later retry succeeds."""


class Unavailable(AwsError):
    """No response, or 5xx: whether the call was executed is unknown."""


class NoLibrary(AwsError):
    """botocore is not installed: `pip install 'muster[aws]'`."""


RETRYABLE = (Throttled, Unavailable)
"""The request itself is valid: retry it later."""

_BY_CODE: Final[Mapping[type[AwsError], tuple[str, ...]]] = {
    AccessDenied: ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "RegionDisabledException"),
    NoIdentity: (
        "ExpiredToken",
        "ExpiredTokenException",
        "IDPRejectedClaim",
        "IncompleteSignature",
        "InvalidAccessKeyId",
        "InvalidClientTokenId",
        "InvalidIdentityToken",
        "InvalidSignatureException",
        "InvalidToken",
        "MissingAuthenticationToken",
        "MissingAuthenticationTokenException",
        "RequestExpired",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    ),
    NotFound: ("NoSuchEntity", "ResourceNotFoundException"),
    AlreadyExists: ("EntityAlreadyExists", "ResourceInUseException"),
    Malformed: ("MalformedPolicyDocument",),
    InvalidParameter: ("InvalidInput", "InvalidParameterException", "InvalidParameterValue", "ValidationError"),
    InvalidRequest: ("InvalidRequestException", "UnmodifiableEntity"),
    Conflict: ("ConcurrentModification", "DeleteConflict", "EntityTemporarilyUnmodifiable"),
    LimitExceeded: ("LimitExceeded", "ResourceLimitExceededException", "ServiceQuotaExceededException"),
    Throttled: (
        "PriorRequestNotComplete",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "SlowDown",
        "ThrottledException",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
    ),
    Unavailable: (
        "IDPCommunicationError",
        "InternalError",
        "InternalFailure",
        "RequestTimeout",
        "RequestTimeoutException",
        "ServerException",
        "ServiceFailure",
        "ServiceUnavailable",
        "ServiceUnavailableException",
    ),
}
_CODES: Final = {code: kind for kind, codes in _BY_CODE.items() for code in codes}
_BY_STATUS: Final[Mapping[int, type[AwsError]]] = {401: NoIdentity, 403: AccessDenied, 429: Throttled}


def of_code(operation: str, code: str, message: str, status: int) -> AwsError:
    """The error for a service's response. An unknown code is classified by its status."""
    unknown = Unavailable if status >= 500 else _BY_STATUS.get(status, AwsError)
    return _CODES.get(code, unknown)(operation, code, message)
