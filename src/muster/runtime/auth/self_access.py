"""SelfSubjectAccessReviews: what the client's own credential may do on a server, the only reliable test of a credential."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from muster.machinery.authorization import AccessAttributes
from muster.runtime.client.base import KubeClient
from muster.runtime.client.builtin import SELF_ACCESS_REVIEWS

MAX_CONCURRENT_REVIEWS: Final = 5
"""Concurrent reviews: many agents may send them to one hub."""


def rights(
    group: str, resource: str, *verbs: str, subresource: str = "", name: str = "", namespace: str = ""
) -> tuple[AccessAttributes, ...]:
    return tuple(AccessAttributes(verb, group, "", resource, subresource, namespace, name) for verb in verbs)


async def missing_rights(client: KubeClient, needed: Iterable[AccessAttributes]) -> list[AccessAttributes]:
    """Those of the actions that the server would deny. Raises the errors of the client."""
    wanted = list(needed)
    gate = asyncio.Semaphore(MAX_CONCURRENT_REVIEWS)

    async def allowed(right: AccessAttributes) -> bool:
        async with gate:
            return await _allowed(client, right)

    # The first error is raised after all reviews have ended, so that none outlives the client.
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
