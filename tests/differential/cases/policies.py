"""ValidatingAdmissionPolicies at work: matching, parameters, variables, messages, actions and failures.

A new policy counts some time after it was stored, so each case first sends a probe until it is refused.
"""

from typing import Any

from tests.differential.dsl import case, configmap, delete, deployment, get, kubectl, merge, post, setup

GROUP = "/apis/admissionregistration.k8s.io/v1"
POLICIES, BINDINGS = "validatingadmissionpolicies", "validatingadmissionpolicybindings"
CONFIGMAPS = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["*"]}
TIDY = [f"{GROUP}/{BINDINGS}/${{slug}}", f"{GROUP}/{POLICIES}/${{slug}}"]
PROBE = "object == null || object.metadata.name != 'probe'"


def policy(*validations: Any, rules: Any = None, **spec: Any) -> Any:
    """Refuses the probe, then what is asked for; `validations` are expressions or whole entries."""
    entries = [{"expression": PROBE, "reason": "RequestEntityTooLarge"}]
    entries += [v if isinstance(v, dict) else {"expression": v} for v in validations]
    constraints = {
        "resourceRules": [CONFIGMAPS, *(rules or ())],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "${ns}"}},
        **spec.pop("matchConstraints", {}),
    }
    body = {"metadata": {"name": "${slug}"}, "spec": {"matchConstraints": constraints, "validations": entries, **spec}}
    return setup(post(f"{GROUP}/{POLICIES}", body))


def bound(*actions: str, **spec: Any) -> Any:
    body = {"policyName": "${slug}", "validationActions": list(actions or ("Deny",)), **spec}
    return setup(post(f"{GROUP}/{BINDINGS}", {"metadata": {"name": "${slug}"}, "spec": body}))


def ready(**metadata: Any) -> Any:
    return setup(post("configmaps", configmap("probe", **metadata), query={"dryRun": "All"}, until=("code", 413)))


def checked(*wrong: dict[str, Any]) -> list[Any]:
    """Policies that are wrong in one way each."""
    base = {"matchConstraints": {"resourceRules": [CONFIGMAPS]}, "validations": [{"expression": "true"}]}
    return [post(f"{GROUP}/{POLICIES}", {"metadata": {"name": "${slug}"}, "spec": {**base, **spec}}) for spec in wrong]


