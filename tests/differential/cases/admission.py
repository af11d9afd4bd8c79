"""Configurations of admission: how webhook configurations and policies are defaulted and checked, and what policies do."""

from typing import Any

from tests.differential.dsl import Request, case, configmap, merge, post, setup
from tests.support.https_server import Answer, Received

MUTATING = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
VALIDATING = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
POLICY_BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
TIDY = [f"{root}/${{slug}}" for root in (MUTATING, VALIDATING, POLICIES, POLICY_BINDINGS)]
MAPS = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["*"]}


def allow(received: Received) -> Answer:
    review = received.json
    return Answer({**review, "request": None, "response": {"uid": review["request"]["uid"], "allowed": True}})


def hook(server: str = "hook", **settings: Any) -> dict[str, Any]:
    return {
        "name": f"{server}.example.io",
        "clientConfig": {"url": f"${{{server}.url}}/{server}", "caBundle": f"${{{server}.ca}}"},
        "rules": [MAPS],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "${ns}"}},
        **settings,
    }


def policy(expression: str, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "${slug}"},
        "spec": {
            "matchConstraints": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "${ns}"}},
                "resourceRules": [MAPS],
            },
            "validations": [{"expression": expression}],
            **spec,
        },
    }


def bound(*actions: str) -> Request:
    spec = {"policyName": "${slug}", "validationActions": list(actions)}
    return setup(post(POLICY_BINDINGS, {"metadata": {"name": "${slug}"}, "spec": spec}))


def policed(until_status: int, body: Any) -> Request:
    """Waits until a policy counts, by an object that it treats in a telling way."""
    return post("configmaps", body, query={"dryRun": "All"}, until=("code", until_status), keep=False)


WRONG_HOOKS: tuple[dict[str, Any], ...] = (
    {"name": "short"},
    {"sideEffects": None},
    {"sideEffects": "Some"},
    {"admissionReviewVersions": []},
    {"admissionReviewVersions": ["v9"]},
    {"clientConfig": {}},
    {"clientConfig": {"url": "http://a/b"}},
    {"timeoutSeconds": 31},
    {"failurePolicy": "Perhaps"},
    {"matchPolicy": "Perhaps"},
    {"rules": [{**MAPS, "operations": ["FROB"]}]},
    {"rules": [{**MAPS, "resources": ["*", "pods"]}]},
    {"rules": [{**MAPS, "scope": "Galaxy"}]},
    {"matchConditions": [{"name": "x", "expression": "object."}]},
)
WRONG_POLICIES: tuple[dict[str, Any], ...] = (
    {"validations": [{"expression": "object."}]},
    {"validations": []},
    {"validations": [{"expression": "true", "reason": "Because"}]},
    {"failurePolicy": "Perhaps"},
    {"matchConstraints": None},
)

CASES = [
    case(
        "webhook configurations are defaulted",
        post(VALIDATING, {"metadata": {"name": "${slug}"}, "webhooks": [hook(rules=None)]}),
        servers={"hook": allow},
        cleanup=TIDY,
    ),
    case(
        "mutating configurations are defaulted",
        post(MUTATING, {"metadata": {"name": "${slug}"}, "webhooks": [hook(rules=None)]}),
        servers={"hook": allow},
        cleanup=TIDY,
    ),
    case(
        "webhook configurations are checked",
        *(post(VALIDATING, {"metadata": {"name": "${slug}"}, "webhooks": [{**hook(), **wrong}]}) for wrong in WRONG_HOOKS),
        servers={"hook": allow},
    ),
    case(
        "two webhooks of one name",
        post(VALIDATING, {"metadata": {"name": "${slug}"}, "webhooks": [hook(), hook()]}),
        post(MUTATING, {"metadata": {"name": "${slug}"}, "webhooks": [hook(), hook()]}),
        servers={"hook": allow},
        cleanup=TIDY,
    ),
    case(
        "policies are checked",
        *(
            post(POLICIES, {"metadata": {"name": "${slug}"}, "spec": {**policy("true")["spec"], **wrong}})
            for wrong in WRONG_POLICIES
        ),
        cleanup=TIDY,
    ),
    case(
        "a policy refuses",
        setup(post(POLICIES, policy("object.metadata.name != 'bad'"))),
        bound("Deny"),
        policed(422, configmap("bad")),
        post("configmaps", configmap("good")),
        post("configmaps", configmap("bad")),
        cleanup=TIDY,
    ),
    case(
        "a policy refuses in its own words",
        setup(
            post(
                POLICIES,
                policy(
                    "true",
                    validations=[
                        {
                            "expression": "!has(object.data)",
                            "messageExpression": "'no data in ' + object.metadata.name",
                            "reason": "Forbidden",
                        }
                    ],
                ),
            )
        ),
        bound("Deny"),
        policed(403, configmap("x", {"k": "v"})),
        post("configmaps", configmap("x", {"k": "v"})),
        cleanup=TIDY,
    ),
    case(
        "a policy compares old and new",
        setup(
            post(
                POLICIES,
                policy(
                    "true",
                    validations=[{"expression": "oldObject == null || oldObject.data == object.data", "message": "data is fixed"}],
                ),
            )
        ),
        bound("Deny"),
        setup(post("configmaps", configmap("a", {"k": "1"}))),
        merge("configmaps/a", {"data": {"k": "2"}}, query={"dryRun": "All"}, until=("code", 422), keep=False),
        merge("configmaps/a", {"data": {"k": "2"}}),
        merge("configmaps/a", {"metadata": {"labels": {"a": "b"}}}),
        cleanup=TIDY,
    ),
]
