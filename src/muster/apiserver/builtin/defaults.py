"""Defaults of the built-in kinds: (group, version, kind) → a function that sets defaults in place (`SetDefaults_…` upstream). They
are idempotent, because they run on every write. Defaults of single fields are data; functions handle fields that depend on
others."""

from __future__ import annotations

import base64
import copy
from collections.abc import Callable, Mapping
from typing import Any, Final

from muster.apiserver.builtin.pod_defaults import default_claim_spec, default_pod, default_template, fill, round_resources
from muster.machinery.objects import Object

Default = Callable[[Object], None]

_RBAC: Final = "rbac.authorization.k8s.io"
TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"
"""Deprecated annotation with the generation of the template of a DaemonSet."""


def _spec(obj: Object) -> Object:
    spec: Object | None = obj.get("spec")
    if spec is None:
        spec = obj["spec"] = {}
    return spec


def _fresh(defaults: Mapping[str, Any]) -> Object:
    """A copy whose lists and maps are not shared."""
    return copy.deepcopy(dict(defaults))


def _deployment(obj: Object) -> None:
    spec = _spec(obj)
    fill(spec, {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600})
    strategy = spec.setdefault("strategy", {})
    fill(strategy, {"type": "RollingUpdate"})
    if strategy["type"] == "RollingUpdate":
        fill(strategy.setdefault("rollingUpdate", {}), {"maxUnavailable": "25%", "maxSurge": "25%"})
    default_template(spec.setdefault("template", {}))


def _daemon_set(obj: Object) -> None:
    spec = _spec(obj)
    strategy = spec.setdefault("updateStrategy", {})
    fill(strategy, {"type": "RollingUpdate"})
    if strategy["type"] == "RollingUpdate":
        fill(strategy.setdefault("rollingUpdate", {}), {"maxUnavailable": 1, "maxSurge": 0})
    fill(spec, {"revisionHistoryLimit": 10})
    default_template(spec.setdefault("template", {}))
    meta = obj.setdefault("metadata", {})
    meta["annotations"] = {TEMPLATE_GENERATION: "1", **(meta.get("annotations") or {})}


def _stateful_set(obj: Object) -> None:
    spec = _spec(obj)
    fill(spec, {"podManagementPolicy": "OrderedReady", "replicas": 1, "revisionHistoryLimit": 10})
    strategy = spec.setdefault("updateStrategy", {})
    if "type" not in strategy:
        strategy["type"] = "RollingUpdate"
        strategy.setdefault("rollingUpdate", {})
    if strategy["type"] == "RollingUpdate" and strategy.get("rollingUpdate") is not None:
        fill(strategy["rollingUpdate"], {"partition": 0})
    fill(spec.setdefault("persistentVolumeClaimRetentionPolicy", {}), {"whenDeleted": "Retain", "whenScaled": "Retain"})
    default_template(spec.setdefault("template", {}))
    for claim in spec.get("volumeClaimTemplates") or ():
        fill(claim, {"kind": "PersistentVolumeClaim", "apiVersion": "v1"})
        _claim(claim)


def _replica_set(obj: Object) -> None:
    spec = _spec(obj)
    fill(spec, {"replicas": 1})
    default_template(spec.setdefault("template", {}))


def _replication_controller(obj: Object) -> None:
    spec = _spec(obj)
    fill(spec, {"replicas": 1})
    template = spec.get("template")
    labels = ((template or {}).get("metadata") or {}).get("labels")
    if labels:
        if not spec.get("selector"):
            spec["selector"] = dict(labels)
        if not obj.setdefault("metadata", {}).get("labels"):
            obj["metadata"]["labels"] = dict(labels)
    default_template(template)


def _job(obj: Object) -> None:
    spec = _spec(obj)
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    fill(spec, {"parallelism": 1, "backoffLimit": 2**31 - 1 if "backoffLimitPerIndex" in spec else 6})
    template = spec.setdefault("template", {})
    labels = (template.get("metadata") or {}).get("labels")
    if labels and not obj.setdefault("metadata", {}).get("labels"):
        obj["metadata"]["labels"] = dict(labels)
    _job_spec(spec)
    fill(spec, {"completionMode": "NonIndexed", "suspend": False, "manualSelector": False})
    fill(spec, {"podReplacementPolicy": "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"})


