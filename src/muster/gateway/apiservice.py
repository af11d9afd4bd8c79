"""The Service and APIServices by which the hub's API server reaches the gateway, and checks for objects that prevent this.

An APIService takes over a whole version of an API group. If custom resources are served in that version, they would become
unreachable, or the API server would immediately reset our APIService; the same holds for another server's APIService. `collision`
detects this before anything is written; the remedy is to use another version of the same group.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from typing import Final

from muster.api import Document
from muster.api.proxy.v1alpha1 import GROUP, VERSION
from muster.gateway.names import COMPONENT, OAM_GROUP
from muster.machinery.objects import Object
from muster.runtime.client import KubeClient, NotFound
from muster.runtime.client.builtin import API_SERVICES, CRDS
from muster.runtime.install import named

FEATURE_GATE: Final = "ClusterGateway"
"""Feature gate in a ClusterManager's addon manager configuration; off by default."""
SERVICE: Final = COMPONENT
SERVICE_PORT: Final = 443
PORT: Final = 8443
"""Port of the gateway's pods."""
SERVING_SECRET: Final = f"{COMPONENT}-serving-cert"

API_VERSIONS: Final = (VERSION, "v1beta1", "v1")
"""Versions in which the gateway can serve its group."""
OAM_VERSION: Final = "v1alpha1"

API_VERSION_ANNOTATION: Final = f"{GROUP}/gateway-api-version"
OAM_ANNOTATION: Final = f"{GROUP}/gateway-oam-api"
LOOPBACK_ANNOTATION: Final = f"{GROUP}/gateway-allow-loopback-endpoints"
ADDRESS_ANNOTATION: Final = f"{GROUP}/gateway-address"
"""Annotations of a ClusterManager: the version in which the gateway serves its API; whether it serves upstream's group too;
whether clusters may be on the gateway's own machine; and, for a hosted hub, the address at which the hub reaches the gateway
(HOST or HOST:PORT)."""

AUTOMANAGED: Final = "kube-aggregator.kubernetes.io/automanaged"
_GROUP_PRIORITY: Final = 1000
_VERSION_PRIORITY: Final = 100


def api_service_name(version: str, group: str = GROUP) -> str:
    return f"{version}.{group}"


POSSIBLE_API_SERVICES: Final = (*map(api_service_name, API_VERSIONS), api_service_name(OAM_VERSION, OAM_GROUP))


def api_services(version: str, *, oam: bool) -> list[tuple[str, str]]:
    """Groups and versions that are routed to the gateway."""
    return [(GROUP, version), *([(OAM_GROUP, OAM_VERSION)] if oam else [])]


def api_service(group: str, version: str, namespace: str, ca: bytes, port: int = SERVICE_PORT) -> Document:
    return {
        "metadata": named(api_service_name(version, group)),
        "spec": {
            "group": group,
            "version": version,
            "groupPriorityMinimum": _GROUP_PRIORITY,
            "versionPriority": _VERSION_PRIORITY,
            "service": {"name": SERVICE, "namespace": namespace, "port": port},
            "caBundle": base64.b64encode(ca).decode(),
        },
    }


def serving_hosts(namespace: str) -> list[str]:
    """DNS names of the serving certificate. kube-aggregator verifies the first one, whatever address it dials."""
    service = f"{SERVICE}.{namespace}"
    return [f"{service}.svc", service, f"{service}.svc.cluster.local"]


async def collision(client: KubeClient, wanted: Sequence[tuple[str, str]], namespace: str) -> str:
    """Why these groups and versions cannot be routed to the gateway in `namespace`; empty if they can. Raises KubeError."""
    definitions = (await client.list(CRDS)).items
    for group, version in wanted:
        name = api_service_name(version, group)
        if names := shadowed_resources(group, version, definitions):
            listed = ", ".join(names)
            return f"custom resources are served in {group}/{version}, and would be unreachable behind the gateway: {listed}"
        try:
            found = await client.get(API_SERVICES, name)
        except NotFound:
            continue
        if problem := other_owner(found, namespace):
            return problem
    return ""


def shadowed_resources(group: str, version: str, definitions: Iterable[Object]) -> list[str]:
    """Custom resources that would be unreachable if this version were routed to the gateway."""
    return sorted(
        str(one["metadata"]["name"])
        for one in definitions
        if one["spec"]["group"] == group and any(v["name"] == version and v.get("served", True) for v in one["spec"]["versions"])
    )


def other_owner(found: Object, namespace: str) -> str:
    """Who owns an APIService, if it is not routed to the gateway in `namespace`; else empty."""
    name, service = found["metadata"]["name"], found["spec"].get("service") or {}
    if AUTOMANAGED in (found["metadata"].get("labels") or {}):
        return f"APIService {name} is managed by the API server itself, for custom resources of that group and version"
    if not service:
        return f"APIService {name} is one of the API server's own"
    if (service.get("namespace"), service.get("name")) != (namespace, SERVICE):
        return f"APIService {name} refers to another Service, {service.get('namespace')}/{service.get('name')}"
    return ""


def unavailability(found: Object) -> str:
    """Why an APIService is unavailable, according to the API server; empty if it is available."""
    conditions = (found.get("status") or {}).get("conditions") or ()
    condition: Object = next((one for one in conditions if one.get("type") == "Available"), {})
    if condition.get("status") == "True":
        return ""
    return ": ".join(filter(None, (condition.get("reason"), condition.get("message")))) or "the API server has not checked it yet"


def version_remedy(taken: str) -> str:
    """The remedy for a version that cannot be used."""
    others = [version for version in API_VERSIONS if version != taken]
    flag = f"clusteradm install hub-addon --names {COMPONENT} --api-version {others[0]}"
    return f"serve the gateway in another version ({' or '.join(others)}): {flag}; or remove the existing API"
