"""The conditions of a binding: whether its account exists, and whether the binding is therefore in effect."""

from __future__ import annotations

from muster.api import Condition
from muster.api.authentication.v1alpha1 import ACCEPTED, REF_FOUND, ManagedServiceAccountBinding
from muster.api.authentication.v1beta1 import ManagedServiceAccount
from muster.machinery.objects import ObjectKey
from muster.runtime.client import patch_object
from muster.runtime.controller import ControllerContext, with_condition
from muster.work.hub.bindings.accounts import BoundAccounts, account_key
from muster.work.hub.options import BINDING_CONTROLLER


def conditions(binding: ManagedServiceAccountBinding, there: bool) -> tuple[Condition, Condition]:
    """RefFound and Accepted."""
    account = f"ManagedServiceAccount {binding.spec.ref.namespace}/{binding.spec.ref.name}"
    if not there:
        missing = f"{account} does not exist"
        found = Condition(type=REF_FOUND, status="False", reason="ManagedServiceAccountNotFound", message=missing)
        return found, Condition(type=ACCEPTED, status="False", reason="ManagedServiceAccountNotFound", message=missing)
    found = Condition(type=REF_FOUND, status="True", reason="ManagedServiceAccountFound", message=f"{account} exists")
    if not binding.spec.subjects:
        return found, Condition(type=ACCEPTED, status="False", reason="NoSubjects", message="the binding names no subjects")
    count = len(binding.spec.subjects)
    message = f"{count} subject{'s' if count > 1 else ''} may have works run as this account"
    return found, Condition(type=ACCEPTED, status="True", reason="Bound", message=message)


class BindingStatus:
    def __init__(self, context: ControllerContext, addon_namespace: str) -> None:
        self._context = context
        self._bound = BoundAccounts(context.informers, addon_namespace)
        self._controller = context.controller(BINDING_CONTROLLER, self.reconcile)
        self._controller.watch(self._bound.bindings, lambda binding: [ObjectKey("", binding.metadata.name)])
        self._controller.watch(self._bound.accounts, self._bindings_of)

    def _bindings_of(self, account: ManagedServiceAccount) -> list[ObjectKey]:
        key = ObjectKey(account.metadata.namespace, account.metadata.name)
        return [ObjectKey("", binding.metadata.name) for binding in self._bound.of_account(key)]

    async def run(self) -> None:
        await self._controller.run()

    async def reconcile(self, key: ObjectKey) -> None:
        binding = self._bound.bindings.cache.get(key)
        if binding is None or binding.metadata.deletion_timestamp:
            return
        wanted = binding
        for condition in conditions(binding, self._bound.exists(account_key(binding))):
            wanted = with_condition(wanted, condition, self._context.clock.now())
        await patch_object(self._context.client, binding, wanted, status=True)
