"""ValidatingAdmissionPolicies of one cluster: rules in CEL that bindings put into effect. Follows
`k8s.io/apiserver/pkg/admission/plugin/policy/validating`.

A policy defines which operations it matches and which expressions must be true. Each matching binding evaluates it, once per
parameter object. A failure is denied, returned as a warning, or only audited, as the binding specifies; the answer shows the first
denial. Policies are compiled when one of them changes; a cluster without policies pays two lookups per write.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from muster.apiserver import errors
from muster.apiserver.admission.attributes import AdmissionAttributes, is_exempt, new_forbidden
from muster.apiserver.admission.chain import Operation
from muster.apiserver.admission.expressions import MatchConditions, activation, namespace_view
from muster.apiserver.admission.matcher import Matcher
from muster.apiserver.admission.params import Misconfigured, collect_params, params_row
from muster.apiserver.cel_environment import OUT_OF_BUDGET, Compiled, Composition, compile_expression, environment
from muster.apiserver.cluster import Cluster
from muster.apiserver.context import Context
from muster.apiserver.registry.resource import ServedResource
from muster.cel import (
    NULL,
    RUNTIME_COST_BUDGET,
    STRING,
    CostBudget,
    CostExceeded,
    EvaluationError,
    LazyMap,
)
from muster.machinery.objects import Object

POLICIES: Final = "admissionregistration.k8s.io/validatingadmissionpolicies"
BINDINGS: Final = "admissionregistration.k8s.io/validatingadmissionpolicybindings"
_MAX_MESSAGE_BYTES: Final = 5 * 1024
_CODES: Final = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413}


@dataclass(frozen=True, slots=True)
class Failure:
    """One validation that is false, or whose evaluation failed under failurePolicy Fail."""

    message: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class _Validation:
    expression: Compiled
    message_expression: Compiled | None
    message: str
    reason: str


@dataclass(frozen=True, slots=True)
class Binding:
    name: str
    matcher: Matcher | None
    param_reference: Mapping[str, Any] | None
    actions: Sequence[str]


class Policy:
    """A compiled policy with its bindings."""

    def __init__(self, raw: Object, bound: Sequence[Object]) -> None:
        spec = raw["spec"]
        self.name: str = raw["metadata"]["name"]
        self.fail_on_error = spec.get("failurePolicy") != "Ignore"
        self.param_kind: Mapping[str, Any] | None = spec.get("paramKind")
        self.matcher = _matcher(spec.get("matchConstraints") or {})
        self.bindings = [_binding(binding) for binding in bound]
        params = self.param_kind is not None
        composition = Composition(spec.get("variables") or (), params)
        full, plain = composition.environment(), composition.environment(authorizer=False)
        self._variables = composition.compiled
        conditions = spec.get("matchConditions")
        self._conditions = MatchConditions(conditions, environment(params), self.fail_on_error) if conditions else None
        self._validations = [
            _Validation(
                compile_expression(validation.get("expression") or "", full),
                compile_expression(text, plain, (STRING,)) if (text := validation.get("messageExpression")) else None,
                (validation.get("message") or "").strip(),
                validation.get("reason") or "Invalid",
            )
            for validation in spec.get("validations") or ()
        ]
        self._annotations = [
            compile_expression(annotation.get("valueExpression") or "", full, (STRING, NULL))
            for annotation in spec.get("auditAnnotations") or ()
        ]

    def evaluate(self, values: dict[str, Any]) -> tuple[list[Failure], list[Failure]]:
        """The failures for one set of values: of validations, and of audit annotations that could not be computed."""
        budget = CostBudget(RUNTIME_COST_BUDGET)
        values = {**values, "variables": self._lazy_variables(values, budget)}
        try:
            if self._conditions is not None and not self._conditions.match(values):
                return [], []
            failures = [failure for v in self._validations if (failure := self._check(v, values, budget)) is not None]
            return failures, self._evaluate_audit_annotations(values)
        except CostExceeded:
            return self._error(OUT_OF_BUDGET), []
        except EvaluationError as error:
            return self._error(str(error)), []

    def _error(self, text: str) -> list[Failure]:
        return [Failure(text)] if self.fail_on_error else []

    def _lazy_variables(self, values: Mapping[str, Any], budget: CostBudget) -> LazyMap:
        sources: dict[str, Callable[[], Any]] = {}
        variables = LazyMap(sources)
        within = {**values, "variables": variables}

        def source(name: str, compiled: Compiled) -> Callable[[], Any]:
            def value() -> Any:
                if compiled.program is None:
                    raise EvaluationError(f'composited variable "{name}" fails to compile: {compiled.problem}')
                try:
                    return compiled.program.evaluate(within, budget)
                except EvaluationError as error:
                    raise EvaluationError(f'composited variable "{name}" fails to evaluate: {error}') from None

            return value

        sources |= {name: source(name, compiled) for name, compiled in self._variables.items()}
        return variables

    def _check(self, validation: _Validation, values: Mapping[str, Any], budget: CostBudget) -> Failure | None:
        try:
            if validation.expression.evaluate(values, budget) is True:
                return None
        except EvaluationError as error:
            return Failure(str(error)) if self.fail_on_error else None
        message = _message(validation.message_expression, values, budget)
        text = message or validation.message or f"failed expression: {validation.expression.text.strip()}"
        return Failure(text, validation.reason)

    def _evaluate_audit_annotations(self, values: Mapping[str, Any]) -> list[Failure]:
        """The failures of audit annotations. Their values are not used: the audit log has the level Metadata."""
        budget = CostBudget(RUNTIME_COST_BUDGET)
        failures: list[Failure] = []
        for annotation in self._annotations:
            try:
                annotation.evaluate(values, budget)
            except EvaluationError as error:
                failures += self._error(str(error))
        return failures


def _message(expression: Compiled | None, values: Mapping[str, Any], budget: CostBudget) -> str:
    """The value of the messageExpression; empty if it fails, is too long or has line breaks."""
    if expression is None:
        return ""
    try:
        text = expression.evaluate(values, budget)
    except EvaluationError:
        return ""
    trimmed = text.strip() if isinstance(text, str) else ""
    return trimmed if len(trimmed.encode()) <= _MAX_MESSAGE_BYTES and "\n" not in trimmed else ""


def _matcher(raw: Mapping[str, Any]) -> Matcher:
    return Matcher(
        raw.get("resourceRules") or (),
        raw.get("matchPolicy") or "Equivalent",
        raw.get("namespaceSelector"),
        raw.get("objectSelector"),
        raw.get("excludeResourceRules") or (),
    )


def _binding(raw: Object) -> Binding:
    spec = raw["spec"]
    match = spec.get("matchResources")
    return Binding(
        raw["metadata"]["name"],
        None if match is None else _matcher(match),
        spec.get("paramRef"),
        spec.get("validationActions") or (),
    )


class ValidatingPolicies:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._built_for = (-1, -1)
        self._policies: list[Policy] = []

    def _current(self) -> list[Policy]:
        store, name = self._cluster.store, self._cluster.name
        bindings = store.generation(name, BINDINGS)
        if not bindings:
            return []
        generations = (store.generation(name, POLICIES), bindings)
        if generations != self._built_for:
            self._policies = self._build()
            self._built_for = generations
        return self._policies

    def _build(self) -> list[Policy]:
        bound: dict[str, list[Object]] = {}
        for binding in self._cluster.scan(BINDINGS):
            bound.setdefault(binding["spec"].get("policyName") or "", []).append(binding)
        policies = self._cluster.scan(POLICIES) if bound else ()
        return [Policy(raw, bound[name]) for raw in policies if (name := raw["metadata"]["name"]) in bound]

    async def validate(self, ctx: Context, resource: ServedResource, operation: Operation) -> None:
        policies = self._current()
        if not policies or is_exempt(ctx, resource, operation):
            return
        review = _Review(AdmissionAttributes(ctx, resource, operation))
        for policy in policies:
            await review.evaluate(policy)
        if review.denial is not None:
            raise review.denial


class _Review:
    """The evaluation of all policies for one operation."""

    def __init__(self, attributes: AdmissionAttributes) -> None:
        self._attributes = attributes
        self.denial: errors.ApiError | None = None

    async def evaluate(self, policy: Policy) -> None:
        row = policy.matcher.match(self._attributes)
        if row is None:
            return
        try:
            params = None if policy.param_kind is None else params_row(self._attributes, policy.param_kind)
        except Misconfigured as problem:
            self._misconfigured(policy, None, problem)
            return
        for binding in policy.bindings:
            if binding.matcher is None or binding.matcher.match(self._attributes, match_all_without_rules=True) is not None:
                try:
                    await self._evaluate_binding(policy, binding, row, params)
                except Misconfigured as problem:
                    self._misconfigured(policy, binding, problem)

    async def _evaluate_binding(self, policy: Policy, binding: Binding, row: ServedResource, params: ServedResource | None) -> None:
        attributes = self._attributes
        chosen: Sequence[Object | None] = (None,)
        if params is not None and binding.param_reference is not None:
            chosen = await collect_params(attributes, params, binding.param_reference)
        namespace = self._namespace() if chosen else None
        for param in chosen:
            failures, annotation_failures = policy.evaluate(await activation(attributes, row, param, namespace))
            for failure in failures:
                self._enforce(policy, binding, failure)
            for failure in annotation_failures:
                self._deny(policy, binding, failure)

    def _namespace(self) -> Object | None:
        attributes = self._attributes
        if attributes.is_namespace or not attributes.namespace:
            return None
        found = attributes.ctx.cluster.read("/namespaces", attributes.namespace)
        if found is None:
            raise errors.not_found_named("", "namespaces", attributes.namespace)
        return namespace_view(found)

    def _enforce(self, policy: Policy, binding: Binding, failure: Failure) -> None:
        if "Deny" in binding.actions:
            self._deny(policy, binding, failure)
        if "Warn" in binding.actions:
            where = f"ValidatingAdmissionPolicy '{policy.name}' with binding '{binding.name}'"
            self._attributes.ctx.warn(f"Validation failed for {where}: {failure.message}")

    def _misconfigured(self, policy: Policy, binding: Binding | None, problem: Misconfigured) -> None:
        if policy.fail_on_error:
            what = "policy" if binding is None else "binding"
            self._deny(policy, binding, Failure(f"failed to configure {what}: {problem}"))

    def _deny(self, policy: Policy, binding: Binding | None, failure: Failure) -> None:
        if self.denial is not None:
            return
        by = f"ValidatingAdmissionPolicy '{policy.name}'"
        if binding is not None:
            by += f" with binding '{binding.name}'"
        text = f"{by} denied request: {failure.message}"
        denial = new_forbidden(self._attributes, text, [{"message": text}])
        denial.reason = failure.reason or "Invalid"
        denial.code = _CODES.get(denial.reason, 422)
        self.denial = denial