CASES = [
    case(
        "a policy refuses with the expression itself",
        policy("object.metadata.name.startsWith('ok')"),
        bound(),
        ready(),
        post("configmaps", configmap("ok-1")),
        post("configmaps", configmap("no-1")),
        kubectl("create", "configmap", "no-2"),
        cleanup=TIDY,
    ),
    case(
        "the first failure gives message reason and code",
        policy(
            {"expression": "!has(object.data)", "message": " no data please ", "reason": "Forbidden"},
            {"expression": "!has(object.metadata.labels)", "messageExpression": "'labelled ' + object.metadata.name"},
        ),
        bound(),
        ready(),
        post("configmaps", configmap("a", {"k": "1"}, labels={"a": "b"})),
        post("configmaps", configmap("a", labels={"a": "b"})),
        cleanup=TIDY,
    ),
    case(
        "a message expression that fails gives way to the message",
        policy(
            {"expression": "has(object.data)", "messageExpression": "'' + object.data.missing", "message": "plain"},
            {"expression": "object.data.k != 'x'", "messageExpression": "'two\\nlines'"},
        ),
        bound(),
        ready(),
        post("configmaps", configmap("a")),
        post("configmaps", configmap("a", {"k": "x"})),
        cleanup=TIDY,
    ),
    case(
        "a binding may only warn",
        policy({"expression": "!has(object.data)", "message": "data is frowned upon"}),
        bound("Warn", "Audit"),
        setup(
            post(
                f"{GROUP}/{BINDINGS}",
                {
                    "metadata": {"name": "${slug}-2"},
                    "spec": {
                        "policyName": "${slug}",
                        "validationActions": ["Deny"],
                        "matchResources": {"objectSelector": {"matchLabels": {"really": "yes"}}},
                    },
                },
            )
        ),
        ready(labels={"really": "yes"}),
        post("configmaps", configmap("a", {"k": "1"})),
        get("configmaps/a"),
        cleanup=[*TIDY, f"{GROUP}/{BINDINGS}/${{slug}}-2"],
    ),
    case(
        "an expression that fails refuses",
        policy("object.data.missing == 'x'"),
        bound(),
        ready(),
        post("configmaps", configmap("a", {"k": "1"})),
        cleanup=TIDY,
    ),
    case(
        "an expression that fails may be ignored",
        policy("object.data.missing == 'x'", failurePolicy="Ignore"),
        bound(),
        ready(),
        post("configmaps", configmap("a", {"k": "1"})),
        cleanup=TIDY,
    ),
    case(
        "variables are computed from each other",
        policy(
            {"expression": "variables.total <= 3", "messageExpression": "'total is ' + string(variables.total)"},
            "variables.bad || true",
            variables=[
                {"name": "sizes", "expression": "has(object.data) ? object.data.map(k, size(object.data[k])) : []"},
                {"name": "total", "expression": "variables.sizes.sum()"},
                {"name": "bad", "expression": "object.nothing.here == 1"},
            ],
        ),
        bound(),
        ready(),
        post("configmaps", configmap("a", {"k": "1", "l": "12"})),
        post("configmaps", configmap("b", {"k": "1", "l": "1234"})),
        cleanup=TIDY,
    ),
    case(
        "a variable that fails is named",
        policy("variables.bad", variables=[{"name": "bad", "expression": "object.nothing.here == 1"}]),
        bound(),
        ready(),
        post("configmaps", configmap("a")),
        cleanup=TIDY,
    ),
    case(
        "old and new are compared and deletion can be refused",
        policy(
            {"expression": "oldObject == null || object == null || object.data == oldObject.data", "message": "data is fixed"},
            {"expression": "request.operation != 'DELETE' || oldObject.metadata.name != 'keep'", "message": "kept"},
        ),
        bound(),
        ready(),
        post("configmaps", configmap("keep", {"k": "1"})),
        merge("configmaps/keep", {"data": {"k": "2"}}),
        merge("configmaps/keep", {"metadata": {"labels": {"a": "b"}}}),
        delete("configmaps/keep"),
        cleanup=TIDY,
    ),
    case(
        "parameters come from a named configmap",
        setup(post("configmaps", configmap("limits", {"max": "2"}))),
        policy(
            {
                "expression": "object.metadata.name == 'probe' || size(object.?data.orValue({})) <= int(params.data.max)",
                "messageExpression": "'at most ' + params.data.max",
            },
            paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        ),
        bound(paramRef={"name": "limits", "namespace": "${ns}", "parameterNotFoundAction": "Deny"}),
        ready(),
        post("configmaps", configmap("a", {"k": "1", "l": "2"})),
        post("configmaps", configmap("b", {"k": "1", "l": "2", "m": "3"})),
        cleanup=TIDY,
    ),
    case(
        "missing parameters refuse or allow as the binding says",
        policy("params.data.max == 'x'", paramKind={"apiVersion": "v1", "kind": "ConfigMap"}),
        bound(paramRef={"name": "nobody", "parameterNotFoundAction": "Deny"}),
        setup(post("configmaps", configmap("probe"), query={"dryRun": "All"}, until=("code", 422))),
        post("configmaps", configmap("a")),
        setup(merge(f"{GROUP}/{BINDINGS}/${{slug}}", {"spec": {"paramRef": {"parameterNotFoundAction": "Allow"}}})),
        setup(post("configmaps", configmap("b"), query={"dryRun": "All"}, until=("kind", "ConfigMap"))),
        post("configmaps", configmap("c")),
        cleanup=TIDY,
    ),
    case(
        "parameters of an unknown kind are a mistake of the policy",
        policy("params.x == 1", paramKind={"apiVersion": "nobody.example.com/v1", "kind": "Nothing"}),
        bound(paramRef={"name": "x", "parameterNotFoundAction": "Deny"}),
        setup(post("configmaps", configmap("probe"), query={"dryRun": "All"}, until=("code", 422))),
        post("configmaps", configmap("a")),
        cleanup=TIDY,
    ),
    case(
        "match conditions and excluded rules narrow a policy",
        policy(
            {"expression": "object.metadata.name == 'probe'", "message": "matched"},
            matchConditions=[{"name": "not-skipped", "expression": "!object.metadata.name.startsWith('skip')"}],
            matchConstraints={"excludeResourceRules": [{**CONFIGMAPS, "resourceNames": ["excluded"]}]},
        ),
        bound(),
        ready(),
        post("configmaps", configmap("skip-me")),
        post("configmaps", configmap("excluded")),
        post("configmaps", configmap("a")),
        cleanup=TIDY,
    ),
    case(
        "a match condition of a policy that fails refuses",
        policy(
            "true",
            matchConditions=[{"name": "bad", "expression": "object.metadata.name == 'probe' || object.data.missing == 'x'"}],
        ),
        bound(),
        ready(),
        post("configmaps", configmap("a", {"k": "1"})),
        cleanup=TIDY,
    ),
    case(
        "expressions see the namespace the request and the authorizer",
        policy(
            {
                "expression": "namespaceObject.metadata.labels['kubernetes.io/metadata.name'] == '${ns}'",
                "message": "namespace",
            },
            {
                "expression": "'system:masters' in request.userInfo.groups && request.name == object.metadata.name",
                "message": "user",
            },
            {
                "expression": "request.resource.resource == 'configmaps' && request.namespace == '${ns}' && !request.dryRun",
                "message": "request",
            },
            {
                "expression": "authorizer.requestResource.check('delete').allowed()",
                "message": "authorizer",
            },
            {
                "expression": "!authorizer.serviceAccount('${ns}', 'default').group('').resource('secrets').check('get').allowed()",
                "message": "account",
            },
            {
                "expression": "authorizer.path('/healthz').check('get').reason() == 'none'",
                "messageExpression": "'all the others hold'",
            },
        ),
        bound(),
        ready(),
        post("configmaps", configmap("a")),
        cleanup=TIDY,
    ),
    case(
        "a policy over deployments looks into their spec",
        policy(
            {
                "expression": "request.resource.resource != 'deployments' || object.spec.replicas <= 3",
                "messageExpression": "'not ' + string(object.spec.replicas) + ' replicas'",
            },
            rules=[
                {"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"], "operations": ["CREATE", "UPDATE"]}
            ],
        ),
        bound(),
        ready(),
        post("apps/v1:deployments", deployment("w", 4)),
        cleanup=TIDY,
    ),
    case(
        "audit annotations that fail refuse",
        policy(
            "true",
            auditAnnotations=[
                {"key": "fine", "valueExpression": "'v'"},
                {"key": "bad", "valueExpression": "'' + object.data.missing"},
            ],
        ),
        bound(),
        setup(post("configmaps", configmap("other"), query={"dryRun": "All"}, until=("code", 422))),
        post("configmaps", configmap("a", {"k": "1"})),
        cleanup=TIDY,
    ),
    case(
        "expressions that do not compile are refused",
        *checked(
            {"validations": [{"expression": "object.x =="}]},
            {"validations": [{"expression": "'text'"}]},
            {"validations": [{"expression": "params.x"}]},
            {"validations": [{"expression": "variables.x"}]},
            {"validations": [{"expression": " "}]},
            {"validations": [{"expression": "true", "messageExpression": "1 + 1"}]},
            {"validations": [{"expression": "true", "messageExpression": "authorizer.path('x')"}]},
            {"validations": [{"expression": "true", "message": "two\nlines", "reason": "Bored"}]},
            {"variables": [{"name": "for", "expression": "1"}, {"name": "b", "expression": "variables.c"}]},
            {"auditAnnotations": [{"key": "a b", "valueExpression": "1"}, {"key": "c", "valueExpression": "object.x =="}]},
            {"matchConditions": [{"name": "a", "expression": "1"}, {"name": "b", "expression": "variables.x == 1"}]},
            {"paramKind": {"apiVersion": "a/b/c", "kind": "-"}},
        ),
        cleanup=TIDY,
    ),
    case(
        "a policy is observed",
        post(
            f"{GROUP}/{POLICIES}",
            {
                "metadata": {"name": "${slug}"},
                "spec": {
                    "matchConstraints": {"resourceRules": [CONFIGMAPS]},
                    "validations": [{"expression": "object.data.size() > 1"}],
                },
            },
        ),
        get(f"{GROUP}/{POLICIES}/${{slug}}", until=("status.observedGeneration", 1)),
        cleanup=TIDY,
    ),
    case(
        "a policy that asks for fields that are not there is warned about",
        setup(
            post(
                f"{GROUP}/{POLICIES}",
                {
                    "metadata": {"name": "${slug}"},
                    "spec": {
                        "matchConstraints": {
                            "resourceRules": [
                                {
                                    "apiGroups": ["apps"],
                                    "apiVersions": ["v1"],
                                    "resources": ["deployments"],
                                    "operations": ["CREATE"],
                                }
                            ]
                        },
                        "validations": [
                            {"expression": "object.spec.replicsa > 1", "messageExpression": "'a' + object.kynd"},
                            {"expression": "object.spec.replicas > 'x'"},
                        ],
                    },
                },
            )
        ),
        get(f"{GROUP}/{POLICIES}/${{slug}}", until=("status.observedGeneration", 1), pick=lambda body: body["status"]),
        cleanup=TIDY,
    ),
]
