"""How the hub's API server comes to the gateway: the Service, the APIServices, and what stands in their way.

An APIService takes a whole version of a group. Where a custom resource is served in it, or somebody else's server is, that one
could not be reached any longer, or the API server would turn ours back at once. `collision` finds this out before anything is
written; the way out is another version of the same group.
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
"""Of a ClusterManager's addon manager configuration; off by default."""
SERVICE: Final = COMPONENT
SERVICE_PORT: Final = 443
PORT: Final = 8443
"""Of the gateway's pods."""
SERVING_SECRET: Final = f"{COMPONENT}-serving-cert"

API_VERSIONS: Final = (VERSION, "v1beta1", "v1")
"""Those that the gateway may be asked to serve its group in."""
OAM_VERSION: Final = "v1alpha1"

API_VERSION_ANNOTATION: Final = f"{GROUP}/gateway-api-version"
OAM_ANNOTATION: Final = f"{GROUP}/gateway-oam-api"
LOOPBACK_ANNOTATION: Final = f"{GROUP}/gateway-allow-loopback-endpoints"
ADDRESS_ANNOTATION: Final = f"{GROUP}/gateway-address"
"""Annotations of a ClusterManager: in which version the gateway serves its API, whether upstream's group is served too, whether
clusters may be on the machine that it runs on, and, of a hosted hub, where that reaches the gateway (HOST or HOST:PORT)."""

AUTOMANAGED: Final = "kube-aggregator.kubernetes.io/automanaged"
_GROUP_PRIORITY: Final = 1000
_VERSION_PRIORITY: Final = 100


def api_service_name(version: str, group: str = GROUP) -> str:
    return f"{version}.{group}"


POSSIBLE_API_SERVICES: Final = (*map(api_service_name, API_VERSIONS), api_service_name(OAM_VERSION, OAM_GROUP))


def api_services(version: str, *, oam: bool) -> list[tuple[str, str]]:
    """Groups and versions that lead to the gateway."""
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
    """What the certificate must be for; the first is what an aggregating API server looks for, wherever it dials."""
    service = f"{SERVICE}.{namespace}"
    return [f"{service}.svc", service, f"{service}.svc.cluster.local"]


async def collision(client: KubeClient, wanted: Sequence[tuple[str, str]], namespace: str) -> str:
    """Why these groups and versions cannot lead to the gateway in `namespace`; empty where they can. Raises KubeError."""
    definitions = (await client.list(CRDS)).items
    for group, version in wanted:
        name = api_service_name(version, group)
        if names := hidden(group, version, definitions):
            listed = ", ".join(names)
            return f"custom resources are served in {group}/{version}, and could not be reached behind the gateway: {listed}"
        try:
            found = await client.get(API_SERVICES, name)
        except NotFound:
            continue
        if problem := occupied(found, namespace):
            return problem
    return ""


def hidden(group: str, version: str, definitions: Iterable[Object]) -> list[str]:
    """The custom resources that cannot be reached where this version leads to the gateway."""
    return sorted(
        str(one["metadata"]["name"])
        for one in definitions
        if one["spec"]["group"] == group and any(v["name"] == version and v.get("served", True) for v in one["spec"]["versions"])
    )


def occupied(found: Object, namespace: str) -> str:
    """Whose an APIService is, if it is not the gateway's in `namespace`."""
    name, service = found["metadata"]["name"], found["spec"].get("service") or {}
    if AUTOMANAGED in (found["metadata"].get("labels") or {}):
        return f"APIService {name} is kept by the API server itself, for custom resources of that group and version"
    if not service:
        return f"APIService {name} is the API server's own"
    if (service.get("namespace"), service.get("name")) != (namespace, SERVICE):
        return f"APIService {name} leads to Service {service.get('namespace')}/{service.get('name')}, which is somebody else's"
    return ""


def unavailable(found: Object) -> str:
    """What hinders an APIService, as the API server says; empty where it is available."""
    conditions = (found.get("status") or {}).get("conditions") or ()
    said: Object = next((one for one in conditions if one.get("type") == "Available"), {})
    if said.get("status") == "True":
        return ""
    return ": ".join(filter(None, (said.get("reason"), said.get("message")))) or "nobody has looked yet"


def another_version(taken: str) -> str:
    """The remedy for a version that is taken."""
    others = [version for version in API_VERSIONS if version != taken]
    flag = f"clusteradm install hub-addon --names {COMPONENT} --api-version {others[0]}"
    return f"serve the gateway in another version ({' or '.join(others)}): {flag}; or remove what is there"
