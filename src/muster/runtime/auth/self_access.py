"""Asking a server what the identity that asks may do there: the truth about a credential, and the only test of one that counts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from muster.runtime.client.base import KubeClient
from muster.runtime.client.builtin import SELF_ACCESS_REVIEWS

AT_ONCE: Final = 5
"""Questions on their way at a time: many agents may ask one hub."""


@dataclass(frozen=True)
class Right:
    group: str
    resource: str
    verb: str
    subresource: str = ""
    name: str = ""
    namespace: str = ""

    def __str__(self) -> str:
        what = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        return f"{self.verb} {what}"


def rights(group: str, resource: str, *verbs: str, subresource: str = "", name: str = "", namespace: str = "") -> tuple[Right, ...]:
    return tuple(Right(group, resource, verb, subresource, name, namespace) for verb in verbs)


async def missing_rights(client: KubeClient, needed: Iterable[Right]) -> list[Right]:
    """Which of these the server would refuse. Raises what the client raises."""
    wanted = list(needed)
    gate = asyncio.Semaphore(AT_ONCE)

    async def allowed(right: Right) -> bool:
        async with gate:
            return await _allowed(client, right)

    # An error of one ends this; the others are awaited, so that none outlives the client.
    answers = await asyncio.gather(*map(allowed, wanted), return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    return [right for right, answer in zip(wanted, answers, strict=True) if not answer]


async def _allowed(client: KubeClient, right: Right) -> bool:
    named = {
        "group": right.group,
        "resource": right.resource,
        "verb": right.verb,
        "subresource": right.subresource,
        "name": right.name,
        "namespace": right.namespace,
    }
    attributes = {field: value for field, value in named.items() if value}
    review = {
        "apiVersion": SELF_ACCESS_REVIEWS.api_version,
        "kind": SELF_ACCESS_REVIEWS.kind,
        "spec": {"resourceAttributes": attributes},
    }
    answer = await client.create(SELF_ACCESS_REVIEWS, review)
    return bool((answer.get("status") or {}).get("allowed"))
