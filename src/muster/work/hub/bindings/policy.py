"""Authorization of executors by bindings, alone or together with access reviews (see `webhooks/authorization.py`)."""

from __future__ import annotations

from muster.machinery.authentication import UserInfo
from muster.work.hub.bindings.accounts import BoundAccounts, NotKnown
from muster.work.hub.webhooks.authorization import ExecutorPolicy, unknown
from muster.work.hub.webhooks.executors import AGENT, Executor


class ByBinding:
    """`reviews` decide what bindings cannot: works of all clusters, those of the hub's own `controller`, works without executor.

    With `either`, they are checked first for everything.
    """

    def __init__(self, bound: BoundAccounts, reviews: ExecutorPolicy, controller: str, *, either: bool) -> None:
        self._bound = bound
        self._reviews = reviews
        self._controller = controller
        self._either = either

    async def allows(self, who: UserInfo, executor: Executor, namespace: str) -> bool:
        beyond = not namespace or who.name == self._controller or executor == AGENT
        if (self._either or beyond) and await self._reviews.allows(who, executor, namespace):
            return True
        if beyond:
            return False
        try:
            return self._bound.allow(who, executor, namespace)
        except NotKnown as error:
            raise unknown(f"whether user {who.name} may execute as {executor.user} is not known: {error}") from error
