"""The address of a Service: webhooks and aggregated API servers are referenced by Service, and nothing routes cluster IPs here.

A Service resolves to its ExternalName, else to an address in its EndpointSlices or Endpoints, as with kube-apiserver's
`--enable-aggregator-routing`.
"""

from __future__ import annotations

from muster.apiserver.cluster import Cluster
from muster.machinery.objects import Object


class ServiceResolver:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def resolve(self, namespace: str, name: str, port: int) -> tuple[str, int]:
        """(host, port) for a port of a Service. Raises LookupError with the reason if there is none."""
        service = self._cluster.read("/services", f"{namespace}/{name}")
        if service is None:
            raise LookupError(f'service "{name}" not found')
        spec = service.get("spec") or {}
        if spec.get("type") == "ExternalName":
            return spec.get("externalName", ""), port
        service_port = next((p for p in spec.get("ports") or () if p.get("port") == port), None)
        if service_port is None:
            raise LookupError(f'no service port {port} found for service "{name}"')
        found = self._from_slices(namespace, name, service_port) or self._from_endpoints(namespace, name, service_port)
        if found is None:
            raise LookupError(f'no endpoints available for service "{name}"')
        return found

    def _from_slices(self, namespace: str, name: str, service_port: Object) -> tuple[str, int] | None:
        for piece in self._cluster.scan("discovery.k8s.io/endpointslices", namespace):
            if (piece["metadata"].get("labels") or {}).get("kubernetes.io/service-name") != name:
                continue
            port = _matching_port(piece.get("ports") or (), service_port)
            for endpoint in piece.get("endpoints") or ():
                if port and endpoint.get("addresses") and (endpoint.get("conditions") or {}).get("ready", True):
                    return endpoint["addresses"][0], port
        return None

    def _from_endpoints(self, namespace: str, name: str, service_port: Object) -> tuple[str, int] | None:
        endpoints = self._cluster.read("/endpoints", f"{namespace}/{name}")
        for subset in (endpoints or {}).get("subsets") or ():
            port = _matching_port(subset.get("ports") or (), service_port)
            if port and subset.get("addresses"):
                return subset["addresses"][0]["ip"], port
        return None


def _matching_port(ports: tuple[Object, ...] | list[Object], service_port: Object) -> int:
    for port in ports:
        if port.get("name", "") == service_port.get("name", "") and port.get("port"):
            return int(port["port"])
    return 0
