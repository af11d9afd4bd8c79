"""The wording of refusals: not found, forbidden, too large."""

from typing import Any

from tests.differential.dsl import case, configmap, delete, get, merge, post, put, setup

CRONTABS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/none.example.io"


def _event(name: str, size: int) -> dict[str, object]:
    """A kind whose fields have no limits of their own."""
    return {"metadata": {"name": name}, "involvedObject": {"namespace": "${ns}"}, "related": {"fieldPath": "x" * size}}


def _failure(body: Any) -> Any:
    return body.get("message", "") if body["kind"] == "Status" else None


CASES = [
    case(
        "not found in the core group and in others",
        get("configmaps/none"),
        get("apps/v1:deployments/none"),
        get("/api/v1/namespaces/none-such"),
        get("/api/v1/nodes/none"),
        get("/apis/rbac.authorization.k8s.io/v1/clusterroles/none"),
        get(CRONTABS),
        put("secrets/none", {"metadata": {"name": "none"}}),
        delete("apps/v1:deployments/none"),
    ),
    case(
        "forbidden names user, verb and place",
        get("configmaps", user="alice"),
        get("configmaps/a", user="alice"),
        post("configmaps", configmap("a"), user="alice"),
        put("configmaps/a", configmap("a"), user="alice"),
        merge("configmaps/a", {}, user="alice"),
        delete("configmaps/a", user="alice"),
        delete("configmaps", user="alice"),
        get("/api/v1/namespaces", user="alice"),
        get("/api/v1/nodes/n", user="alice"),
        get("apps/v1:deployments", user="alice"),
        get("apps/v1:deployments/w/status", user="alice"),
        post("serviceaccounts/default/token", {}, user="alice"),
        get("configmaps", query={"watch": "true"}, user="alice"),
    ),
    case(
        "forbidden paths",
        get("/metrics", user="alice"),
        get("/nope", user="alice"),
        get("/apis/nope.example.io/v1/things", user="alice"),
        get("/logs/", user="alice"),
    ),
    case(
        "authorization comes before existence",
        get("nothings", user="alice"),
        get("/apis/apps/v9/deployments", user="alice"),
        get("/apis/nope.example.io/v1/namespaces/x/things", user=""),
    ),
    case("a body beyond the limit", post("configmaps", configmap("a", {"k": "x" * (3 * 1024 * 1024 + 10)}))),
    case(
        "an object beyond what etcd stores",
        post("events", _event("a", 1_600_000)),
        post("events", _event("a", 1_600_000), query={"dryRun": "All"}, pick=_failure),
        post("events", _event("a", 800_000), pick=_failure),
        merge("events/a", {"reportingInstance": "y" * 900_000}),
        merge("events/a", {"reason": "Small"}, pick=_failure),
    ),
    case("an object beyond its own limit", post("configmaps", configmap("a", {"k": "x" * (1024 * 1024 + 10)}))),
    case(
        "a body that nests deep",
        post(
            "configmaps",
            '{"metadata":{"name":"a"},"x":' + "[" * 300 + "]" * 300 + "}",
            content_type="application/json",
            differs={"nesting": ["status", "headers", "body"]},
        ),
    ),
    case("too long annotations", post("configmaps", configmap("a", annotations={"k": "x" * (256 * 1024 + 10)}))),
    case(
        "conflict in another group",
        setup(post("coordination.k8s.io/v1:leases", {"metadata": {"name": "l"}})),
        post("coordination.k8s.io/v1:leases", {"metadata": {"name": "l"}}),
        put("coordination.k8s.io/v1:leases/l", {"metadata": {"name": "l", "resourceVersion": "1"}}),
    ),
]
