"""Pod subresources that a kubelet serves in other clusters: logs, and exec, attach and port-forward, which are not offered here.

Logs are read from the cluster's `Node`. The log of a pod without a node is empty, as in kube-apiserver; a pod on a node that nobody
serves is an error. Without `follow` the log is one complete answer; with it, it is streamed until the container stops or the client
disconnects.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from muster.apiserver import errors
from muster.apiserver.context import Context
from muster.apiserver.nodes import LogOptions, NoLogs, limited, send_log, terminal_unsupported
from muster.apiserver.objects import object_key
from muster.apiserver.presentation.negotiation import ACCEPTED, check_produced
from muster.apiserver.presentation.responses import NO_CACHE
from muster.apiserver.registry.resource import ServedResource
from muster.http import Response, StreamResponse, StreamWriter
from muster.kube.fielderrors import FieldError, forbidden, invalid
from muster.machinery.objects import Object

TEXT = "text/plain"


async def serve_log(ctx: Context, resource: ServedResource, name: str) -> Response | StreamResponse:
    check_produced(ctx.accept, f"{ACCEPTED}, {TEXT}")
    options = _log_options(ctx, name)
    pod = _pod(ctx, resource, name)
    container = options.container or _only_container(pod, name)
    if not any(found.get("name") == container for found in _containers(pod)):
        raise errors.bad_request(f"container {container} is not valid for pod {name}")
    if not pod["spec"].get("nodeName"):
        return Response(204, b"", [NO_CACHE])
    if ctx.cluster.node is None:
        raise _no_kubelet(ctx, pod)
    try:
        pieces = await ctx.cluster.node.logs(pod, replace(options, container=container))
    except NoLogs as problem:
        raise errors.bad_request(str(problem)) from None
    if not options.follow:
        return Response(200, [piece async for piece in limited(pieces, options.limit_bytes)], [NO_CACHE], TEXT)

    async def run(writer: StreamWriter) -> None:
        await send_log(limited(pieces, options.limit_bytes), writer)

    return StreamResponse(200, [("Content-Type", TEXT), NO_CACHE], run)


async def reject_terminal(ctx: Context, resource: ServedResource, name: str) -> Response:
    """exec, attach and port-forward."""
    pod = _pod(ctx, resource, name)
    if not pod["spec"].get("nodeName"):
        raise errors.bad_request(f"pod {name} does not have a host assigned")
    if ctx.cluster.node is None:
        raise _no_kubelet(ctx, pod)
    raise errors.ApiError(501, "NotImplemented", terminal_unsupported(ctx.attributes.subresource, pod))


def _pod(ctx: Context, resource: ServedResource, name: str) -> Object:
    pod = ctx.read(resource.storage, object_key(ctx.attributes.namespace, name))
    if pod is None:
        raise errors.not_found(resource, name)
    return pod


def _no_kubelet(ctx: Context, pod: Object) -> errors.ApiError:
    node = pod["spec"]["nodeName"]
    if ctx.read("/nodes", node) is None:
        # kube-apiserver reports the name of the node with the resource pods.
        return errors.not_found_named("", "pods", node)
    return errors.internal(f"nothing runs the pods of node {node}")


def _containers(pod: Object) -> list[Object]:
    spec = pod["spec"]
    return [found for group in ("initContainers", "containers", "ephemeralContainers") for found in spec.get(group) or ()]


def _only_container(pod: Object, name: str) -> str:
    containers = pod["spec"].get("containers") or []
    if len(containers) == 1:
        return str(containers[0]["name"])
    listed = " ".join(container["name"] for container in _containers(pod))
    raise errors.bad_request(f"a container name must be specified for pod {name}, choose one of: [{listed}]")


def _log_options(ctx: Context, name: str) -> LogOptions:
    query = ctx.query
    options = LogOptions(
        query.get("container"),
        query.flag("follow"),
        query.flag("previous"),
        query.flag("timestamps"),
        query.integer("sinceSeconds"),
        _parse_time(query.get("sinceTime")),
        query.integer("tailLines"),
        query.integer("limitBytes"),
    )
    problems: list[FieldError] = []
    if options.tail_lines is not None and options.tail_lines < 0:
        problems.append(invalid("tailLines", options.tail_lines, "must be greater than or equal to 0"))
    if options.limit_bytes is not None and options.limit_bytes < 1:
        problems.append(invalid("limitBytes", options.limit_bytes, "must be greater than 0"))
    if options.since_seconds is not None and options.since_time is not None:
        problems.append(forbidden("[]", "at most one of `sinceTime` or `sinceSeconds` may be specified"))
    elif options.since_seconds is not None and options.since_seconds < 1:
        problems.append(invalid("sinceSeconds", options.since_seconds, "must be greater than 0"))
    if problems:
        raise errors.invalid("", "PodLogOptions", name, problems)
    return options


def _parse_time(text: str) -> datetime | None:
    if not text:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise errors.bad_request(f"sinceTime: {text!r} is not an RFC 3339 time") from None
    if time.tzinfo is None:
        raise errors.bad_request(f"sinceTime: {text!r} has no time zone")
    return time
