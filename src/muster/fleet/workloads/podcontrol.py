"""Creates pods from templates and deletes them for their owner, with the events of the real controllers (as PodControl).

It also maps changes of pods to keys: of their owners, or of those that may adopt them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from muster.fleet.attached import Attached, Change, controller_of, owner_keys, reference
from muster.kube.selectors import Selector, from_label_selector_object
from muster.machinery.objects import GVR, Object
from muster.runtime.client import Conflict, NotFound, StatusError
from muster.runtime.client.builtin import PODS

NAMESPACE_TERMINATING = "NamespaceTerminating"
TEMPLATE_METADATA = ("labels", "annotations", "finalizers")


def pod_from_template(owner: Object, kind: GVR, template: Object) -> Object:
    """A pod of the owner; the server generates its name unless the caller sets one."""
    metadata = template.get("metadata") or {}
    kept = {name: metadata[name] for name in TEMPLATE_METADATA if metadata.get(name)}
    owners = [reference(owner, kind.api_version, kind.kind)]
    named = {"generateName": f"{owner['metadata']['name']}-", "ownerReferences": owners}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {**kept, **named}, "spec": template["spec"]}


def is_namespace_terminating(problem: StatusError) -> bool:
    """Whether the error means that the namespace is being deleted, which needs no event."""
    return any(cause.get("reason") == NAMESPACE_TERMINATING for cause in problem.causes)


async def create_pod(attached: Attached, owner: Object, pod: Object) -> Object | None:
    """The created pod; None in a namespace that is being deleted.

    Raises `StatusError` when it is refused otherwise, after recording an event.
    """
    try:
        made = await attached.controllers.create(PODS, pod, owner["metadata"]["namespace"])
    except StatusError as problem:
        if is_namespace_terminating(problem):
            return None
        attached.events.event(owner, "Warning", "FailedCreate", f"Error creating: {problem}")
        raise
    attached.events.event(owner, "Normal", "SuccessfulCreate", f"Created pod: {made['metadata']['name']}")
    return made


async def delete_pod(attached: Attached, owner: Object, pod: Object) -> bool:
    """Returns whether the pod existed."""
    metadata = pod["metadata"]
    try:
        await attached.controllers.delete(PODS, metadata["name"], metadata["namespace"], uid=metadata["uid"])
    except (NotFound, Conflict):
        return False
    except StatusError as problem:
        attached.events.event(owner, "Warning", "FailedDelete", f"Error deleting: {problem}")
        raise
    attached.events.event(owner, "Normal", "SuccessfulDelete", f"Deleted pod: {metadata['name']}")
    return True


def selector_of(owner: Object) -> Selector:
    return from_label_selector_object(owner["spec"].get("selector"))


def keys_of_owned(
    attached: Attached, change: Change, kind: GVR, selector: Callable[[Object], Selector] = selector_of
) -> Iterable[str]:
    """Keys of the objects of a kind that own, or could adopt, the changed object."""
    return owner_keys(change, kind.kind) or _adopters(attached, change, kind, selector)


def _adopters(attached: Attached, change: Change, kind: GVR, selector: Callable[[Object], Selector]) -> Sequence[str]:
    found = change.versions()[0]
    if change.deleted or controller_of(found) is not None:
        return ()
    labels, namespace = found["metadata"].get("labels") or {}, found["metadata"]["namespace"]
    owners = attached.view.scan(kind, namespace) if labels else ()
    return [f"{namespace}/{each['metadata']['name']}" for each in owners if selector(each).matches(labels)]


def owned(obj: Object, owner: Object) -> bool:
    """Whether the object's controller is this one."""
    controller = controller_of(obj)
    return controller is not None and controller.get("uid") == owner["metadata"]["uid"]
