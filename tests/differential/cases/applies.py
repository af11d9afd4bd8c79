"""Server-side apply: ownership, conflicts, removal and the errors around them."""

from typing import Any

from tests.differential.dsl import apply, case, configmap, deployment, get, json_patch, merge, post, put, setup

W = "apps/v1:deployments/w"


def managed(body: Any) -> Any:
    return (
        {"data": body.get("data"), "managedFields": body["metadata"].get("managedFields")}
        if "metadata" in body and body["kind"] != "Status"
        else body
    )


def pod(*containers: Any, **spec: object) -> dict[str, object]:
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


LAST_APPLIED = (
    '{"apiVersion":"v1","data":{"k":"1"},"kind":"ConfigMap","metadata":{"annotations":{},"name":"a","namespace":"${ns}"}}\n'
)
MAIN = {"name": "main", "image": "m:1"}

CASES = [
    case("apply creates", apply("configmaps/a", configmap("a", {"k": "1"}))),
    case(
        "apply again changes nothing",
        apply("configmaps/a", configmap("a", {"k": "1"})),
        apply("configmaps/a", configmap("a", {"k": "1"})),
    ),
    case(
        "apply removes what it no longer names",
        apply("configmaps/a", configmap("a", {"k": "1", "l": "2"})),
        apply("configmaps/a", configmap("a", {"k": "1"})),
    ),
    case(
        "two managers share an object",
        apply("configmaps/a", configmap("a", {"k": "1"}), "one"),
        apply("configmaps/a", configmap("a", {"l": "2"}), "two"),
        get("configmaps/a"),
    ),
    case(
        "two managers own the same value",
        apply("configmaps/a", configmap("a", {"k": "1"}), "one"),
        apply("configmaps/a", configmap("a", {"k": "1"}), "two"),
        apply("configmaps/a", configmap("a"), "one"),
        apply("configmaps/a", configmap("a"), "two"),
    ),
    case(
        "a conflict names manager and field",
        apply("configmaps/a", configmap("a", {"k": "1"}), "one"),
        apply("configmaps/a", configmap("a", {"k": "2"}), "two"),
    ),
    case(
        "several conflicts",
        apply("configmaps/a", configmap("a", {"k": "1", "l": "1"}), "one"),
        apply("configmaps/a", configmap("a", {"m": "1"}), "three"),
        apply("configmaps/a", configmap("a", {"k": "2", "l": "2", "m": "2"}), "two"),
    ),
    case(
        "force takes ownership",
        apply("configmaps/a", configmap("a", {"k": "1"}), "one"),
        apply("configmaps/a", configmap("a", {"k": "2"}), "two", force=True),
    ),
    case(
        "an update takes ownership without asking",
        apply("configmaps/a", configmap("a", {"k": "1"}), "one"),
        merge("configmaps/a", {"data": {"k": "2"}}, query={"fieldManager": "two"}),
        apply("configmaps/a", configmap("a", {"k": "1"}), "one"),
    ),
    case(
        "apply over an object that was created",
        setup(post("configmaps", configmap("a", {"k": "1", "l": "2"}))),
        apply("configmaps/a", configmap("a", {"k": "1"})),
        apply("configmaps/a", configmap("a", {"k": "3"})),
    ),
    case(
        "apply needs a manager",
        apply("configmaps/a", configmap("a"), None),
        apply("configmaps/a", configmap("a"), ""),
        apply("configmaps/a", configmap("a"), "x" * 129),
        apply("configmaps/a", configmap("a"), "b\x01d"),
    ),
    case(
        "apply needs kind and version",
        apply("configmaps/a", {"metadata": {"name": "a"}}),
        apply("configmaps/a", {"apiVersion": "v1", "metadata": {"name": "a"}}),
        apply("configmaps/a", {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}),
    ),
    case("apply under another name", apply("configmaps/a", configmap("b"))),
    case("apply without a name", apply("configmaps/a", {"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "v"}})),
    case("apply with managed fields", apply("configmaps/a", configmap("a", managedFields=[{"manager": "x"}]))),
    case("apply with a uid of nothing", apply("configmaps/a", configmap("a", uid="11111111-1111-1111-1111-111111111111"))),
    case(
        "apply with a stale revision",
        setup(post("configmaps", configmap("a"), save={"rv": "metadata.resourceVersion"})),
        setup(merge("configmaps/a", {"data": {"k": "1"}})),
        apply("configmaps/a", configmap("a", {"l": "1"}, resourceVersion="${rv}")),
    ),
    case("apply of unknown fields", apply("configmaps/a", {**configmap("a"), "frob": 1}), apply(W, pod({**MAIN, "frob": 1}))),
    case(
        "apply of a broken body",
        apply("configmaps/a", "{", differs={"parser-messages": ["body.message"]}),
        apply("configmaps/a", "- a\n", differs={"parser-messages": ["body.message"]}),
    ),
    case("apply of yaml", apply("configmaps/a", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: v\n")),
    case("apply of the wrong type", apply("configmaps/a", {**configmap("a"), "data": "x"}), apply(W, pod(MAIN, replicas="three"))),
    case("apply of an invalid object", apply("configmaps/a", configmap("a", {"bad key": "x"}))),
    case("apply as dry run", apply("configmaps/a", configmap("a", {"k": "1"}), query={"dryRun": "All"}), get("configmaps/a")),
    case(
        "applied containers are keyed by name",
        apply(W, pod(MAIN)),
        apply(W, pod({"name": "side", "image": "s:1"}), "two"),
        apply(W, pod({**MAIN, "image": "m:2"}), "one"),
    ),
    case(
        "an applied container goes with its manager",
        apply(W, pod(MAIN)),
        apply(W, pod(MAIN, {"name": "side", "image": "s:1"}), "two"),
        apply(W, pod(MAIN), "two"),
    ),
    case("duplicate keys in an applied list", apply(W, pod(MAIN, MAIN))),
    case(
        "applied ports are keyed by two fields",
        apply(W, pod({**MAIN, "ports": [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 80, "protocol": "UDP"}]})),
    ),
    case("applied ports need their defaulted key", apply(W, pod({**MAIN, "ports": [{"containerPort": 80}]}))),
    case(
        "applied finalizers are a set",
        apply("configmaps/a", configmap("a", finalizers=["a.io/x"]), "one"),
        apply("configmaps/a", configmap("a", finalizers=["b.io/y"]), "two"),
        apply("configmaps/a", configmap("a"), "one"),
        setup(merge("configmaps/a", {"metadata": {"finalizers": None}})),
    ),
    case(
        "replicas change hands with scale",
        apply(W, pod(MAIN, replicas=2)),
        merge(W + "/scale", {"spec": {"replicas": 5}}),
        get(W, pick=lambda b: b["metadata"]["managedFields"]),
        apply(W, pod(MAIN, replicas=2)),
    ),
    case(
        "status is booked to its own entry",
        apply(W, pod(MAIN)),
        merge(W + "/status", {"status": {"replicas": 1}}),
        get(W, pick=lambda b: b["metadata"]["managedFields"]),
    ),
    case("status in a main apply is ignored", apply(W, {**pod(MAIN), "status": {"replicas": 7}})),
    case(
        "managed fields can be reset",
        apply("configmaps/a", configmap("a", {"k": "1"})),
        merge("configmaps/a", {"metadata": {"managedFields": [{}]}}),
        apply("configmaps/a", configmap("a", {"k": "2"}), "two"),
    ),
    case(
        "managed fields can be edited",
        apply("configmaps/a", configmap("a", {"k": "1"})),
        json_patch("configmaps/a", [{"op": "replace", "path": "/metadata/managedFields/0/manager", "value": "renamed"}]),
    ),
    case(
        "broken managed fields are refused or ignored",
        setup(apply("configmaps/a", configmap("a", {"k": "1"}))),
        put("configmaps/a", configmap("a", {"k": "1"}, managedFields=[{"manager": "x", "operation": "Frob"}])),
        put(
            "configmaps/a",
            configmap("a", {"k": "1"}, managedFields=[{"manager": "x", "operation": "Update", "fieldsType": "FieldsV9"}]),
        ),
    ),
    case(
        "the manager of a write is the user agent",
        post("configmaps", configmap("a"), headers={"User-Agent": "frobber/1.2 (linux)"}),
        post("configmaps", configmap("b", {"k": "v"}), headers={"User-Agent": "frobber/1.2 (linux)"}),
    ),
    case(
        "kubectl's client-side apply hands over",
        setup(
            post(
                "configmaps",
                configmap(
                    "a",
                    {"k": "1"},
                    annotations={"kubectl.kubernetes.io/last-applied-configuration": LAST_APPLIED},
                ),
                query={"fieldManager": "kubectl-client-side-apply"},
            )
        ),
        apply("configmaps/a", configmap("a", {"k": "2"}), "kubectl"),
    ),
    case(
        "deployment created then applied",
        setup(post("apps/v1:deployments", deployment("w", 1))),
        apply(W, pod(MAIN)),
        apply(W, pod(MAIN), force=True),
    ),
]
