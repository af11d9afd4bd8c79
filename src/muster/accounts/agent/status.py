"""The status of a ManagedServiceAccount, computed from the token on the hub or from the reason why there is none."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from muster.api import Condition
from muster.api.authentication.v1beta1 import SECRET_CREATED, TOKEN_REPORTED, ManagedServiceAccount, TokenSecretRef
from muster.kube.token_claims import TokenClaims
from muster.machinery.golang.timestamps import format_time
from muster.machinery.printable import one_line
from muster.runtime.controller import with_condition

FAILED: Final = "TokenReportFailed"
NO_SECRET: Final = "SecretNotCreated"
MAX_MESSAGE_LENGTH: Final = 1024


def with_token(account: ManagedServiceAccount, claims: TokenClaims, now: datetime) -> ManagedServiceAccount:
    account = _with(account, SECRET_CREATED, True, SECRET_CREATED, "The Secret with the token exists", now)
    account = _with(account, TOKEN_REPORTED, True, TOKEN_REPORTED, "The token is stored on the hub", now)
    status = msgspec.structs.replace(
        account.status,
        expiration_timestamp=format_time(claims.expires),
        token_secret_ref=TokenSecretRef(name=account.metadata.name, last_refresh_timestamp=format_time(claims.issued)),
    )
    return msgspec.structs.replace(account, status=status)


def with_failure(account: ManagedServiceAccount, problem: str, now: datetime, *, secret: bool) -> ManagedServiceAccount:
    """`secret`: whether the Secret exists. The status of an earlier token stays, because that token may still be valid."""
    message = one_line(problem)[:MAX_MESSAGE_LENGTH]
    if not secret:
        account = _with(account, SECRET_CREATED, False, NO_SECRET, message, now)
    return _with(account, TOKEN_REPORTED, False, FAILED, message, now)


def _with(
    account: ManagedServiceAccount, kind: str, status: bool, reason: str, message: str, now: datetime
) -> ManagedServiceAccount:
    generation = account.metadata.generation
    condition = Condition(type=kind, status=str(status), reason=reason, message=message, observed_generation=generation)
    return with_condition(account, condition, now)
