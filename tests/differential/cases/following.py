"""Watches in depth: selectors that change their mind, forms, starts and resumption."""

from typing import Any

from tests.differential.cases.negotiation import PARTIAL, TABLE
from tests.differential.dsl import (
    apply,
    case,
    configmap,
    crd,
    delete,
    deployment,
    established,
    get,
    json_patch,
    merge,
    post,
    setup,
    watch,
)

A = setup(post("configmaps", configmap("a", {"k": "1"}, labels={"mine": "yes"}), save={"rv": "metadata.resourceVersion"}))
FROM = {"resourceVersion": "${rv}"}
MINE = {**FROM, "labelSelector": "mine=yes"}
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
COLOUR = {"spec": {"type": "object", "properties": {"colour": {"type": "string"}}}}
PAINTS = crd("paints", "Paint", COLOUR, selectableFields=[{"jsonPath": ".spec.colour"}])
DEFINED = (setup(post(DEFINITIONS, PAINTS)), established("paints.${slug}.io"))
PAINT = "${slug}.io/v1:paints"


def paint(name: str, colour: str) -> dict[str, Any]:
    return {"apiVersion": "${slug}.io/v1", "kind": "Paint", "metadata": {"name": name}, "spec": {"colour": colour}}


def event(name: str, **fields: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "action": "Act",
        "reason": "Because",
        "type": "Normal",
        "regarding": {"kind": "Namespace", "name": "${ns}", "namespace": "${ns}"},
        **fields,
    }


def old_event(name: str, **fields: Any) -> dict[str, Any]:
    involved = {"kind": "Namespace", "name": "${ns}", "namespace": "${ns}"}
    return {"metadata": {"name": name}, "involvedObject": involved, "reason": "Because", "type": "Normal", **fields}


REPORTERS = {
    "events": (
        "reportingComponent=a.io/c",
        "reportingComponent=b.io/c",
        "reportingComponent=",
        "source=kubelet",
        "source=a.io/c",
        "reportingController=a.io/c",
    ),
    "events.k8s.io/v1:events": (
        "reportingController=a.io/c",
        "reportingController!=a.io/c",
        "regarding.kind=Namespace",
        "regarding.name=none",
        "reportingComponent=a.io/c",
        "source=kubelet",
    ),
}

