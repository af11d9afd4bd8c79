"""One evaluation of a ConfigurationPolicy: all its object templates, and the resulting status.

For each template: the desired objects (`desired`), the comparison and remediation of each (`objects`, `remediation`), and the
aggregation to one condition (`aggregation`). An error of one template does not affect the others; what is unknown is kept from
the last status.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from muster.api.policy.v1 import ConfigurationPolicyStatus, EvaluationInterval, RelatedObject, TemplateStatus
from muster.machinery.logs import get_logger
from muster.machinery.objects import Object
from muster.policy.configuration import results
from muster.policy.configuration.aggregation import ObjectKey, batches
from muster.policy.configuration.conditions import compliance, condition, is_compliant, set_detail, untimed
from muster.policy.configuration.definitions import Definition, InvalidDefinition, has_template
from muster.policy.configuration.desired import Desired, DesiredObjects, MappingError
from muster.policy.configuration.interfaces import Cluster, Evaluation, EvaluationOptions, TemplateResolver
from muster.policy.configuration.objects import ObjectEvaluator
from muster.policy.configuration.raw_templates import RawTemplatesError, resolve_raw
from muster.policy.configuration.related import add_related, settled
from muster.policy.configuration.remediation import Remediation
from muster.policy.configuration.results import ObjectEvent, ObjectResult
from muster.policy.names import DISABLE_TEMPLATES_ANNOTATION
from muster.policy.resolver.interfaces import ResolveOptions

MAPPING_RETRY: Final = 10.0
"""Seconds until a kind that the cluster does not serve is looked up again."""
_TRUE: Final = frozenset(("1", "t", "T", "TRUE", "true", "True"))

log = get_logger("muster.policy")


async def evaluate(
    policy: Object,
    cluster: Cluster,
    resolver: TemplateResolver,
    options: EvaluationOptions,
    previous: ConfigurationPolicyStatus,
) -> Evaluation:
    """`previous` is the policy's last status: its related objects and conditions decide what is kept and reported again."""
    metadata, spec = policy["metadata"], policy.get("spec") or {}
    if previous.last_evaluated_generation != metadata.get("generation", 0):
        cluster.evaluated.forget(metadata.get("uid") or "")
    if not spec.get("remediationAction"):
        message = "Policy does not have a RemediationAction specified"
        return policy_failure(policy, "Invalid spec", message, previous, invalid=True)
    disabled = (metadata.get("annotations") or {}).get(DISABLE_TEMPLATES_ANNOTATION) in _TRUE
    templates: Sequence[Any] = spec.get("object-templates") or ()
    raw = spec.get("object-templates-raw") or ""
    resolve_options = ResolveOptions(denylist=options.denylist, encryption=options.encryption, sensitive=options.sensitive)
    if raw and not disabled:
        try:
            # Upstream's context is nil when it watches what is read (every variable is <no value>), otherwise an empty struct.
            raw_options = replace(resolve_options, context=None if options.watching else {})
            templates = await resolve_raw(raw, resolver, cluster.source, raw_options)
        except RawTemplatesError as error:
            return policy_failure(policy, results.TEMPLATE_ERROR, str(error), previous, invalid=error.invalid, error=error)
        if has_template(raw):
            cluster.evaluated.forget(metadata.get("uid") or "")
        disabled = True
    if not templates:
        message = f"{metadata.get('name', '')} contains no object templates to check, and thus has no violations"
        return _for_policy(policy, True, "No object templates", message, ())
    desired = DesiredObjects(
        metadata.get("name", ""),
        spec.get("namespaceSelector") or {},
        cluster.source,
        None if disabled else resolver,
        resolve_options,
        options.drop_terminating_namespaces,
    )
    run = _Run(policy, cluster, options, previous, desired, len(templates))
    for index, template in enumerate(templates):
        await run.evaluate(index, template)
    cluster.evaluated.finish(metadata.get("uid") or "")
    return run.evaluation()


def policy_failure(
    policy: Object,
    reason: str,
    message: str,
    previous: ConfigurationPolicyStatus,
    *,
    invalid: bool = False,
    error: Exception | None = None,
) -> Evaluation:
    """The result if a policy could not be evaluated at all (because of its hub templates, encryption or raw templates): nothing
    is known about its objects, so related objects are kept."""
    return _for_policy(
        policy,
        False,
        reason,
        message,
        previous.related_objects,
        failed=True,
        invalid=invalid,
        errors=() if error is None or invalid else (error,),
    )


def _for_policy(
    policy: Object, compliant: bool, reason: str, message: str, related: tuple[RelatedObject, ...], **more: Any
) -> Evaluation:
    details = (condition(compliant, reason, message, _interval(policy)),)
    return Evaluation(compliance(details), details, related, for_policy=True, **more)