def _job_spec(spec: Object) -> None:
    default_template(spec.setdefault("template", {}))
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            fill(pattern, {"status": "True"})


def _cron_job(obj: Object) -> None:
    spec = _spec(obj)
    fill(spec, {"concurrencyPolicy": "Allow", "suspend": False, "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1})
    _job_spec(spec.setdefault("jobTemplate", {}).setdefault("spec", {}))


def _service(obj: Object) -> None:
    spec = _spec(obj)
    fill(spec, {"sessionAffinity": "None", "type": "ClusterIP"})
    kind = spec["type"]
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        client = (spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}
        if client.get("timeoutSeconds") is None:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": 10800}}
    for port in spec.get("ports") or ():
        fill(port, {"protocol": "TCP"})
        if port.get("targetPort") in (None, 0, ""):
            port["targetPort"] = port.get("port", 0)
    if kind in ("NodePort", "LoadBalancer") or (kind == "ClusterIP" and spec.get("externalIPs")):
        fill(spec, {"externalTrafficPolicy": "Cluster"})
    if kind != "ExternalName":
        fill(spec, {"internalTrafficPolicy": "Cluster"})
    if kind == "LoadBalancer":
        fill(spec, {"allocateLoadBalancerNodePorts": True})
        for ingress in ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ():
            if ingress.get("ip"):
                fill(ingress, {"ipMode": "VIP"})


def _secret(obj: Object) -> None:
    """`stringData` is write-only: it is moved to `data` before managed fields are tracked."""
    fill(obj, {"type": "Opaque"})
    texts = obj.pop("stringData", None)
    if texts:
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in texts.items()}
        obj["data"] = {**(obj.get("data") or {}), **encoded}


def _volume(obj: Object) -> None:
    spec = _spec(obj)
    fill(obj.setdefault("status", {}), {"phase": "Pending"})
    fill(spec, {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"})
    round_resources(spec.get("capacity"))
    if spec.get("hostPath") is not None:
        fill(spec["hostPath"], {"type": ""})
    for source, defaults in _VOLUME_SOURCES.items():
        if spec.get(source) is not None:
            fill(spec[source], defaults)


_VOLUME_SOURCES: Final[dict[str, Object]] = {
    "iscsi": {"iscsiInterface": "default"},
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "azureDisk": {"cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": False, "kind": "Shared"},
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
}


def _claim(obj: Object) -> None:
    fill(obj.setdefault("status", {}), {"phase": "Pending"})
    default_claim_spec(_spec(obj))


def _endpoints(obj: Object) -> None:
    for subset in obj.get("subsets") or ():
        for port in subset.get("ports") or ():
            fill(port, {"protocol": "TCP"})


def _namespace(obj: Object) -> None:
    meta = obj.setdefault("metadata", {})
    if meta.get("name"):
        labels = meta.get("labels")
        if labels is None:
            labels = meta["labels"] = {}
        labels["kubernetes.io/metadata.name"] = meta["name"]
    fill(obj.setdefault("status", {}), {"phase": "Active"})


def _node(obj: Object) -> None:
    status = obj.get("status") or {}
    round_resources(status.get("capacity"))
    if status.get("capacity") and status.get("allocatable") is None:
        status["allocatable"] = dict(status["capacity"])
    round_resources(status.get("allocatable"))


def _limit_range(obj: Object) -> None:
    for item in _spec(obj).get("limits") or ():
        for field in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio"):
            round_resources(item.get(field))
        if item.get("type") != "Container":
            continue
        default = dict(item.get("default") or {})
        request = dict(item.get("defaultRequest") or {})
        fill(default, item.get("max") or {})
        fill(request, default)
        fill(request, item.get("min") or {})
        for field, value in (("default", default), ("defaultRequest", request)):
            if value:
                item[field] = value


def _resource_quota(obj: Object) -> None:
    round_resources(_spec(obj).get("hard"))


def _network_policy(obj: Object) -> None:
    spec = _spec(obj)
    for direction in ("ingress", "egress"):
        for rule in spec.get(direction) or ():
            for port in rule.get("ports") or ():
                fill(port, {"protocol": "TCP"})
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress"] + (["Egress"] if spec.get("egress") else [])


def _ingress_class(obj: Object) -> None:
    parameters = _spec(obj).get("parameters")
    if parameters is not None:
        fill(parameters, {"scope": "Cluster"})


def _autoscaler_v1(obj: Object) -> None:
    spec = _spec(obj)
    fill(spec, {"minReplicas": 1})
    if "autoscaling.alpha.kubernetes.io/metrics" not in ((obj.get("metadata") or {}).get("annotations") or {}):
        fill(spec, {"targetCPUUtilizationPercentage": 80})


_SCALE_UP: Final[Object] = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}, {"type": "Percent", "value": 100, "periodSeconds": 15}],
}
_SCALE_DOWN: Final[Object] = {
    "selectPolicy": "Max",
    "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
}


