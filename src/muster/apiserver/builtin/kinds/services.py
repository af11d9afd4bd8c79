"""Services, Endpoints and EndpointSlices. The cluster IP and node ports of a Service are allocated when it is created or its type
changes.
"""

from __future__ import annotations

import ipaddress
from typing import Any, Final

from muster.apiserver.builtin.kinds.checks import (
    Errors,
    endpoint_ip,
    immutable,
    is_ip,
    named_like,
    one_of,
    port_number,
    port_number_or_name,
    qualified,
    spec_of,
    struct_error,
    valid_ip,
)
from muster.apiserver.builtin.kinds.pods import PROTOCOLS
from muster.apiserver.errors import internal
from muster.apiserver.registry.strategy import HookContext
from muster.kube import names
from muster.kube.fielderrors import DUPLICATE, duplicate, forbidden, invalid, not_supported, required, too_many
from muster.machinery.objects import Object

_TYPES: Final = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]
_WITH_NODE_PORTS: Final = ("NodePort", "LoadBalancer")
_ADDRESS_FIELDS: Final = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")


def prepare_service(ctx: HookContext, obj: Object, old: Object | None) -> None:
    """Keep allocated addresses, drop those that the type does not have, allocate missing ones. Requested values that are not
    available are rejected later (`allocate_addresses`)."""
    spec = obj.setdefault("spec", {})
    if ctx.subresource == "status":
        return
    if old is None:
        obj["status"] = {"loadBalancer": {}}
    else:
        _carry_over(spec, spec_of(old))
    if spec.get("type") == "ExternalName":
        return
    owner = f"{obj['metadata'].get('namespace', '')}/{obj['metadata'].get('name', '')}"
    _address(ctx, spec, owner)
    _node_ports(ctx, spec, owner)


_NEEDED_BY: Final = {
    "externalTrafficPolicy": _WITH_NODE_PORTS,
    "healthCheckNodePort": ("LoadBalancer",),
    "allocateLoadBalancerNodePorts": ("LoadBalancer",),
    "loadBalancerClass": ("LoadBalancer",),
    "internalTrafficPolicy": ("ClusterIP", "NodePort", "LoadBalancer"),
    **dict.fromkeys(_ADDRESS_FIELDS, ("ClusterIP", "NodePort", "LoadBalancer")),
}
"""Fields of certain types only; a change of the type drops them, unless the request changes them."""


def _carry_over(spec: Object, before: Object) -> None:
    """Carry over allocated values that the request omits, and drop those that the new type does not have."""
    kind, old_kind = spec.get("type"), before.get("type")
    for field, kinds in _NEEDED_BY.items():
        if old_kind in kinds and kind not in kinds and spec.get(field) == before.get(field):
            spec.pop(field, None)
    if old_kind in _WITH_NODE_PORTS and kind not in _WITH_NODE_PORTS:
        current_ports = [port.get("nodePort") for port in before.get("ports") or ()]
        if [port.get("nodePort") for port in spec.get("ports") or ()] == current_ports:
            for port in spec.get("ports") or ():
                port.pop("nodePort", None)
    if "ExternalName" in (kind, old_kind):
        return
    if not spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec.update({field: before[field] for field in ("clusterIP", "clusterIPs") if field in before})
    for field in ("ipFamilies", "ipFamilyPolicy"):
        if not spec.get(field) and before.get(field):
            spec[field] = before[field]
    if kind in _WITH_NODE_PORTS and old_kind in _WITH_NODE_PORTS:
        current = {(p.get("port"), p.get("protocol")): p["nodePort"] for p in before.get("ports") or () if p.get("nodePort")}
        for port in spec.get("ports") or ():
            if not port.get("nodePort") and (port.get("port"), port.get("protocol")) in current:
                port["nodePort"] = current[(port.get("port"), port.get("protocol"))]


