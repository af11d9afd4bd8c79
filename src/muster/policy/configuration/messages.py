"""The compliance message of a ConfigurationPolicy: `<State>; <type> - <message>; …`, or the output of its `customMessage`.

A `customMessage` is a Go template with sprig's functions. Its context contains the default message, and the policy with its new
status; `relatedObjects` contain whole objects where these are watched anyway. The policy framework parses the state at the
beginning of a message, so it is prepended to a message without it. A failing template only affects its own message. Rendering
may take as long as any other template, so callers with other tasks do it in a thread.
"""

from __future__ import annotations

from collections.abc import Mapping

from muster.api.policy.v1 import ConfigurationPolicyStatus, RelatedResource
from muster.api.resource import known_fields
from muster.gotemplate import ParseError, Template, TemplateError
from muster.gotemplate.values import int64s
from muster.machinery.objects import Object
from muster.policy.reporter import COMPLIANT
from muster.policy.resolver.functions import denied_functions

UNKNOWN = "ComplianceState is still unknown"


def default_message(status: ConfigurationPolicyStatus) -> str:
    """One segment per object template, with its first condition."""
    if not status.compliant:
        return UNKNOWN
    if not all(one.conditions for one in status.compliancy_details):
        # Upstream cannot report a template without a condition either: the framework gets the state.
        return status.compliant
    messages = [f"{one.conditions[0].type} - {one.conditions[0].message}" for one in status.compliancy_details]
    return "; ".join((status.compliant, *messages))


def custom_template(policy: Object, compliant: str) -> str:
    """The policy's template for the message in this state; empty without one."""
    custom = (policy.get("spec") or {}).get("customMessage") or {}
    return str(custom.get("compliant" if compliant == COMPLIANT else "noncompliant") or "")


def policy_message(
    policy: Object,
    status: ConfigurationPolicyStatus,
    objects: Mapping[RelatedResource, Object] | None = None,
    denylist: frozenset[str] = frozenset(),
) -> str:
    """The message of the policy (a document with resolved hub templates) with this status. `objects` replace the entries in
    `relatedObjects`; functions in the denylist fail when called."""
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
