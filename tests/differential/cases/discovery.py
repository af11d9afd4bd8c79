"""Discovery documents, legacy and aggregated, and the OpenAPI index."""

from typing import Any

from tests.differential.dsl import case, get

V2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
V2BETA1 = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
GROUPS = (
    "apps",
    "batch",
    "rbac.authorization.k8s.io",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "events.k8s.io",
    "networking.k8s.io",
    "policy",
    "discovery.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
    "autoscaling",
    "flowcontrol.apiserver.k8s.io",
    "node.k8s.io",
)
CORE = {
    "bindings",
    "configmaps",
    "endpoints",
    "events",
    "limitranges",
    "namespaces",
    "namespaces/finalize",
    "namespaces/status",
    "nodes",
    "nodes/status",
    "persistentvolumeclaims",
    "persistentvolumeclaims/status",
    "persistentvolumes",
    "persistentvolumes/status",
    "pods",
    "pods/binding",
    "pods/eviction",
    "pods/status",
    "podtemplates",
    "replicationcontrollers",
    "replicationcontrollers/scale",
    "replicationcontrollers/status",
    "resourcequotas",
    "resourcequotas/status",
    "secrets",
    "serviceaccounts",
    "serviceaccounts/token",
    "services",
    "services/status",
}


def versions(body: Any) -> Any:
    return body.get("versions", body) if isinstance(body, dict) else body


def core_rows(body: Any) -> Any:
    rows = {row["name"]: row for row in body["resources"] if row["name"] in CORE}
    return {**body, "resources": [rows[name] for name in sorted(rows)]}


def sorted_rows(body: Any) -> Any:
    return {**body, "resources": sorted(body["resources"], key=lambda row: row["name"])} if "resources" in body else body


def known_groups(body: Any) -> Any:
    return {**body, "groups": sorted((g for g in body["groups"] if g["name"] in GROUPS), key=lambda g: str(g["name"]))}


def aggregated(*groups: str) -> Any:
    def pick(body: Any) -> Any:
        if not isinstance(body, dict) or "items" not in body:
            return body
        items = [item for item in body["items"] if item["metadata"].get("name", "") in groups]
        for item in items:
            for version in item["versions"]:
                version["resources"].sort(key=lambda row: row["resource"])
        return {**body, "items": items}

    return pick


def aggregated_core(body: Any) -> Any:
    kept = aggregated("")(body)
    for item in kept["items"]:
        for version in item["versions"]:
            version["resources"] = [row for row in version["resources"] if row["resource"] in CORE]
            for row in version["resources"]:
                known = [sub for sub in row.get("subresources", []) if f"{row['resource']}/{sub['subresource']}" in CORE]
                if "subresources" in row:
                    row["subresources"] = known
    return kept


def preferred(body: Any) -> Any:
    return {group["name"]: group["preferredVersion"]["version"] for group in known_groups(body)["groups"]}


STABLE = {
    "apps": "v1",
    "batch": "v1",
    "rbac.authorization.k8s.io": "v1",
    "coordination.k8s.io": "v1",
    "authentication.k8s.io": "v1",
    "authorization.k8s.io": "v1",
    "apiextensions.k8s.io": "v1",
    "apiregistration.k8s.io": "v1",
    "events.k8s.io": "v1",
    "policy": "v1",
    "discovery.k8s.io": "v1",
    "scheduling.k8s.io": "v1",
    "flowcontrol.apiserver.k8s.io": "v1",
    "node.k8s.io": "v1",
}

CASES = [
    case("the legacy core document", get("/api")),
    case("core resources are described alike", get("/api/v1", pick=core_rows)),
    case("the preferred version of each group", get("/apis", pick=preferred)),
    case("the envelope of the group list", get("/apis", pick=lambda body: [body["kind"], body["apiVersion"]])),
    *(case(f"the resources of {group}", get(f"/apis/{group}/{version}", pick=sorted_rows)) for group, version in STABLE.items()),
    case("the group document of apps", get("/apis/apps")),
    case("the group document of certificates", get("/apis/certificates.k8s.io", pick=lambda b: b["preferredVersion"])),
    case("webhook configurations are described alike", get("/apis/admissionregistration.k8s.io/v1", pick=sorted_rows)),
    case("autoscaling serves two versions", get("/apis/autoscaling")),
    case("aggregated discovery of the core group", get("/api", accept=V2, pick=aggregated_core)),
    case("aggregated discovery of apps", get("/apis", accept=V2, pick=aggregated("apps"))),
    case("aggregated discovery of rbac", get("/apis", accept=V2, pick=aggregated("rbac.authorization.k8s.io"))),
    case(
        "aggregated discovery falls back to the legacy document",
        get("/api", accept=f"{V2BETA1},application/json", pick=lambda b: b["kind"]),
        get("/api", accept=f"{V2},{V2BETA1},application/json", pick=lambda b: b["kind"]),
        get("/api", accept="application/json", pick=lambda b: b["kind"]),
    ),
    case("aggregated discovery in a version that is gone", get("/apis", accept=V2BETA1)),
    case("an unknown group has no document", get("/apis/nope.example.io")),
    case(
        "the openapi index points into the same server",
        get("/openapi/v3", pick=lambda body: {k: body["paths"][k] for k in ("api/v1", "apis/apps/v1", "apis/batch/v1")}),
    ),
    case("an unknown openapi document is a 404", get("/openapi/v3/apis/nope/v1")),
    case(
        "service-account issuer discovery is for those who may",
        get(
            "/.well-known/openid-configuration",
            differs={"token-signing": ["body.issuer", "body.id_token_signing_alg_values_supported"]},
        ),
        get("/.well-known/openid-configuration", user=""),
        get("/openid/v1/jwks"),
        get(
            "/openid/v1/jwks",
            accept=None,
            pick=lambda body: [sorted(key) for key in body["keys"]],
            differs={"token-signing": ["body"]},
        ),
    ),
]
