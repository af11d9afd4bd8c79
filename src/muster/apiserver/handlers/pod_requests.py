"""Pod subresources that are requests, not objects: binding and eviction."""

from __future__ import annotations

from muster.apiserver import errors
from muster.apiserver.admission.chain import AdmissionChain
from muster.apiserver.bodies import decode_body
from muster.apiserver.builtin.strategy import request_type
from muster.apiserver.context import Context
from muster.apiserver.handlers.deletion import DeleteOptions, delete_object
from muster.apiserver.handlers.writes import update_object
from muster.apiserver.presentation.negotiation import negotiate_object
from muster.apiserver.presentation.responses import respond_object
from muster.apiserver.registry.resource import ServedResource
from muster.apiserver.request import write_options
from muster.http import Response
from muster.kube.fielderrors import not_supported, required
from muster.machinery.objects import Object

_SUCCESS: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


_BINDING = "pods/binding"
_TARGETS = (None, "", "Node")


async def bind_pod(ctx: Context, resource: ServedResource, name: str) -> Response:
    options = write_options(ctx.query, "CreateOptions")
    row = request_type("", "v1", "Binding")
    binding = await decode_body(ctx, row, options)
    binding = await ctx.cluster.part(AdmissionChain).admit_request(ctx, resource, binding, options.dry_run)
    if binding["metadata"].get("name", "") != name:
        raise errors.bad_request("name in URL does not match name in Binding object")
    target = binding.get("target") or {}
    node = target.get("name", "")
    problems = [not_supported("target.kind", target["kind"], ["Node", "<empty>"])] if target.get("kind") not in _TARGETS else []
    problems += [] if node else [required("target.name")]
    if problems:
        # As upstream, which returns these validation errors as an internal error without a reason.
        raise errors.ApiError(500, "", errors.aggregated(str(problem) for problem in problems))

    def bind(pod: Object) -> Object:
        if pod["metadata"].get("deletionTimestamp"):
            raise errors.conflict_named("", _BINDING, name, f"pod {name} is being deleted, cannot be assigned to a host")
        if pod["spec"].get("nodeName"):
            raise errors.conflict_named("", _BINDING, name, f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"')
        pod["spec"]["nodeName"] = node
        conditions = [c for c in pod.setdefault("status", {}).get("conditions") or () if c.get("type") != "PodScheduled"]
        conditions.append({"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": ctx.now()})
        pod["status"]["conditions"] = conditions
        return pod

    await update_object(ctx, resource, name, bind, options)
    return respond_object(ctx, None, _SUCCESS, 201, negotiate_object(ctx.accept))


async def evict_pod(ctx: Context, resource: ServedResource, name: str) -> Response:
    """Delete the pod with the options of the eviction. PodDisruptionBudgets are not evaluated, because there is no disruption
    controller."""
    options = write_options(ctx.query, "CreateOptions")
    eviction = await decode_body(ctx, request_type("policy", "v1", "Eviction"), options)
    eviction = await ctx.cluster.part(AdmissionChain).admit_request(ctx, resource, eviction, options.dry_run)
    options_of_eviction = eviction.get("deleteOptions") or {}
    preconditions = options_of_eviction.get("preconditions") or {}
    request = DeleteOptions(
        dry_run=options.dry_run or bool(options_of_eviction.get("dryRun")),
        policy=options_of_eviction.get("propagationPolicy") or "",
        grace=options_of_eviction.get("gracePeriodSeconds"),
        uid=preconditions.get("uid"),
        resource_version=preconditions.get("resourceVersion"),
    )
    await delete_object(ctx, resource, ctx.attributes.namespace, name, request)
    return respond_object(ctx, None, _SUCCESS, 201, negotiate_object(ctx.accept))
