"""Exposure of a hub's gRPC server: the names in its certificate, and its Service.

`serverConfiguration.endpointsExposure` configures it. For `hostname` and `route` the administrator creates the load balancer (an
Ingress or an OpenShift Route that passes TLS through) in front of the Service: as with OCM, no Route is created here, and the
server's condition mentions that. `loadBalancer` sets the Service's type, whose addresses are known once they are assigned. The
server's certificate always has the name of its Service too.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address
from typing import Any, Final

from muster.api import Document
from muster.api.operator.v1 import GRPC_PROTOCOL, LOAD_BALANCER, ROUTE, EndpointExposure
from muster.kube.names import dns1123_subdomain
from muster.machinery.objects import Object
from muster.operator.cluster_manager.plan import ClusterManagerPlan
from muster.operator.pod_namespaces import host_port_of
from muster.operator.spec import BadSpec
from muster.runtime.install import named

PORT: Final = 8090
LOAD_BALANCER_PORT: Final = 443
_FIELD: Final = "spec.serverConfiguration.endpointsExposure"


def service_name(plan: ClusterManagerPlan) -> str:
    return f"{plan.name}-grpc-server"


def is_load_balanced(plan: ClusterManagerPlan) -> bool:
    return any(exposure.type == LOAD_BALANCER for _, exposure in _exposures(plan))


def service(plan: ClusterManagerPlan) -> Document:
    balanced = is_load_balanced(plan)
    others = any(exposure.type != LOAD_BALANCER for _, exposure in _exposures(plan))
    ports = [_port(GRPC_PROTOCOL, PORT)] if others or not balanced else []
    ports += [_port("https", LOAD_BALANCER_PORT)] if balanced else []
    spec: Document = {"selector": {"app": service_name(plan)}, "ports": ports}
    return {
        "metadata": named(service_name(plan), plan.namespace),
        "spec": {**spec, "type": "LoadBalancer" if balanced else "ClusterIP"},
    }


def hosts(plan: ClusterManagerPlan, found: Object | None) -> list[str]:
    """The host names and addresses under which agents connect to the server; `found` is the current Service. Raises BadSpec."""
    own = f"{service_name(plan)}.{plan.namespace}"
    names = [f"{own}.svc", own, f"{own}.svc.cluster.local"]
    return list(dict.fromkeys((*names, *_configured(plan), *(balancers(found) if is_load_balanced(plan) else ()))))


def balancers(found: Object | None) -> list[str]:
    """The addresses that are assigned to the Service's load balancer."""
    ingress: list[dict[str, Any]] = (((found or {}).get("status") or {}).get("loadBalancer") or {}).get("ingress") or []
    return [str(one[key]) for one in ingress for key in ("ip", "hostname") if one.get(key)]


def routed(plan: ClusterManagerPlan) -> list[str]:
    """The hosts whose Routes, created by the administrator, must lead to the Service."""
    return [exposure.host for _, exposure in _exposures(plan) if exposure.type == ROUTE and exposure.host]


def _exposures(plan: ClusterManagerPlan) -> Iterator[tuple[int, EndpointExposure]]:
    configured = plan.manager.spec.server_configuration
    for index, endpoint in enumerate(configured.endpoints_exposure if configured else ()):
        if endpoint.protocol == GRPC_PROTOCOL and endpoint.grpc is not None:
            yield index, endpoint.grpc


def _configured(plan: ClusterManagerPlan) -> Iterator[str]:
    for index, exposure in _exposures(plan):
        field = f"{_FIELD}[{index}].grpc.{exposure.type}.host"
        host = exposure.host
        if not host and exposure.type == LOAD_BALANCER:
            continue
        if not host:
            raise BadSpec(field, "missing; give the name that agents dial, so that the server's certificate bears it")
        yield _bare(host, field)


def _bare(host: str, field: str) -> str:
    """The host without its port."""
    found = None if _is_address(host) else host_port_of(host)
    name = found[0] if found else host
    if not _is_address(name) and dns1123_subdomain(name):
        raise BadSpec(field, f"{host!r} is neither a host name nor an address")
    return name


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _port(name: str, port: int) -> Document:
    return {"name": name, "port": port, "targetPort": PORT, "protocol": "TCP"}
