"""Reports changes of pods, and of the objects that they use, to the node of their cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from muster.fleet.attached import Attached, Change
from muster.fleet.node.clusternode import ClusterNode
from muster.operator.pod_namespaces import may_run
from muster.runtime.client.builtin import CONFIG_MAPS, NAMESPACES, NODES, PERSISTENT_VOLUME_CLAIMS, PODS, SECRETS


class NodePods:
    """With `claims`, pods wait for their PersistentVolumeClaims."""

    name = "node"

    def __init__(self, nodes: Mapping[str, ClusterNode], *, claims: bool = False) -> None:
        self._nodes = nodes
        self.resources = (PODS, NODES, NAMESPACES, SECRETS, CONFIG_MAPS, *((PERSISTENT_VOLUME_CLAIMS,) if claims else ()))

    def keys(self, attached: Attached, change: Change) -> Iterable[str]:
        node = self._nodes.get(attached.name)
        if node is None:
            return ()
        if change.resource == PODS:
            return (change.key,)
        if change.resource in (NODES, PERSISTENT_VOLUME_CLAIMS):
            return node.waiting()
        if change.resource == NAMESPACES:
            return self._of_namespace(attached, change)
        namespace, _, name = change.key.partition("/")
        node.touched(change.resource.plural, namespace, name)
        return ()

    @staticmethod
    def _of_namespace(attached: Attached, change: Change) -> Iterable[str]:
        """The namespace's pods, if the part of it that concerns them has changed."""
        now, *before = map(may_run, change.versions())
        if before and before[0] == now:
            return ()
        return [f"{change.key}/{pod['metadata']['name']}" for pod in attached.view.scan(PODS, change.key)]

    async def reconcile(self, attached: Attached, key: str) -> float | None:
        node = self._nodes.get(attached.name)
        if node is not None:
            await node.sync(key)
        return None