def _autoscaler_v2(obj: Object) -> None:
    spec = _spec(obj)
    fill(spec, {"minReplicas": 1})
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": 80}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    behavior = spec.get("behavior")
    if behavior is not None:
        for direction, defaults in (("scaleUp", _SCALE_UP), ("scaleDown", _SCALE_DOWN)):
            rules = behavior.get(direction)
            if rules is None:
                rules = behavior[direction] = {}
            fill(rules, _fresh(defaults))


def _endpoint_slice(obj: Object) -> None:
    for port in obj.get("ports") or ():
        fill(port, {"name": "", "protocol": "TCP"})


def _role_binding(obj: Object) -> None:
    reference = obj.setdefault("roleRef", {})
    if not reference.get("apiGroup"):
        reference["apiGroup"] = _RBAC
    for subject in obj.get("subjects") or ():
        if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
            subject["apiGroup"] = _RBAC


def _webhooks(extra: Object) -> Default:
    def default(obj: Object) -> None:
        for webhook in obj.get("webhooks") or ():
            fill(webhook, {"failurePolicy": "Fail", "matchPolicy": "Equivalent", "timeoutSeconds": 10, **extra})
            _match_selectors(webhook)
            service = (webhook.get("clientConfig") or {}).get("service")
            if service is not None:
                fill(service, {"port": 443})
            _rule_scopes(webhook.get("rules"))

    return default


def _match_selectors(holder: Object) -> None:
    for name in ("namespaceSelector", "objectSelector"):
        if holder.get(name) is None:
            holder[name] = {}


def _rule_scopes(rules: list[Object] | None) -> None:
    for rule in rules or ():
        fill(rule, {"scope": "*"})


def _match_resources(match: Object | None) -> None:
    if match is None:
        return
    fill(match, {"matchPolicy": "Equivalent"})
    _match_selectors(match)
    _rule_scopes(match.get("resourceRules"))
    _rule_scopes(match.get("excludeResourceRules"))


def _admission_policy(obj: Object) -> None:
    spec = _spec(obj)
    fill(spec, {"failurePolicy": "Fail"})
    _match_resources(spec.get("matchConstraints"))


def _admission_binding(obj: Object) -> None:
    _match_resources(_spec(obj).get("matchResources"))


def _api_service(obj: Object) -> None:
    service = _spec(obj).get("service")
    if service is not None:
        fill(service, {"port": 443})


def _custom_resource_definition(obj: Object) -> None:
    spec = _spec(obj)
    names = spec.setdefault("names", {})
    if names.get("kind"):
        fill(names, {"singular": names["kind"].lower(), "listKind": f"{names['kind']}List"})
    conversion = spec.get("conversion")
    if conversion is None:
        spec["conversion"] = {"strategy": "None"}
    else:
        service = ((conversion.get("webhook") or {}).get("clientConfig") or {}).get("service")
        if service is not None:
            fill(service, {"port": 443})
    status = obj.setdefault("status", {})
    if not status.get("storedVersions"):
        status["storedVersions"] = [v["name"] for v in spec.get("versions") or () if v.get("storage")][:1]


def _flow_schema(obj: Object) -> None:
    spec = _spec(obj)
    if not spec.get("matchingPrecedence"):
        spec["matchingPrecedence"] = 1000


