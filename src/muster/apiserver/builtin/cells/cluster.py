"""Cells of namespaces, nodes, events, configuration, identities, quotas and leases."""

from __future__ import annotations

from collections.abc import Mapping

from muster.apiserver.builtin.cells.formats import NONE, UNKNOWN, Cell, Live, at, count, since, spec, status
from muster.machinery.golang.durations import human_duration
from muster.machinery.objects import Object

_ROLE_PREFIX = "node-role.kubernetes.io/"


def _node_status(node: Object) -> str:
    conditions = status(node).get("conditions") or ()
    ready = [c for c in conditions if c.get("type") == "Ready"]
    texts = [("Ready" if ready[-1].get("status") == "True" else "NotReady") if ready else "Unknown"]
    return ",".join(texts + (["SchedulingDisabled"] if spec(node).get("unschedulable") else []))


def _node_roles(node: Object) -> str:
    labels = node["metadata"].get("labels") or {}
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)} | {
        labels.get("kubernetes.io/role", "")
    }
    return ",".join(sorted(roles - {""})) or NONE


def _node_address(kind: str) -> Cell:
    def read(node: Object) -> str:
        addresses = status(node).get("addresses") or ()
        return next((a.get("address", "") for a in addresses if a.get("type") == kind), NONE)

    return read


def _node_info(field: str) -> Cell:
    return lambda node: (status(node).get("nodeInfo") or {}).get(field) or UNKNOWN


def _first_seen(event: Object) -> Live | str:
    return since(event.get("firstTimestamp") or event.get("deprecatedFirstTimestamp") or event.get("eventTime"))


def _last_seen(event: Object) -> Live | str:
    series = event.get("series")
    if series is not None:
        return since(series.get("lastObservedTime"))
    last = event.get("lastTimestamp") or event.get("deprecatedLastTimestamp")
    return since(last) if last else _first_seen(event)


def _event_count(event: Object) -> int:
    series = event.get("series")
    if series is not None:
        return int(series.get("count", 0))
    return int(event.get("count") or event.get("deprecatedCount") or 1)


def _involved(event: Object) -> Object:
    found: Object = event.get("involvedObject") or event.get("regarding") or {}
    return found


def _event_object(event: Object) -> str:
    involved = _involved(event)
    kind = involved.get("kind", "").lower()
    return f"{kind}/{involved['name']}" if involved.get("name") else kind


def _event_source(event: Object) -> str:
    source = event.get("source") or event.get("deprecatedSource") or {}
    component = source.get("component") or event.get("reportingComponent") or event.get("reportingController") or ""
    instance = source.get("host") or event.get("reportingInstance") or ""
    return f"{component}, {instance}" if instance else component


def _subjects(kind: str) -> Cell:
    def read(binding: Object) -> str:
        names = []
        for subject in binding.get("subjects") or ():
            if subject.get("kind") == kind:
                prefix = f"{subject.get('namespace', '')}/" if kind == "ServiceAccount" else ""
                names.append(prefix + subject.get("name", ""))
        return ", ".join(names)

    return read


_BINDING: Mapping[str, Cell] = {
    "Role": lambda obj: f"{obj['roleRef'].get('kind', '')}/{obj['roleRef'].get('name', '')}",
    "Users": _subjects("User"),
    "Groups": _subjects("Group"),
    "ServiceAccounts": _subjects("ServiceAccount"),
}


def _csr_duration(csr: Object) -> str:
    seconds = spec(csr).get("expirationSeconds")
    return NONE if seconds is None else human_duration(seconds)


def _csr_condition(csr: Object) -> str:
    kinds = {condition.get("type") for condition in status(csr).get("conditions") or ()}
    text = "Denied" if "Denied" in kinds else "Approved" if "Approved" in kinds else "Pending"
    return text + (",Failed" if "Failed" in kinds else "") + (",Issued" if status(csr).get("certificate") else "")


def _quota(limits: bool) -> Cell:
    def read(quota: Object) -> str:
        hard, used = status(quota).get("hard") or {}, status(quota).get("used") or {}
        names = [name for name in sorted(hard) if name.startswith("limits.") == limits]
        return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in names)

    return read


CELLS: Mapping[str, Mapping[str, Cell]] = {
    "Namespace": {"Status": at("status", "phase")},
    "Node": {
        "Status": _node_status,
        "Roles": _node_roles,
        "Version": at("status", "nodeInfo", "kubeletVersion"),
        "Internal-IP": _node_address("InternalIP"),
        "External-IP": _node_address("ExternalIP"),
        "OS-Image": _node_info("osImage"),
        "Kernel-Version": _node_info("kernelVersion"),
        "Container-Runtime": _node_info("containerRuntimeVersion"),
    },
    "Event": {
        "Last Seen": _last_seen,
        "Type": at("type"),
        "Reason": at("reason"),
        "Object": _event_object,
        "Subobject": lambda event: _involved(event).get("fieldPath", ""),
        "Source": _event_source,
        "Message": lambda event: (event.get("message") or event.get("note") or "").strip(),
        "First Seen": _first_seen,
        "Count": _event_count,
    },
    "Secret": {"Type": at("type"), "Data": count("data")},
    "ConfigMap": {"Data": lambda obj: len(obj.get("data") or ()) + len(obj.get("binaryData") or ())},
    "RoleBinding": _BINDING,
    "ClusterRoleBinding": _BINDING,
    "CertificateSigningRequest": {
        "SignerName": lambda csr: spec(csr).get("signerName") or NONE,
        "Requestor": at("spec", "username"),
        "RequestedDuration": _csr_duration,
        "Condition": _csr_condition,
    },
    "Lease": {"Holder": at("spec", "holderIdentity")},
    "ResourceQuota": {"Request": _quota(False), "Limit": _quota(True)},
    "PriorityClass": {
        "Value": at("value", absent=0),
        "Global-Default": at("globalDefault", absent=False),
        "PreemptionPolicy": at("preemptionPolicy"),
    },
    "RuntimeClass": {"Handler": at("handler")},
}
