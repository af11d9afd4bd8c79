"""Creates the namespaces that cluster sets of the hub require on the managed cluster, and reports the results.

The hub lists them in the ManagedCluster's status. Each gets a label that is named after the hub, with the value `true`; one that is
no longer required keeps its contents and gets the value `false`: a hub never deletes namespaces. They are checked when the list
changes and once per health check, with one list request by that label, and not at all while there are none.
"""

from __future__ import annotations

import msgspec

from muster.api import Condition, with_condition
from muster.api.cluster.v1 import ClusterSetManagedNamespace
from muster.machinery.logs import get_logger
from muster.runtime.client import AlreadyExists, KubeClient, KubeError
from muster.runtime.client.builtin import NAMESPACES

log = get_logger("muster.registration.agent")

LABEL_PREFIX = "clusterset.open-cluster-management.io/"
NAMESPACE_AVAILABLE = "NamespaceAvailable"
Entries = tuple[ClusterSetManagedNamespace, ...]


def hub_label(server_hash: str) -> str:
    """The label of namespaces that are kept for a hub."""
    return LABEL_PREFIX + server_hash[:63]


def applied(entry: ClusterSetManagedNamespace, problem: str, now: str) -> ClusterSetManagedNamespace:
    """The entry with how it went; empty `problem` when it went well."""
    condition = Condition(
        type=NAMESPACE_AVAILABLE,
        status="False" if problem else "True",
        reason="NamespaceApplyFailed" if problem else "NamespaceApplied",
        message=f"Failed to apply namespace: {problem}" if problem else "Namespace successfully applied and managed",
    )
    conditions = with_condition(entry.conditions, condition, now)
    return entry if conditions is entry.conditions else msgspec.structs.replace(entry, conditions=conditions)


class ManagedNamespaces:
    def __init__(self, spoke: KubeClient, server_hash: str) -> None:
        self._spoke = spoke
        self._label = hub_label(server_hash)
        self._kept: set[str] | None = None
        """Namespaces with the label, as far as is known; None before the first list."""
        self._problems: dict[str, str] = {}

    @property
    def idle(self) -> bool:
        """Whether no namespace is required or labelled."""
        return self._kept is not None and not self._kept

    async def apply(self, wanted: set[str]) -> None:
        """Ensure the namespaces; raises nothing, see `results`."""
        self._problems = {}
        try:
            found = await self._spoke.list(NAMESPACES, label_selector=f"{self._label}=true")
        except KubeError as error:
            self._problems = dict.fromkeys(wanted, str(error))
            return
        self._kept = {item["metadata"]["name"] for item in found.items}
        for name in sorted(wanted - self._kept):
            await self._each(name, "true")
        for name in sorted(self._kept - wanted):
            await self._each(name, "false")

    def results(self, entries: Entries, now: str) -> Entries:
        """The list with the outcome of the last `apply` in it."""
        return tuple(applied(entry, self._problems.get(entry.name, ""), now) for entry in entries)

    async def _each(self, name: str, value: str) -> None:
        assert self._kept is not None
        try:
            if value == "true":
                await self._keep(name)
                self._kept.add(name)
            else:
                await self._spoke.patch(NAMESPACES, name, {"metadata": {"labels": {self._label: value}}})
                self._kept.discard(name)
        except KubeError as error:
            self._problems[name] = str(error)
            log.warning("cannot keep a managed namespace", namespace=name, error=str(error))

    async def _keep(self, name: str) -> None:
        labels = {"metadata": {"name": name, "labels": {self._label: "true"}}}
        try:
            await self._spoke.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", **labels})
        except AlreadyExists:
            await self._spoke.patch(NAMESPACES, name, labels)
