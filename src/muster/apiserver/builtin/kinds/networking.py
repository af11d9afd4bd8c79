"""Ingress, IngressClass and NetworkPolicy."""

from __future__ import annotations

import ipaddress
from typing import Final

from muster.apiserver.builtin.kinds.checks import (
    IMMUTABLE,
    Errors,
    immutable,
    is_ip,
    label_selector,
    named_like,
    port_name_problems,
    port_number,
    spec_of,
    struct_error,
)
from muster.apiserver.registry.strategy import HookContext
from muster.kube import names
from muster.kube.fielderrors import INVALID, forbidden, invalid, not_supported, required
from muster.machinery.objects import Object

_PATH_TYPES: Final = ["Exact", "ImplementationSpecific", "Prefix"]
_BAD_SEQUENCES: Final = ("//", "/./", "/../", "%2f", "%2F")
_BAD_SUFFIXES: Final = ("/..", "/.")


def _backend(backend: Object, path: str) -> Errors:
    resource, service = backend.get("resource"), backend.get("service")
    if resource is not None and service is not None:
        return [invalid(path, "", "cannot set both resource and service backends")]
    if resource is not None:
        return [required(f"{path}.resource.{field}") for field in ("kind", "name") if not resource.get(field)]
    if service is None:
        return [invalid(path, "", "resource or service backend is required")]
    errors: Errors = []
    if not service.get("name"):
        errors.append(required(f"{path}.service.name"))
    else:
        errors += named_like(names.dns1035_label, service["name"], f"{path}.service.name")
    port = service.get("port") or {}
    if port.get("name") and port.get("number"):
        errors.append(invalid(path, "", "cannot set both port name & port number"))
    elif port.get("name"):
        errors += named_like(port_name_problems, port["name"], f"{path}.service.port.name")
    elif port.get("number"):
        errors += port_number(port["number"], f"{path}.service.port.number")
    else:
        errors.append(required(path, "port name or number is required"))
    return errors


def _http_path(entry: Object, path: str) -> Errors:
    kind, text = entry.get("pathType"), entry.get("path", "")
    if kind is None:
        return [required(f"{path}.pathType", "pathType must be specified")]
    errors: Errors = []
    if kind in ("Exact", "Prefix"):
        if not text.startswith("/"):
            errors.append(invalid(f"{path}.path", text, "must be an absolute path"))
        errors += [invalid(f"{path}.path", text, f"must not contain '{bad}'") for bad in _BAD_SEQUENCES if bad in text]
        errors += [invalid(f"{path}.path", text, f"cannot end with '{bad}'") for bad in _BAD_SUFFIXES if text.endswith(bad)]
    elif kind == "ImplementationSpecific":
        if text and not text.startswith("/"):
            errors.append(invalid(f"{path}.path", text, "must be an absolute path"))
    else:
        errors.append(not_supported(f"{path}.pathType", kind, _PATH_TYPES))
    return errors + _backend(entry.get("backend") or {}, f"{path}.backend")


def _rule(rule: Object, path: str) -> Errors:
    errors: Errors = []
    host = rule.get("host", "")
    if host:
        if is_ip(host):
            errors.append(invalid(f"{path}.host", host, "must be a DNS name, not an IP address"))
        checked = host.removeprefix("*.") if host.startswith("*.") else host
        errors += named_like(names.dns1123_subdomain, checked, f"{path}.host")
    http = rule.get("http")
    if http is not None:
        if not http.get("paths"):
            errors.append(required(f"{path}.http.paths"))
        for index, entry in enumerate(http.get("paths") or ()):
            errors += _http_path(entry, f"{path}.http.paths[{index}]")
    return errors


