"""Pods where no kubelet runs: what admission adds and refuses, what may change, and how they end."""

from typing import Any

from tests.differential.dsl import case, delete, get, json_patch, merge, post, put, setup, strategic, watch

PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"
ACCOUNT = get("serviceaccounts/default", until=("metadata.name", "default"), keep=False)


def pod(name: str = "p", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"automountServiceAccountToken": False, "containers": [{"name": "main", "image": "example/main:1"}], **spec},
    }


P = setup(post("pods", pod()))
BOUND = setup(post("pods", pod(nodeName="n")))

CASES = [
    case("a pod is filled in", ACCOUNT, post("pods", pod())),
    case("a pod of an account that is not there", ACCOUNT, post("pods", pod(serviceAccountName="none"))),
    case("a pod of a class that is not there", ACCOUNT, post("pods", pod(priorityClassName="none"))),
    case("a pod with a priority of its own", ACCOUNT, post("pods", pod(priority=5)), post("pods", pod("q", priority=0))),
    case(
        "a pod takes the priority of its class",
        ACCOUNT,
        setup(post(PRIORITIES, {"metadata": {"name": "${slug}"}, "value": 7, "preemptionPolicy": "Never"})),
        post("pods", pod(priorityClassName="${slug}"), pick=lambda b: b.get("spec", b)),
        post("pods", pod("q", priorityClassName="${slug}", priority=8)),
        cleanup=[PRIORITIES + "/${slug}"],
    ),
    case("a pod that runs nowhere goes at once", ACCOUNT, P, delete("pods/p"), get("pods/p")),
    case("a bound pod gets time to end", ACCOUNT, BOUND, delete("pods/p"), get("pods/p"), delete("pods/p")),
    case(
        "a grace period can be shortened but not lengthened",
        ACCOUNT,
        BOUND,
        delete("pods/p", {"gracePeriodSeconds": 20}),
        delete("pods/p", {"gracePeriodSeconds": 50}),
        delete("pods/p", {"gracePeriodSeconds": 5}),
        delete("pods/p", {"gracePeriodSeconds": 0}),
        get("pods/p"),
    ),
    case("a pod is ended by force", ACCOUNT, BOUND, delete("pods/p", query={"gracePeriodSeconds": "0"}), get("pods/p")),
    case("a negative grace period is one second", ACCOUNT, BOUND, delete("pods/p", {"gracePeriodSeconds": -1})),
    case(
        "a finished pod goes at once",
        ACCOUNT,
        BOUND,
        setup(merge("pods/p/status", {"status": {"phase": "Succeeded"}})),
        delete("pods/p"),
    ),
    case(
        "a watch sees a pod marked and gone",
        ACCOUNT,
        setup(post("pods", pod(), save={"rv": "metadata.resourceVersion"})),
        watch("pods", setup(delete("pods/p")), take=2, query={"resourceVersion": "${rv}"}),
    ),
    case(
        "a pod with a finalizer stays marked",
        ACCOUNT,
        setup(post("pods", {**pod(), "metadata": {"name": "p", "finalizers": ["a.io/x"]}})),
        delete("pods/p"),
        json_patch("pods/p", [{"op": "remove", "path": "/metadata/finalizers"}]),
        get("pods/p"),
    ),
    case(
        "what may change in a pod",
        ACCOUNT,
        P,
        strategic(
            "pods/p", {"spec": {"containers": [{"name": "main", "image": "example/main:2"}]}}, pick=lambda b: b.get("spec", b)
        ),
        merge("pods/p", {"spec": {"activeDeadlineSeconds": 5}}, pick=lambda b: b.get("spec", b)),
        merge("pods/p", {"metadata": {"labels": {"a": "b"}}}, pick=lambda b: b["metadata"].get("labels", b)),
    ),
    case(
        "what may not change in a pod",
        ACCOUNT,
        P,
        strategic(
            "pods/p",
            {"spec": {"containers": [{"name": "main", "command": ["x"]}]}},
            pick=lambda b: b["message"].split(":")[:3],
        ),
        merge("pods/p", {"spec": {"restartPolicy": "Never"}}, pick=lambda b: b["message"].split(":")[:3]),
    ),
    case(
        "a pod is bound to a node",
        ACCOUNT,
        P,
        post("pods/p/binding", {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}),
        get("pods/p", pick=lambda b: (b["spec"].get("nodeName"), b["status"].get("conditions"))),
        post("pods/p/binding", {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "m"}}),
    ),
    case(
        "a binding needs a node",
        ACCOUNT,
        P,
        post("pods/p/binding", {"target": {"kind": "Node", "name": "n"}}),
        post("pods/p/binding", {"metadata": {"name": "p"}, "target": {"kind": "Node"}}),
        post("pods/p/binding", {"metadata": {"name": "p"}, "target": {"kind": "Pod", "name": "x"}}),
        post("pods/none/binding", {"metadata": {"name": "none"}, "target": {"kind": "Node", "name": "n"}}),
    ),
    case(
        "a pod is evicted",
        ACCOUNT,
        P,
        post("pods/p/eviction", {"metadata": {"name": "p"}}),
        get("pods/p"),
        post("pods/none/eviction", {"metadata": {"name": "none"}}),
    ),
    case(
        "the status of a pod is its own",
        ACCOUNT,
        P,
        merge("pods/p/status", {"status": {"phase": "Running", "podIP": "1.2.3.4"}, "spec": {"nodeName": "x"}}),
        put("pods/p", {**pod(), "status": {"phase": "Failed"}}, pick=lambda b: b["message"].split(":")[:3]),
    ),
    case(
        "pods by field",
        ACCOUNT,
        BOUND,
        setup(post("pods", pod("q"))),
        get("pods", query={"fieldSelector": "spec.nodeName="}, pick=lambda b: [i["metadata"]["name"] for i in b["items"]]),
        get("pods", query={"fieldSelector": "status.phase=Pending"}, pick=lambda b: [i["metadata"]["name"] for i in b["items"]]),
        get("pods", query={"fieldSelector": "spec.serviceAccountName!=default"}, pick=lambda b: b["items"]),
        get("pods", query={"fieldSelector": "spec.containers=x"}),
    ),
    case(
        "a pod collection ends gracefully",
        ACCOUNT,
        BOUND,
        setup(post("pods", pod("q"))),
        delete("pods", pick=lambda b: sorted(i["metadata"]["name"] for i in b["items"])),
        get("pods", pick=lambda b: [(i["metadata"]["name"], i["metadata"].get("deletionGracePeriodSeconds")) for i in b["items"]]),
    ),
    case(
        "an update of a pod may leave out what admission added",
        ACCOUNT,
        P,
        put(
            "pods/p",
            pod(
                serviceAccountName="default",
                serviceAccount="default",
                containers=[{"name": "main", "image": "example/main:2"}],
            ),
            pick=lambda b: b.get("spec", b),
        ),
    ),
]
