"""The three classic patches: JSON, merge and strategic merge."""

from typing import Any

from tests.differential.dsl import Request, case, configmap, deployment, get, json_patch, merge, post, setup, strategic

A = setup(post("configmaps", configmap("a", {"k": "1", "l": "2"}, labels={"x": "y"})))
D = setup(post("apps/v1:deployments", deployment("w", 1)))
W = "apps/v1:deployments/w"
INTERNALS = {"go-internals": ["body.message", "body.details"]}


def op(name: str, path: str, **rest: object) -> dict[str, object]:
    return {"op": name, "path": path, **rest}


def containers(body: Any) -> Any:
    return body["spec"]["template"]["spec"] if "spec" in body else body


CASES = [
    case(
        "merge patch sets and removes",
        A,
        merge("configmaps/a", {"data": {"k": None, "m": "3"}, "metadata": {"labels": {"z": "1"}}}),
    ),
    case("merge patch that empties a map", A, merge("configmaps/a", {"data": None, "metadata": {"labels": None}})),
    case(
        "merge patch that is no json",
        A,
        merge("configmaps/a", "{"),
        merge("configmaps/a", "[]"),
        merge("configmaps/a", ""),
    ),
    case("merge patch to an invalid object", A, merge("configmaps/a", {"metadata": {"labels": {"bad key!": "x"}}})),
    case("merge patch of the name", A, merge("configmaps/a", {"metadata": {"name": "b"}})),
    case(
        "merge patch of kind and version",
        A,
        merge("configmaps/a", {"kind": "Secret"}, differs=INTERNALS),
        merge("configmaps/a", {"apiVersion": "v2"}),
    ),
    case(
        "merge patch with a stale revision",
        setup(post("configmaps", configmap("a"), save={"rv": "metadata.resourceVersion"})),
        setup(merge("configmaps/a", {"data": {"k": "2"}})),
        merge("configmaps/a", {"metadata": {"resourceVersion": "${rv}"}, "data": {"k": "3"}}),
    ),
    case(
        "merge patch replaces lists",
        D,
        merge(W, {"spec": {"template": {"spec": {"containers": [{"name": "other", "image": "i:1"}]}}}}, pick=containers),
    ),
    case(
        "patches of what is not there",
        merge("configmaps/none", {}),
        json_patch("configmaps/none", []),
        strategic("configmaps/none", {}),
    ),
    case(
        "json patch operations",
        A,
        json_patch(
            "configmaps/a",
            [
                op("add", "/data/m", value="3"),
                op("remove", "/data/l"),
                op("replace", "/data/k", value="9"),
                op("copy", "/data/c", **{"from": "/data/k"}),
                op("move", "/data/d", **{"from": "/data/m"}),
                op("test", "/data/k", value="9"),
            ],
        ),
    ),
    case(
        "json patch that fails",
        A,
        json_patch("configmaps/a", [op("test", "/data/k", value="other")]),
        json_patch("configmaps/a", [op("remove", "/data/none")]),
        json_patch("configmaps/a", [op("replace", "/data/none", value="x")]),
        json_patch("configmaps/a", [op("frob", "/data")]),
    ),
    case(
        "json patch that is none",
        A,
        json_patch("configmaps/a", {"op": "add"}),
        json_patch("configmaps/a", "x"),
    ),
    case(
        "json patch with escaped keys",
        A,
        json_patch("configmaps/a", [op("add", "/metadata/annotations", value={"a.io/b": "c"})]),
        json_patch("configmaps/a", [op("replace", "/metadata/annotations/a.io~1b", value="e")]),
    ),
    case(
        "json patch into lists",
        D,
        json_patch(
            W,
            [
                op("add", "/spec/template/spec/containers/-", value={"name": "two", "image": "i:2"}),
                op("add", "/spec/template/spec/containers/0", value={"name": "zero", "image": "i:0"}),
            ],
            pick=containers,
        ),
        json_patch(W, [op("remove", "/spec/template/spec/containers/7")]),
    ),
    case("too many json patch operations", A, json_patch("configmaps/a", [op("test", "/data/k", value="1")] * 10001)),
    case(
        "strategic patch merges containers by name",
        D,
        strategic(
            W,
            {
                "spec": {
                    "template": {
                        "spec": {
                            "containers": [{"name": "main", "env": [{"name": "A", "value": "1"}]}, {"name": "side", "image": "s:1"}]
                        }
                    }
                }
            },
            pick=containers,
        ),
    ),
    case(
        "strategic patch deletes a container",
        setup(post("apps/v1:deployments", deployment("w"))),
        setup(strategic(W, {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "s:1"}]}}}})),
        strategic(W, {"spec": {"template": {"spec": {"containers": [{"name": "side", "$patch": "delete"}]}}}}, pick=containers),
    ),
    case(
        "strategic patch replaces a list",
        D,
        strategic(
            W,
            {"spec": {"template": {"spec": {"containers": [{"$patch": "replace"}, {"name": "only", "image": "o:1"}]}}}},
            pick=containers,
        ),
    ),
    case(
        "strategic patch orders a list",
        D,
        setup(strategic(W, {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "s:1"}]}}}})),
        strategic(
            W,
            {
                "spec": {
                    "template": {
                        "spec": {
                            "$setElementOrder/containers": [{"name": "side"}, {"name": "main"}],
                            "containers": [{"name": "main", "image": "m:2"}],
                        }
                    }
                }
            },
            pick=containers,
        ),
    ),
    case(
        "strategic patch of primitive lists",
        setup(post("configmaps", configmap("f", finalizers=["a.io/x"]))),
        strategic("configmaps/f", {"metadata": {"finalizers": ["b.io/y"]}}),
        strategic("configmaps/f", {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a.io/x"]}}),
        setup(merge("configmaps/f", {"metadata": {"finalizers": None}})),
    ),
    case(
        "strategic patch keeps named keys",
        D,
        setup(merge(W, {"spec": {"strategy": {"rollingUpdate": {"maxSurge": 3}}}})),
        strategic(
            W,
            {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}},
            pick=lambda b: b.get("spec", {}).get("strategy", b),
        ),
    ),
    case(
        "strategic patch with ports keyed by two fields",
        D,
        strategic(
            W,
            {
                "spec": {
                    "template": {
                        "spec": {
                            "containers": [
                                {"name": "main", "ports": [{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP"}]}
                            ]
                        }
                    }
                }
            },
            pick=containers,
        ),
        strategic(
            W,
            {"spec": {"template": {"spec": {"containers": [{"name": "main", "ports": [{"containerPort": 80, "name": "http"}]}]}}}},
            pick=containers,
        ),
    ),
    case("strategic patch with an unknown directive", D, strategic(W, {"spec": {"$patch": "frob"}})),
    case(
        "strategic patch with an item that has no key",
        D,
        strategic(W, {"spec": {"template": {"spec": {"containers": [{"image": "x"}]}}}}),
    ),
    case(
        "patches in a form nobody takes",
        A,
        Request("PATCH", "configmaps/a", {}, content_type="application/json"),
        Request("PATCH", "configmaps/a", "x", content_type="text/plain"),
    ),
    case("force is for apply only", A, merge("configmaps/a", {}, query={"force": "true"})),
    case(
        "a patch is booked to its manager",
        A,
        merge("configmaps/a", {"data": {"k": "5"}}, query={"fieldManager": "tester"}),
        strategic("configmaps/a", {"data": {"l": "6"}}, query={"fieldManager": "second"}),
        get("configmaps/a"),
    ),
]