def validate_ingress(ctx: HookContext, obj: Object, old: Object | None) -> Errors:
    spec = spec_of(obj)
    rules = spec.get("rules") or []
    errors: Errors = []
    if not rules and spec.get("defaultBackend") is None:
        errors.append(invalid("spec", spec.get("rules"), "either `defaultBackend` or `rules` must be specified"))
    if spec.get("defaultBackend") is not None:
        errors += _backend(spec["defaultBackend"], "spec.defaultBackend")
    for index, rule in enumerate(rules):
        errors += _rule(rule, f"spec.rules[{index}]")
    if spec.get("ingressClassName") is not None:
        errors += named_like(names.dns1123_subdomain, spec["ingressClassName"], "spec.ingressClassName")
    return errors


def validate_ingress_class(ctx: HookContext, obj: Object, old: Object | None) -> Errors:
    spec = spec_of(obj)
    controller = spec.get("controller", "")
    errors: Errors = []
    if not controller:
        errors.append(required("spec.controller"))
    else:
        domain, slash, path = controller.partition("/")
        if not slash or not domain or not path:
            text = 'must be a domain-prefixed path (such as "acme.io/foo")'
            errors.append(invalid("spec.controller", controller, text))
        else:
            errors += named_like(names.dns1123_subdomain, domain, "spec.controller")
    parameters = spec.get("parameters")
    if parameters is not None:
        errors += [required(f"spec.parameters.{field}") for field in ("kind", "name") if not parameters.get(field)]
        scope = parameters.get("scope")
        if scope not in ("Cluster", "Namespace"):
            errors.append(not_supported("spec.parameters.scope", scope, ["Cluster", "Namespace"]))
        elif scope == "Namespace" and not parameters.get("namespace"):
            errors.append(required("spec.parameters.namespace", "`parameters.scope` is set to 'Namespace'"))
        elif scope == "Cluster" and parameters.get("namespace"):
            errors.append(forbidden("spec.parameters.namespace", "`parameters.scope` is set to 'Cluster'"))
    return errors if old is None else errors + immutable(controller, spec_of(old).get("controller", ""), "spec.controller")


def _policy_port(port: Object, path: str) -> Errors:
    errors: Errors = []
    if port.get("protocol") not in (None, "TCP", "UDP", "SCTP"):
        errors.append(not_supported(f"{path}.protocol", port["protocol"], ["TCP", "UDP", "SCTP"]))
    number, end = port.get("port"), port.get("endPort")
    if number is None:
        return errors + (
            [invalid(f"{path}.endPort", end, "may not be specified when `port` is not specified")] if end is not None else []
        )
    if isinstance(number, str):
        if end is not None:
            errors.append(invalid(f"{path}.endPort", end, "may not be specified when `port` is non-numeric"))
        return errors + named_like(port_name_problems, number, f"{path}.port")
    errors += port_number(number, f"{path}.port")
    if end is not None and end < number:
        errors.append(invalid(f"{path}.endPort", number, "must be greater than or equal to `port`"))
    return errors


def _policy_peer(peer: Object, path: str) -> Errors:
    errors: Errors = []
    given = [field for field in ("podSelector", "namespaceSelector", "ipBlock") if peer.get(field) is not None]
    for field in ("podSelector", "namespaceSelector"):
        errors += label_selector(peer.get(field), f"{path}.{field}")
    if not given:
        errors.append(required(path, "must specify a peer"))
    elif len(given) > 1 and "ipBlock" in given:
        errors.append(forbidden(path, "may not specify both ipBlock and another peer"))
    return errors


def validate_network_policy(ctx: HookContext, obj: Object, old: Object | None) -> Errors:
    spec = spec_of(obj)
    errors = label_selector(spec.get("podSelector"), "spec.podSelector")
    for direction, side in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(spec.get(direction) or ()):
            path = f"spec.{direction}[{index}]"
            for number, port in enumerate(rule.get("ports") or ()):
                errors += _policy_port(port, f"{path}.ports[{number}]")
            for number, peer in enumerate(rule.get(side) or ()):
                errors += _policy_peer(peer, f"{path}.{side}[{number}]")
    for index, kind in enumerate(spec.get("policyTypes") or ()):
        if kind not in ("Ingress", "Egress"):
            errors.append(not_supported(f"spec.policyTypes[{index}]", kind, ["Ingress", "Egress"]))
    return errors