CASES = [
    case(
        "entering and leaving by a set of values",
        A,
        watch(
            "configmaps",
            setup(merge("configmaps/a", {"metadata": {"labels": {"mine": "perhaps"}}})),
            setup(merge("configmaps/a", {"metadata": {"labels": {"mine": "no"}}})),
            setup(merge("configmaps/a", {"metadata": {"labels": {"mine": "perhaps"}}})),
            take=3,
            query={**FROM, "labelSelector": "mine in (yes,perhaps)"},
        ),
    ),
    case(
        "an absent label matches a negation",
        A,
        watch(
            "configmaps",
            setup(merge("configmaps/a", {"metadata": {"labels": {"mine": None}}})),
            setup(merge("configmaps/a", {"metadata": {"labels": {"mine": "yes"}}})),
            take=2,
            query={**FROM, "labelSelector": "mine!=yes"},
        ),
    ),
    case(
        "created and deleted outside of the selector is nothing",
        A,
        watch(
            "configmaps",
            setup(post("configmaps", configmap("b"))),
            setup(delete("configmaps/b")),
            setup(delete("configmaps/a")),
            take=1,
            query=MINE,
        ),
    ),
    case(
        "deleted after leaving is one deletion",
        A,
        watch(
            "configmaps",
            setup(merge("configmaps/a", {"metadata": {"labels": {"mine": "no"}}})),
            setup(delete("configmaps/a")),
            setup(post("configmaps", configmap("a", labels={"mine": "yes"}))),
            take=2,
            query=MINE,
        ),
    ),
    case(
        "two selectors at once",
        A,
        watch(
            "configmaps",
            setup(post("configmaps", configmap("b", labels={"mine": "yes"}))),
            setup(merge("configmaps/a", {"data": {"k": "2"}})),
            take=1,
            query={**MINE, "fieldSelector": "metadata.name!=b"},
        ),
    ),
    case(
        "a field selector on a phase",
        setup(get("serviceaccounts/default", until=("metadata.name", "default"))),
        setup(
            post(
                "pods",
                {
                    "metadata": {"name": "p"},
                    "spec": {"automountServiceAccountToken": False, "containers": [{"name": "m", "image": "m:1"}]},
                },
                save={"rv": "metadata.resourceVersion"},
            )
        ),
        watch(
            "pods",
            setup(merge("pods/p/status", {"status": {"phase": "Running"}})),
            setup(merge("pods/p/status", {"status": {"phase": "Succeeded"}})),
            take=2,
            query={**FROM, "fieldSelector": "status.phase=Running"},
        ),
    ),
    case(
        "a selectable field of a custom resource",
        *DEFINED,
        setup(post(PAINT, paint("p", "red"), save={"rv": "metadata.resourceVersion"})),
        watch(
            PAINT,
            setup(merge(PAINT + "/p", {"spec": {"colour": "blue"}})),
            setup(merge(PAINT + "/p", {"spec": {"colour": "red"}})),
            setup(delete(PAINT + "/p")),
            take=3,
            query={**FROM, "fieldSelector": "spec.colour=red"},
        ),
        watch(PAINT, query={"fieldSelector": "spec.size=1", "timeoutSeconds": "1"}),
        cleanup=[DEFINITIONS + "/paints.${slug}.io"],
    ),
    case(
        "a table of whole objects",
        A,
        watch(
            "configmaps",
            setup(merge("configmaps/a", {"data": {"k": "2"}})),
            setup(delete("configmaps/a")),
            take=2,
            query={**MINE, "includeObject": "Object"},
            accept=TABLE,
        ),
    ),
    case(
        "a table without objects",
        A,
        watch("configmaps", take=1, query={"labelSelector": "mine=yes", "includeObject": "None"}, accept=TABLE),
    ),
    case(
        "a table with nonsense in it",
        A,
        watch("configmaps", query={**MINE, "includeObject": "Nonsense", "timeoutSeconds": "1"}, accept=TABLE),
    ),
    case(
        "metadata of what leaves a selector",
        A,
        watch("configmaps", setup(merge("configmaps/a", {"metadata": {"labels": None}})), take=1, query=MINE, accept=PARTIAL),
    ),
    case("a watch in yaml is not acceptable", watch("configmaps", query={"timeoutSeconds": "1"}, accept="application/yaml")),
    case(
        "a watch with a limit has none",
        A,
        setup(post("configmaps", configmap("b", labels={"mine": "yes"}))),
        watch("configmaps", take=2, query={"labelSelector": "mine=yes", "limit": "1"}),
    ),
    case("a watch with a token", watch("configmaps", query={"continue": "x", "timeoutSeconds": "1"})),
    case("a watch with a bad timeout", watch("configmaps", query={"timeoutSeconds": "soon"})),
    case(
        "a watch of everything in the cluster",
        A,
        watch(
            "/api/v1/configmaps",
            setup(merge("configmaps/a", {"data": {"k": "2"}})),
            take=1,
            query={**FROM, "fieldSelector": "metadata.namespace=${ns}"},
        ),
    ),
    case(
        "a watch of one namespace",
        get("/api/v1/namespaces/${ns}", save={"rv": "metadata.resourceVersion"}, pick=lambda b: b["kind"]),
        watch(
            "/api/v1/namespaces",
            setup(merge("/api/v1/namespaces/${ns}", {"metadata": {"labels": {"a": "b"}}})),
            take=1,
            query={**FROM, "fieldSelector": "metadata.name=${ns}"},
        ),
    ),
    case(
        "a generation in events",
        setup(post("apps/v1:deployments", deployment("w"), save={"rv": "metadata.resourceVersion"})),
        watch(
            "apps/v1:deployments",
            setup(merge("apps/v1:deployments/w", {"spec": {"replicas": 3}})),
            setup(merge("apps/v1:deployments/w/status", {"status": {"replicas": 3}})),
            setup(merge("apps/v1:deployments/w/scale", {"spec": {"replicas": 4}})),
            take=3,
            query=FROM,
        ),
    ),
    case(
        "an apply that only owns is an event",
        A,
        watch(
            "configmaps",
            setup(apply("configmaps/a", configmap("a", {"k": "1"}), "one")),
            setup(apply("configmaps/a", configmap("a", {"k": "1"}), "one")),
            setup(merge("configmaps/a", {"data": {"l": "1"}})),
            take=2,
            query=MINE,
        ),
    ),
    case(
        "a dry run is no event",
        A,
        watch(
            "configmaps",
            setup(merge("configmaps/a", {"data": {"k": "2"}}, query={"dryRun": "All"})),
            setup(delete("configmaps/a", query={"dryRun": "All"})),
            setup(merge("configmaps/a", {"data": {"k": "3"}})),
            take=1,
            query=MINE,
        ),
    ),
    case(
        "finalizers go one by one",
        setup(
            post(
                "configmaps",
                configmap("f", finalizers=["a.io/x", "a.io/y"], labels={"mine": "yes"}),
                save={"rv": "metadata.resourceVersion"},
            )
        ),
        watch(
            "configmaps",
            setup(delete("configmaps/f", {"propagationPolicy": "Background"})),
            setup(json_patch("configmaps/f", [{"op": "remove", "path": "/metadata/finalizers/0"}])),
            setup(json_patch("configmaps/f", [{"op": "remove", "path": "/metadata/finalizers/0"}])),
            take=3,
            query=MINE,
        ),
    ),
    case(
        "an event is seen through both of its groups",
        setup(
            post(
                "events.k8s.io/v1:events",
                event("e", reportingController="a.io/c", reportingInstance="i"),
            )
        ),
        watch("events", take=1, query={"fieldSelector": "involvedObject.name=${ns}"}),
        watch("events.k8s.io/v1:events", take=1, query={"fieldSelector": "reason=Because"}),
    ),
    case(
        "events are selected by who reports them",
        setup(post("events.k8s.io/v1:events", event("new", reportingController="a.io/c", reportingInstance="i"))),
        setup(post("events", old_event("source", source={"component": "kubelet"}))),
        setup(post("events", old_event("both", source={"component": "kubelet"}, reportingComponent="b.io/c"))),
        *(
            get(
                path,
                query={"fieldSelector": selector},
                pick=lambda b: sorted(i["metadata"]["name"] for i in b.get("items", ())) or b,
            )
            for path, selectors in REPORTERS.items()
            for selector in selectors
        ),
        watch("events.k8s.io/v1:events", take=1, query={"fieldSelector": "reportingController=b.io/c"}),
    ),
]
