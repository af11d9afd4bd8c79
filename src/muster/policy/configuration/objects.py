"""Evaluates the objects of a template: a named one, or any that match.

A template without a name stands for objects of its kind (in a namespace) that match its fields. No match violates `musthave`,
one match violates `mustnothave`. It is unknown which of several objects was intended, so these are never enforced; a single
match is compared like a named object.
"""

from __future__ import annotations

from dataclasses import dataclass

from muster.kube.selectors import SelectorError
from muster.machinery.objects import GVR, Object
from muster.policy.comparison import matches
from muster.policy.configuration import results
from muster.policy.configuration.definitions import Definition
from muster.policy.configuration.desired import METHOD_NOT_ALLOWED, object_selector, unwatchable
from muster.policy.configuration.related import ANY_NAME, related_object
from muster.policy.configuration.remediation import Remediation, TargetObject
from muster.policy.configuration.results import ObjectEvent, ObjectResult
from muster.policy.resolver.interfaces import ObjectSource
from muster.runtime.cache import Selection
from muster.runtime.client import KubeError


@dataclass(frozen=True)
class ObjectEvaluator:
    source: ObjectSource
    remediation: Remediation
    enforce: bool

    async def evaluate(self, definition: Definition, resource: GVR, desired: Object, *, sensitive: bool) -> ObjectResult:
        metadata = desired["metadata"]
        name, namespace = metadata.get("name", ""), metadata.get("namespace", "")
        try:
            if name:
                found = await self.source.read(Selection(resource, namespace, name))
                existing, enforce = (found[0] if found else None), self.enforce
            else:
                # An invalid objectSelector was already reported when objects were selected.
                selection = Selection(resource, namespace, label_selector=object_selector(definition))
                found = await self.source.read(selection)
                fitting = [obj for obj in found if matches(desired, obj, compliance=definition.compliance)]
                if len(fitting) != 1:
                    return self._fitting(definition, resource, desired, fitting, bool(found))
                existing, enforce = fitting[0], False
                name = fitting[0]["metadata"]["name"]
        except (KubeError, SelectorError) as error:
            return self._unread(definition, name, error)
        target = TargetObject(definition, resource, desired, name, namespace, existing, enforce, sensitive)
        return await self.remediation.remediate(target)

    def _unread(self, definition: Definition, name: str, error: Exception) -> ObjectResult:
        names = (name,) if name else ()
        if self.remediation.watching and getattr(error, "code", 0) == METHOD_NOT_ALLOWED:
            return ObjectResult((ObjectEvent(False, results.UNWATCHABLE, unwatchable(definition.index, error)),), names)
        message = f"Error retrieving an object for object-template at index [{definition.index}]: {error}"
        return ObjectResult((ObjectEvent(False, results.API_ERROR, message),), names, error=error)

    def _fitting(self, definition: Definition, resource: GVR, desired: Object, fitting: list[Object], others: bool) -> ObjectResult:
        """No object or several objects match; `others` tells whether there are any objects at all."""
        if definition.is_mustnothave:
            event = ObjectEvent(False, results.UNWANTED) if fitting else ObjectEvent(True, results.ABSENT)
        elif fitting:
            event = ObjectEvent(True, results.FOUND)
        else:
            event = ObjectEvent(False, results.NO_MATCH if others else results.NOT_FOUND)
        names = tuple(obj["metadata"]["name"] for obj in fitting)
        kind, namespace = desired.get("kind") or definition.kind, desired["metadata"].get("namespace", "")
        related = tuple(
            related_object(resource, kind, namespace, name, compliant=event.compliant, reason=event.reason)
            for name in names or (ANY_NAME,)
        )
        return ObjectResult((event,), names, related)
