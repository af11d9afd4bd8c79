"""Simulates Deployments whose pods no node runs: reported as available once all Secrets that they mount exist.

So the health of addons and the feedback of works proceed at no cost, and not before a kubelet would start the pods.
"""

from __future__ import annotations

from collections.abc import Iterable

from muster.apiserver.cluster import Cluster
from muster.apiserver.controllers.manager import ControllerManager
from muster.apiserver.objects import stored
from muster.apiserver.server import ApiServer
from muster.embedded.in_process import InProcessClient
from muster.machinery.objects import Object
from muster.runtime.client.builtin import DEPLOYMENTS, SECRETS
from muster.store.api import Event

_DEPLOYMENTS, _SECRETS = stored(DEPLOYMENTS), stored(SECRETS)


class SimulatedPods:
    """A controller of the API server, for all its clusters."""

    name = "simulated pods"
    resources = (_DEPLOYMENTS, _SECRETS)

    def __init__(self, server: ApiServer) -> None:
        self._server = server

    @classmethod
    def controller_manager(cls, server: ApiServer) -> ControllerManager:
        return ControllerManager(server, [cls(server)])

    def keys(self, cluster: Cluster, event: Event) -> Iterable[str]:
        if event.resource == _DEPLOYMENTS:
            return () if event.deleted else (event.entry.key,)
        namespace = event.entry.key.rpartition("/")[0]
        return [f"{namespace}/{one['metadata']['name']}" for one in cluster.scan(_DEPLOYMENTS, namespace)]

    def initial_keys(self, cluster: Cluster) -> Iterable[str]:
        return [entry.key for entry in cluster.store.list(cluster.name, _DEPLOYMENTS)]

    async def reconcile(self, cluster: Cluster, key: str) -> float | None:
        deployment = cluster.read(_DEPLOYMENTS, key)
        namespace, _, name = key.rpartition("/")
        if deployment is None or any(cluster.read(_SECRETS, f"{namespace}/{one}") is None for one in mounted(deployment)):
            return None
        status = running(deployment)
        if any((deployment.get("status") or {}).get(field) != value for field, value in status.items()):
            client = InProcessClient(self._server.client(cluster), cluster.name)
            await client.patch(DEPLOYMENTS, name, {"status": status}, namespace, subresource="status")
        return None


def mounted(deployment: Object) -> list[str]:
    """The Secrets without which a kubelet starts no container."""
    volumes = deployment["spec"]["template"]["spec"].get("volumes") or ()
    secrets = [volume["secret"] for volume in volumes if volume.get("secret")]
    return [secret["secretName"] for secret in secrets if not secret.get("optional")]


def running(deployment: Object) -> Object:
    """The status of a Deployment whose pods are all ready."""
    replicas = deployment["spec"].get("replicas", 1)
    counted = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
    return {"observedGeneration": deployment["metadata"]["generation"], **dict.fromkeys(counted, replicas)}
