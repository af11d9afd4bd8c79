"""Endpoints of Services with selectors, as EndpointSlices and (for old clients) as Endpoints.

Webhooks and APIServices refer to Services; the server connects to the first ready address here. A pod is included while it has an
address and has not finished; one that is being deleted is listed as terminating and not ready. A Service without a selector is
managed by other clients. One slice has all pods of a Service: a node runs fewer than fit in a slice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from muster.fleet.attached import Attached, Change, controller_of, reference
from muster.fleet.workloads import podstate
from muster.kube.selectors import from_labels
from muster.machinery.objects import Object
from muster.runtime.client import AlreadyExists, Conflict, NotFound, patch_changes
from muster.runtime.client.builtin import ENDPOINT_SLICES, ENDPOINTS, PODS, SERVICES

_SERVICE_NAME = "kubernetes.io/service-name"
_MANAGED_BY, _SLICE_CONTROLLER = "endpointslice.kubernetes.io/managed-by", "endpointslice-controller.k8s.io"
_ENDPOINTS_MANAGED_BY, _ENDPOINTS_CONTROLLER = "endpoints.kubernetes.io/managed-by", "endpoint-controller"


class ServiceEndpoints:
    name = "endpoints"
    resources = (SERVICES, PODS, ENDPOINT_SLICES, ENDPOINTS)

    def keys(self, attached: Attached, change: Change) -> Iterable[str]:
        if change.resource in (SERVICES, ENDPOINTS):
            return (change.key,)
        namespace = change.key.partition("/")[0]
        if change.resource == ENDPOINT_SLICES:
            names = {(obj["metadata"].get("labels") or {}).get(_SERVICE_NAME) for obj in change.versions()}
            return [f"{namespace}/{name}" for name in names if name]
        labels = [obj["metadata"].get("labels") or {} for obj in change.versions()]
        return [
            f"{namespace}/{service['metadata']['name']}"
            for service in attached.view.scan(SERVICES, namespace)
            if service["spec"].get("selector") and any(from_labels(service["spec"]["selector"]).matches(each) for each in labels)
        ]

    async def reconcile(self, attached: Attached, key: str) -> float | None:
        service = attached.view.read(SERVICES, key)
        if service is None or service["metadata"].get("deletionTimestamp"):
            await _remove_endpoints(attached, key)
            return None
        spec = service["spec"]
        if not spec.get("selector") or spec.get("type") == "ExternalName":
            return None
        selector, namespace = from_labels(spec["selector"]), service["metadata"]["namespace"]
        pods = [
            pod
            for pod in attached.view.scan(PODS, namespace)
            if selector.matches(pod["metadata"].get("labels") or {}) and (pod.get("status") or {}).get("podIP")
        ]
        pods = sorted((pod for pod in pods if pod["status"].get("phase") not in podstate.FINISHED), key=_name)
        await _write_slice(attached, service, slice_of(service, pods))
        await _write_endpoints(attached, endpoints_of(service, pods))
        return None


def _name(obj: Object) -> str:
    return str(obj["metadata"]["name"])


def target_port(port: Object, pods: Sequence[Object]) -> int | None:
    """The target of a service port: a number, or the port of a pod with that name."""
    target = port.get("targetPort") or port["port"]
    if isinstance(target, int):
        return target
    for pod in pods:
        for container in pod["spec"].get("containers") or ():
            for offered in container.get("ports") or ():
                if offered.get("name") == target and offered.get("protocol", "TCP") == port.get("protocol", "TCP"):
                    return int(offered["containerPort"])
    return None


def _target(pod: Object) -> Object:
    metadata = pod["metadata"]
    return {"kind": "Pod", "namespace": metadata["namespace"], "name": metadata["name"], "uid": metadata["uid"]}


def slice_of(service: Object, pods: Sequence[Object]) -> Object:
    """The wanted EndpointSlice of a Service, without a name."""
    metadata, spec = service["metadata"], service["spec"]
    published = bool(spec.get("publishNotReadyAddresses"))
    endpoints = []
    for pod in pods:
        leaving, serving = bool(pod["metadata"].get("deletionTimestamp")), podstate.is_ready(pod)
        conditions = {"ready": published or (serving and not leaving), "serving": serving, "terminating": leaving}
        endpoint = {"addresses": [pod["status"]["podIP"]], "conditions": conditions, "targetRef": _target(pod)}
        endpoints.append({**endpoint, "nodeName": pod["spec"].get("nodeName", "")})
    ports = []
    for port in spec.get("ports") or ():
        number = target_port(port, pods)
        if number is not None:
            ports.append({"name": port.get("name", ""), "port": number, "protocol": port.get("protocol", "TCP")})
    labels = {**(metadata.get("labels") or {}), _SERVICE_NAME: metadata["name"], _MANAGED_BY: _SLICE_CONTROLLER}
    if spec.get("clusterIP") == "None":
        labels["service.kubernetes.io/headless"] = ""
    return {
        "metadata": {
            "namespace": metadata["namespace"],
            "labels": labels,
            "ownerReferences": [reference(service, "v1", "Service")],
        },
        "addressType": "IPv4",
        "endpoints": endpoints,
        "ports": ports,
    }


def endpoints_of(service: Object, pods: Sequence[Object]) -> Object:
    metadata, spec = service["metadata"], service["spec"]
    ready, unready = [], []
    for pod in pods:
        address = {"ip": pod["status"]["podIP"], "nodeName": pod["spec"].get("nodeName", ""), "targetRef": _target(pod)}
        leaving = bool(pod["metadata"].get("deletionTimestamp"))
        if spec.get("publishNotReadyAddresses") or (podstate.is_ready(pod) and not leaving):
            ready.append(address)
        elif not leaving:
            unready.append(address)
    ports = []
    for port in spec.get("ports") or ():
        number = target_port(port, pods)
        if number is not None:
            named = {"name": port["name"]} if port.get("name") else {}
            ports.append({**named, "port": number, "protocol": port.get("protocol", "TCP")})
    subset = {"addresses": ready, "notReadyAddresses": unready, "ports": ports}
    labels = {**(metadata.get("labels") or {}), _ENDPOINTS_MANAGED_BY: _ENDPOINTS_CONTROLLER}
    return {
        "metadata": {"name": metadata["name"], "namespace": metadata["namespace"], "labels": labels},
        "subsets": [{name: value for name, value in subset.items() if value}] if ready or unready else [],
    }


async def _write_slice(attached: Attached, service: Object, wanted: Object) -> None:
    client, metadata = attached.controllers, service["metadata"]
    mine = [
        each
        for each in attached.view.scan(ENDPOINT_SLICES, metadata["namespace"])
        if (controller_of(each) or {}).get("uid") == metadata["uid"]
        and (each["metadata"].get("labels") or {}).get(_MANAGED_BY) == _SLICE_CONTROLLER
    ]
    if not mine:
        await client.create(ENDPOINT_SLICES, {**wanted, "metadata": {**wanted["metadata"], "generateName": f"{metadata['name']}-"}})
        return
    for surplus in mine[1:]:
        await client.delete(ENDPOINT_SLICES, surplus["metadata"]["name"], metadata["namespace"])
    present = mine[0]
    # The server stores an empty list as none.
    changed = {**present, "endpoints": wanted["endpoints"] or None, "ports": wanted["ports"] or None}
    changed["metadata"] = {**present["metadata"], "labels": wanted["metadata"]["labels"]}
    await patch_changes(client, ENDPOINT_SLICES, present, changed)


async def _write_endpoints(attached: Attached, wanted: Object) -> None:
    client, metadata = attached.controllers, wanted["metadata"]
    present = attached.view.read(ENDPOINTS, f"{metadata['namespace']}/{metadata['name']}")
    try:
        if present is None:
            await client.create(ENDPOINTS, wanted)
            return
        changed = {**present, "subsets": wanted["subsets"] or None}
        changed["metadata"] = {**present["metadata"], "labels": {**(present["metadata"].get("labels") or {}), **metadata["labels"]}}
        await patch_changes(client, ENDPOINTS, present, changed)
    except (AlreadyExists, NotFound):
        return


async def _remove_endpoints(attached: Attached, key: str) -> None:
    present = attached.view.read(ENDPOINTS, key)
    if present is None or (present["metadata"].get("labels") or {}).get(_ENDPOINTS_MANAGED_BY) != _ENDPOINTS_CONTROLLER:
        return
    namespace, _, name = key.partition("/")
    try:
        await attached.controllers.delete(ENDPOINTS, name, namespace, uid=present["metadata"]["uid"])
    except (NotFound, Conflict):
        return
