"""What the real server's admission plug-ins add to every new pod: its service account and token, default tolerations, priority.

The token is a projected volume (token, CA bundle, namespace) mounted into each container at the well-known place, unless the pod or
its service account says no, or the container mounts something there itself.
"""

from __future__ import annotations

from typing import Any, Final

from muster.apiserver.registry.resource import HookContext
from muster.kube.names import generate_name
from muster.machinery.objects import Object

TOKEN_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_TOKEN_SECONDS: Final = 3607
_EVICTION_SECONDS: Final = 300
_TAINTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_SYSTEM_PRIORITIES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def admit(ctx: HookContext, pod: Object) -> bool:
    """Fill a new pod in place, but for the token: whether it gets that is told."""
    spec = pod["spec"]
    name = spec.get("serviceAccountName") or "default"
    spec["serviceAccountName"] = spec["serviceAccount"] = name
    account = ctx.read("/serviceaccounts", f"{pod['metadata'].get('namespace', '')}/{name}") or {}
    if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
        spec["imagePullSecrets"] = list(account["imagePullSecrets"])
    _tolerate(spec)
    _prioritise(ctx, spec)
    wants_token = spec.get("automountServiceAccountToken")
    return bool(account.get("automountServiceAccountToken", True) if wants_token is None else wants_token)


def mount_token(spec: Object) -> None:
    """Add the token's volume, and mount it into every container that has nothing in its place. Takes long for many containers."""
    volume = generate_name("kube-api-access-")
    token = {"name": volume, "readOnly": True, "mountPath": TOKEN_PATH}
    mounted = False
    for group in ("initContainers", "containers"):
        for container in spec.get(group) or ():
            mounts = container.get("volumeMounts")
            if mounts and any(mount.get("mountPath") == TOKEN_PATH for mount in mounts):
                continue
            container["volumeMounts"] = [*mounts, token] if mounts else [token]
            mounted = True
    if not mounted:
        return
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    sources: list[dict[str, Any]] = [
        {"serviceAccountToken": {"expirationSeconds": _TOKEN_SECONDS, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [namespace]}},
    ]
    projected = {"name": volume, "projected": {"sources": sources, "defaultMode": 420}}
    spec["volumes"] = [*(spec.get("volumes") or ()), projected]


def _tolerate(spec: Object) -> None:
    """A pod outlives its node's troubles by five minutes unless it says otherwise."""
    tolerations = list(spec.get("tolerations") or ())
    for taint in _TAINTS:
        if not any(t.get("key", "") in ("", taint) and t.get("effect", "") in ("", "NoExecute") for t in tolerations):
            added = {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _EVICTION_SECONDS}
            tolerations.append(added)
    spec["tolerations"] = tolerations


def priority_of(ctx: HookContext, spec: Object) -> int | None:
    """The priority a pod's class gives it; None if there is no such class."""
    name = spec.get("priorityClassName")
    if not name:
        return 0
    found = ctx.read("scheduling.k8s.io/priorityclasses", name)
    return int(found.get("value", 0)) if found is not None else _SYSTEM_PRIORITIES.get(name)


def _prioritise(ctx: HookContext, spec: Object) -> None:
    name = spec.get("priorityClassName")
    found = ctx.read("scheduling.k8s.io/priorityclasses", name) if name else None
    spec["priority"] = priority_of(ctx, spec) or 0
    policy = found.get("preemptionPolicy") if found is not None else None
    spec["preemptionPolicy"] = policy or spec.get("preemptionPolicy") or "PreemptLowerPriority"