def _priority_level(obj: Object) -> None:
    spec = _spec(obj)
    if spec.get("exempt") is not None:
        fill(spec["exempt"], {"nominalConcurrencyShares": 0, "lendablePercent": 0})
    limited = spec.get("limited")
    if limited is None:
        return
    fill(limited, {"nominalConcurrencyShares": 30, "lendablePercent": 0})
    queuing = (limited.get("limitResponse") or {}).get("queuing")
    if queuing is not None:
        for field, value in (("handSize", 8), ("queues", 64), ("queueLengthLimit", 50)):
            if not queuing.get(field):
                queuing[field] = value


def _fields(**defaults: Any) -> Default:
    return lambda obj: fill(obj, _fresh(defaults))


def _spec_fields(**defaults: Any) -> Default:
    return lambda obj: fill(_spec(obj), _fresh(defaults))


def _token_request(obj: Object) -> None:
    fill(_spec(obj), {"expirationSeconds": 3600})


_ADMISSION: Final = "admissionregistration.k8s.io"
_STORAGE: Final = "storage.k8s.io"
_CSI_DRIVER: Final = _spec_fields(
    attachRequired=True,
    podInfoOnMount=False,
    storageCapacity=False,
    fsGroupPolicy="ReadWriteOnceWithFSType",
    volumeLifecycleModes=["Persistent"],
    requiresRepublish=False,
    seLinuxMount=False,
)

DEFAULTS: Final[Mapping[tuple[str, str, str], Default]] = {
    ("", "v1", "Endpoints"): _endpoints,
    ("", "v1", "LimitRange"): _limit_range,
    ("", "v1", "Namespace"): _namespace,
    ("", "v1", "Node"): _node,
    ("", "v1", "PersistentVolume"): _volume,
    ("", "v1", "PersistentVolumeClaim"): _claim,
    ("", "v1", "Pod"): default_pod,
    ("", "v1", "PodTemplate"): lambda obj: default_template(obj.setdefault("template", {})),
    ("", "v1", "ReplicationController"): _replication_controller,
    ("", "v1", "ResourceQuota"): _resource_quota,
    ("", "v1", "Secret"): _secret,
    ("", "v1", "Service"): _service,
    ("apps", "v1", "DaemonSet"): _daemon_set,
    ("apps", "v1", "Deployment"): _deployment,
    ("apps", "v1", "ReplicaSet"): _replica_set,
    ("apps", "v1", "StatefulSet"): _stateful_set,
    ("authentication.k8s.io", "v1", "TokenRequest"): _token_request,
    ("autoscaling", "v1", "HorizontalPodAutoscaler"): _autoscaler_v1,
    ("autoscaling", "v2", "HorizontalPodAutoscaler"): _autoscaler_v2,
    ("batch", "v1", "CronJob"): _cron_job,
    ("batch", "v1", "Job"): _job,
    ("discovery.k8s.io", "v1", "EndpointSlice"): _endpoint_slice,
    ("networking.k8s.io", "v1", "IngressClass"): _ingress_class,
    ("networking.k8s.io", "v1", "NetworkPolicy"): _network_policy,
    ("scheduling.k8s.io", "v1", "PriorityClass"): _fields(preemptionPolicy="PreemptLowerPriority"),
    (_RBAC, "v1", "ClusterRoleBinding"): _role_binding,
    (_RBAC, "v1", "RoleBinding"): _role_binding,
    (_STORAGE, "v1", "StorageClass"): _fields(reclaimPolicy="Delete", volumeBindingMode="Immediate"),
    (_STORAGE, "v1", "CSIDriver"): _CSI_DRIVER,
    (_ADMISSION, "v1", "MutatingWebhookConfiguration"): _webhooks({"reinvocationPolicy": "Never"}),
    (_ADMISSION, "v1", "ValidatingWebhookConfiguration"): _webhooks({}),
    (_ADMISSION, "v1", "ValidatingAdmissionPolicy"): _admission_policy,
    (_ADMISSION, "v1", "ValidatingAdmissionPolicyBinding"): _admission_binding,
    ("apiregistration.k8s.io", "v1", "APIService"): _api_service,
    ("apiextensions.k8s.io", "v1", "CustomResourceDefinition"): _custom_resource_definition,
    ("flowcontrol.apiserver.k8s.io", "v1", "FlowSchema"): _flow_schema,
    ("flowcontrol.apiserver.k8s.io", "v1", "PriorityLevelConfiguration"): _priority_level,
}