def _interval(policy: Object) -> EvaluationInterval:
    given = (policy.get("spec") or {}).get("evaluationInterval") or {}
    return EvaluationInterval(compliant=given.get("compliant") or "", noncompliant=given.get("noncompliant") or "")


class _Run:
    """The state of one evaluation."""

    def __init__(
        self,
        policy: Object,
        cluster: Cluster,
        options: EvaluationOptions,
        previous: ConfigurationPolicyStatus,
        desired: DesiredObjects,
        templates: int,
    ) -> None:
        metadata = policy["metadata"]
        self._previous = previous
        self._interval = _interval(policy)
        self._desired = desired
        self._sensitive = options.sensitive
        self._evaluated = cluster.evaluated
        self._uid = metadata.get("uid") or ""
        remediation = Remediation(
            self._uid,
            cluster.client,
            cluster.source,
            cluster.evaluated,
            cluster.clock,
            options.watching,
            options.full_diffs,
            previous.related_objects,
            cluster.on_compared,
        )
        enforce = policy["spec"]["remediationAction"].lower() == "enforce"
        self._objects = ObjectEvaluator(cluster.source, remediation, enforce)
        self._details = untimed(previous.compliancy_details[:templates])
        self._batches: list[tuple[TemplateStatus, ...]] = []
        self._related: list[RelatedObject] = []
        self._errors: list[Exception] = []
        self._failed = False

    async def evaluate(self, index: int, template: Any) -> None:
        try:
            plural, found = await self._template(index, template)
        except Exception as error:
            # An unexpected error must not affect other templates. Its text may contain secrets.
            log.error("object template failed", policy=self._desired.policy_name, index=index, error=type(error).__name__)
            message = f"The object template at index [{index}] could not be evaluated: {type(error).__name__}"
            self._failed = True
            plural, found = "", _only(ObjectEvent(False, results.TEMPLATE_ERROR, message))
        if found:
            self._report(index, plural, found)

    async def _template(self, index: int, template: Any) -> tuple[str, Mapping[ObjectKey, ObjectResult]]:
        """The plural name of the resource, and the result of each object."""
        try:
            definition = Definition.read(index, template)
        except InvalidDefinition:
            self._failed = True
            message = "Error parsing the namespace from the object definition"
            return "", _only(ObjectEvent(False, results.DECODE_ERROR, message))
        if definition.has_template and self._desired.resolver is not None:
            self._evaluated.forget(self._uid)
        desired = await self._desired.find(definition)
        add_related(self._related, desired.related)
        if desired.error is not None:
            self._errors.append(desired.error)
            self._failed = True
        plural = "" if desired.resource is None else desired.resource.plural
        if desired.event is not None:
            return plural, _only(desired.event)
        return plural, await self._results(definition, desired)

    async def _results(self, definition: Definition, desired: Desired) -> Mapping[ObjectKey, ObjectResult]:
        found: dict[ObjectKey, ObjectResult] = {}
        if desired.resource is None:
            return found
        for obj in desired.objects:
            sensitive = self._sensitive or desired.sensitive
            result = await self._objects.evaluate(definition, desired.resource, obj, sensitive=sensitive)
            if result.error is not None:
                self._errors.append(result.error)
            add_related(self._related, result.related)
            metadata = obj["metadata"]
            found[ObjectKey(metadata.get("namespace", ""), metadata.get("name", ""))] = result
        return found

    def _report(self, index: int, plural: str, found: Mapping[ObjectKey, ObjectResult]) -> None:
        entries = [condition(*batch, self._interval) for batch in batches(plural, found)]
        # A failed attempt that the status already contains is not reported each time.
        if len(entries) > 1 and not is_compliant(entries[-1]) and self._details[index : index + 1] == entries[-1:]:
            return
        for at, entry in enumerate(entries):
            if set_detail(self._details, index, entry) and at < len(entries) - 1:
                self._batches.append(tuple(self._details))

    def evaluation(self) -> Evaluation:
        related = settled(self._related, self._previous.related_objects)
        unmapped = any(isinstance(error, MappingError) for error in self._errors)
        followed = self._interval.noncompliant in ("", "watch")
        return Evaluation(
            compliance(self._details),
            tuple(self._details),
            related,
            tuple(self._batches),
            failed=self._failed,
            errors=tuple(self._errors),
            retry_after=MAPPING_RETRY if unmapped and followed else None,
            created=frozenset(_created(related) - _created(self._previous.related_objects)),
        )


def _only(event: ObjectEvent) -> Mapping[ObjectKey, ObjectResult]:
    return {ObjectKey("", ""): ObjectResult((event,))}


def _created(related: Sequence[RelatedObject]) -> set[str]:
    return {entry.properties.uid for entry in related if entry.properties is not None and entry.properties.created_by_policy}