def _address(ctx: HookContext, spec: Object, owner: str) -> None:
    if not spec.get("clusterIP") and spec.get("clusterIPs"):
        spec["clusterIP"] = spec["clusterIPs"][0]
    requested = spec.get("clusterIP", "")
    if not requested:
        try:
            spec["clusterIP"] = requested = ctx.addresses.cluster_ip("", owner)
        except LookupError as error:
            name = owner.partition("/")[2]
            raise internal(f'failed to allocate a serviceIP for Service "{name}": {error.args[0]}') from None
    if not spec.get("clusterIPs"):
        spec["clusterIPs"] = [requested]
    spec.setdefault("ipFamilyPolicy", "SingleStack")
    if not spec.get("ipFamilies"):
        spec["ipFamilies"] = ["IPv6" if is_ip(requested) and ipaddress.ip_address(requested).version == 6 else "IPv4"]


def _node_ports(ctx: HookContext, spec: Object, owner: str) -> None:
    if spec.get("type") not in _WITH_NODE_PORTS:
        return
    if spec["type"] == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is False:
        return
    for port in spec.get("ports") or ():
        if not port.get("nodePort"):
            try:
                port["nodePort"] = ctx.addresses.node_port(0, owner)
            except LookupError as error:
                raise internal(f"failed to allocate a nodePort: {error.args[0]}") from None


def _is_headless(spec: Object) -> bool:
    return bool(spec.get("clusterIPs")) and spec["clusterIPs"][0] == "None"


def allocate_addresses(ctx: HookContext, obj: Object) -> Errors:
    """Allocate addresses and ports that are requested by value; return errors for those that are not available."""
    if ctx.subresource == "status":
        return []
    spec, owner = spec_of(obj), f"{obj['metadata'].get('namespace', '')}/{obj['metadata'].get('name', '')}"
    errors: Errors = []
    requested = spec.get("clusterIP", "")
    if requested and requested != "None" and is_ip(requested) and spec.get("type") != "ExternalName":
        try:
            ctx.addresses.cluster_ip(requested, owner)
        except LookupError as error:
            errors.append(invalid("spec.clusterIPs", spec.get("clusterIPs"), f"failed to allocate IP {requested}: {error.args[0]}"))
    if spec.get("type") in _WITH_NODE_PORTS:
        for index, port in enumerate(spec.get("ports") or ()):
            if port.get("nodePort"):
                try:
                    ctx.addresses.node_port(port["nodePort"], owner)
                except LookupError as error:
                    errors.append(invalid(f"spec.ports[{index}].nodePort", port["nodePort"], str(error.args[0])))
    return errors


def validate_service(ctx: HookContext, obj: Object, old: Object | None) -> Errors:
    spec = spec_of(obj)
    kind = spec.get("type", "")
    errors = _update(spec, spec_of(old)) if old is not None else []
    if not spec.get("ports") and not _is_headless(spec) and kind != "ExternalName":
        errors.append(required("spec.ports"))
    if kind in _WITH_NODE_PORTS and _is_headless(spec):
        errors.append(invalid("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services"))
    if kind == "ExternalName":
        errors += _external_name(spec)
    errors += _ports(spec)
    errors += names.check_labels(spec.get("selector") or {}, "spec.selector")
    errors += one_of(spec.get("sessionAffinity"), ["ClientIP", "None"], "spec.sessionAffinity")
    if kind != "ExternalName":
        errors += _cluster_ips(spec)
    for index, ip in enumerate(spec.get("externalIPs") or ()):
        errors += valid_ip(ip, f"spec.externalIPs[{index}]") or endpoint_ip(ip, f"spec.externalIPs[{index}]")
    errors += one_of(kind, _TYPES, "spec.type")
    errors += _port_sets(spec, kind)
    if kind != "LoadBalancer":
        for field in ("loadBalancerSourceRanges", "allocateLoadBalancerNodePorts", "loadBalancerClass"):
            if spec.get(field):
                path = "spec.LoadBalancerSourceRanges" if field == "loadBalancerSourceRanges" else f"spec.{field}"
                errors.append(forbidden(path, "may only be used when `type` is 'LoadBalancer'"))
    errors += _traffic(spec, kind)
    return errors


