"""Transport and routing: which paths exist, which methods they allow, how a miss is told."""

from typing import Any

from tests.differential.dsl import Request, case, configmap, delete, get, merge, post, put, setup


def keys(body: Any) -> Any:
    return sorted(body) if isinstance(body, dict) else body


CASES = [
    case(
        "health endpoints say ok",
        get("/healthz"),
        get("/livez"),
        get("/readyz"),
        get("/livez/ping"),
        get("/healthz", user=""),
        get("/readyz/no-such-check"),
    ),
    case(
        "the version document has the fields clients parse",
        get("/version", pick=keys),
        get("/version", user="", pick=keys),
        get("/version", pick=lambda body: [body["major"], body["minor"]]),
        get("/version/", pick=keys),
    ),
    case("an unknown path is a plain 404", get("/nope"), get("/apis/nope.example.io/v1"), get("/apis/nope/v1/things")),
    case(
        "an unknown resource in a known group is a status 404",
        get("nothings"),
        get("apps/v1:nothings"),
        get("/apis/apps/v9/namespaces/${ns}/deployments"),
        get("/api/v2/pods"),
    ),
    case(
        "an unknown subresource is a status 404",
        setup(post("configmaps", configmap("a"))),
        get("configmaps/a/status"),
        get("configmaps/a/scale"),
        get("configmaps/a/nope"),
        put("configmaps/a/status", configmap("a")),
    ),
    case(
        "methods a collection does not have are 405",
        put("configmaps", configmap("a")),
        merge("configmaps", {}),
        put("/api/v1/configmaps", configmap("a")),
        post("/api/v1/configmaps", configmap("a")),
        delete("/api/v1/configmaps"),
    ),
    case(
        "methods an object does not have are 405",
        setup(post("configmaps", configmap("a"))),
        post("configmaps/a", configmap("a")),
        Request("OPTIONS", "configmaps/a"),
        Request("HEAD", "configmaps/a"),
        Request("TRACE", "configmaps/a"),
        Request("FROB", "configmaps/a", differs={"methods-of-http": ["status", "headers", "body"]}),
    ),
    case(
        "create-only reviews cannot be read",
        get("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
        get("/apis/authentication.k8s.io/v1/tokenreviews"),
        get("/apis/authorization.k8s.io/v1/subjectaccessreviews/x"),
    ),
    case(
        "a namespaced resource can be listed across namespaces but not fetched there",
        get("/api/v1/configmaps", query={"fieldSelector": "metadata.namespace=${ns}"}),
        get("/api/v1/configmaps/a"),
    ),
    case(
        "cluster-scoped resources have no namespace path",
        get("nodes"),
        get("/api/v1/namespaces/${ns}/namespaces"),
        get("/apis/rbac.authorization.k8s.io/v1/namespaces/${ns}/clusterroles"),
    ),
    case(
        "double and trailing slashes",
        setup(post("configmaps", configmap("a"))),
        get("configmaps/"),
        get("configmaps/a/"),
        get("/api/v1//namespaces/${ns}"),
        get("/api/"),
        get("/apis/", differs={"resources-not-served": ["body.groups"]}),
        get("/api/v1/", differs={"resources-not-served": ["body.resources"]}),
    ),
    case(
        "names with odd characters are looked up as they are",
        get("configmaps/A_B"),
        get("configmaps/a%20b"),
        get("configmaps/a%2Fb"),
        get("configmaps/%C3%A9"),
    ),
    case(
        "namespace subresources are not resources of a namespace",
        get("/api/v1/namespaces/${ns}/status"),
        get("/api/v1/namespaces/${ns}/finalize"),
    ),
    case(
        "nobody gets what discovery and health show and no more",
        get("/api", user=""),
        get("/apis", user="", pick=lambda body: body.get("message")),
        get("configmaps", user=""),
        get("/metrics", user="", pick=lambda body: body),
        get("/openapi/v3", user="", pick=lambda body: body.get("message")),
    ),
    case(
        "a bad credential is 401 and not nobody",
        get("configmaps", user="wrong-token"),
        get("/healthz", user="wrong-token"),
        get("configmaps", user="", headers={"Authorization": "Basic YTpi"}),
        get("configmaps", user="", headers={"Authorization": "Bearer"}),
    ),
]
