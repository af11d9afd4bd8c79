"""APIServices: those of custom resources exist while a CRD serves their version, local ones are always available, and aggregated
ones while their Service exists and the server behind it answers discovery. Follows kube-aggregator's controllers
(`remote/available`, `autoregister`).

The routing table (`Aggregator`) is updated with every write at once; availability is probed periodically. If several servers share
a database, each of them probes, because each has to know what the aggregated servers serve; only the leader writes the result.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from muster.apiserver.aggregation import Aggregator
from muster.apiserver.aggregation.local_services import (
    API_SERVICES,
    AUTOMANAGED,
    CUSTOM_PRIORITIES,
    local_api_service,
)
from muster.apiserver.aggregation.remote import ProbeFailed, Remote
from muster.apiserver.builtin.kinds.extensions import local_condition
from muster.apiserver.client import DirectClient, object_path
from muster.apiserver.cluster import Cluster
from muster.apiserver.controllers.manager import ControllerContext
from muster.apiserver.errors import ApiError
from muster.apiserver.objects import shared
from muster.machinery.golang.quoting import quote
from muster.machinery.objects import Object
from muster.store.api import Event

_CRDS: Final = "apiextensions.k8s.io/customresourcedefinitions"
_ENDPOINT_RESOURCES: Final = ("/services", "/endpoints", "discovery.k8s.io/endpointslices")
_VERSION: Final = "apiregistration.k8s.io/v1"
_CUSTOM: Final = "true"
_AVAILABLE_RESYNC, _UNAVAILABLE_RETRY = 30.0, 1.0


class ApiServices:
    name = "apiservices"
    resources = (API_SERVICES, _CRDS, *_ENDPOINT_RESOURCES)

    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    def keys(self, cluster: Cluster, event: Event) -> Iterable[str]:
        if event.resource == API_SERVICES:
            self._route(cluster, event)
            return (event.entry.key,) if event.deleted or _spec_changed(event) else ()
        if event.resource == _CRDS:
            return _served(shared(event.entry)) | (_served(shared(event.previous)) if event.previous else set())
        namespace = event.entry.key.partition("/")[0]
        return [remote.name for remote in cluster.part(Aggregator).remotes.values() if remote.namespace == namespace]

    def initial_keys(self, cluster: Cluster) -> Iterable[str]:
        keys: set[str] = set()
        for definition in cluster.scan(_CRDS):
            keys |= _served(definition)
        if cluster.store.generation(cluster.name, API_SERVICES) <= 1:  # only those of the bootstrap layer, which are local
            return keys
        for entry in cluster.store.list(cluster.name, API_SERVICES):
            if entry.revision > 1:
                api_service = shared(entry)
                if api_service["spec"].get("service") is not None:
                    remote = Remote(cluster, api_service)
                    remote.available = _is_available(api_service)
                    cluster.part(Aggregator).put(remote)
                keys.add(entry.key)
        return keys

    @staticmethod
    def _route(cluster: Cluster, event: Event) -> None:
        key, api_service = event.entry.key, shared(event.entry)
        known = cluster.part(Aggregator).named(key)
        if event.deleted or api_service["spec"].get("service") is None:
            if known is not None:
                cluster.part(Aggregator).drop(key)
            return
        if known is None or known.spec != api_service["spec"]:
            known = Remote(cluster, api_service)
            cluster.part(Aggregator).put(known)
        available = _is_available(api_service)
        if known.available != available:
            known.available = available
            cluster.part(Aggregator).generation += 1

    async def reconcile(self, cluster: Cluster, key: str) -> float | None:
        if not self._context.controllers.leading:
            remote = cluster.part(Aggregator).named(key)
            if remote is None:
                return None
            reason, _ = await self._probe(cluster, remote)
            return await self._refresh_openapi(cluster, remote, reason)
        api_service = cluster.read(API_SERVICES, key)
        desired = any(key in _served(definition) for definition in cluster.scan(_CRDS))
        if api_service is None:
            if desired:
                version, _, group = key.partition(".")
                await self._create(cluster, local_api_service(group, version, CUSTOM_PRIORITIES, _CUSTOM))
            return None
        if not desired and (api_service["metadata"].get("labels") or {}).get(AUTOMANAGED) == _CUSTOM:
            await self._delete(cluster, key)
            return None
        if api_service["spec"].get("service") is None:
            await self._set_condition(cluster, api_service, local_condition(cluster.now()))
            return None
        remote = cluster.part(Aggregator).named(key)
        if remote is None:
            return None
        reason, message = await self._probe(cluster, remote)
        status = "True" if reason == "Passed" else "False"
        condition = {"type": "Available", "status": status, "lastTransitionTime": cluster.now()}
        await self._set_condition(cluster, api_service, {**condition, "reason": reason, "message": message})
        return await self._refresh_openapi(cluster, remote, reason)

    async def _probe(self, cluster: Cluster, remote: Remote) -> tuple[str, str]:
        """Probe the server; return reason and message of the Available condition."""
        problem = _service_problem(cluster, remote)
        if problem is not None:
            return problem
        before = remote.rows
        try:
            await remote.probe(cluster.part(Aggregator).pool)
        except ProbeFailed as error:
            return "FailedDiscoveryCheck", str(error)
        if remote.rows != before:
            cluster.part(Aggregator).generation += 1
        return "Passed", "all checks passed"

    @staticmethod
    async def _refresh_openapi(cluster: Cluster, remote: Remote, reason: str) -> float:
        """Refresh the OpenAPI documents of a server that is available; return the time until the next probe."""
        if reason != "Passed":
            return _UNAVAILABLE_RETRY
        if await remote.refresh_openapi(cluster.part(Aggregator).pool):
            cluster.part(Aggregator).openapi_generation += 1
        return _AVAILABLE_RESYNC

    def _client(self, cluster: Cluster) -> DirectClient:
        return self._context.client(cluster, agent="kube-apiserver")

    async def _create(self, cluster: Cluster, api_service: Object) -> None:
        try:
            await self._client(cluster).create(object_path(_VERSION, "apiservices"), api_service)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise

    async def _delete(self, cluster: Cluster, key: str) -> None:
        try:
            await self._client(cluster).delete(object_path(_VERSION, "apiservices", "", key))
        except ApiError as error:
            if error.code != 404:
                raise

    async def _set_condition(self, cluster: Cluster, api_service: Object, condition: Object) -> None:
        current = _condition(api_service)
        if current is not None and current.get("status") == condition["status"]:
            condition = {**condition, "lastTransitionTime": current.get("lastTransitionTime")}
        if current == condition:
            return
        path = object_path(_VERSION, "apiservices", "", api_service["metadata"]["name"], "status")
        try:
            await self._client(cluster).update(path, {**api_service, "status": {"conditions": [condition]}})
        except ApiError as error:
            # A conflict is retried: the other write may not have changed anything that enqueues this object.
            if error.code != 404:
                raise


def _spec_changed(event: Event) -> bool:
    """Whether the spec has changed: a change of the status is our own write and needs no probe."""
    return event.previous is None or shared(event.previous)["spec"] != shared(event.entry)["spec"]


def _served(definition: Object) -> set[str]:
    """The APIServices that a CRD needs."""
    spec = definition["spec"]
    if definition["metadata"].get("deletionTimestamp"):
        return set()
    return {f"{version['name']}.{spec['group']}" for version in spec["versions"] if version.get("served")}


def _condition(api_service: Object) -> Object | None:
    conditions = (api_service.get("status") or {}).get("conditions") or ()
    return next((condition for condition in conditions if condition.get("type") == "Available"), None)


def _is_available(api_service: Object) -> bool:
    return (_condition(api_service) or {}).get("status") == "True"


def _service_problem(cluster: Cluster, remote: Remote) -> tuple[str, str] | None:
    """Reason and message if the Service or its endpoints are missing; None if the server can be probed."""
    where = f"service/{remote.service} in {quote(remote.namespace)}"
    service = cluster.read("/services", f"{remote.namespace}/{remote.service}")
    if service is None:
        return "ServiceNotFound", f"{where} is not present"
    spec = service.get("spec") or {}
    if spec.get("type", "ClusterIP") != "ClusterIP":
        return None
    port = next((port for port in spec.get("ports") or () if port.get("port") == remote.port), None)
    if port is None:
        return "ServicePortError", f"{where} is not listening on port {remote.port}"
    slices = [
        piece
        for piece in cluster.scan("discovery.k8s.io/endpointslices", remote.namespace)
        if (piece["metadata"].get("labels") or {}).get("kubernetes.io/service-name") == remote.service
    ]
    if not slices and cluster.read("/endpoints", f"{remote.namespace}/{remote.service}") is None:
        return "EndpointsNotFound", f"cannot find endpointslices for {where}"
    try:
        remote.address()
    except LookupError:
        name = quote(port.get("name", ""))
        return "MissingEndpoints", f"endpointslices for {where} have no addresses with port name {name}"
    return None
