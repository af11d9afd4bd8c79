"""Deletion: options, preconditions, finalizers, collections and the garbage collector."""

from tests.differential.dsl import Request, case, configmap, delete, deployment, get, merge, post, put, setup

A = setup(post("configmaps", configmap("a", {"k": "v"})))
F = setup(post("configmaps", configmap("f", {"k": "v"}, finalizers=["a.io/x", "b.io/y"])))
OWNED = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "${uid}"}]
OWNER = setup(post("configmaps", configmap("owner"), save={"uid": "metadata.uid"}))


def gone(path: str) -> Request:
    return get(path, until=("code", 404), keep=False)


CASES = [
    case("delete answers success and the object is gone", A, delete("configmaps/a"), get("configmaps/a"), delete("configmaps/a")),
    case(
        "delete in another group names the group",
        setup(post("apps/v1:deployments", deployment("w"))),
        delete("apps/v1:deployments/w"),
    ),
    case("delete options as body", A, delete("configmaps/a", {"propagationPolicy": "Background"})),
    case(
        "delete options with kind",
        A,
        delete("configmaps/a", {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}),
    ),
    case("delete options of the wrong kind", A, delete("configmaps/a", {"kind": "ConfigMap", "apiVersion": "v1"})),
    case(
        "delete options that are no json",
        A,
        delete("configmaps/a", "{", content_type="application/json", differs={"parser-messages": ["body.message"]}),
    ),
    case("delete options as query", A, delete("configmaps/a", query={"propagationPolicy": "Orphan"})),
    case(
        "contradicting delete options",
        A,
        delete("configmaps/a", {"propagationPolicy": "Sometimes"}),
        delete("configmaps/a", {"propagationPolicy": "Orphan", "orphanDependents": True}),
        delete("configmaps/a", {"gracePeriodSeconds": -1}),
        delete("configmaps/a", {"dryRun": ["Some"]}),
    ),
    case(
        "a uid precondition",
        A,
        delete("configmaps/a", {"preconditions": {"uid": "11111111-1111-1111-1111-111111111111"}}),
        get("configmaps/a", save={"uid": "metadata.uid"}),
        delete("configmaps/a", {"preconditions": {"uid": "${uid}"}}),
    ),
    case(
        "a revision precondition",
        setup(post("configmaps", configmap("a"), save={"rv": "metadata.resourceVersion"})),
        setup(merge("configmaps/a", {"data": {"k": "2"}}, save={"rv2": "metadata.resourceVersion"})),
        delete("configmaps/a", {"preconditions": {"resourceVersion": "${rv}"}}),
        delete("configmaps/a", {"preconditions": {"resourceVersion": "${rv2}"}}),
    ),
    case(
        "a dry-run delete does nothing",
        A,
        delete("configmaps/a", query={"dryRun": "All"}),
        delete("configmaps/a", {"dryRun": ["All"]}),
        get("configmaps/a"),
    ),
    case(
        "finalizers hold an object back",
        F,
        delete("configmaps/f"),
        delete("configmaps/f"),
        get("configmaps/f"),
        merge("configmaps/f", {"metadata": {"finalizers": ["b.io/y"]}}),
        merge("configmaps/f", {"metadata": {"finalizers": []}}),
        get("configmaps/f"),
    ),
    case("a deleting object may still change", F, setup(delete("configmaps/f")), merge("configmaps/f", {"data": {"k": "2"}})),
    case(
        "a deleting object gets no new finalizers",
        F,
        setup(delete("configmaps/f")),
        merge("configmaps/f", {"metadata": {"finalizers": ["a.io/x", "b.io/y", "c.io/z"]}}),
    ),
    case("a name is taken while its object is deleting", F, setup(delete("configmaps/f")), post("configmaps", configmap("f"))),
    case(
        "a deleting deployment counts a generation",
        setup(post("apps/v1:deployments", {**deployment("w"), "metadata": {"name": "w", "finalizers": ["a.io/x"]}})),
        delete("apps/v1:deployments/w"),
    ),
    case(
        "foreground deletion adds a finalizer",
        setup(post("configmaps", configmap("f", finalizers=["a.io/x"]))),
        delete("configmaps/f", {"propagationPolicy": "Foreground"}),
    ),
    case(
        "removing the last finalizer by update",
        F,
        setup(delete("configmaps/f")),
        put("configmaps/f", configmap("f", {"k": "v"})),
        get("configmaps/f"),
    ),
    case(
        "deletecollection by selector",
        *(setup(post("configmaps", configmap(n, labels={"mine": "yes"}))) for n in "abc"),
        A_OTHER := setup(post("configmaps", configmap("keep"))),
        delete("configmaps", query={"labelSelector": "mine=yes"}),
        get("configmaps/keep"),
        get("configmaps", query={"labelSelector": "mine=yes"}),
    ),
    case("deletecollection of nothing", delete("configmaps", query={"labelSelector": "mine=yes"})),
    case(
        "deletecollection as dry run",
        setup(post("configmaps", configmap("a", labels={"mine": "yes"}))),
        delete("configmaps", query={"labelSelector": "mine=yes", "dryRun": "All"}),
        get("configmaps/a"),
    ),
    case(
        "deletecollection with finalizers",
        setup(post("configmaps", configmap("f", finalizers=["a.io/x"], labels={"mine": "yes"}))),
        delete("configmaps", query={"labelSelector": "mine=yes"}),
        get("configmaps/f"),
    ),
    case(
        "dependents follow their owner",
        OWNER,
        setup(post("configmaps", configmap("child", ownerReferences=OWNED))),
        delete("configmaps/owner"),
        gone("configmaps/child"),
        get("configmaps/child"),
    ),
    case(
        "dependents of an owner that never was",
        setup(
            post("configmaps", configmap("child", ownerReferences=[{**OWNED[0], "uid": "11111111-1111-1111-1111-111111111111"}]))
        ),
        gone("configmaps/child"),
        get("configmaps/child"),
    ),
    case(
        "orphans stay and forget their owner",
        OWNER,
        setup(post("configmaps", configmap("child", ownerReferences=OWNED))),
        setup(get("configmaps/child")),
        setup(delete("configmaps/owner", {"propagationPolicy": "Orphan"})),
        gone("configmaps/owner"),
        get("configmaps/child"),
    ),
    case(
        "foreground deletion waits for blocking dependents",
        OWNER,
        setup(
            post(
                "configmaps", configmap("child", finalizers=["a.io/x"], ownerReferences=[{**OWNED[0], "blockOwnerDeletion": True}])
            )
        ),
        setup(delete("configmaps/owner", {"propagationPolicy": "Foreground"})),
        get("configmaps/child", until=("metadata.deletionGracePeriodSeconds", 0), keep=False),
        get("configmaps/owner"),
        setup(merge("configmaps/child", {"metadata": {"finalizers": None}})),
        gone("configmaps/owner"),
        get("configmaps/owner"),
    ),
    case(
        "system namespaces cannot be deleted",
        delete("/api/v1/namespaces/default"),
        delete("/api/v1/namespaces/kube-system"),
        delete("/api/v1/namespaces/kube-public"),
    ),
    case(
        "a namespace empties and goes",
        setup(post("/api/v1/namespaces", {"metadata": {"name": "${slug}-2"}})),
        setup(post("/api/v1/namespaces/${slug}-2/configmaps", configmap("a"))),
        delete("/api/v1/namespaces/${slug}-2"),
        gone("/api/v1/namespaces/${slug}-2"),
        get("/api/v1/namespaces/${slug}-2/configmaps/a"),
    ),
    case(
        "nothing can be created in a terminating namespace",
        setup(post("/api/v1/namespaces", {"metadata": {"name": "${slug}-2"}})),
        setup(post("/api/v1/namespaces/${slug}-2/configmaps", configmap("hold", finalizers=["a.io/x"]))),
        setup(delete("/api/v1/namespaces/${slug}-2")),
        post("/api/v1/namespaces/${slug}-2/configmaps", configmap("late")),
        setup(merge("/api/v1/namespaces/${slug}-2/configmaps/hold", {"metadata": {"finalizers": None}})),
        gone("/api/v1/namespaces/${slug}-2"),
        get("/api/v1/namespaces/${slug}-2"),
    ),
]
