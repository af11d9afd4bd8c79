"""What a ConfigurationPolicy says of its compliance: `<State>; <type> - <message>; …`, or what its own template makes of that.

A `customMessage` is a Go template with sprig's functions. It is given the message that would have been, and the policy with its
new status, by the names that people write; the objects behind `relatedObjects` are whole where they are followed anyway. The policy
framework knows a message by the state that it begins with, therefore that is put before a message which does not. A template that
fails costs nothing but its own message. One may take as long as any
other template: who has others waiting renders it in a thread.
"""

from __future__ import annotations

from collections.abc import Mapping

from muster.api.policy.v1 import ConfigurationPolicyStatus, RelatedResource
from muster.api.resource import known_fields
from muster.gotemplate import ParseError, Template, TemplateError
from muster.gotemplate.values import int64s
from muster.machinery.objects import Object
from muster.policy.reporting import COMPLIANT
from muster.policy.resolver.functions import denied_functions

UNKNOWN = "ComplianceState is still unknown"


def default_message(status: ConfigurationPolicyStatus) -> str:
    """One segment per object template, the first condition of each."""
    if not status.compliant:
        return UNKNOWN
    if not all(one.conditions for one in status.compliancy_details):
        # Of a template about which nothing is known upstream's cannot speak either: the framework is told the state.
        return status.compliant
    said = [f"{one.conditions[0].type} - {one.conditions[0].message}" for one in status.compliancy_details]
    return "; ".join((status.compliant, *said))


def custom_template(policy: Object, compliant: str) -> str:
    """The policy's own template for its message in this state; empty when it has none."""
    custom = (policy.get("spec") or {}).get("customMessage") or {}
    return str(custom.get("compliant" if compliant == COMPLIANT else "noncompliant") or "")


def policy_message(
    policy: Object,
    status: ConfigurationPolicyStatus,
    objects: Mapping[RelatedResource, Object] | None = None,
    denylist: frozenset[str] = frozenset(),
) -> str:
    """The message of the policy, a document with hub templates resolved, once it has this status. `objects` are those that stand
    for themselves in `relatedObjects`; functions of the denylist fail when they are called."""
    default = default_message(status)
    template = custom_template(policy, status.compliant)
    if not template:
        return default
    try:
        message = Template(template, name="custom-msg", funcs=denied_functions(denylist)).render(
            {"DefaultMessage": default, "Policy": int64s(_with_status(policy, status, objects or {}))}
        )
    except TemplateError as error:
        step = "failed to parse custom template" if isinstance(error, ParseError) else "failed to execute"
        return f"{default} (failure processing the custom message: {step}: {error})"
    prefix = f"{status.compliant}; "
    return message if message.startswith(prefix) else prefix + message


def _with_status(policy: Object, status: ConfigurationPolicyStatus, objects: Mapping[RelatedResource, Object]) -> Object:
    document = known_fields(status)
    for related, shown in zip(status.related_objects, document.get("relatedObjects", ()), strict=False):
        if related.object in objects:
            shown["object"] = objects[related.object]
    return {**policy, "status": document}
