"""What every cluster's network of Services is born with: the Service `kubernetes`, where it leads, the range and its first address.

As in kube-apiserver, Service `kubernetes` in namespace `default` is the API server itself under the first address of the range,
its Endpoints and EndpointSlice say where that really is, ServiceCIDR `kubernetes` is the range and an IPAddress tells that its
first one is taken. All clusters share one template of each; where the server listens is filled in when a cluster shows it, because
that is known only once it does, and may be another port after a restart.
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
"""In the place of the port: no port, and no other number of the templates."""


def service_templates(created: str) -> list[Object]:
    return [_service(), _endpoints(), _slice(), _cidr(created), ip_address(_FIRST, NAMESPACE, NAME)]


def filled(value: bytes, host: str, port: int) -> bytes:
    """The stored template with where the server listens."""
    address = _address(host)
    for mark, text in ((_HOST, str(address)), (_FAMILY, f"IPv{address.version}")):
        value = value.replace(orjson.dumps(mark), orjson.dumps(text), 1)
    return value.replace(str(_PORT).encode(), str(port).encode(), 1)


def is_filled(resource: str, key: str) -> bool:
    """Whether a template says where the server listens."""
    return key == KEY and resource in _FILLED


def ip_address(address: str, namespace: str, service: str) -> Object:
    """The object that says which Service an address of the range belongs to."""
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
    """The ranges that a ServiceCIDR names."""
    return [ipaddress.ip_network(text) for text in (cidr.get("spec") or {}).get("cidrs") or ()]


def is_ready(cidr: Object) -> bool:
    """Whether addresses are taken from a ServiceCIDR."""
    conditions = (cidr.get("status") or {}).get("conditions") or ()
    ready = any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
    return ready and not cidr["metadata"].get("deletionTimestamp")


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Endpoints hold the address of an interface; a server that has only a name, or listens on all, is on this machine's own."""
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
