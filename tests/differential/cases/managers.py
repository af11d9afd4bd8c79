"""Server-side apply among several managers: lists, conflicts, force, versions, and plain writes in between."""

from typing import Any

from tests.differential.dsl import apply, case, configmap, crd, delete, deployment, established, get, merge, post, put, setup

W = "apps/v1:deployments/w"
HPA = {"minReplicas": 1, "maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "w", "apiVersion": "apps/v1"}}


def workload(*containers: Any, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "w"},
        "spec": {
            "selector": {"matchLabels": {"app": "w"}},
            "template": {"metadata": {"labels": {"app": "w"}}, "spec": {"containers": list(containers)}},
            **spec,
        },
    }


def container(name: str = "main", **fields: Any) -> dict[str, Any]:
    return {"name": name, "image": "m:1", **fields}


def shown(body: Any) -> Any:
    """What apply decides: the containers, and who owns what."""
    if body["kind"] == "Status":
        return body
    spec = body.get("spec", {}).get("template", {}).get("spec", {})
    return spec.get("containers", body.get("data")), body["metadata"].get("managedFields")


def conflicts(body: Any) -> Any:
    """Conflicts with different managers come in the order of a Go map."""
    return body["message"], sorted(cause["field"] for cause in body["details"]["causes"])


def service(*ports: Any) -> dict[str, Any]:
    spec = {"clusterIP": "None", "selector": {"a": "b"}, "ports": list(ports)}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": spec}


def scaler(version: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"autoscaling/{version}",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "h"},
        "spec": {**HPA, **spec},
    }


SETS = {
    "spec": {
        "type": "object",
        "properties": {
            "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            "rows": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["a", "b"],
                "items": {
                    "type": "object",
                    "required": ["a", "b"],
                    "properties": {"a": {"type": "string"}, "b": {"type": "integer"}, "v": {"type": "string"}},
                },
            },
            "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}},
            "plain": {"type": "array", "items": {"type": "string"}},
        },
    }
}
DEFINED = (
    setup(post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd("bags", "Bag", SETS))),
    established("bags.${slug}.io"),
)
CLEAN = ["/apis/apiextensions.k8s.io/v1/customresourcedefinitions/bags.${slug}.io"]
BAG = "${slug}.io/v1:bags/b"


def bag(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "${slug}.io/v1", "kind": "Bag", "metadata": {"name": "b"}, "spec": spec}


