"""Evaluation of CEL expressions in admission: the activation (variables of one review), the authorizer, and match conditions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from muster.apiserver.admission.attributes import AdmissionAttributes
from muster.apiserver.cel_environment import OUT_OF_BUDGET, compile_expression
from muster.apiserver.registry.resource import ServedResource
from muster.cel import MATCH_CONDITIONS_COST_BUDGET, CostBudget, CostExceeded, Environment, EvaluationError
from muster.cel.library.authorization import Authorizer, Check, DecisionValue, ResourceCheck
from muster.machinery.authentication import AUTHENTICATED, UserInfo
from muster.machinery.authorization import AccessAttributes
from muster.machinery.objects import Object


async def activation(
    attributes: AdmissionAttributes, row: ServedResource, params: Object | None = None, namespace: Object | None = None
) -> dict[str, Any]:
    """The values of the variables for one evaluation."""
    new, old = await attributes.objects(row)
    authorizer = _authorizer(attributes)
    requested = attributes.ctx.attributes
    check = Check(
        "",
        group=requested.group,
        resource=requested.resource,
        subresource=requested.subresource,
        namespace=attributes.namespace,
        name=attributes.name,
    )
    return {
        "object": new,
        "oldObject": old,
        "params": params,
        "namespaceObject": namespace,
        "request": attributes.request(row),
        "authorizer": authorizer,
        "authorizer.requestResource": ResourceCheck(authorizer, check),
    }


def namespace_view(namespace: Object | None) -> Object | None:
    """The namespace as expressions see it: without owner references and managed fields."""
    if namespace is None:
        return None
    hidden = ("managedFields", "ownerReferences")
    return {**namespace, "metadata": {key: value for key, value in namespace["metadata"].items() if key not in hidden}}


def _authorizer(attributes: AdmissionAttributes) -> Authorizer:
    rules = attributes.ctx.cluster.rules

    def decide(check: Check) -> DecisionValue:
        user = attributes.ctx.user
        if check.service_account is not None:
            namespace, name = check.service_account
            groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)
            user = UserInfo(f"system:serviceaccount:{namespace}:{name}", groups=groups)
        if check.path:
            requested = AccessAttributes(check.verb, path=check.path)
        else:
            requested = AccessAttributes(
                check.verb, check.group, "*", check.resource, check.subresource, check.namespace, check.name
            )
        verdict = rules.authorize(user, requested)
        return DecisionValue(verdict.allowed, verdict.reason)

    return Authorizer(decide)


class MatchConditions:
    """The matchConditions of a webhook or policy, as `matchconditions.Matcher` upstream: a condition that is false decides;
    otherwise the failure policy decides about errors."""

    def __init__(self, raw: Sequence[Mapping[str, Any]], where: Environment, fail: bool) -> None:
        self._compiled = [compile_expression(condition.get("expression") or "", where) for condition in raw]
        self._fail = fail

    def match(self, variables: Mapping[str, Any]) -> bool:
        """Whether all conditions are true. Raises EvaluationError if one fails and the failure policy is Fail."""
        budget = CostBudget(MATCH_CONDITIONS_COST_BUDGET)
        problems: list[str] = []
        for condition in self._compiled:
            try:
                if condition.evaluate(variables, budget) is False:
                    return False
            except CostExceeded:
                problems = [OUT_OF_BUDGET]
                break
            except EvaluationError as error:
                problems.append(str(error))
        if problems and self._fail:
            raise EvaluationError(problems[0] if len(problems) == 1 else f"[{', '.join(dict.fromkeys(problems))}]")
        return not problems
