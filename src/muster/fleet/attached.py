"""A cluster the fleet takes care of: how it is read, through which clients it is written, and what its controllers look like.

Where the cluster is does not matter here. `embedded` reads the store of an API server in this process; `followed` keeps caches of
one that is reached by a client. Both keep one promise: whoever writes through the clients of an `Attached` sees that in its view
as soon as the write is answered. So controllers here need no expectations. Writes go through the API server's pipeline like
everybody's, under the names of the Kubernetes components whose work is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from muster.machinery.objects import GVR, Object
from muster.runtime.client import KubeClient
from muster.runtime.controller import EventRecorder


class View(Protocol):
    """The present state of a cluster. A key is `namespace/name`, or the name of what is in no namespace. Nobody may change what
    is handed out: there is one copy for all."""

    def read(self, resource: GVR, key: str) -> Object | None: ...

    def scan(self, resource: GVR, namespace: str = "") -> Iterable[Object]: ...


@dataclass(frozen=True, slots=True)
class Attached:
    name: str
    view: View
    now: Callable[[], datetime]
    controllers: KubeClient
    """Writes as kube-controller-manager."""
    kubelet: KubeClient
    """Writes as the kubelet."""
    events: EventRecorder
    """Of the controllers."""
    node_events: EventRecorder


@dataclass(frozen=True, slots=True)
class Change:
    resource: GVR
    key: str
    deleted: bool
    versions: Callable[[], list[Object]]
    """What the object is and was, the newest first; decoded when asked."""


class Controller(Protocol):
    """Says which keys a change concerns, and makes the world agree with what is wanted for a key. Keeps nothing."""

    @property
    def name(self) -> str: ...

    @property
    def resources(self) -> Sequence[GVR]:
        """What it looks at; every object of the first has a key of its own."""

    def keys(self, attached: Attached, change: Change) -> Iterable[str]:
        """Called with every change: must be quick."""

    async def reconcile(self, attached: Attached, key: str) -> float | None:
        """A number asks to be called again after so many seconds."""


def controller_of(obj: Object) -> Object | None:
    """The owner reference of the controller."""
    return next((owner for owner in obj["metadata"].get("ownerReferences") or () if owner.get("controller")), None)


def owner_keys(change: Change, kind: str) -> set[str]:
    """namespace/name of the controllers of a kind that own, or owned, the object of a change."""
    found = set()
    for obj in change.versions():
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
