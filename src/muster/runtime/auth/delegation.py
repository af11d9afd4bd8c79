"""Delegated authentication and authorization: TokenReview and SubjectAccessReview, with small, short-lived caches.

Answers are cached for seconds, in bounded caches that evict the least recently used entry. Concurrent identical reviews share one
request. Tokens are cached by their hash. It fails closed: if the cluster cannot be reached, the caller gets the error, which is
neither cached nor an approval. A review with more than `MAX_CACHED_QUESTION` characters is not cached: callers choose the names,
paths and selectors in it, and could exhaust memory.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Generic, Protocol, TypeVar

from muster.machinery.authentication import UserInfo
from muster.machinery.authorization import AccessAttributes, AccessDecision
from muster.machinery.clock import SYSTEM, Clock
from muster.machinery.objects import Object
from muster.runtime.client.base import KubeClient
from muster.runtime.client.builtin import ACCESS_REVIEWS, TOKEN_REVIEWS

V = TypeVar("V")
MAX_CACHED_ANSWERS = 10_000
MAX_CACHED_QUESTION = 10_000
MAX_TOKEN = 16 * 1024
"""Characters: a longer token is rejected without a review."""


class Authenticator(Protocol):
    async def authenticate(self, token: str) -> UserInfo | None: ...


class Authorizer(Protocol):
    async def authorize(self, who: UserInfo, attributes: AccessAttributes) -> AccessDecision: ...


class TTLCache(Generic[V]):
    """Answers by question, each with its own time to live; at most `limit` of them, and one request per question at a time."""

    def __init__(self, lasts: Callable[[V], float], clock: Clock = SYSTEM, limit: int = MAX_CACHED_ANSWERS) -> None:
        self._lasts = lasts
        self._clock = clock
        self._limit = limit
        self._known: OrderedDict[Hashable, tuple[float, V]] = OrderedDict()
        self._pending: dict[Hashable, asyncio.Task[V]] = {}
        self.hits = 0
        self.misses = 0

    def __len__(self) -> int:
        return len(self._known)

    def get(self, question: Hashable) -> tuple[V] | None:
        """The cached answer, without waiting; None if there is none."""
        known = self._known.get(question)
        if known is None:
            return None
        if self._clock.monotonic() >= known[0]:
            del self._known[question]
            return None
        self._known.move_to_end(question)
        self.hits += 1
        return (known[1],)

    async def get_or_load(self, question: Hashable, answer: Callable[[], Awaitable[V]]) -> V:
        remembered = self.get(question)
        if remembered is not None:
            return remembered[0]
        self.misses += 1
        task = self._pending.get(question)
        if task is None:
            task = self._pending[question] = asyncio.ensure_future(self._find(question, answer))
            task.add_done_callback(_retrieve_exception)
        # A caller that is cancelled must not take the answer from the others.
        return await asyncio.shield(task)

    async def _find(self, question: Hashable, answer: Callable[[], Awaitable[V]]) -> V:
        try:
            found = await answer()
        finally:
            self._pending.pop(question, None)
        seconds = self._lasts(found)
        if seconds > 0:
            self._known[question] = (self._clock.monotonic() + seconds, found)
            if len(self._known) > self._limit:
                self._known.popitem(last=False)
        return found

    def clear(self) -> None:
        self._known.clear()


def _retrieve_exception(task: asyncio.Task[Any]) -> None:
    """Marks the exception of a task without waiters as retrieved."""
    if not task.cancelled():
        task.exception()


class TokenReviewer:
    """Reviews bearer tokens; None if the cluster rejects the token. Empty `audiences` mean those of the API server."""

    def __init__(
        self,
        client: KubeClient,
        *,
        audiences: tuple[str, ...] = (),
        known_for: float = 10.0,
        unknown_for: float = 2.0,
        clock: Clock = SYSTEM,
        limit: int = MAX_CACHED_ANSWERS,
    ) -> None:
        self._client = client
        self._audiences = audiences
        self.cache: TTLCache[UserInfo | None] = TTLCache(lambda who: known_for if who else unknown_for, clock, limit)

    async def authenticate(self, token: str) -> UserInfo | None:
        if not token or len(token) > MAX_TOKEN:
            return None
        question = hashlib.sha256(token.encode()).digest()
        remembered = self.cache.get(question)
        return remembered[0] if remembered is not None else await self.cache.get_or_load(question, lambda: self._review(token))

    async def _review(self, token: str) -> UserInfo | None:
        spec: dict[str, Any] = {"token": token}
        if self._audiences:
            spec["audiences"] = list(self._audiences)
        answer = await self._client.create(TOKEN_REVIEWS, {**_typed(TOKEN_REVIEWS.api_version, "TokenReview"), "spec": spec})
        status = answer.get("status") or {}
        if not status.get("authenticated"):
            return None
        if self._audiences and not set(self._audiences) & set(status.get("audiences") or ()):
            # A server without support for audiences answers without them: it has not checked that the token is meant for this
            # server.
            return None
        return UserInfo.decode(status.get("user") or {})


class AccessReviewer:
    """Reviews what a user may do, by the authorizers of the cluster.

    `reviewed` is called after every review, with its duration and whether it succeeded.
    """

    def __init__(
        self,
        client: KubeClient,
        *,
        allowed_for: float = 10.0,
        refused_for: float = 5.0,
        clock: Clock = SYSTEM,
        limit: int = MAX_CACHED_ANSWERS,
        reviewed: Callable[[float, bool], None] | None = None,
    ) -> None:
        self._client = client
        self._reviewed = reviewed
        self.cache: TTLCache[AccessDecision] = TTLCache(
            lambda decision: allowed_for if decision.allowed else refused_for, clock, limit
        )

    def cached(self, who: UserInfo, attributes: AccessAttributes) -> AccessDecision | None:
        """The cached decision, without a request."""
        found = self.cache.get((who, attributes))
        return None if found is None else found[0]

    async def authorize(self, who: UserInfo, attributes: AccessAttributes) -> AccessDecision:
        if _length(attributes) > MAX_CACHED_QUESTION:
            return await self.review(who, attributes)
        return await self.cache.get_or_load((who, attributes), lambda: self.review(who, attributes))

    async def review(self, who: UserInfo, attributes: AccessAttributes) -> AccessDecision:
        """The decision of the cluster, without the cache."""
        spec: dict[str, Any] = {"user": who.name, **attributes.spec()}
        if who.uid:
            spec["uid"] = who.uid
        if who.groups:
            spec["groups"] = list(who.groups)
        if who.extra:
            spec["extra"] = {key: list(values) for key, values in who.extra.items()}
        review = {**_typed(ACCESS_REVIEWS.api_version, "SubjectAccessReview"), "spec": spec}
        status = (await self._create(review)).get("status") or {}
        return AccessDecision(bool(status.get("allowed")), str(status.get("reason") or ""), bool(status.get("denied")))

    async def _create(self, review: Object) -> Object:
        if self._reviewed is None:
            return await self._client.create(ACCESS_REVIEWS, review)
        started, answered = time.monotonic(), False
        try:
            answer = await self._client.create(ACCESS_REVIEWS, review)
            answered = True
        finally:
            self._reviewed(time.monotonic() - started, answered)
        return answer


def _length(attributes: AccessAttributes) -> int:
    """The length of all parts whose length the caller chooses."""
    return (
        len(attributes.verb)
        + len(attributes.group)
        + len(attributes.version)
        + len(attributes.resource)
        + len(attributes.subresource)
        + len(attributes.namespace)
        + len(attributes.name)
        + len(attributes.path)
        + len(attributes.field_selector)
        + len(attributes.label_selector)
    )


def _typed(api_version: str, kind: str) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind}