def _external_name(spec: Object) -> Errors:
    text = "may not be set for ExternalName services"
    errors: Errors = [
        forbidden(f"spec.{field}", text) for field in ("clusterIPs", "ipFamilies", "ipFamilyPolicy") if spec.get(field)
    ]
    name = spec.get("externalName", "").removesuffix(".")
    return errors + (named_like(names.dns1123_subdomain, name, "spec.externalName") if name else [required("spec.externalName")])


def _ports(spec: Object) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    ports = spec.get("ports") or []
    for index, port in enumerate(ports):
        path = f"spec.ports[{index}]"
        name = port.get("name", "")
        if not name and len(ports) > 1:
            errors.append(required(f"{path}.name"))
        elif name:
            errors += named_like(names.dns1123_label, name, f"{path}.name")
            if name in seen:
                errors.append(duplicate(f"{path}.name", name))
            seen.add(name)
        errors += port_number(port.get("port", 0), f"{path}.port")
        errors += one_of(port.get("protocol"), PROTOCOLS, f"{path}.protocol")
        errors += port_number_or_name(port.get("targetPort"), f"{path}.targetPort")
        if port.get("appProtocol"):
            errors += qualified(port["appProtocol"], f"{path}.appProtocol")
    return errors


def _port_sets(spec: Object, kind: str) -> Errors:
    errors: Errors = []
    ports = spec.get("ports") or []
    if kind == "ClusterIP":
        for index, port in enumerate(ports):
            if port.get("nodePort"):
                errors.append(forbidden(f"spec.ports[{index}].nodePort", "may not be used when `type` is 'ClusterIP'"))
    taken: set[tuple[Any, Any]] = set()
    for index, port in enumerate(ports):
        key = (port.get("protocol"), port.get("nodePort"))
        if port.get("nodePort") and key in taken:
            errors.append(duplicate(f"spec.ports[{index}].nodePort", port["nodePort"]))
        taken.add(key)
    seen: set[tuple[Any, Any]] = set()
    for index, port in enumerate(ports):
        key = (port.get("protocol"), port.get("port"))
        if key in seen:
            shown = {"Name": "", "Protocol": key[0], "AppProtocol": None, "Port": key[1], "TargetPort": 0, "NodePort": 0}
            errors.append(struct_error(DUPLICATE, f"spec.ports[{index}]", shown, ""))
        seen.add(key)
    return errors


def _cluster_ips(spec: Object) -> Errors:
    ip, ips = spec.get("clusterIP", ""), spec.get("clusterIPs") or []
    errors: Errors = []
    if ip and ips and ips[0] != ip:
        errors.append(invalid("spec.clusterIPs", ips, "first value must match `clusterIP`"))
    errors += [
        not_supported(f"spec.ipFamilies[{i}]", family, ["IPv4", "IPv6"])
        for i, family in enumerate(spec.get("ipFamilies") or ())
        if family not in ("IPv4", "IPv6")
    ]
    policies = ["PreferDualStack", "RequireDualStack", "SingleStack"]
    errors += one_of(spec.get("ipFamilyPolicy"), policies, "spec.ipFamilyPolicy", optional=True)
    for index, address in enumerate(ips):
        if not (index == 0 and address == "None"):
            errors += valid_ip(address, f"spec.clusterIPs[{index}]")
    return errors


