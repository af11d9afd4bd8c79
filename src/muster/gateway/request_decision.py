"""The decision about a request for a cluster, before anything is sent there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import msgspec

from muster.http import Request, Response
from muster.kube.request_info import RequestInfo
from muster.machinery.authentication import UserInfo


@dataclass(frozen=True, slots=True)
class Refused:
    """`answer` is returned to the client as it is."""

    answer: Response
    reason: str


@dataclass(frozen=True, slots=True)
class Answered:
    """The gateway answers the request itself, such as a review of the caller's own access."""

    answer: Response
    reason: str


class Granted(msgspec.Struct, frozen=True):
    """`impersonated` is sent in Impersonate-* fields; None: the request is made as the gateway's account."""

    reason: str
    impersonated: UserInfo | None = None
    notes: Mapping[str, str] = {}  # msgspec copies the default
    """Annotations of the audit event."""


RequestDecision = Refused | Answered | Granted


class RequestAuthorizer(Protocol):
    async def authorize(self, who: UserInfo, cluster: str, inner: RequestInfo, request: Request) -> RequestDecision:
        """Whether `who` may send `inner` to `cluster`. The body of `request` is read only if the gateway answers the request
        itself."""
        ...
