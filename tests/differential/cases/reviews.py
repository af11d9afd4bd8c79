"""Tokens, reviews and discovery of oneself, with everything the answers carry."""

from typing import Any

from tests.differential.dsl import case, configmap, get, kubectl, post, setup

TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
ME = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
SELF = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
LOCAL = "authorization.k8s.io/v1:localsubjectaccessreviews"
ROBOT = setup(post("serviceaccounts", {"metadata": {"name": "robot"}}))


def request(**spec: Any) -> dict[str, Any]:
    return {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": spec}


def review(token: str, *audiences: str) -> dict[str, Any]:
    spec: dict[str, Any] = {"token": token}
    if audiences:
        spec["audiences"] = list(audiences)
    return {"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "spec": spec}


def status(body: Any) -> Any:
    return body if body["kind"] == "Status" else body["status"]


TOKEN = setup(post("serviceaccounts/robot/token", request(audiences=["here"]), save={"token": "status.token"}))

CASES = [
    case("a token review carries who asked", post(TOKENS, review("admin-static-token"))),
    case("a token review without a spec", post(TOKENS, {"kind": "TokenReview"}), post(TOKENS, {})),
    case("a token review of nonsense", post(TOKENS, review("a.b.c")), post(TOKENS, review("eyJhbGciOiJub25lIn0.e30."))),
    case("a token review is not for everybody", post(TOKENS, review("x"), user="alice")),
    case(
        "a token for one audience",
        ROBOT,
        TOKEN,
        post(TOKENS, review("${token}", "here"), pick=status),
        post(TOKENS, review("${token}", "there", "here"), pick=status),
        post(TOKENS, review("${token}", "there"), pick=status),
        get("configmaps", user="${token}"),
    ),
    case(
        "token requests are checked",
        ROBOT,
        post("serviceaccounts/robot/token", request(expirationSeconds=4294967297)),
        post("serviceaccounts/robot/token", request(boundObjectRef={"kind": "ConfigMap", "apiVersion": "v1", "name": "x"})),
        post("serviceaccounts/robot/token", request(boundObjectRef={"kind": "Secret", "apiVersion": "v1", "name": "x"})),
        post("serviceaccounts/robot/token", {"metadata": {"name": "other"}, "spec": {}}),
        post("serviceaccounts/robot/token", {"metadata": {"namespace": "other"}, "spec": {}}),
        get("serviceaccounts/robot/token"),
    ),
    case(
        "a token bound to a secret",
        ROBOT,
        setup(post("secrets", {"metadata": {"name": "s"}}, save={"uid": "metadata.uid"})),
        post(
            "serviceaccounts/robot/token",
            request(boundObjectRef={"kind": "Secret", "apiVersion": "v1", "name": "s", "uid": "${uid}"}),
            save={"token": "status.token"},
            pick=lambda b: b.get("spec", b).get("boundObjectRef", b),
        ),
        post(ME, {}, user="${token}", pick=status),
    ),
    case(
        "a token request wrongly bound",
        ROBOT,
        setup(post("secrets", {"metadata": {"name": "s"}})),
        post(
            "serviceaccounts/robot/token",
            request(
                boundObjectRef={"kind": "Secret", "apiVersion": "v1", "name": "s", "uid": "11111111-1111-1111-1111-111111111111"}
            ),
        ),
    ),
    case(
        "who a service account is",
        ROBOT,
        setup(post("serviceaccounts/robot/token", request(), save={"t": "status.token"})),
        post(ME, {}, user="${t}"),
    ),
    case(
        "access of a service account",
        ROBOT,
        setup(post("configmaps", configmap("a"))),
        setup(
            post(
                "rbac.authorization.k8s.io/v1:roles",
                {"metadata": {"name": "r"}, "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"]}]},
            )
        ),
        setup(
            post(
                "rbac.authorization.k8s.io/v1:rolebindings",
                {
                    "metadata": {"name": "b"},
                    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
                    "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": "${ns}"}],
                },
            )
        ),
        post(
            LOCAL,
            {
                "spec": {
                    "user": "system:serviceaccount:${ns}:robot",
                    "resourceAttributes": {"verb": "get", "resource": "configmaps", "namespace": "${ns}"},
                }
            },
            until=("status.allowed", True),
        ),
        setup(post("serviceaccounts/robot/token", request(), save={"t": "status.token"})),
        get("configmaps/a", user="${t}", pick=lambda b: b["metadata"].get("name")),
        get("configmaps", user="${t}"),
    ),
    case(
        "reviews of groups and extras",
        post(ACCESS, {"spec": {"groups": ["system:masters"], "resourceAttributes": {"verb": "x", "resource": "y"}}}, pick=status),
        post(
            ACCESS,
            {
                "spec": {
                    "user": "u",
                    "uid": "1",
                    "extra": {"k": ["v"]},
                    "nonResourceAttributes": {"path": "/healthz", "verb": "get"},
                }
            },
            pick=status,
        ),
        post(
            ACCESS,
            {"spec": {"user": "u", "groups": ["system:authenticated"], "nonResourceAttributes": {"path": "/api", "verb": "get"}}},
            pick=status,
        ),
    ),
    case(
        "reviews with selectors",
        post(
            SELF,
            {
                "spec": {
                    "resourceAttributes": {
                        "verb": "list",
                        "resource": "pods",
                        "labelSelector": {"rawSelector": "a=b"},
                        "fieldSelector": {"rawSelector": "metadata.name=x"},
                    }
                }
            },
            pick=lambda b: b.get("status", b.get("message")),
        ),
    ),
    case(
        "reviews with unknown fields",
        post(SELF, {"spec": {"frob": 1, "nonResourceAttributes": {"path": "/"}}}, query={"fieldValidation": "Strict"}),
    ),
    case(
        "reviews as a rehearsal",
        post(SELF, {"spec": {"nonResourceAttributes": {"path": "/"}}}, query={"dryRun": "All"}, pick=status),
    ),
    case("kubectl asks what it may", kubectl("auth", "can-i", "get", "pods"), kubectl("auth", "whoami", "-o", "yaml")),
    case(
        "an account takes no secrets it does not own",
        ROBOT,
        post("secrets", {"metadata": {"name": "t"}, "type": "kubernetes.io/service-account-token"}),
        post(
            "secrets",
            {
                "metadata": {"name": "t", "annotations": {"kubernetes.io/service-account.name": "robot"}},
                "type": "kubernetes.io/service-account-token",
            },
        ),
        get("secrets/t", pick=lambda b: b["type"]),
    ),
]
