"""Create and update: what the server sets, keeps and refuses."""

from tests.differential.dsl import apply, case, configmap, deployment, get, json_patch, merge, post, put, secret, setup

LEASE = "coordination.k8s.io/v1:leases"
CLUSTER_ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"


def lease(name: str, **spec: object) -> dict[str, object]:
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}, "spec": spec}


def cluster_role(name: str = "${slug}", **metadata: str) -> dict[str, object]:
    kind = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    return {**kind, "metadata": {"name": name, **metadata}, "rules": rules}


CASES = [
    case("create sets the server's fields", post("configmaps", configmap("a", {"k": "v"}, labels={"l": "1"})), get("configmaps/a")),
    case(
        "create ignores what only the server may set",
        post(
            "configmaps",
            configmap(
                "a",
                uid="11111111-1111-1111-1111-111111111111",
                creationTimestamp="2001-01-01T00:00:00Z",
                generation=7,
                selfLink="/x",
                deletionTimestamp="2001-01-01T00:00:00Z",
                deletionGracePeriodSeconds=5,
            ),
        ),
    ),
    case("create with a resource version is refused", post("configmaps", configmap("a", resourceVersion="1"))),
    case("create twice is a conflict", post("configmaps", configmap("a")), post("configmaps", configmap("a"))),
    case("create without a name", post("configmaps", {"apiVersion": "v1", "kind": "ConfigMap"})),
    case(
        "create with a generated name",
        post("configmaps", {"metadata": {"generateName": "gen-"}}),
        post("configmaps", {"metadata": {"generateName": "gen-", "name": "fixed"}}),
    ),
    case("a long generated name is cut", post("configmaps", {"metadata": {"generateName": "x" * 250}})),
    case(
        "the namespace of the body must be the one of the path",
        post("configmaps", configmap("a", namespace="other")),
        post("configmaps", configmap("b", namespace="${ns}")),
    ),
    case(
        "the namespace of what lives in none is dropped",
        post(CLUSTER_ROLES, cluster_role(namespace="other")),
        put(f"{CLUSTER_ROLES}/${{slug}}", cluster_role(namespace="default")),
        merge(f"{CLUSTER_ROLES}/${{slug}}", {"metadata": {"namespace": "other"}}),
        json_patch(f"{CLUSTER_ROLES}/${{slug}}", [{"op": "add", "path": "/metadata/namespace", "value": "other"}]),
        apply(f"{CLUSTER_ROLES}/${{slug}}", cluster_role(namespace="other")),
        apply(f"{CLUSTER_ROLES}/${{slug}}-applied", cluster_role("${slug}-applied", namespace="other")),
        get(f"{CLUSTER_ROLES}/${{slug}}"),
        cleanup=[f"{CLUSTER_ROLES}/${{slug}}", f"{CLUSTER_ROLES}/${{slug}}-applied"],
    ),
    case("create in a namespace that does not exist", post("/api/v1/namespaces/d-absent/configmaps", configmap("a"))),
    case(
        "bad names are refused",
        post("configmaps", configmap("Bad_Name")),
        post("configmaps", configmap("x" * 254)),
        post("configmaps", configmap("-a")),
        post("configmaps", configmap("a/b")),
    ),
    case(
        "bad labels and annotations are refused",
        post("configmaps", configmap("a", labels={"bad key!": "x"})),
        post("configmaps", configmap("a", labels={"k": "bad value!"})),
        post("configmaps", configmap("a", labels={"k": "x" * 64})),
        post("configmaps", configmap("a", annotations={"bad key!": "x"})),
    ),
    case("several faults are told at once", post("configmaps", configmap("Bad", labels={"a b": "c d"}))),
    case(
        "owner references are checked",
        post("configmaps", configmap("a", ownerReferences=[{"apiVersion": "v1", "kind": "ConfigMap", "name": "o"}])),
        post("configmaps", configmap("a", ownerReferences=[{"apiVersion": "", "kind": "", "name": "", "uid": ""}])),
        post(
            "configmaps",
            configmap(
                "b",
                ownerReferences=[
                    {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u", "controller": True},
                    {"apiVersion": "v1", "kind": "ConfigMap", "name": "p", "uid": "v", "controller": True},
                ],
            ),
        ),
    ),
    case(
        "finalizer names are checked",
        post("configmaps", configmap("a", finalizers=["nope"])),
        post("configmaps", configmap("a", finalizers=["a.io/x y"])),
    ),
    case(
        "the kind of the body must fit the path",
        post("configmaps", {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}),
        post("configmaps", {"apiVersion": "apps/v1", "kind": "ConfigMap", "metadata": {"name": "a"}}),
        post("configmaps", {"apiVersion": "nope/v1", "kind": "Nope", "metadata": {"name": "a"}}),
    ),
    case("kind and version may be left out", post("configmaps", {"metadata": {"name": "a"}})),
    case(
        "a body that is no object",
        post("configmaps", "[]", content_type="application/json"),
        post("configmaps", '"x"', content_type="application/json"),
        post("configmaps", "{", content_type="application/json"),
    ),
    case("an empty body", post("configmaps", "", content_type="application/json")),
    case(
        "a field of the wrong type",
        post("configmaps", {**configmap("a"), "data": {"k": 1}}),
    ),
    case(
        "update changes content and revision",
        setup(post("configmaps", configmap("a", {"k": "1"}))),
        put("configmaps/a", configmap("a", {"k": "2"})),
        get("configmaps/a"),
    ),
    case(
        "an update that changes nothing keeps the revision",
        post("configmaps", configmap("a", {"k": "1"})),
        put("configmaps/a", configmap("a", {"k": "1"})),
        merge("configmaps/a", {"data": {"k": "1"}}),
    ),
    case(
        "a stale update is refused",
        setup(post("configmaps", configmap("a"), save={"rv": "metadata.resourceVersion"})),
        put("configmaps/a", configmap("a", {"k": "1"}, resourceVersion="${rv}")),
        put("configmaps/a", configmap("a", {"k": "2"}, resourceVersion="${rv}")),
    ),
    case("an update of an object that is not there", put("configmaps/a", configmap("a")), put(LEASE + "/a", lease("a"))),
    case(
        "an update under another name or identity",
        setup(post("configmaps", configmap("a"))),
        put("configmaps/a", configmap("b")),
        put("configmaps/a", configmap("a", uid="11111111-1111-1111-1111-111111111111")),
        put("configmaps/a", {"apiVersion": "v1", "kind": "ConfigMap"}),
    ),
    case(
        "an update cannot change identity fields",
        setup(post("configmaps", configmap("a"))),
        put("configmaps/a", configmap("a", creationTimestamp="2001-01-01T00:00:00Z", generation=9)),
    ),
    case(
        "a lease update needs a revision",
        setup(post(LEASE, lease("a", holderIdentity="x"))),
        put(LEASE + "/a", lease("a", holderIdentity="y")),
    ),
    case(
        "lease fields are checked",
        post(LEASE, lease("a", leaseDurationSeconds=0)),
        post(LEASE, lease("b", leaseTransitions=-1)),
        post(LEASE, lease("c", renewTime="2026-01-01T00:00:00.000001Z")),
    ),
    case(
        "an invalid revision in an update",
        setup(post("configmaps", configmap("a"))),
        put("configmaps/a", configmap("a", resourceVersion="abc")),
    ),
    case("secrets turn text into base64", post("secrets", secret("a", {"k": "v"})), get("secrets/a")),
    case(
        "secrets refuse what is not base64",
        post("secrets", {**secret("a"), "data": {"k": "%"}}),
    ),
    case(
        "secret types have rules",
        post("secrets", {**secret("a"), "type": "kubernetes.io/tls"}),
        post("secrets", {**secret("b", {"username": "u", "password": "p"}), "type": "kubernetes.io/basic-auth"}),
        post("secrets", {**secret("c"), "type": "kubernetes.io/basic-auth"}),
        post("secrets", {**secret("e"), "type": "kubernetes.io/dockerconfigjson"}),
    ),
    case("a secret's type cannot change", setup(post("secrets", secret("a"))), put("secrets/a", {**secret("a"), "type": "other"})),
    case(
        "immutable means immutable",
        post("configmaps", {**configmap("a", {"k": "1"}), "immutable": True}),
        put("configmaps/a", configmap("a", {"k": "2"})),
        put("configmaps/a", {**configmap("a", {"k": "2"}), "immutable": True}),
        merge("configmaps/a", {"metadata": {"labels": {"still": "free"}}}),
    ),
    case(
        "config map keys are checked",
        post("configmaps", configmap("a", {"bad key": "x"})),
        post("configmaps", {**configmap("b", {"k": "x"}), "binaryData": {"k": "eA=="}}),
    ),
    case("deployments are defaulted", post("apps/v1:deployments", deployment("web", None))),
    case(
        "generation counts spec changes",
        setup(post("apps/v1:deployments", deployment("web"))),
        merge("apps/v1:deployments/web", {"spec": {"replicas": 3}}),
        merge("apps/v1:deployments/web", {"metadata": {"labels": {"a": "b"}}}),
        merge("apps/v1:deployments/web", {"status": {"replicas": 3}}),
    ),
    case(
        "the status endpoint writes status only",
        setup(post("apps/v1:deployments", deployment("web"))),
        merge("apps/v1:deployments/web/status", {"spec": {"replicas": 9}, "status": {"replicas": 1, "observedGeneration": 1}}),
        get("apps/v1:deployments/web/status"),
    ),
    case(
        "a deployment's selector is immutable and must fit",
        setup(post("apps/v1:deployments", deployment("web"))),
        merge("apps/v1:deployments/web", {"spec": {"selector": {"matchLabels": {"app": "other"}}}}),
        post("apps/v1:deployments", {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "b"}, "spec": {}}),
    ),
    case(
        "scale reads and writes replicas",
        setup(post("apps/v1:deployments", deployment("web", 2))),
        get("apps/v1:deployments/web/scale"),
        merge("apps/v1:deployments/web/scale", {"spec": {"replicas": 5}}),
        get("apps/v1:deployments/web", pick=lambda body: [body["spec"]["replicas"], body["metadata"]["generation"]]),
    ),
    case(
        "namespaces get a label and a phase",
        post("/api/v1/namespaces", {"metadata": {"name": "${slug}-more"}}),
        cleanup=["/api/v1/namespaces/${slug}-more"],
    ),
    case(
        "namespace names are labels",
        post("/api/v1/namespaces", {"metadata": {"name": "a.b"}}),
        post("/api/v1/namespaces", {"metadata": {"name": "x" * 64}}),
    ),
    case(
        "service accounts have a token endpoint",
        post("serviceaccounts", {"metadata": {"name": "robot"}}),
        post("serviceaccounts/robot/token", {"spec": {"expirationSeconds": 60}}),
        post("serviceaccounts/absent/token", {"spec": {}}),
        post("serviceaccounts/robot/token", {"spec": {"audiences": ["a"]}}),
    ),
    case(
        "services get an address",
        post("services", {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}}),
        post("services", {"metadata": {"name": "bad"}, "spec": {}}),
        post("services", {"metadata": {"name": "headless"}, "spec": {"clusterIP": "None", "selector": {"a": "b"}}}),
    ),
]