def _traffic(spec: Object, kind: str) -> Errors:
    errors: Errors = []
    policy = spec.get("externalTrafficPolicy", "")
    if kind in _WITH_NODE_PORTS or (kind == "ClusterIP" and spec.get("externalIPs")):
        errors += one_of(policy, ["Cluster", "Local"], "spec.externalTrafficPolicy")
    elif policy:
        text = "may only be set for externally-accessible services"
        errors.append(invalid("spec.externalTrafficPolicy", policy, text))
    internal = spec.get("internalTrafficPolicy")
    if kind != "ExternalName":
        errors += one_of(internal, ["Cluster", "Local"], "spec.internalTrafficPolicy")
    return errors


def _update(spec: Object, before: Object) -> Errors:
    if "ExternalName" in (spec.get("type"), before.get("type")):
        return []
    new, old = spec.get("clusterIPs") or [], before.get("clusterIPs") or []
    if not new and old:
        return [invalid("spec.clusterIPs[0]", new, "primary clusterIP can not be unset")]
    return [
        invalid(f"spec.clusterIPs[{index}]", new, "may not change once set")
        for index, ip in enumerate(old[: len(new)])
        if ip != new[index]
    ]


def validate_endpoints(ctx: HookContext, obj: Object, old: Object | None) -> Errors:
    errors: Errors = []
    for index, subset in enumerate(obj.get("subsets") or ()):
        path = f"subsets[{index}]"
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            errors.append(required(path, "must specify `addresses` or `notReadyAddresses`"))
        for group in ("addresses", "notReadyAddresses"):
            for number, address in enumerate(subset.get(group) or ()):
                here = f"{path}.{group}[{number}].ip"
                ip = address.get("ip", "")
                errors += valid_ip(ip, here) + endpoint_ip(ip, here, ctx.pods_on_loopback)
        ports = subset.get("ports") or []
        for number, port in enumerate(ports):
            here = f"{path}.ports[{number}]"
            if len(ports) > 1 and not port.get("name"):
                errors.append(required(f"{here}.name"))
            elif port.get("name"):
                errors += named_like(names.dns1123_label, port["name"], f"{here}.name")
            errors += port_number(port.get("port", 0), f"{here}.port") + one_of(port.get("protocol"), PROTOCOLS, f"{here}.protocol")
    return errors


def validate_endpoint_slice(ctx: HookContext, obj: Object, old: Object | None) -> Errors:
    kind = obj.get("addressType", "")
    errors = one_of(kind, ["FQDN", "IPv4", "IPv6"], "addressType")
    seen: set[str] = set()
    for index, port in enumerate(obj.get("ports") or ()):
        name = port.get("name") or ""
        if name:
            errors += named_like(names.dns1123_label, name, f"ports[{index}].name")
        if name in seen:
            errors.append(duplicate(f"ports[{index}].name", name))
        seen.add(name)
        errors += one_of(port.get("protocol"), PROTOCOLS, f"ports[{index}].protocol")
    endpoints = obj.get("endpoints") or []
    if len(endpoints) > 1000:
        errors.append(too_many("endpoints", len(endpoints), 1000))
    for index, endpoint in enumerate(endpoints):
        path = f"endpoints[{index}].addresses"
        errors += _endpoint_addresses(endpoint.get("addresses") or [], kind, path, ctx.pods_on_loopback)
    return errors if old is None else errors + immutable(kind, old.get("addressType", ""), "addressType")


def _endpoint_addresses(addresses: list[str], kind: str, path: str, loopback: bool) -> Errors:
    if not addresses:
        return [required(path, "must contain at least 1 address")]
    errors: Errors = [too_many(path, len(addresses), 100)] if len(addresses) > 100 else []
    for index, address in enumerate(addresses):
        here = f"{path}[{index}]"
        if kind == "FQDN":
            errors += named_like(names.dns1123_subdomain, address, here)
        elif kind in ("IPv4", "IPv6"):
            wrong = valid_ip(address, here)
            errors += wrong
            if not wrong:
                if ipaddress.ip_address(address).version != int(kind[-1]):
                    errors.append(invalid(path, address, f"must be an {kind} address"))
                errors += endpoint_ip(address, here, loopback)
    return errors
