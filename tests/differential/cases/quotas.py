"""ResourceQuotas: what they count, what they refuse and with which words, and that what goes is given back."""

from typing import Any

from tests.differential.cases.pods import ACCOUNT, pod
from tests.differential.dsl import Request, Step, case, delete, get, json_patch, merge, post, setup

SERVICE = {"ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81}]}


def quota(name: str = "q", *, hard: dict[str, str], **spec: Any) -> tuple[Step, ...]:
    """A quota that admission knows: it already refuses, as a trial, what no quota of a case ever lets in."""
    body = {"metadata": {"name": name}, "spec": {"hard": {**hard, "count/leases.coordination.k8s.io": "0"}, **spec}}
    trial = {"metadata": {"name": "trial"}, "spec": {"holderIdentity": "nobody"}}
    asked = post("coordination.k8s.io/v1:leases", trial, query={"dryRun": "All"}, until=("code", 403))
    scoped = bool(spec)
    return (
        setup(post("resourcequotas", body)),
        get(f"resourcequotas/{name}", present="status.hard", keep=False),
        *(() if scoped else (setup(asked),)),
    )


def used(name: str = "q", until: dict[str, str] | None = None) -> Request:
    """A quota's status, once it is as it should be."""
    wanted = ("status.used", {**until, "count/leases.coordination.k8s.io": "0"}) if until is not None else None
    return get(f"resourcequotas/{name}", until=wanted, pick=lambda b: b["status"])


def short(body: Any) -> Any:
    return body if body["kind"] == "Status" else body["kind"]


def configmap(name: str, **options: Any) -> Request:
    return post("configmaps", {"metadata": {"name": name}}, pick=short, **options)


def new(name: str, requests: dict[str, str] | None = None, limits: dict[str, str] | None = None, **spec: Any) -> Request:
    resources = {field: value for field, value in (("requests", requests), ("limits", limits)) if value}
    return post("pods", pod(name, containers=[{"name": "main", "image": "none", "resources": resources}], **spec), pick=short)


def service(name: str, **spec: Any) -> Request:
    return post("services", {"metadata": {"name": name}, "spec": {**SERVICE, **spec}}, pick=short)


def claim(name: str, storage: str, **spec: Any) -> Request:
    body = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": storage}}, **spec}
    return post("persistentvolumeclaims", {"metadata": {"name": name}, "spec": body}, pick=short)


CASES = [
    case(
        "a quota of counts",
        *quota(hard={"configmaps": "3", "count/configmaps": "4"}),
        used(until={"configmaps": "1", "count/configmaps": "1"}),
        configmap("a"),
        configmap("b"),
        configmap("c"),
        configmap("d", query={"dryRun": "All"}),
        used(until={"configmaps": "3", "count/configmaps": "3"}),
        setup(delete("configmaps/a")),
        used(until={"configmaps": "2", "count/configmaps": "2"}),
        configmap("e"),
    ),
    case(
        "a quota of pods",
        ACCOUNT,
        *quota(hard={"pods": "2", "count/pods": "5"}),
        new("a"),
        new("b"),
        new("c"),
        post("pods", {**pod(), "metadata": {"generateName": "many-"}}, pick=lambda b: b["message"].partition(" is ")[2]),
        setup(json_patch("pods/a/status", [{"op": "replace", "path": "/status/phase", "value": "Succeeded"}])),
        used(until={"pods": "1", "count/pods": "2"}),
        new("c"),
    ),
    case(
        "a quota of what pods ask for",
        ACCOUNT,
        *quota(hard={"requests.cpu": "1", "limits.memory": "1Gi", "memory": "512Mi"}),
        new("silent"),
        new("half", {"cpu": "100m"}),
        new("a", {"cpu": "600m", "memory": "128Mi"}, {"memory": "512Mi"}),
        new("b", {"cpu": "0.5", "memory": "128Mi"}, {"memory": "768Mi"}),
        new("c", {"cpu": "400m", "memory": "384Mi"}, {"memory": "512Mi"}),
        used(until={"requests.cpu": "1", "limits.memory": "1Gi", "memory": "512Mi"}),
        new("d", {"cpu": "1m", "memory": "1"}, {"memory": "1"}),
        setup(delete("pods/a", {"gracePeriodSeconds": 0})),
        used(until={"requests.cpu": "400m", "limits.memory": "512Mi", "memory": "384Mi"}),
    ),
    case(
        "a quota counts init containers and what the pod says itself",
        ACCOUNT,
        *quota(hard={"requests.cpu": "2", "requests.ephemeral-storage": "2Gi"}),
        post(
            "pods",
            pod(
                "a",
                containers=[{"name": "main", "image": "none", "resources": {"requests": {"cpu": "100m"}}}],
                initContainers=[{"name": "first", "image": "none", "resources": {"requests": {"cpu": "700m"}}}],
            ),
            pick=short,
        ),
        new("b", resources={"requests": {"cpu": "500m"}}),
        new("c", {"cpu": "100m", "ephemeral-storage": "3Gi"}),
        used(),
    ),
    case(
        "a quota of extended resources",
        ACCOUNT,
        *quota(hard={"requests.example.com/gpu": "2"}),
        new("a", {"example.com/gpu": "2"}, {"example.com/gpu": "2"}),
        new("b", {"example.com/gpu": "1"}, {"example.com/gpu": "1"}),
        new("c"),
        used(until={"requests.example.com/gpu": "2"}),
    ),
    case(
        "a quota of services",
        *quota(hard={"services": "3", "services.nodeports": "3", "services.loadbalancers": "1"}),
        service("plain"),
        service("open", type="NodePort"),
        service("more", type="NodePort"),
        service("balanced", type="LoadBalancer", allocateLoadBalancerNodePorts=False),
        used(until={"services": "3", "services.nodeports": "2", "services.loadbalancers": "1"}),
        merge("services/plain", {"spec": {"type": "NodePort"}}, pick=short),
        setup(merge("services/open", {"spec": {"type": "ClusterIP"}})),
        used(until={"services": "3", "services.nodeports": "0", "services.loadbalancers": "1"}),
        service("last"),
    ),
    case(
        "a quota of claims",
        *quota(
            hard={
                "persistentvolumeclaims": "3",
                "requests.storage": "10Gi",
                "gold.storageclass.storage.k8s.io/requests.storage": "5Gi",
                "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "1",
            }
        ),
        claim("a", "4Gi"),
        claim("b", "7Gi"),
        claim("c", "5Gi", storageClassName="gold"),
        claim("d", "1Gi", storageClassName="gold"),
        used(),
    ),
    case(
        "a quota with scopes",
        ACCOUNT,
        *quota("short", hard={"pods": "1"}, scopes=["Terminating"]),
        *quota("long", hard={"pods": "1", "requests.cpu": "1"}, scopes=["NotTerminating", "NotBestEffort"]),
        *quota(hard={}),
        new("a", activeDeadlineSeconds=60),
        new("b", activeDeadlineSeconds=60),
        new("c"),
        new("d", {"cpu": "100m"}),
        new("e", {"cpu": "100m"}),
        new("f", limits={"memory": "1Mi"}),
        get("resourcequotas/short", pick=lambda b: b["status"]),
        get("resourcequotas/long", pick=lambda b: b["status"]),
    ),
    case(
        "a quota of a priority class",
        ACCOUNT,
        *quota(
            "critical",
            hard={"pods": "0"},
            scopeSelector={
                "matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["system-cluster-critical"]}]
            },
        ),
        *quota(hard={}),
        new("a"),
        new("b", priorityClassName="system-cluster-critical"),
        new("c", priorityClassName="system-node-critical"),
    ),
    case(
        "limits that are lowered refuse what is new",
        *quota(hard={"configmaps": "5"}),
        configmap("a"),
        configmap("b"),
        setup(merge("resourcequotas/q", {"spec": {"hard": {"configmaps": "1"}}})),
        get("resourcequotas/q", until=("status.hard.configmaps", "1"), pick=lambda b: b["status"]),
        configmap("trial", query={"dryRun": "All"}, until=("code", 403)),
        merge("configmaps/a", {"data": {"a": "b"}}, pick=short),
        setup(merge("resourcequotas/q", {"spec": {"hard": {"configmaps": None, "secrets": "1"}}})),
        get("resourcequotas/q", until=("status.hard.secrets", "1"), pick=lambda b: b["status"]),
    ),
    case(
        "two quotas",
        *quota("one", hard={"configmaps": "2"}),
        *quota("two", hard={"configmaps": "3"}),
        configmap("a"),
        configmap("b"),
        get("resourcequotas/one", until=("status.used.configmaps", "2"), pick=lambda b: b["status"]),
        get("resourcequotas/two", until=("status.used.configmaps", "2"), pick=lambda b: b["status"]),
    ),
    case(
        "who writes a quota's status",
        *quota(hard={"secrets": "5"}),
        setup(post("secrets", {"metadata": {"name": "a"}})),
        get("resourcequotas/q", until=("status.used.secrets", "1"), pick=lambda b: b["metadata"]["managedFields"]),
    ),
]
