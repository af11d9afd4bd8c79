"""Strategic merge patches on the kinds people patch: keyed lists, directives, ordering, and what they do to unions."""

from typing import Any

from tests.differential.dsl import case, configmap, deployment, get, post, setup, strategic

W = "apps/v1:deployments/w"
SIDECAR = {"name": "side", "image": "example/side:1"}


def containers(*items: Any, **spec: Any) -> dict[str, Any]:
    return {"spec": {"template": {"spec": {"containers": list(items), **spec}}}}


def podspec(body: Any) -> Any:
    return body if body["kind"] == "Status" else body["spec"]["template"]["spec"]


def spec(body: Any) -> Any:
    return body if body["kind"] == "Status" else body["spec"]


MAIN = setup(post("apps/v1:deployments", deployment("w")))
TWO = setup(strategic(W, containers(SIDECAR)))
PORTS = setup(
    strategic(
        W,
        containers(
            {"name": "main", "ports": [{"containerPort": 80, "name": "web"}, {"containerPort": 443, "name": "tls"}]},
        ),
    )
)
ENV = setup(strategic(W, containers({"name": "main", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]})))


def service(**fields: Any) -> dict[str, Any]:
    ports = [{"name": "web", "port": 80, "protocol": "TCP"}, {"name": "dns", "port": 53, "protocol": "UDP"}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "s"},
        "spec": {"selector": {"app": "w"}, "ports": ports, **fields},
    }


SERVICE = setup(post("services", service()))

