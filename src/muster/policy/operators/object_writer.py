"""Executes the writes of decisions.

A write is for exactly the object that the decision was about, by resourceVersion or uid. If the cache was stale, the server
answers with a Conflict, after which everything is read and decided again. An object with a generated name could be created twice
nevertheless, so the server is asked before.
"""

from __future__ import annotations

from muster.machinery.logs import get_logger
from muster.machinery.objects import Object
from muster.policy.operators.kinds import name_of, namespace_of, text_at, uid_of
from muster.policy.operators.steps import Create, Delete, Patch, Update, Write
from muster.runtime.client import AlreadyExists, Conflict, KubeClient, NotFound
from muster.runtime.client.builtin import NAMESPACES

log = get_logger("muster.policy.operators")


async def write_object(client: KubeClient, write: Write) -> Object:
    """The server's answer. Raises KubeError: Conflict if the object has changed since the decision."""
    obj = write.obj
    match write:
        case Create():
            answer = await _create(client, write)
        case Update():
            answer = await client.update(write.resource, obj)
        case Patch():
            read = {"uid": uid_of(obj), "resourceVersion": text_at(obj, "metadata", "resourceVersion")}
            patch = {**write.patch, "metadata": read}
            answer = await client.patch(write.resource, name_of(obj), patch, namespace_of(obj), subresource=write.subresource)
        case Delete():
            answer = await _delete(client, write)
    log.info(
        "object written",
        verb=type(write).__name__.lower(),
        kind=write.resource.kind,
        namespace=namespace_of(obj),
        name=name_of(obj) or name_of(answer),
    )
    return answer


async def _create(client: KubeClient, write: Create) -> Object:
    """Creates the namespace too, if it is missing."""
    namespace = namespace_of(write.obj)
    if not name_of(write.obj) and (await client.list(write.resource, namespace)).items:
        raise Conflict(409, "Conflict", f"{namespace} already has one of {write.resource}")
    try:
        return await client.create(write.resource, write.obj, namespace)
    except AlreadyExists as error:
        raise Conflict(error.code, "Conflict", error.message, error.details) from error
    except NotFound as error:
        if error.details.get("kind") != "namespaces":
            raise
    await _create_namespace(client, namespace)
    return await client.create(write.resource, write.obj, namespace)


async def _create_namespace(client: KubeClient, name: str) -> None:
    try:
        await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    except AlreadyExists:
        return
    log.info("object written", verb="create", kind=NAMESPACES.kind, namespace="", name=name)


async def _delete(client: KubeClient, write: Delete) -> Object:
    try:
        return await client.delete(write.resource, name_of(write.obj), namespace_of(write.obj), uid=uid_of(write.obj))
    except NotFound:
        return write.obj
