"""Validation of a token before it is verified with AWS: the rules of aws-iam-authenticator, as a pure function.

A token is a URL that the verifier itself must request. A verifier of arbitrary URLs could be sent to a server that imitates AWS, or
to its own network. So the URL must be one of the known security token service, request the caller's identity and nothing else, and
have no duplicate parameters; and the name of the cluster, which the verifier sends as a header, must be signed. `validate_token`
returns the request to send; every problem is a `TokenRefused`, with a `Reason` and a message without secrets.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Final
from urllib.parse import unquote_plus, urlsplit

from muster.aws.sigv4 import TIME_FORMAT
from muster.aws.tokens import CLUSTER_HEADER, PREFIX

LONGEST: Final = 4096
LONGEST_EXPIRY: Final = 900
VALID_FOR: Final = timedelta(minutes=15)
PARAMETERS: Final = frozenset(
    (
        "action",
        "version",
        "x-amz-algorithm",
        "x-amz-credential",
        "x-amz-date",
        "x-amz-expires",
        "x-amz-security-token",
        "x-amz-signature",
        "x-amz-signedheaders",
    )
)
_VISIBLE: Final = re.compile(r"[!-~]+")
_BASE64: Final = re.compile(r"[A-Za-z0-9_-]*")
_ESCAPES: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")


class Reason(Enum):
    TOO_LONG = "longer than a token can be"
    PREFIX = "not a token of AWS"
    ENCODING = "not base64 without padding"
    URL = "not a URL"
    SCHEME = "the URL is not https"
    HOST = "the URL does not lead to the security token service"
    PATH = "the URL has another path than /"
    PARAMETERS = "the URL's query does not parse"
    DOUBLED = "a parameter is there more than once"
    UNKNOWN_PARAMETER = "a parameter is there that has no business there"
    ACTION = "another action than GetCallerIdentity"
    CLUSTER_UNSIGNED = "the cluster's name is not signed"
    EXPIRES = "X-Amz-Expires is not a number of seconds up to 900"
    DATE = "X-Amz-Date is not a time"
    EXPIRED = "signed more than 15 minutes ago"


class TokenRefused(Exception):
    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.value)
        self.reason = reason


@dataclass(frozen=True)
class IdentityQuestion:
    """The request that returns the token's identity: sent unchanged, without following redirects; only 200 is success."""

    url: str = field(repr=False)
    host: str
    """With the port if the URL has one."""
    target: str = field(repr=False)
    """Path and query, for a request to the host."""
    headers: Mapping[str, str]
    access_key_id: str


def validate_token(token: str, cluster: str, is_sts: Callable[[str], bool], now: datetime) -> IdentityQuestion:
    """`cluster` is the verifier's own; `is_sts` is whether a host, with its port if there is one, may be requested.

    Raises TokenRefused.
    """
    url = _url(token)
    try:
        parts = urlsplit(url)
        host, userinfo = parts.netloc, parts.username
        _ = parts.port
    except ValueError:
        raise TokenRefused(Reason.URL) from None
    if parts.scheme != "https":
        raise TokenRefused(Reason.SCHEME)
    if userinfo is not None or "@" in host or not is_sts(host):
        raise TokenRefused(Reason.HOST)
    if parts.path != "/":
        raise TokenRefused(Reason.PATH)
    if parts.fragment or url.endswith("#"):
        raise TokenRefused(Reason.URL)
    parameters = _parameters(parts.query)
    _check(parameters, now)
    headers = {CLUSTER_HEADER: cluster, "Accept": "application/json"}
    access_key_id = parameters.get("x-amz-credential", "").partition("/")[0]
    return IdentityQuestion(url, host, f"/?{parts.query}", headers, access_key_id)


def _url(token: str) -> str:
    if len(token) > LONGEST:
        raise TokenRefused(Reason.TOO_LONG)
    if not token.startswith(PREFIX):
        raise TokenRefused(Reason.PREFIX)
    encoded = token.removeprefix(PREFIX)
    if not _BASE64.fullmatch(encoded):
        raise TokenRefused(Reason.ENCODING)
    try:
        url = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode("ascii")
    except (binascii.Error, UnicodeDecodeError):
        raise TokenRefused(Reason.ENCODING) from None
    # A line end or a blank could start another request.
    if not _VISIBLE.fullmatch(url) or "\\" in url:
        raise TokenRefused(Reason.URL)
    return url


def _parameters(query: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in query.split("&"):
        name, equals, value = part.partition("=")
        if not part:
            continue
        if not equals or ";" in part or _ESCAPES.search(part):
            raise TokenRefused(Reason.PARAMETERS)
        name = unquote_plus(name).lower()
        if name in found:
            raise TokenRefused(Reason.DOUBLED)
        if name not in PARAMETERS:
            raise TokenRefused(Reason.UNKNOWN_PARAMETER)
        found[name] = unquote_plus(value)
    return found


def _check(parameters: Mapping[str, str], now: datetime) -> None:
    if parameters.get("action") != "GetCallerIdentity":
        raise TokenRefused(Reason.ACTION)
    if CLUSTER_HEADER not in parameters.get("x-amz-signedheaders", "").split(";"):
        raise TokenRefused(Reason.CLUSTER_UNSIGNED)
    expires = parameters.get("x-amz-expires", "")
    if not re.fullmatch(r"[0-9]{1,3}", expires) or int(expires) > LONGEST_EXPIRY:
        raise TokenRefused(Reason.EXPIRES)
    date = parameters.get("x-amz-date", "")
    try:
        signed = datetime.strptime(date, TIME_FORMAT).replace(tzinfo=UTC)
    except ValueError:
        raise TokenRefused(Reason.DATE) from None
    if not date.isascii() or len(date) != 16:
        raise TokenRefused(Reason.DATE)
    if now > signed + VALID_FOR:
        raise TokenRefused(Reason.EXPIRED)