CASES = [
    case("a container is added by name", MAIN, strategic(W, containers(SIDECAR), pick=podspec)),
    case("a container is changed by name", MAIN, TWO, strategic(W, containers({"name": "side", "image": "b:2"}), pick=podspec)),
    case("a container is deleted by name", MAIN, TWO, strategic(W, containers({"name": "side", "$patch": "delete"}), pick=podspec)),
    case(
        "deleting a container that is not there",
        MAIN,
        strategic(W, containers({"name": "none", "$patch": "delete"}), pick=podspec),
    ),
    case(
        "a container is replaced as a whole",
        MAIN,
        ENV,
        strategic(W, containers({"name": "main", "image": "b:2", "$patch": "replace"}), pick=podspec),
    ),
    case("all containers are replaced", MAIN, TWO, strategic(W, containers(SIDECAR, {"$patch": "replace"}), pick=podspec)),
    case("the last container cannot be deleted", MAIN, strategic(W, containers({"name": "main", "$patch": "delete"}))),
    case("a container without a name", MAIN, strategic(W, containers({"image": "x"}))),
    case(
        "an order of containers",
        MAIN,
        TWO,
        strategic(
            W,
            {"spec": {"template": {"spec": {"$setElementOrder/containers": [{"name": "side"}, {"name": "main"}]}}}},
            pick=podspec,
        ),
    ),
    case(
        "an order of containers with a change",
        MAIN,
        TWO,
        strategic(
            W,
            containers(
                {"name": "main", "image": "b:9"},
                **{"$setElementOrder/containers": [{"name": "side"}, {"name": "main"}]},
            ),
            pick=podspec,
        ),
    ),
    case(
        "an order that misses a patched container",
        MAIN,
        TWO,
        strategic(W, containers({"name": "main", "image": "b:9"}, **{"$setElementOrder/containers": [{"name": "side"}]})),
    ),
    case(
        "ports are keyed by their number",
        MAIN,
        PORTS,
        strategic(W, containers({"name": "main", "ports": [{"containerPort": 80, "name": "http"}]}), pick=podspec),
        strategic(W, containers({"name": "main", "ports": [{"containerPort": 443, "$patch": "delete"}]}), pick=podspec),
    ),
    case(
        "variables are keyed by their name",
        MAIN,
        ENV,
        strategic(
            W,
            containers({"name": "main", "env": [{"name": "B", "value": None}, {"name": "C", "value": "3"}]}),
            pick=podspec,
        ),
        strategic(W, containers({"name": "main", "env": [{"name": "A", "$patch": "delete"}]}), pick=podspec),
        strategic(W, containers({"name": "main", "env": None}), pick=podspec),
    ),
    case(
        "arguments are replaced and not merged",
        MAIN,
        setup(strategic(W, containers({"name": "main", "args": ["a", "b"]}))),
        strategic(W, containers({"name": "main", "args": ["c"]}), pick=podspec),
        strategic(W, containers({"name": "main", "args": []}), pick=podspec),
    ),
    case(
        "volumes keep what they are of",
        MAIN,
        strategic(W, containers(volumes=[{"name": "v", "emptyDir": {}}]), pick=podspec),
        strategic(
            W,
            containers(volumes=[{"name": "v", "$retainKeys": ["name", "configMap"], "configMap": {"name": "c"}}]),
            pick=podspec,
        ),
        strategic(W, containers(volumes=[{"name": "v", "hostPath": {"path": "/x"}}])),
    ),
    case(
        "the strategy is a union",
        MAIN,
        strategic(W, {"spec": {"strategy": {"type": "Recreate"}}}),
        strategic(W, {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}, pick=spec),
    ),
    case(
        "tolerations are no keyed list",
        MAIN,
        setup(strategic(W, containers(tolerations=[{"key": "a", "operator": "Exists"}]))),
        strategic(W, containers(tolerations=[{"key": "b", "operator": "Exists"}]), pick=podspec),
    ),
    case(
        "pull secrets are keyed by name",
        MAIN,
        strategic(W, containers(imagePullSecrets=[{"name": "a"}]), pick=podspec),
        strategic(W, containers(imagePullSecrets=[{"name": "b"}]), pick=podspec),
    ),
    case(
        "a map is replaced",
        setup(post("configmaps", configmap("a", {"k": "1", "l": "2"}))),
        strategic("configmaps/a", {"data": {"$patch": "replace", "m": "3"}}),
    ),
    case(
        "a map is deleted",
        setup(post("configmaps", configmap("a", {"k": "1"}))),
        strategic("configmaps/a", {"data": {"$patch": "delete"}}),
    ),
    case(
        "a whole object is replaced",
        setup(post("configmaps", configmap("a", {"k": "1"}, labels={"x": "y"}))),
        strategic("configmaps/a", {"$patch": "replace", "metadata": {"name": "a"}, "data": {"z": "1"}}),
    ),
    case(
        "an unknown directive",
        setup(post("configmaps", configmap("a", {"k": "1"}))),
        strategic("configmaps/a", {"data": {"$patch": "shuffle"}}),
    ),
    case(
        "finalizers merge and can be taken out",
        setup(post("configmaps", configmap("a", finalizers=["a.io/x"]))),
        strategic("configmaps/a", {"metadata": {"finalizers": ["b.io/y"]}}),
        strategic("configmaps/a", {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a.io/x", "b.io/y"]}}),
    ),
    case(
        "finalizers in an order",
        setup(post("configmaps", configmap("a", finalizers=["a.io/x", "a.io/y"]))),
        strategic(
            "configmaps/a", {"metadata": {"$setElementOrder/finalizers": ["a.io/y", "a.io/z", "a.io/x"], "finalizers": ["a.io/z"]}}
        ),
        strategic("configmaps/a", {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a.io/x", "a.io/y", "a.io/z"]}}),
    ),
    case(
        "owner references are keyed by uid",
        setup(post("configmaps", configmap("o"), save={"uid": "metadata.uid"})),
        setup(post("configmaps", configmap("a"))),
        strategic(
            "configmaps/a",
            {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "${uid}"}]}},
        ),
        strategic("configmaps/a", {"metadata": {"ownerReferences": [{"uid": "${uid}", "blockOwnerDeletion": True}]}}),
        strategic("configmaps/a", {"metadata": {"ownerReferences": [{"uid": "${uid}", "$patch": "delete"}]}}),
    ),
    case(
        "service ports are keyed by number",
        SERVICE,
        strategic("services/s", {"spec": {"ports": [{"port": 80, "targetPort": 8080}]}}, pick=spec),
        strategic("services/s", {"spec": {"ports": [{"port": 53, "$patch": "delete"}]}}, pick=spec),
        strategic("services/s", {"spec": {"ports": [{"port": 443, "name": "tls"}]}}, pick=spec),
    ),
    case("a service port that needs a name", SERVICE, strategic("services/s", {"spec": {"ports": [{"port": 443}]}})),
    case(
        "a selector grows and shrinks",
        SERVICE,
        strategic("services/s", {"spec": {"selector": {"tier": "web", "app": None}}}, pick=spec),
    ),
    case("a value of the wrong type in a list", MAIN, strategic(W, containers("main"))),
    case("a list where a map belongs", MAIN, strategic(W, {"spec": {"template": []}})),
    case("a map where a list belongs", MAIN, strategic(W, {"spec": {"template": {"spec": {"containers": {"name": "x"}}}}})),
    case(
        "subjects are not keyed",
        setup(
            post(
                "rbac.authorization.k8s.io/v1:rolebindings",
                {
                    "metadata": {"name": "b"},
                    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
                    "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "u"}],
                },
            )
        ),
        strategic("rbac.authorization.k8s.io/v1:rolebindings/b", {"subjects": [{"kind": "User", "name": "v"}]}),
    ),
    case(
        "conditions of a status are keyed by type",
        MAIN,
        strategic(
            f"{W}/status",
            {"status": {"conditions": [{"type": "Available", "status": "True", "reason": "a", "message": ""}]}},
            pick=lambda b: b.get("status"),
        ),
        strategic(
            f"{W}/status",
            {"status": {"conditions": [{"type": "Available", "status": "False"}, {"type": "Progressing", "status": "True"}]}},
            pick=lambda b: b.get("status"),
        ),
        get(W, pick=lambda b: b.get("status")),
    ),
]
