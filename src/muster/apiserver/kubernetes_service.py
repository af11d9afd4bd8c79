"""The initial objects of the Service network: Service `kubernetes`, its endpoints, the default ServiceCIDR, and its first
IPAddress.

As in kube-apiserver, Service `kubernetes` in namespace `default` is the API server itself with the first address of the range, its
Endpoints and EndpointSlice have the server's real address, ServiceCIDR `kubernetes` is the range, and an IPAddress marks its first
address as allocated. All clusters share one template of each; the real address is filled in when an object is read, because it is
only known once the server listens, and may change with a restart.
"""

from __future__ import annotations

import ipaddress
from typing import Final

import orjson

from muster.machinery.objects import Object

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
SERVICE_NETWORK: Final = ipaddress.ip_network("10.96.0.0/16")
NAME: Final = "kubernetes"
NAMESPACE: Final = "default"
KEY: Final = f"{NAMESPACE}/{NAME}"
SERVICES: Final = "/services"
ENDPOINTS: Final = "/endpoints"
SLICES: Final = "discovery.k8s.io/endpointslices"
CIDRS: Final = "networking.k8s.io/servicecidrs"
IP_ADDRESSES: Final = "networking.k8s.io/ipaddresses"
CIDR_FINALIZER: Final = "networking.k8s.io/service-cidr-finalizer"
_FIRST: Final = str(SERVICE_NETWORK.network_address + 1)
_FILLED: Final = frozenset((SERVICES, ENDPOINTS, SLICES))
_HOST: Final = "@host@"
_FAMILY: Final = "@family@"
_PORT: Final = 65_535_000
"""Placeholder for the port: an invalid port that occurs nowhere else in the templates."""


def service_templates(created: str) -> list[Object]:
    return [_service(), _endpoints(), _slice(), _cidr(created), ip_address(_FIRST, NAMESPACE, NAME)]


def filled(value: bytes, host: str, port: int) -> bytes:
    """The stored template with the address and port of the server."""
    address = _address(host)
    for placeholder, text in ((_HOST, str(address)), (_FAMILY, f"IPv{address.version}")):
        value = value.replace(orjson.dumps(placeholder), orjson.dumps(text), 1)
    return value.replace(str(_PORT).encode(), str(port).encode(), 1)


def is_filled(resource: str, key: str) -> bool:
    """Whether the object is a template with the address of the server."""
    return key == KEY and resource in _FILLED


def ip_address(address: str, namespace: str, service: str) -> Object:
    """The IPAddress for a cluster IP of a Service."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "IPAddress",
        "metadata": {
            "name": address,
            "labels": {
                "ipaddress.kubernetes.io/ip-family": f"IPv{ipaddress.ip_address(address).version}",
                "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
            },
        },
        "spec": {"parentRef": {"name": service, "namespace": namespace, "resource": "services"}},
    }


def networks_of(cidr: Object) -> list[Network]:
    """The ranges of a ServiceCIDR."""
    return [ipaddress.ip_network(text) for text in (cidr.get("spec") or {}).get("cidrs") or ()]


def is_ready(cidr: Object) -> bool:
    """Whether addresses may be allocated from a ServiceCIDR."""
    conditions = (cidr.get("status") or {}).get("conditions") or ()
    ready = any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
    return ready and not cidr["metadata"].get("deletionTimestamp")


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """The address for Endpoints; 127.0.0.1 if the server has only a host name or listens on all interfaces."""
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        found = ipaddress.ip_address("127.0.0.1")
    return ipaddress.ip_address("127.0.0.1") if found.is_unspecified else found


def _port() -> Object:
    return {"name": "https", "port": _PORT, "protocol": "TCP"}


def _service() -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": NAME,
            "namespace": NAMESPACE,
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "clusterIP": _FIRST,
            "clusterIPs": [_FIRST],
            "internalTrafficPolicy": "Cluster",
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": _PORT}],
            "sessionAffinity": "None",
            "type": "ClusterIP",
        },
        "status": {"loadBalancer": {}},
    }


def _endpoints() -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
        "subsets": [{"addresses": [{"ip": _HOST}], "ports": [_port()]}],
    }


def _slice() -> Object:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": NAME,
            "namespace": NAMESPACE,
            "generation": 1,
            "labels": {"kubernetes.io/service-name": NAME},
        },
        "addressType": _FAMILY,
        "endpoints": [{"addresses": [_HOST], "conditions": {"ready": True}}],
        "ports": [_port()],
    }


def _cidr(created: str) -> Object:
    ready = {
        "type": "Ready",
        "status": "True",
        "lastTransitionTime": created,
        "reason": "",
        "message": "Kubernetes Service CIDR is ready",
    }
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "ServiceCIDR",
        "metadata": {"name": NAME, "finalizers": [CIDR_FINALIZER]},
        "spec": {"cidrs": [str(SERVICE_NETWORK)]},
        "status": {"conditions": [ready]},
    }
