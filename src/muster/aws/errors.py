"""What AWS may answer instead of a result, as types: nobody looks at texts.

`code` is AWS' own word for it, `operation` what was asked. No error carries a credential, nor a request that has one.
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
    """This identity may not: AccessDenied and the like."""


class NoIdentity(AwsError):
    """There is no credential, or AWS does not take it: missing, expired, unknown, a web identity that is refused."""


class NotFound(AwsError):
    """NoSuchEntity, ResourceNotFoundException."""


class AlreadyExists(AwsError):
    """EntityAlreadyExists, ResourceInUseException."""


class Malformed(AwsError):
    """MalformedPolicyDocument: also where a principal is named that does not exist (yet)."""


class InvalidParameter(AwsError):
    """InvalidParameterException: also where a role was made a moment ago and EKS does not see it yet."""


class InvalidRequest(AwsError):
    """InvalidRequestException: also where the cluster's authentication mode has no access entries."""


class Conflict(AwsError):
    """DeleteConflict: something is still attached; ConcurrentModification."""


class LimitExceeded(AwsError):
    """A quota of the account."""


class Throttled(AwsError):
    """Too many calls; later it will do."""


class Unavailable(AwsError):
    """No answer, or 5xx: whether it was done is not known."""


class NoLibrary(AwsError):
    """botocore is not installed: `pip install 'muster[aws]'`."""


RETRYABLE = (Throttled, Unavailable)
"""Nothing is wrong with what was asked: the same again, later."""

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
    """What a service answered with. A code that nobody has heard of is still an answer with a status."""
    unknown = Unavailable if status >= 500 else _BY_STATUS.get(status, AwsError)
    return _CODES.get(code, unknown)(operation, code, message)
