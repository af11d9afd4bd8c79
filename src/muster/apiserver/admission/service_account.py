"""The ServiceAccount plugin: every new pod runs as a service account of its namespace and gets a token of it.

The account must exist. The default account is created shortly after its namespace, so a pod that names no other account waits a
little for it. The token is a projected volume (token, CA bundle, namespace), mounted into each container at the path where client
libraries look for it, unless the pod or its account disables that, or the container mounts something else there. When the plugin
runs again after a webhook has changed the pod, it finds its own volume by the prefix of the name and mounts it into containers that
were added.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from muster.apiserver import errors
from muster.apiserver.admission.chain import Operation
from muster.apiserver.admission.pods import PODS, display_name, is_new_pod
from muster.apiserver.context import Context
from muster.apiserver.objects import object_key
from muster.apiserver.registry.resource import ServedResource
from muster.kube.names import generate_name
from muster.machinery.objects import Object

TOKEN_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_DEFAULT: Final = "default"
_VOLUME_PREFIX: Final = "kube-api-access-"
_TOKEN_SECONDS: Final = 3607
_RETRY_INTERVAL: Final = 0.05
_RETRIES: Final = 20


class ServiceAccount:
    resources: Final = PODS

    async def mutate(self, ctx: Context, resource: ServedResource, operation: Operation) -> Object | None:
        pod = operation.new
        if pod is None or not is_new_pod(ctx, resource, operation):
            return pod
        spec = pod["spec"]
        name = spec.get("serviceAccountName") or _DEFAULT
        spec["serviceAccountName"] = spec["serviceAccount"] = name
        account = await _find_account(ctx, pod, name)
        if _wants_token(spec, account):
            if ctx.is_large():  # slow with many containers
                await ctx.run_in_worker(mount_token, spec)
            else:
                mount_token(spec)
        if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
            spec["imagePullSecrets"] = [dict(secret) for secret in account["imagePullSecrets"]]
        return pod


async def _find_account(ctx: Context, pod: Object, name: str) -> Object:
    namespace = ctx.namespace
    for _ in range(_RETRIES):
        account = ctx.read("/serviceaccounts", object_key(namespace, name))
        if account is not None:
            return account
        if name != _DEFAULT:
            break
        await asyncio.sleep(_RETRY_INTERVAL)
    text = f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not found'
    raise errors.forbidden("", "pods", display_name(pod), text)


def _wants_token(spec: Object, account: Object) -> bool:
    automount = spec.get("automountServiceAccountToken")
    return bool(account.get("automountServiceAccountToken", True) if automount is None else automount)


def mount_token(spec: Object) -> None:
    """Add the token volume, and mount it into every container that has no other mount at that path."""
    volumes = spec.get("volumes") or ()
    found = next((name for volume in volumes if (name := str(volume.get("name", ""))).startswith(_VOLUME_PREFIX)), "")
    name = found or generate_name(_VOLUME_PREFIX)
    mounted = False
    for group in ("initContainers", "containers"):
        for container in spec.get(group) or ():
            mounts = container.get("volumeMounts") or ()
            if not any(mount.get("mountPath") == TOKEN_PATH for mount in mounts):
                container["volumeMounts"] = [*mounts, {"name": name, "readOnly": True, "mountPath": TOKEN_PATH}]
                mounted = True
    if mounted and not found:
        spec["volumes"] = [*volumes, _token_volume(name)]


def _token_volume(name: str) -> Object:
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    sources: list[dict[str, Any]] = [
        {"serviceAccountToken": {"expirationSeconds": _TOKEN_SECONDS, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [namespace]}},
    ]
    return {"name": name, "projected": {"sources": sources, "defaultMode": 420}}