def validate_service_cidr(ctx: HookContext, obj: Object, old: Object | None) -> Errors:
    cidrs: list[str] = spec_of(obj).get("cidrs") or []
    if old is None:
        return _ranges(cidrs)
    before: list[str] = spec_of(old).get("cidrs") or []
    if len(before) == len(cidrs):
        changed = [index for index, cidr in enumerate(cidrs) if cidr != before[index]]
        return [invalid(f"spec.cidrs[{index}]", cidrs[index], IMMUTABLE) for index in changed]
    if (len(before), len(cidrs)) != (1, 2):
        return [invalid("spec.cidrs", cidrs, IMMUTABLE)]
    changed_first: Errors = [invalid("spec.cidrs[0]", cidrs[0], IMMUTABLE)] if cidrs[0] != before[0] else []
    return changed_first + _ranges(cidrs)


def _ranges(cidrs: list[str]) -> Errors:
    if not cidrs:
        return [required("spec.cidrs", "at least one CIDR required")]
    if len(cidrs) > 2:
        return [invalid("spec.cidrs", {"CIDRs": cidrs}, "may only hold up to 2 values")]
    errors: Errors = [error for index, cidr in enumerate(cidrs) for error in _cidr(cidr, f"spec.cidrs[{index}]")]
    if len(cidrs) == 2 and (":" in cidrs[0]) == (":" in cidrs[1]) and all(_is_network(cidr) for cidr in cidrs):
        text = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"
        errors.append(invalid("spec.cidrs", cidrs, text))
    return errors


def _is_network(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return "/" in text


def _cidr(text: str, path: str) -> Errors:
    address, slash, bits = text.partition("/")
    without_zeros = ".".join(part.lstrip("0") or "0" for part in address.split(".")) if ":" not in address else address
    plain = f"{without_zeros}{slash}{bits.lstrip('0') or bits[:1]}"
    if not _is_network(plain):
        return [invalid(path, text, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)")]
    errors: Errors = []
    network = ipaddress.ip_network(plain, strict=False)
    if network.version == 6 and ipaddress.IPv6Address(address).ipv4_mapped is not None:
        errors.append(invalid(path, text, "must not have an IPv4-mapped IPv6 address"))
    if plain != text:
        errors.append(invalid(path, text, "must not have leading 0s in IP or prefix length"))
    elif ipaddress.ip_address(without_zeros) != network.network_address:
        errors.append(invalid(path, text, "must not have bits set beyond the prefix length"))
    return errors


def validate_ip_address(ctx: HookContext, obj: Object, old: Object | None) -> Errors:
    parent = spec_of(obj).get("parentRef")
    if old is not None:
        if parent == spec_of(old).get("parentRef"):
            return []
        shown = {field: (parent or {}).get(field.lower(), "") for field in ("Group", "Resource", "Namespace", "Name")}
        return [struct_error(INVALID, "spec.parentRef", shown, IMMUTABLE)]
    errors = _ip_address_name(obj["metadata"].get("name", ""))
    if parent is None:
        return [*errors, required("spec.parentRef")]
    if parent.get("group"):
        errors += named_like(names.dns1123_subdomain, parent["group"], "spec.parentRef.group")
    for field, needed in (("resource", True), ("name", True), ("namespace", False)):
        if parent.get(field):
            errors += named_like(names.path_segment, parent[field], f"spec.parentRef.{field}")
        elif needed:
            errors.append(required(f"spec.parentRef.{field}"))
    return errors


def _ip_address_name(name: str) -> Errors:
    plain = ".".join(part.lstrip("0") or "0" for part in name.split(".")) if ":" not in name else name
    if not is_ip(plain):
        return [invalid("metadata.name", name, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")]
    if plain != name:
        return [invalid("metadata.name", name, "must not have leading 0s")]
    canonical = str(ipaddress.ip_address(name))
    return [] if canonical == name else [invalid("metadata.name", name, f'must be in canonical form ("{canonical}")')]
