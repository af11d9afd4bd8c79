"""The DefaultTolerationSeconds plugin: by default pods tolerate a not-ready or unreachable node for five minutes."""

from __future__ import annotations

from typing import Final

from muster.apiserver.admission.chain import Operation
from muster.apiserver.admission.pods import PODS, is_pod_write
from muster.apiserver.context import Context
from muster.apiserver.registry.resource import ServedResource
from muster.machinery.objects import Object

_EVICTION_SECONDS: Final = 300
_TAINTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


class DefaultTolerationSeconds:
    resources: Final = PODS

    async def mutate(self, ctx: Context, resource: ServedResource, operation: Operation) -> Object | None:
        pod = operation.new
        if pod is not None and is_pod_write(ctx, resource):
            _add_tolerations(pod["spec"])
        return pod


def _add_tolerations(spec: Object) -> None:
    tolerations = list(spec.get("tolerations") or ())
    for taint in _TAINTS:
        if not any(t.get("key", "") in ("", taint) and t.get("effect", "") in ("", "NoExecute") for t in tolerations):
            added = {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _EVICTION_SECONDS}
            tolerations.append(added)
    spec["tolerations"] = tolerations
