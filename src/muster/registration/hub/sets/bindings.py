"""Whether the cluster set that a namespace has bound exists: condition Bound of each ManagedClusterSetBinding."""

from __future__ import annotations

from muster.api import Condition
from muster.api.cluster.v1beta2 import BOUND, ManagedClusterSet, ManagedClusterSetBinding
from muster.machinery.objects import ObjectKey
from muster.registration.hub.context import HubControllerContext
from muster.registration.kinds import CLUSTER_SET_BINDINGS, CLUSTER_SETS
from muster.runtime.controller import set_condition

BY_SET = "set"


def boundness(there: bool) -> Condition:
    if there:
        return Condition(type=BOUND, status="True", reason="ClusterSetBound")
    return Condition(type=BOUND, status="False", reason="ClusterSetNotFound")


class SetBindings:
    def __init__(self, hub: HubControllerContext) -> None:
        self._context = hub.context
        self._sets = hub.context.informers.of(CLUSTER_SETS, decode=ManagedClusterSet.decode)
        self._bindings = hub.context.informers.of(CLUSTER_SET_BINDINGS, decode=ManagedClusterSetBinding.decode)
        self._bindings.cache.add_index(BY_SET, lambda binding: [binding.spec.cluster_set])
        self._controller = hub.context.controller("set-bindings", self.reconcile, workers=2)
        self._controller.watch(self._bindings, lambda binding: [_key(binding)])
        self._controller.depend(self._sets)
        self._sets.on_change(self._set_changed)

    async def run(self) -> None:
        await self._controller.run()

    def _set_changed(self, old: ManagedClusterSet | None, new: ManagedClusterSet | None) -> None:
        if (old is None) == (new is None):
            return
        name = (new or old).metadata.name  # type: ignore[union-attr]  # one of them is there
        for binding in self._bindings.cache.by_index(BY_SET, name):
            self._controller.enqueue(_key(binding))

    async def reconcile(self, key: ObjectKey) -> None:
        binding = self._bindings.cache.get(key)
        if binding is None or binding.metadata.deletion_timestamp:
            return
        condition = boundness(ObjectKey("", binding.spec.cluster_set) in self._sets.cache)
        await set_condition(self._context.client, binding, condition, self._context.clock.now())


def _key(binding: ManagedClusterSetBinding) -> ObjectKey:
    return ObjectKey(binding.metadata.namespace, binding.metadata.name)
