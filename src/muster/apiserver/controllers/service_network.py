"""The objects of the Service network: Service `kubernetes`, an IPAddress for every cluster IP, and the state of ServiceCIDRs.

In kube-apiserver the allocator writes an IPAddress in the request that creates a Service, and a repair loop adds what is missing
later. Here only the repair loop writes IPAddresses, right after the Service; the allocator (`service_addresses`) reads the Services
themselves. A ServiceCIDR has a finalizer and the condition Ready; one that is being deleted waits, as in kube-controller-manager,
until no cluster IP needs it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Iterable, Iterator, Mapping
from typing import Any, Final

import orjson

from muster.apiserver import kubernetes_service as own
from muster.apiserver.client import object_path
from muster.apiserver.cluster import Cluster
from muster.apiserver.controllers.manager import ControllerContext
from muster.apiserver.errors import ApiError
from muster.apiserver.objects import shared
from muster.machinery.objects import Object
from muster.store.api import Entry, Event

_OWN: Final[Mapping[str, str]] = {own.SERVICES: own.KEY, own.ENDPOINTS: own.KEY, own.SLICES: own.KEY, own.CIDRS: own.NAME}
"""Objects that are created again after a deletion, by resource."""
_MANAGED: Final = "ipaddress.kubernetes.io/managed-by"
_ALLOCATOR: Final = "kube-apiserver"
"""Field manager of the allocator in kube-apiserver."""
_MANAGER: Final = "ipallocator.k8s.io"
_CIDRS_PATH: Final = object_path("networking.k8s.io/v1", "servicecidrs")
_ADDRESSES_PATH: Final = object_path("networking.k8s.io/v1", "ipaddresses")


class ServiceNetwork:
    name = "service network"
    resources = (*_OWN, own.IP_ADDRESSES)

    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    def keys(self, cluster: Cluster, event: Event) -> Iterable[str]:
        return list(_affected_keys(cluster, event))

    def initial_keys(self, cluster: Cluster) -> Iterable[str]:
        """Nothing in a cluster that only has its bootstrap objects."""
        untouched = all(cluster.store.generation(cluster.name, resource) <= 1 for resource in self.resources)
        if untouched:
            return ()
        services = [address for entry in cluster.store.list(cluster.name, own.SERVICES) for address in _cluster_ips(entry)]
        known = [entry.key for entry in cluster.store.list(cluster.name, own.IP_ADDRESSES)]
        return [
            *(f"own|{resource}" for resource in _OWN),
            *(f"address|{address}" for address in {*services, *known}),
            *(f"range|{entry.key}" for entry in cluster.store.list(cluster.name, own.CIDRS)),
        ]

    async def reconcile(self, cluster: Cluster, key: str) -> float | None:
        what, _, name = key.partition("|")
        if what == "own":
            await self._recreate(cluster, name)
        elif what == "address":
            await self._address(cluster, name)
        else:
            await self._service_cidr(cluster, name)
        return None

    async def _recreate(self, cluster: Cluster, resource: str) -> None:
        if cluster.entry(resource, _OWN[resource]) is not None:
            return
        row = cluster.resources.by_storage(resource)
        template = self._context.template(cluster, resource, _OWN[resource])
        if row is None or template is None:
            return
        obj: Object = orjson.loads(template.value)
        obj["metadata"] = {field: obj["metadata"][field] for field in ("name", "namespace", "labels") if field in obj["metadata"]}
        path = object_path(row.api_version, row.plural, obj["metadata"].get("namespace", ""))
        await _ignore_concurrent_change(self._context.client(cluster).create(path, obj))

    async def _address(self, cluster: Cluster, address: str) -> None:
        found = cluster.read(own.IP_ADDRESSES, address)
        owner = next(
            (entry.key for entry in cluster.store.list(cluster.name, own.SERVICES) if address in _cluster_ips(entry)), None
        )
        client = self._context.client(cluster, agent=_ALLOCATOR)
        desired = own.ip_address(address, *owner.split("/", 1)) if owner is not None else None
        if (
            found is not None
            and _is_managed(found)
            and (desired is None or found["spec"].get("parentRef") != desired["spec"]["parentRef"])
        ):
            await _ignore_concurrent_change(
                client.delete(f"{_ADDRESSES_PATH}/{address}", {"preconditions": {"uid": found["metadata"]["uid"]}})
            )
            found = None
        if found is None and desired is not None:
            await _ignore_concurrent_change(client.create(_ADDRESSES_PATH, desired))

    async def _service_cidr(self, cluster: Cluster, name: str) -> None:
        found = cluster.read(own.CIDRS, name)
        if found is None:
            return
        meta = found["metadata"]
        finalizers = meta.get("finalizers") or []
        held = own.CIDR_FINALIZER in finalizers
        client, path = self._context.client(cluster), f"{_CIDRS_PATH}/{name}"
        pinned = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
        if not meta.get("deletionTimestamp"):
            if not held:
                await _ignore_concurrent_change(
                    client.merge(path, {"metadata": {**pinned, "finalizers": [*finalizers, own.CIDR_FINALIZER]}})
                )
            await self._condition(cluster, found, "True", "", "Kubernetes Service CIDR is ready")
        elif held and _is_needed(cluster, found):
            text = "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR"
            await self._condition(cluster, found, "False", "Terminating", text)
        elif held:
            rest = [each for each in finalizers if each != own.CIDR_FINALIZER]
            await _ignore_concurrent_change(client.merge(path, {"metadata": {**pinned, "finalizers": rest or None}}))

    async def _condition(self, cluster: Cluster, cidr: Object, status: str, reason: str, message: str) -> None:
        now = next((c for c in (cidr.get("status") or {}).get("conditions") or () if c["type"] == "Ready"), None)
        if now is not None and now["status"] == status and (status == "True" or now["message"] == message):
            return
        condition = {
            "type": "Ready",
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": cluster.now(),
        }
        name = cidr["metadata"]["name"]
        applied = {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "ServiceCIDR",
            "metadata": {"name": name},
            "status": {"conditions": [condition]},
        }
        await _ignore_concurrent_change(
            self._context.client(cluster).apply(f"{_CIDRS_PATH}/{name}/status", applied, "service-cidr-controller")
        )


def _affected_keys(cluster: Cluster, event: Event) -> Iterator[str]:
    if event.deleted and _OWN.get(event.resource) == event.entry.key:
        yield f"own|{event.resource}"
    if event.resource == own.SERVICES:
        before = _cluster_ips(event.previous) if event.previous is not None else frozenset()
        after = frozenset() if event.deleted else _cluster_ips(event.entry)
        yield from (f"address|{address}" for address in (before if event.deleted else before ^ after))
    elif event.resource == own.IP_ADDRESSES:
        yield f"address|{event.entry.key}"
        if event.deleted:
            yield from (f"range|{entry.key}" for entry in cluster.store.list(cluster.name, own.CIDRS))
    elif event.resource == own.CIDRS:
        yield from (f"range|{entry.key}" for entry in cluster.store.list(cluster.name, own.CIDRS))


def _cluster_ips(service: Entry) -> frozenset[str]:
    spec: dict[str, Any] = shared(service).get("spec") or {}
    return frozenset(address for address in spec.get("clusterIPs") or () if address != "None")


def _is_managed(address: Object) -> bool:
    return (address["metadata"].get("labels") or {}).get(_MANAGED) == _MANAGER


def _is_needed(cluster: Cluster, cidr: Object) -> bool:
    """Whether a cluster IP is in the range of this ServiceCIDR and of no other."""
    own_networks = own.networks_of(cidr)
    others = [network for each in cluster.scan(own.CIDRS) if each is not cidr for network in own.networks_of(each)]
    if own_networks and all(any(_covers(other, network) for other in others) for network in own_networks):
        return False
    addresses = [ipaddress.ip_address(each["metadata"]["name"]) for each in cluster.scan(own.IP_ADDRESSES) if _is_managed(each)]
    return any(
        any(address in network for network in own_networks) and not any(address in other for other in others)
        for address in addresses
    )


def _covers(outer: own.Network, inner: own.Network) -> bool:
    return inner.network_address in outer and outer.prefixlen <= inner.prefixlen


async def _ignore_concurrent_change(call: Awaitable[object]) -> None:
    """Ignore that an object was created, changed or deleted in the meantime, which is another event; and that endpoints on loopback
    are invalid in a cluster without a node there."""
    try:
        await call
    except ApiError as error:
        if error.code not in (404, 409, 422):
            raise
