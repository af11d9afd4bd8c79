"""A cluster whose controllers and node the fleet runs: how it is read and written, and the interface of its controllers.

The interface is the same wherever the cluster is. `embedded` reads the store of an API server in this process; `followed` has
caches of one that is reached by a client. Both guarantee read-your-writes: a write through the clients of an `Attached` is in its
view as soon as it is answered. So controllers here need no expectations (kube-controller-manager's `ControllerExpectations`).
Writes pass the API server's whole request pipeline, as the Kubernetes components whose work is done.
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
    """The present state of a cluster.

    A key is `namespace/name`, or the name of a cluster-scoped object. Results are shared and must not be changed.
    """

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
    """Records events of the controllers."""
    node_events: EventRecorder


@dataclass(frozen=True, slots=True)
class Change:
    resource: GVR
    key: str
    deleted: bool
    versions: Callable[[], list[Object]]
    """The present and previous versions of the object, the newest first; decoded when called."""


class Controller(Protocol):
    """Maps changes to keys, and reconciles the cluster for a key. Has no state."""

    @property
    def name(self) -> str: ...

    @property
    def resources(self) -> Sequence[GVR]:
        """The resources that it watches; every object of the first one has its own key."""

    def keys(self, attached: Attached, change: Change) -> Iterable[str]:
        """Called with every change: must be fast."""

    async def reconcile(self, attached: Attached, key: str) -> float | None:
        """Returns the seconds after which it is to be called again, or None."""


def controller_of(obj: Object) -> Object | None:
    """The controller's owner reference."""
    return next((owner for owner in obj["metadata"].get("ownerReferences") or () if owner.get("controller")), None)


def owner_keys(change: Change, kind: str) -> set[str]:
    """namespace/name of the controllers of a kind that own, or owned, the changed object."""
    found = set()
    for obj in change.versions():
        owner = controller_of(obj)
        if owner is not None and owner.get("kind") == kind:
            found.add(f"{obj['metadata'].get('namespace', '')}/{owner['name']}")
    return found


def reference(owner: Object, api_version: str, kind: str) -> Object:
    """A controller owner reference."""
    metadata = owner["metadata"]
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
