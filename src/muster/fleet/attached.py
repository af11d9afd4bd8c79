"""A cluster the fleet takes care of: where its objects are read, and through which clients they are written.

State is read straight from the server's store (`cluster.read`, `cluster.scan`): it is in this process already, decoded once for
all, and a write is visible there as soon as it is answered. So controllers here keep no caches and need no expectations.
Writes go through the pipeline like everybody's, under the names of the Kubernetes components whose work is done.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from muster.apiserver.cluster import Cluster
from muster.apiserver.objects import shared
from muster.apiserver.registry.resource import Object
from muster.runtime.events import EventRecorder
from muster.runtime.verbs import KubeClient
from muster.store.api import Event


@dataclass(frozen=True, slots=True)
class Attached:
    cluster: Cluster
    controllers: KubeClient
    """Writes as kube-controller-manager."""
    kubelet: KubeClient
    """Writes as the kubelet."""
    events: EventRecorder
    """Of the controllers."""
    node_events: EventRecorder

    @property
    def name(self) -> str:
        return self.cluster.name


class Attachments:
    """The clusters taken care of, by name; everything that looks at events asks here first."""

    def __init__(self) -> None:
        self._attached: dict[str, Attached] = {}

    def add(self, attached: Attached) -> None:
        self._attached[attached.name] = attached

    def remove(self, name: str) -> Attached | None:
        return self._attached.pop(name, None)

    def get(self, name: str) -> Attached | None:
        return self._attached.get(name)

    def __iter__(self) -> Iterator[Attached]:
        return iter(list(self._attached.values()))


def versions(event: Event) -> list[Object]:
    """What the object of an event was and is."""
    entries = (event.entry, event.previous) if event.previous is not None else (event.entry,)
    return [shared(entry) for entry in entries]


def controller_of(obj: Object) -> Object | None:
    """The owner reference of the controller."""
    return next((owner for owner in obj["metadata"].get("ownerReferences") or () if owner.get("controller")), None)


def owner_keys(event: Event, kind: str) -> set[str]:
    """namespace/name of the controllers of a kind that own, or owned, the object of an event."""
    found = set()
    for obj in versions(event):
        owner = controller_of(obj)
        if owner is not None and owner.get("kind") == kind:
            found.add(f"{obj['metadata'].get('namespace', '')}/{owner['name']}")
    return found


def reference(owner: Object, api_version: str, kind: str) -> Object:
    """An owner reference as controllers write it."""
    metadata = owner["metadata"]
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