CASES = [
    case(
        "three managers and their containers",
        apply(W, workload(container()), "one", pick=shown),
        apply(W, workload(container("side")), "two", pick=shown),
        apply(W, workload(container(), container("third")), "three", pick=shown),
        apply(W, workload(container("side", image="s:2")), "one", pick=shown),
        apply(W, workload(), "two", pick=shown),
    ),
    case(
        "conflicts with several managers are all told",
        apply("configmaps/a", configmap("a", {"k": "1"}), "one"),
        apply("configmaps/a", configmap("a", {"l": "1"}), "two"),
        apply("configmaps/a", configmap("a", {"k": "2", "l": "2", "m": "2"}), "three", pick=conflicts),
        apply("configmaps/a", configmap("a", {"k": "2", "l": "2", "m": "2"}), "three", force=True),
        apply("configmaps/a", configmap("a", {"k": "1"}), "one"),
    ),
    case(
        "force takes only what conflicts",
        apply("configmaps/a", configmap("a", {"k": "1", "l": "1"}), "one"),
        apply("configmaps/a", configmap("a", {"k": "2"}), "two", force=True),
        apply("configmaps/a", configmap("a", {"l": "1"}), "one"),
        apply("configmaps/a", configmap("a"), "two"),
    ),
    case(
        "an update takes fields without asking",
        apply("configmaps/a", configmap("a", {"k": "1", "l": "1"}), "one"),
        put("configmaps/a", configmap("a", {"k": "2", "l": "1"}), query={"fieldManager": "editor"}),
        apply("configmaps/a", configmap("a", {"k": "1", "l": "1"}), "one"),
        apply("configmaps/a", configmap("a", {"k": "2", "l": "1"}), "one"),
        merge("configmaps/a", {"data": {"k": None}}, query={"fieldManager": "editor"}),
    ),
    case(
        "an applier that updates has two entries",
        apply("configmaps/a", configmap("a", {"k": "1"}), "one"),
        merge("configmaps/a", {"data": {"l": "1"}}, query={"fieldManager": "one"}),
        apply("configmaps/a", configmap("a", {"k": "1", "l": "1"}), "one"),
        apply("configmaps/a", configmap("a", {"k": "1"}), "one"),
    ),
    case(
        "ports are keyed by number and protocol",
        apply("services/s", service({"port": 53, "name": "tcp", "protocol": "TCP"}), "one"),
        apply("services/s", service({"port": 53, "name": "udp", "protocol": "UDP"}), "two"),
        apply("services/s", service({"port": 53, "name": "udp", "protocol": "UDP", "targetPort": 1}), "one", force=True),
    ),
    case(
        "a port without its protocol gets the default key",
        apply("services/s", service({"port": 80}), "one"),
        apply("services/s", service({"port": 80, "protocol": "TCP", "targetPort": 8080}), "two"),
    ),
    case(
        "duplicate keys in a list are refused",
        apply(W, workload(container(), container())),
        apply(W, workload(container(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]))),
    ),
    case("an item without its key", apply(W, workload({"image": "m:1"}))),
    case(
        "applying null",
        apply("configmaps/a", configmap("a", {"k": "1"}), "one"),
        apply("configmaps/a", {**configmap("a"), "data": None}, "one"),
        apply("configmaps/a", {**configmap("a"), "data": {"k": None}}, "two"),
    ),
    case(
        "finalizers are a set",
        apply("configmaps/a", configmap("a", finalizers=["a.io/x"]), "one"),
        apply("configmaps/a", configmap("a", finalizers=["a.io/y"]), "two"),
        apply("configmaps/a", configmap("a"), "one"),
        apply("configmaps/a", configmap("a"), "two"),
    ),
    case(
        "apply over two versions of a kind",
        apply("autoscaling/v2:horizontalpodautoscalers/h", scaler("v2"), "one"),
        apply("autoscaling/v1:horizontalpodautoscalers/h", scaler("v1", maxReplicas=5), "two"),
        apply("autoscaling/v1:horizontalpodautoscalers/h", scaler("v1", maxReplicas=5), "two", force=True),
        apply("autoscaling/v2:horizontalpodautoscalers/h", scaler("v2", maxReplicas=5), "one"),
        get("autoscaling/v1:horizontalpodautoscalers/h"),
    ),
    case(
        "sets and maps of custom resources",
        *DEFINED,
        apply(BAG, bag(tags=["a", "b"], rows=[{"a": "x", "b": 1, "v": "1"}]), "one"),
        apply(BAG, bag(tags=["b", "c"], rows=[{"a": "x", "b": 2, "v": "1"}]), "two"),
        apply(BAG, bag(tags=["a"]), "one"),
        apply(BAG, bag(rows=[{"a": "x", "b": 2, "v": "2"}]), "one"),
        apply(BAG, bag(), "two"),
        cleanup=CLEAN,
    ),
    case(
        "atomic fields of custom resources belong to one",
        *DEFINED,
        apply(BAG, bag(whole={"a": "1"}, plain=["a"]), "one"),
        apply(BAG, bag(whole={"b": "1"}), "two"),
        apply(BAG, bag(whole={"b": "1"}, plain=["b"]), "two", force=True),
        apply(BAG, bag(), "one"),
        cleanup=CLEAN,
    ),
    case(
        "duplicates in a set of a custom resource",
        *DEFINED,
        apply(BAG, bag(tags=["a", "a"])),
        apply(BAG, bag(rows=[{"a": "x", "b": 1}, {"a": "x", "b": 1}])),
        apply(BAG, bag(rows=[{"a": "x"}])),
        apply(BAG, bag(tags="a")),
        cleanup=CLEAN,
    ),
    case(
        "apply with a revision",
        apply("configmaps/a", configmap("a", {"k": "1"}), save={"rv": "metadata.resourceVersion"}),
        apply("configmaps/a", configmap("a", {"k": "2"}, resourceVersion="${rv}")),
        apply("configmaps/a", configmap("a", {"k": "3"}, resourceVersion="${rv}")),
    ),
    case(
        "apply with an identity",
        apply("configmaps/a", configmap("a", {"k": "1"}, uid="11111111-1111-1111-1111-111111111111")),
        apply("configmaps/a", configmap("a", {"k": "1"}), save={"uid": "metadata.uid"}),
        apply("configmaps/a", configmap("a", {"k": "2"}, uid="${uid}")),
    ),
    case(
        "apply on a dying object",
        apply("configmaps/a", configmap("a", {"k": "1"}, finalizers=["a.io/x"])),
        setup(delete("configmaps/a")),
        apply("configmaps/a", configmap("a", {"k": "2"}, finalizers=["a.io/x"])),
        apply("configmaps/a", configmap("a", {"k": "2"})),
        get("configmaps/a"),
    ),
    case(
        "apply as a rehearsal",
        apply("configmaps/a", configmap("a", {"k": "1"}), query={"dryRun": "All"}),
        get("configmaps/a"),
        apply("configmaps/a", configmap("a", {"k": "1"})),
        apply("configmaps/a", configmap("a", {"k": "2"}), "two", query={"dryRun": "All"}),
        apply("configmaps/a", configmap("a", {"k": "2"}), "two", force=True, query={"dryRun": "All"}),
        get("configmaps/a"),
    ),
    case(
        "many updaters are folded",
        setup(post("configmaps", configmap("a", {"k": "0"}))),
        *(setup(merge("configmaps/a", {"data": {f"k{i}": "1"}}, query={"fieldManager": f"m{i:02}"})) for i in range(12)),
        get("configmaps/a", pick=lambda b: sorted(entry["manager"] for entry in b["metadata"]["managedFields"])[:1]),
        get("configmaps/a", pick=lambda b: len(b["metadata"]["managedFields"])),
    ),
    case(
        "the first apply finds who was there before",
        setup(post("configmaps", {**configmap("a", {"k": "1"})})),
        merge("configmaps/a", {"metadata": {"managedFields": [{}]}}),
        apply("configmaps/a", configmap("a", {"k": "2"}), "one"),
        apply("configmaps/a", configmap("a", {"k": "2"}), "one", force=True),
    ),
    case(
        "labels and annotations are granular",
        apply("configmaps/a", configmap("a", labels={"a": "1"}, annotations={"x": "1"}), "one"),
        apply("configmaps/a", configmap("a", labels={"b": "1"}, annotations={"x": "2"}), "two"),
        apply("configmaps/a", configmap("a", labels={"b": "1"}, annotations={"y": "2"}), "two"),
        apply("configmaps/a", configmap("a", labels={"a": "1"}), "one"),
    ),
    case(
        "a deployment applied and scaled and applied",
        setup(post("apps/v1:deployments", deployment("w", 1), query={"fieldManager": "creator"})),
        apply(W, workload(container(), replicas=2), "one", pick=shown),
        apply(W, workload(container(), replicas=2), "one", force=True, pick=shown),
        apply(W, workload(container()), "one", pick=lambda b: (b.get("message"), b.get("spec", {}).get("replicas"))),
    ),
]
