"""Whether a user may write works that run as an executor: by the verb `execute-as`, by a binding, or by either.

`execute-as` is reviewed on the hub with the executor as the name of a ManifestWork in the cluster's namespace, so that RBAC can
grant it for one account, one cluster, or all. An empty namespace means all clusters at once; bindings, which are about one account
on one cluster, cannot grant that, nor anything to the hub's own controller, which copies specs that were authorized when they were
written.

If the review fails, the request is refused as one that can be retried.
"""

from __future__ import annotations

from typing import Protocol

from muster.api.work.v1 import GROUP, ManifestWork
from muster.machinery.authentication import UserInfo
from muster.machinery.authorization import AccessAttributes
from muster.runtime.auth import Authorizer
from muster.runtime.client import KubeError
from muster.runtime.webhook import Denied
from muster.work.hub.webhooks.executors import Executor
from muster.work.names import EXECUTE_AS


class ExecutorPolicy(Protocol):
    async def allows(self, who: UserInfo, executor: Executor, namespace: str) -> bool:
        """For works in this namespace; empty means in all. Raises Denied if that cannot be decided now."""


class ByAccessReview:
    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    async def allows(self, who: UserInfo, executor: Executor, namespace: str) -> bool:
        works = ManifestWork.resource
        action = AccessAttributes(EXECUTE_AS, GROUP, works.version, works.plural, namespace=namespace, name=executor.user)
        try:
            return (await self._authorizer.authorize(who, action)).allowed
        except KubeError as error:
            raise unknown(f"whether user {who.name} may execute as {executor.user} cannot be reviewed: {error}") from error


def unknown(message: str) -> Denied:
    return Denied(message, 503, "ServiceUnavailable")
