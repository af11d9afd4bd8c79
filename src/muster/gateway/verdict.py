"""What a judge says to a request for a cluster, before anything is sent there."""

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
    """`answer` goes to the client as it is."""

    answer: Response
    reason: str


@dataclass(frozen=True, slots=True)
class Answered:
    """The gateway answers by itself, such as reviews of the caller's own access."""

    answer: Response
    reason: str


class Granted(msgspec.Struct, frozen=True):
    """`impersonated` is sent along as Impersonate-* fields; None: the request is the gateway's account's."""

    reason: str
    impersonated: UserInfo | None = None
    notes: Mapping[str, str] = {}  # each has one of its own
    """For the audit line."""


Verdict = Refused | Answered | Granted


class Judge(Protocol):
    async def judge(self, who: UserInfo, cluster: str, inner: RequestInfo, request: Request) -> Verdict:
        """May `who` send `inner` to `cluster`? `request` is there for its body, which is read only where the answer is our own."""
        ...
