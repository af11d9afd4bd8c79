"""Admission of bindings: only users who may execute works as the account may bind it.

A binding grants that permission, so its writer must have it, for the account in the new spec and in the old one. The check is an
access review for `execute-as`, never a binding: a bound subject may not bind others. Changes outside of the spec are not checked.
"""

from __future__ import annotations

from muster.api.authentication.v1alpha1 import ManagedServiceAccountBinding
from muster.machinery.objects import ObjectKey
from muster.runtime.webhook import AdmissionRequest, AdmissionResponse, Denied, allow, read
from muster.work.hub.bindings.accounts import BINDINGS, BoundAccounts, NotKnown, account_key
from muster.work.hub.webhooks.authorization import ExecutorPolicy, unknown


class BindingWebhook:
    def __init__(self, bound: BoundAccounts, reviews: ExecutorPolicy) -> None:
        self._bound = bound
        self._reviews = reviews

    async def validate(self, request: AdmissionRequest) -> AdmissionResponse:
        if request.operation not in ("CREATE", "UPDATE"):
            return allow()
        new = read(ManagedServiceAccountBinding, request.object)
        old = read(ManagedServiceAccountBinding, request.old_object) if request.old_object else None
        if old is not None and old.spec == new.spec:
            return allow()
        for account in dict.fromkeys(account_key(binding) for binding in (new, old) if binding is not None):
            await self._check(request, account)
        return allow()

    async def _check(self, request: AdmissionRequest, account: ObjectKey) -> None:
        try:
            executor = self._bound.executor(account)
        except NotKnown as error:
            raise unknown(str(error)) from error
        if not await self._reviews.allows(request.user, executor, account.namespace):
            why = f'user "{request.user.name}" cannot execute as {executor.user} in namespace {account.namespace}'
            raise Denied(f'{BINDINGS} "{request.key.name}" is forbidden: {why}', 403, "Forbidden")
