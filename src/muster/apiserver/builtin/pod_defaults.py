"""Defaults of pods, pod templates, and their volumes, containers and probes. All functions work in place and are idempotent.

A Pod has more defaults than a template: requests default to limits, enableServiceLinks is set, host ports default to container
ports.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Final

from muster.machinery.golang.quantities import Quantity, QuantityError, parse_quantity
from muster.machinery.objects import Object

_MODE: Final = 420
_TOKEN_SECONDS: Final = 3600
_MILLI: Final = 10**6
_MAY_BE_FINE = re.compile(r"[nu.eE]")
_VOLUME_DEFAULTS: Final[dict[str, Object]] = {
    "hostPath": {"type": ""},
    "secret": {"defaultMode": _MODE},
    "configMap": {"defaultMode": _MODE},
    "downwardAPI": {"defaultMode": _MODE},
    "projected": {"defaultMode": _MODE},
    "iscsi": {"iscsiInterface": "default"},
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "azureDisk": {"cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": False, "kind": "Shared"},
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
}
_CONTAINER_DEFAULTS: Final[Object] = {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
_PORT_DEFAULTS: Final[Object] = {"protocol": "TCP"}
_PROBE_DEFAULTS: Final[Object] = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}


def fill(target: Object, defaults: Object) -> None:
    """Set the fields that are absent."""
    for key, value in defaults.items():
        if target.get(key) is None:
            target[key] = value


def pull_policy(image: str) -> str:
    """`Always` for images with the tag `latest` or without a tag, else `IfNotPresent`."""
    if not image or "@" in image:
        return "IfNotPresent"
    tag = image.rpartition("/")[2].partition(":")[2]
    return "Always" if tag in ("", "latest") else "IfNotPresent"


def round_resources(resources: Object | None) -> None:
    """Round quantities up to thousandths."""
    for key, text in (resources or {}).items():
        if isinstance(text, str) and _MAY_BE_FINE.search(text):
            try:
                amount = parse_quantity(text)
            except QuantityError:
                continue
            if amount.nanos % _MILLI:
                resources[key] = str(Quantity(-(-amount.nanos // _MILLI) * _MILLI, amount.format))  # type: ignore[index]


def _round_requirements(resources: Object) -> None:
    round_resources(resources.get("limits"))
    round_resources(resources.get("requests"))


def _field_reference(holder: Object | None) -> None:
    if holder and holder.get("fieldRef") is not None:
        fill(holder["fieldRef"], {"apiVersion": "v1"})


def default_claim_spec(spec: Object) -> None:
    fill(spec, {"volumeMode": "Filesystem"})
    _round_requirements(spec.get("resources") or {})


def default_volume(volume: Object) -> None:
    sources = [key for key, value in volume.items() if key != "name" and value is not None]
    if not sources:
        volume["emptyDir"] = {}
        return
    for source in sources:
        value = volume[source]
        if source in _VOLUME_DEFAULTS:
            fill(value, _VOLUME_DEFAULTS[source])
        if source == "downwardAPI":
            for item in value.get("items") or ():
                _field_reference(item)
        elif source == "projected":
            _default_projections(value)
        elif source == "image":
            fill(value, {"pullPolicy": pull_policy(value.get("reference", ""))})
        elif source == "ephemeral" and value.get("volumeClaimTemplate"):
            default_claim_spec(value["volumeClaimTemplate"].setdefault("spec", {}))


def _default_projections(projected: Object) -> None:
    for source in projected.get("sources") or ():
        for item in (source.get("downwardAPI") or {}).get("items") or ():
            _field_reference(item)
        if source.get("serviceAccountToken") is not None:
            fill(source["serviceAccountToken"], {"expirationSeconds": _TOKEN_SECONDS})


def _default_handler(handler: Object | None) -> None:
    if handler and handler.get("httpGet") is not None:
        fill(handler["httpGet"], {"path": "/", "scheme": "HTTP"})


def _default_probe(probe: Object) -> None:
    fill(probe, _PROBE_DEFAULTS)
    _default_handler(probe)
    if probe.get("grpc") is not None and probe["grpc"].get("service") is None:
        probe["grpc"]["service"] = ""


def _default_ports(ports: Iterable[Object]) -> None:
    for port in ports:
        fill(port, _PORT_DEFAULTS)


def _default_environment(variables: Iterable[Object]) -> None:
    for variable in variables:
        source = variable.get("valueFrom")
        _field_reference(source)
        if source and source.get("fileKeyRef") is not None:
            fill(source["fileKeyRef"], {"optional": False})


def _default_lifecycle(lifecycle: Object) -> None:
    _default_handler(lifecycle.get("postStart"))
    _default_handler(lifecycle.get("preStop"))


_CONTAINER_PARTS: Final[dict[str, Callable[[Any], None]]] = {
    "ports": _default_ports,
    "env": _default_environment,
    "resources": _round_requirements,
    "livenessProbe": _default_probe,
    "readinessProbe": _default_probe,
    "startupProbe": _default_probe,
    "lifecycle": _default_lifecycle,
}


def default_container(container: Object) -> None:
    for name, value in container.items():
        if value is not None and name in _CONTAINER_PARTS:
            _CONTAINER_PARTS[name](value)
    if "imagePullPolicy" not in container:
        container["imagePullPolicy"] = pull_policy(container.get("image", ""))
    fill(container, _CONTAINER_DEFAULTS)


def default_pod_spec(spec: Object) -> None:
    """The spec of a pod or of a pod template."""
    fill(spec, {"dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "terminationGracePeriodSeconds": 30})
    fill(spec, {"schedulerName": "default-scheduler"})
    if spec.get("securityContext") is None:
        spec["securityContext"] = {}
    _pair_service_account(spec)
    for volume in spec.get("volumes") or ():
        default_volume(volume)
    for group in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(group) or ():
            default_container(container)
    round_resources(spec.get("overhead"))


def _pair_service_account(spec: Object) -> None:
    """`serviceAccount` is the deprecated name of `serviceAccountName`; the server always sets both."""
    name = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if name:
        spec["serviceAccountName"] = spec["serviceAccount"] = name


def default_template(template: Object | None) -> None:
    if template is not None:
        default_pod_spec(template.setdefault("spec", {}))


def default_pod(pod: Object) -> None:
    spec = pod.setdefault("spec", {})
    on_host = spec.get("hostNetwork")
    for group in ("containers", "initContainers"):
        for container in spec.get(group) or ():
            if container.get("resources"):
                _requests_from_limits(container["resources"])
            if on_host:
                for port in container.get("ports") or ():
                    fill(port, {"hostPort": port.get("containerPort", 0)})
    fill(spec, {"enableServiceLinks": True})
    default_pod_spec(spec)
    _agree_on_address(pod.get("status") or {})


def _agree_on_address(status: Object) -> None:
    """`podIP` and the first of `podIPs` must be equal; `podIP` takes precedence."""
    address, addresses = status.get("podIP"), status.get("podIPs") or []
    if address and (not addresses or addresses[0].get("ip") != address):
        status["podIPs"] = [{"ip": address}]
    elif addresses and not address:
        status["podIP"] = addresses[0].get("ip", "")


def _requests_from_limits(resources: Object) -> None:
    limits = resources.get("limits")
    if limits:
        fill(resources.setdefault("requests", {}), limits)
