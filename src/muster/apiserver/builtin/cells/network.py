"""Cells of Services and the networking kinds."""

from __future__ import annotations

from collections.abc import Mapping

from muster.apiserver.builtin.cells.formats import NONE, UNSET, Cell, at, labels_text, selector_text, spec, status, with_more
from muster.machinery.objects import Object


def _balancer(obj: Object) -> str:
    ingress = (status(obj).get("loadBalancer") or {}).get("ingress") or ()
    return ",".join(
        sorted({entry.get("ip") or entry.get("hostname") for entry in ingress if entry.get("ip") or entry.get("hostname")})
    )


def _external_ip(service: Object) -> str:
    kind, ips = spec(service).get("type"), spec(service).get("externalIPs") or []
    if kind == "ExternalName":
        return str(spec(service).get("externalName", ""))
    if kind == "LoadBalancer":
        return ",".join(([_balancer(service)] if _balancer(service) else []) + ips) or "<pending>"
    return (",".join(ips) or NONE) if kind in ("ClusterIP", "NodePort") else "<unknown>"


def _ports(service: Object) -> str:
    texts = []
    for port in spec(service).get("ports") or ():
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        texts.append(f"{port.get('port', 0)}{node}/{port.get('protocol', '')}")
    return ",".join(texts) or NONE


def _cluster_ip(service: Object) -> str:
    ips = spec(service).get("clusterIPs") or ()
    return str(ips[0]) if ips else NONE


def _endpoints(obj: Object) -> str:
    subsets = obj.get("subsets") or ()
    if not subsets:
        return NONE
    found: list[str] = []
    for subset in subsets:
        addresses = [address.get("ip", "") for address in subset.get("addresses") or ()]
        for port in subset.get("ports") or (None,):
            for address in addresses:
                host = f"[{address}]" if ":" in address and port is not None else address
                found.append(address if port is None else f"{host}:{port.get('port', 0)}")
    return with_more(found, len(found), 3, "")


def _slice_ports(obj: Object) -> str:
    texts = [str(port["port"]) if port.get("port") is not None else port.get("name") or "*" for port in obj.get("ports") or ()]
    return with_more(texts, len(texts), 3, UNSET)


def _slice_endpoints(obj: Object) -> str:
    addresses = [address for endpoint in obj.get("endpoints") or () for address in endpoint.get("addresses") or ()]
    return with_more(addresses, len(addresses), 3, UNSET)


def _hosts(ingress: Object) -> str:
    rules = spec(ingress).get("rules") or ()
    shown: list[str] = []
    more = False
    for rule in rules:
        more = more or len(shown) == 3
        if not more and rule.get("host"):
            shown.append(rule["host"])
    if not shown:
        return "*"
    return ",".join(shown) + (f" + {len(rules) - 3} more..." if more else "")


def _parameters(obj: Object) -> str:
    parameters = spec(obj).get("parameters")
    if parameters is None:
        return NONE
    group = f".{parameters['apiGroup']}" if parameters.get("apiGroup") is not None else ""
    return f"{parameters.get('kind', '')}{group}/{parameters.get('name', '')}"


def _parent(obj: Object) -> str:
    parent = spec(obj).get("parentRef")
    if parent is None:
        return NONE
    resource = f"{parent.get('resource', '')}.{parent['group']}" if parent.get("group") else parent.get("resource", "")
    namespace = f"/{parent['namespace']}" if parent.get("namespace") else ""
    return f"{resource.lower()}{namespace}/{parent.get('name', '')}"


CELLS: Mapping[str, Mapping[str, Cell]] = {
    "Service": {
        "Type": at("spec", "type"),
        "Cluster-IP": _cluster_ip,
        "External-IP": _external_ip,
        "Port(s)": _ports,
        "Selector": lambda obj: labels_text(spec(obj).get("selector")),
    },
    "Endpoints": {"Endpoints": _endpoints},
    "EndpointSlice": {"AddressType": at("addressType"), "Ports": _slice_ports, "Endpoints": _slice_endpoints},
    "Ingress": {
        "Class": at("spec", "ingressClassName", absent=NONE),
        "Hosts": _hosts,
        "Address": _balancer,
        "Ports": lambda obj: "80, 443" if spec(obj).get("tls") else "80",
    },
    "IngressClass": {"Controller": at("spec", "controller"), "Parameters": _parameters},
    "NetworkPolicy": {"Pod-Selector": lambda obj: selector_text(spec(obj).get("podSelector") or {})},
    "ServiceCIDR": {"CIDRs": lambda obj: ",".join(spec(obj).get("cidrs") or ())},
    "IPAddress": {"ParentRef": _parent},
}
