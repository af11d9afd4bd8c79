"""Field selectors of the built-in kinds beyond metadata.name and metadata.namespace: label → a function that returns the value as
text.

They read the stored form, which for Events of both groups is that of the core group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

Selector = Callable[[dict[str, Any]], str]


def _path(path: str, absent: str = "") -> Selector:
    keys = path.split(".")

    def read(obj: dict[str, Any]) -> str:
        value: Any = obj
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        if value is None:
            return absent
        return ("true" if value else "false") if isinstance(value, bool) else str(value)

    return read


def _paths(*paths: str, **absent: str) -> dict[str, Selector]:
    return {path: _path(path, absent.get(path.replace(".", "_"), "")) for path in paths}


def _event_source(event: dict[str, Any]) -> str:
    return str((event.get("source") or {}).get("component") or event.get("reportingComponent") or "")


def _pod_ips(pod: dict[str, Any]) -> str:
    ips = (pod.get("status") or {}).get("podIPs") or []
    return ",".join(entry.get("ip", "") for entry in ips)


_REFERENCE: Final = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")

SELECTABLE: Final[Mapping[tuple[str, str], Mapping[str, Selector]]] = {
    ("", "pods"): {
        **_paths(
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
            spec_hostNetwork="false",
        ),
        "status.podIPs": _pod_ips,
    },
    ("", "nodes"): _paths("spec.unschedulable", spec_unschedulable="false"),
    ("", "events"): {
        **_paths(*(f"involvedObject.{field}" for field in _REFERENCE), "reason", "reportingComponent", "type"),
        "source": _event_source,
    },
    ("events.k8s.io", "events"): {
        **{f"regarding.{field}": _path(f"involvedObject.{field}") for field in _REFERENCE},
        **_paths("reason", "type"),
        "reportingController": _path("reportingComponent"),
    },
    ("", "namespaces"): _paths("status.phase"),
    ("", "secrets"): _paths("type"),
    ("", "services"): _paths("spec.clusterIP", "spec.type"),
    ("", "replicationcontrollers"): _paths("status.replicas", status_replicas="0"),
    ("batch", "jobs"): {"status.successful": _path("status.succeeded", "0")},
    ("certificates.k8s.io", "certificatesigningrequests"): _paths("spec.signerName"),
}
