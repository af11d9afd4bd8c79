"""Asking a server what the identity that asks may do there: the truth about a credential, and the only test of one that counts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from muster.machinery.authorization import AccessAttributes
from muster.runtime.client.base import KubeClient
from muster.runtime.client.builtin import SELF_ACCESS_REVIEWS

MAX_CONCURRENT_REVIEWS: Final = 5
"""Questions on their way at a time: many agents may ask one hub."""


def rights(
    group: str, resource: str, *verbs: str, subresource: str = "", name: str = "", namespace: str = ""
) -> tuple[AccessAttributes, ...]:
    return tuple(AccessAttributes(verb, group, "", resource, subresource, namespace, name) for verb in verbs)


async def missing_rights(client: KubeClient, needed: Iterable[AccessAttributes]) -> list[AccessAttributes]:
    """Which of these the server would refuse. Raises what the client raises."""
    wanted = list(needed)
    gate = asyncio.Semaphore(MAX_CONCURRENT_REVIEWS)

    async def allowed(right: AccessAttributes) -> bool:
        async with gate:
            return await _allowed(client, right)

    # An error of one ends this; the others are awaited, so that none outlives the client.
    answers = await asyncio.gather(*map(allowed, wanted), return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    return [right for right, answer in zip(wanted, answers, strict=True) if not answer]


async def _allowed(client: KubeClient, right: AccessAttributes) -> bool:
    review = {
        "apiVersion": SELF_ACCESS_REVIEWS.api_version,
        "kind": SELF_ACCESS_REVIEWS.kind,
        "spec": right.spec(),
    }
    answer = await client.create(SELF_ACCESS_REVIEWS, review)
    return bool((answer.get("status") or {}).get("allowed"))
