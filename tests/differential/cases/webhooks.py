"""Admission webhooks: who is called with what, what their answers do, and how failures read.

A new configuration takes effect some time after it was stored, so each case first sends a probe, again and again, until its webhook
refuses it; probes are left out of what is compared.
"""

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any

from tests.differential.dsl import (
    apply,
    arrived,
    case,
    configmap,
    crd,
    delete,
    deployment,
    established,
    get,
    json_patch,
    kubectl,
    merge,
    post,
    put,
    setup,
)
from tests.support.https_server import Answer, Behaviour, Received

GROUP = "/apis/admissionregistration.k8s.io/v1"
MUTATING, VALIDATING = "mutatingwebhookconfigurations", "validatingwebhookconfigurations"
CONFIGMAPS = [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["*"]}]
Decision = Mapping[str, Any] | Answer
Decide = Callable[[dict[str, Any]], Decision]


def reviewing(decide: Decide, name: str = "hook") -> Behaviour:
    def behave(received: Received) -> Answer:
        review = received.json
        request = review["request"]
        decided = {"allowed": False, "status": {"code": 418}} if request.get("name") == f"probe-{name}" else decide(request)
        if isinstance(decided, Answer):
            return decided
        response = {"uid": request["uid"], **decided}
        return Answer({"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response})

    return behave


def allow(request: dict[str, Any]) -> dict[str, Any]:
    return {"allowed": True}


def patching(*operations: dict[str, Any], **more: Any) -> Decide:
    encoded = base64.b64encode(json.dumps(operations).encode()).decode()
    return lambda request: {"allowed": True, "patch": encoded, "patchType": "JSONPatch", **more}


def _breaking_the_contract(request: dict[str, Any]) -> Decision:
    """Each in another way, by the name of what is reviewed."""
    answers: dict[str, Decision] = {
        "uid": {"allowed": True, "uid": "11111111-1111-1111-1111-111111111111"},
        "kind": Answer({"kind": "Other", "apiVersion": "v1", "response": {"uid": request["uid"], "allowed": True}}),
        "patched": {"allowed": True, "patch": "W10=", "patchType": "JSONPatch"},
        "absent": Answer({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}),
        "status": Answer({"kind": "Status", "apiVersion": "v1", "message": "I am broken", "code": 500}, 500),
        "teapot": Answer("short and stout", 418),
        "lost": Answer("nothing", 404),
    }
    return answers[request["name"]]


def denying(**status: Any) -> Decide:
    return lambda request: {"allowed": False, "status": status} if status else {"allowed": False}


def hook(
    name: str = "one.example.com", server: str = "hook", rules: Any = None, path: str = "/review", **more: Any
) -> dict[str, Any]:
    return {
        "name": name,
        "clientConfig": {"url": f"${{{server}.url}}{path}", "caBundle": f"${{{server}.ca}}"},
        "rules": rules or CONFIGMAPS,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "${ns}"}},
        **more,
    }


def configure(plural: str, *hooks: dict[str, Any], name: str = "${slug}") -> Any:
    kind = "MutatingWebhookConfiguration" if plural == MUTATING else "ValidatingWebhookConfiguration"
    body = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "webhooks": list(hooks)}
    return setup(post(f"{GROUP}/{plural}", body))


def ready(name: str = "hook", path: str = "configmaps", body: Any = None) -> Any:
    probe = body or configmap(f"probe-{name}")
    return setup(post(path, probe, query={"dryRun": "All"}, until=("code", 418)))


def reviews(requests: list[dict[str, Any]]) -> list[Any]:
    """What reached a webhook, without probes, ordered by path."""
    kept = [r for r in requests if not str(r["body"]["request"].get("name")).startswith("probe-")]
    return sorted(({"path": r["path"], **r["body"]} for r in kept), key=lambda r: str(r["path"]))


def names(requests: list[dict[str, Any]]) -> list[Any]:
    return [(r["path"], r["request"]["operation"], r["request"].get("name")) for r in reviews(requests)]


def cleanup(*plurals: str) -> list[str]:
    return [f"{GROUP}/{plural}/${{slug}}" for plural in plurals]


PODS = [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}]
CLAIMS = [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["persistentvolumeclaims"], "operations": ["CREATE"]}]
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def pod(name: str, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "main", "image": "example/main:1"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": containers, **spec}}


def filled(obj: dict[str, Any]) -> Any:
    """What admission plugins add to a pod; the token's volume without its random suffix. A Status as it is."""
    if obj["kind"] != "Pod":
        return obj
    spec = obj["spec"]
    fields = ("serviceAccountName", "serviceAccount", "tolerations", "priority", "preemptionPolicy", "priorityClassName")
    return {
        **{field: spec.get(field) for field in fields},
        "volumes": [{**volume, "name": _without_suffix(volume["name"])} for volume in spec.get("volumes") or ()],
        "mounts": {
            container["name"]: [{**m, "name": _without_suffix(m["name"])} for m in container.get("volumeMounts") or ()]
            for container in spec["containers"]
        },
    }


def _without_suffix(volume: str) -> str:
    return volume[: len("kube-api-access-")] if volume.startswith("kube-api-access-") else volume


def pods_seen(requests: list[dict[str, Any]]) -> list[Any]:
    return [(r["path"], filled(r["request"]["object"])) for r in reviews(requests)]


ADD_LABEL = {"op": "add", "path": "/metadata/labels", "value": {"added": "yes"}}
THING = {"spec": {"type": "object", "properties": {"size": {"type": "integer", "default": 3}, "color": {"type": "string"}}}}

CASES = [
    case(
        "a validating webhook sees creates updates patches and deletes",
        configure(VALIDATING, hook()),
        ready(),
        post("configmaps", configmap("a", {"k": "1"}), query={"fieldManager": "me", "fieldValidation": "Strict"}),
        put("configmaps/a", configmap("a", {"k": "2"})),
        merge("configmaps/a", {"data": {"k": "3"}}, query={"dryRun": "All"}),
        apply("configmaps/b", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}}),
        apply("configmaps/b", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}, "data": {"x": "y"}}, force=True),
        delete("configmaps/a", {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}),
        arrived("hook", 6, pick=reviews),
        servers={"hook": reviewing(allow)},
        cleanup=cleanup(VALIDATING),
    ),
    case(
        "a mutating webhook sees the object before the server fills it",
        configure(MUTATING, hook()),
        ready(),
        post("configmaps", {"metadata": {"generateName": "gen-"}, "data": {"k": "1"}}),
        post("configmaps", configmap("a", {"k": "1"}), user="admin"),
        put("configmaps/a", configmap("a", {"k": "2"})),
        delete("configmaps/a"),
        arrived(
            "hook",
            4,
            pick=reviews,
            differs={"early-identity": [f"requests.request.object.metadata.{f}" for f in ("uid", "creationTimestamp")]},
        ),
        servers={"hook": reviewing(allow)},
        cleanup=cleanup(MUTATING),
    ),
    case(
        "a mutating webhook changes what is stored",
        configure(MUTATING, hook()),
        ready(),
        post("configmaps", configmap("a", {"k": "1"})),
        get("configmaps/a"),
        merge("configmaps/a", {"data": {"k": "2"}}),
        servers={"hook": reviewing(patching(ADD_LABEL, {"op": "add", "path": "/data/more", "value": "m"}))},
        cleanup=cleanup(MUTATING),
    ),
    case(
        "fields unknown to the kind are dropped from what a webhook made",
        configure(MUTATING, hook()),
        ready(),
        post("configmaps", configmap("a", {"k": "1"})),
        servers={"hook": reviewing(patching({"op": "add", "path": "/nonsense", "value": 1}))},
        cleanup=cleanup(MUTATING),
    ),
    case(
        "what a webhook makes of an object is validated",
        configure(MUTATING, hook()),
        ready(),
        post("configmaps", configmap("a", {"k": "1"})),
        servers={"hook": reviewing(patching({"op": "add", "path": "/data/not valid", "value": "x"}))},
        cleanup=cleanup(MUTATING),
    ),
    case(
        "a patch that does not apply is an internal error",
        configure(MUTATING, hook()),
        ready(),
        post("configmaps", configmap("a")),
        servers={"hook": reviewing(patching({"op": "remove", "path": "/data/missing"}))},
        cleanup=cleanup(MUTATING),
    ),
    case(
        "a patch that makes another type of a field is an internal error",
        configure(MUTATING, hook()),
        ready(),
        post("configmaps", configmap("a")),
        servers={"hook": reviewing(patching({"op": "add", "path": "/data", "value": "text"}))},
        cleanup=cleanup(MUTATING),
    ),
    case(
        "a deletion cannot be patched",
        setup(post("configmaps", configmap("a"))),
        configure(MUTATING, hook()),
        ready(),
        delete("configmaps/a"),
        servers={"hook": reviewing(patching(ADD_LABEL))},
        cleanup=cleanup(MUTATING),
    ),
    case(
        "a webhook refuses without explanation",
        configure(VALIDATING, hook()),
        ready(),
        post("configmaps", configmap("a")),
        kubectl("create", "configmap", "b"),
        servers={"hook": reviewing(denying())},
        cleanup=cleanup(VALIDATING),
    ),
    case(
        "a webhook refuses with a message",
        configure(VALIDATING, hook()),
        ready(),
        post("configmaps", configmap("a")),
        kubectl("create", "configmap", "b"),
        servers={"hook": reviewing(denying(message="not today"))},
        cleanup=cleanup(VALIDATING),
    ),
    case(
        "a webhook refuses with a whole status",
        configure(VALIDATING, hook()),
        ready(),
        post("configmaps", configmap("a")),
        servers={
            "hook": reviewing(
                denying(
                    code=409,
                    reason="Conflict",
                    message="taken",
                    details={"name": "x", "kind": "y", "causes": [{"reason": "R", "message": "m", "field": "f"}]},
                )
            )
        },
        cleanup=cleanup(VALIDATING),
    ),
    case(
        "a webhook refuses with a reason alone and a success code",
        configure(VALIDATING, hook()),
        ready(),
        post("configmaps", configmap("a")),
        servers={"hook": reviewing(denying(code=200, reason="BecauseISaySo", status="Success"))},
        cleanup=cleanup(VALIDATING),
    ),
    case(
        "a mutating webhook refuses",
        configure(MUTATING, hook()),
        ready(),
        post("configmaps", configmap("a")),
        get("configmaps/a"),
        servers={"hook": reviewing(denying(message="no", code=403, reason="Forbidden"))},
        cleanup=cleanup(MUTATING),
    ),
    case(
        "warnings of webhooks reach the client with success and refusal",
        configure(VALIDATING, hook()),
        ready(),
        post("configmaps", configmap("a")),
        post("configmaps", configmap("bad")),
        servers={
            "hook": reviewing(lambda request: {"allowed": request["name"] != "bad", "warnings": ["mind the gap", 'a "quoted" one']})
        },
        cleanup=cleanup(VALIDATING),
    ),
    case(
        "a webhook that cannot be reached fails closed",
        configure(
            VALIDATING,
            hook(clientConfig={"url": "https://127.0.0.1:1/x"}, objectSelector={"matchLabels": {"go": "there"}}),
            hook("probe.example.com", failurePolicy="Ignore"),
        ),
        ready(),
        post("configmaps", configmap("a", labels={"go": "there"})),
        servers={"hook": reviewing(allow)},
        cleanup=cleanup(VALIDATING),
    ),
    case(
        "a webhook that cannot be reached is ignored if its policy says so",
        configure(
            MUTATING,
            hook(clientConfig={"url": "https://127.0.0.1:1/x"}, failurePolicy="Ignore"),
            hook("probe.example.com"),
        ),
        ready(),
        post("configmaps", configmap("a")),
        servers={"hook": reviewing(allow)},
        cleanup=cleanup(MUTATING),
    ),
    case(
        "a webhook with a certificate nobody vouches for fails",
        configure(
            VALIDATING,
            hook(clientConfig={"url": "${other.url}/x"}, objectSelector={"matchLabels": {"go": "there"}}),
            hook("probe.example.com"),
        ),
        ready(),
        post("configmaps", configmap("a", labels={"go": "there"})),
        servers={"hook": reviewing(allow), "other": reviewing(allow)},
        cleanup=cleanup(VALIDATING),
    ),
    case(
        "answers that break the contract are failures",
        configure(VALIDATING, hook()),
        ready(),
        post("configmaps", configmap("uid")),
        post("configmaps", configmap("kind")),
        post("configmaps", configmap("patched")),
        post("configmaps", configmap("absent")),
        post("configmaps", configmap("status")),
        post("configmaps", configmap("teapot")),
        post("configmaps", configmap("lost")),
        servers={"hook": reviewing(_breaking_the_contract)},
        cleanup=cleanup(VALIDATING),
    ),
    case(
        "a patch without its type is a failure",
        configure(MUTATING, hook()),
        ready(),
        post("configmaps", configmap("a")),
        servers={"hook": reviewing(lambda request: {"allowed": True, "patch": "W10="})},
        cleanup=cleanup(MUTATING),
    ),
    case(
        "mutating webhooks are called in order and again if needed",
        configure(
            MUTATING,
            hook("first.example.com", path="/1", reinvocationPolicy="IfNeeded"),
            hook("second.example.com", path="/2"),
        ),
        ready(),
        post("configmaps", configmap("a", {"k": "1"})),
        arrived("hook", 3, pick=lambda found: [(r["path"], r["request"]["object"].get("data")) for r in reviews(found)]),
        get("configmaps/a"),
        servers={
            "hook": reviewing(
                lambda request: (
                    patching({"op": "add", "path": "/data/two", "value": "2"})(request)
                    if "two" not in request["object"]["data"]
                    else allow(request)
                )
            )
        },
        cleanup=cleanup(MUTATING),
    ),
    case(
        "mutation comes before validation",
        configure(MUTATING, hook(server="maker")),
        configure(VALIDATING, hook()),
        ready("maker"),
        ready(body=configmap("probe-hook", {"k": "1"})),
        post("configmaps", configmap("a", {"k": "1"})),
        arrived("hook", 1, pick=lambda found: [r["request"]["object"]["data"] for r in reviews(found)]),
        servers={
            "maker": reviewing(patching({"op": "add", "path": "/data/made", "value": "m"}), "maker"),
            "hook": reviewing(allow),
        },
        cleanup=cleanup(MUTATING, VALIDATING),
    ),
    case(
        "object selectors look at old and new",
        setup(post("configmaps", configmap("a", labels={"watched": "yes"}))),
        configure(
            VALIDATING,
            hook(objectSelector={"matchLabels": {"watched": "yes"}}),
            hook(
                "probe.example.com",
                path="/probe",
                matchConditions=[{"name": "p", "expression": "request.name.startsWith('probe')"}],
            ),
        ),
        ready(),
        post("configmaps", configmap("b")),
        merge("configmaps/a", {"metadata": {"labels": {"watched": None}}}),
        merge("configmaps/a", {"data": {"x": "y"}}),
        merge("configmaps/b", {"metadata": {"labels": {"watched": "yes"}}}),
        delete("configmaps/b"),
        arrived("hook", 3, pick=names),
        servers={"hook": reviewing(allow)},
        cleanup=cleanup(VALIDATING),
    ),
    case(
        "rules tell operations subresources and scopes apart",
        configure(
            VALIDATING,
            hook(
                "scale.example.com",
                path="/status",
                rules=[{"apiGroups": ["apps"], "apiVersions": ["*"], "resources": ["*/status"], "operations": ["UPDATE"]}],
            ),
            hook(
                "create.example.com",
                path="/create",
                rules=[{"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"], "operations": ["CREATE"]}],
            ),
            hook(
                "all.example.com",
                path="/all",
                rules=[
                    {
                        "apiGroups": ["*"],
                        "apiVersions": ["*"],
                        "resources": ["*/*"],
                        "operations": ["DELETE"],
                        "scope": "Namespaced",
                    }
                ],
            ),
            hook("probe.example.com", path="/probe"),
            hook(
                "cluster.example.com",
                path="/cluster",
                rules=[{"apiGroups": ["apps"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"], "scope": "Cluster"}],
            ),
        ),
        ready(),
        setup(post("apps/v1:deployments", deployment("w"))),
        setup(merge("apps/v1:deployments/w", {"spec": {"paused": True}})),
        setup(merge("apps/v1:deployments/w/status", {"status": {"replicas": 1}})),
        setup(delete("apps/v1:deployments/w")),
        arrived("hook", 3, pick=lambda found: [n for n in names(found) if n[2] == "w"]),
        servers={"hook": reviewing(allow)},
        cleanup=cleanup(VALIDATING),
    ),
    case(
        "equivalent versions are shown in the version of the rule",
        setup(
            post(
                "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
                {
                    **crd("things", "Thing", THING),
                    "spec": {
                        **crd("things", "Thing", THING)["spec"],
                        "versions": [
                            {
                                "name": v,
                                "served": True,
                                "storage": v == "v2",
                                "schema": {"openAPIV3Schema": {"type": "object", "properties": THING}},
                            }
                            for v in ("v1", "v2")
                        ],
                    },
                },
            )
        ),
        established("things.${slug}.io"),
        configure(
            MUTATING,
            hook(
                "same.example.com",
                path="/same",
                rules=[{"apiGroups": ["${slug}.io"], "apiVersions": ["v1"], "resources": ["things"], "operations": ["CREATE"]}],
            ),
            hook(
                "exact.example.com",
                path="/exact",
                matchPolicy="Exact",
                rules=[{"apiGroups": ["${slug}.io"], "apiVersions": ["v1"], "resources": ["things"], "operations": ["CREATE"]}],
            ),
            hook("probe.example.com", path="/probe"),
        ),
        ready(),
        post(
            "${slug}.io/v2:things",
            {"apiVersion": "${slug}.io/v2", "kind": "Thing", "metadata": {"name": "a"}, "spec": {"color": "red"}},
            query={"fieldManager": "me"},
        ),
        arrived("hook", 1, pick=reviews),
        servers={
            "hook": reviewing(
                lambda request: (
                    patching({"op": "add", "path": "/spec/size", "value": 7}, {"op": "add", "path": "/spec/odd", "value": 7})(
                        request
                    )
                    if request["resource"]["resource"] == "things"
                    else allow(request)
                )
            )
        },
        cleanup=[*cleanup(MUTATING), "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.${slug}.io"],
    ),
    case(
        "match conditions decide before a webhook is called",
        configure(
            VALIDATING,
            hook(
                matchConditions=[
                    {"name": "not-skipped", "expression": "!('skip' in object.metadata.?labels.orValue({}))"},
                    {
                        "name": "by-admin",
                        "expression": "authorizer.group('').resource('pods').check('get').allowed()",
                    },
                ]
            ),
        ),
        ready(),
        post("configmaps", configmap("a")),
        post("configmaps", configmap("b", labels={"skip": "me"})),
        arrived("hook", 1, pick=names),
        servers={"hook": reviewing(denying(message="seen"))},
        cleanup=cleanup(VALIDATING),
    ),
    case(
        "a match condition that fails refuses the request",
        configure(
            VALIDATING,
            hook(matchConditions=[{"name": "bad", "expression": "request.name.startsWith('probe') || object.data.missing == 'x'"}]),
        ),
        ready(),
        post("configmaps", configmap("a", {"k": "1"})),
        servers={"hook": reviewing(allow)},
        cleanup=cleanup(VALIDATING),
    ),
    case(
        "a match condition that fails is skipped if the policy ignores failures",
        configure(
            VALIDATING,
            hook(
                failurePolicy="Ignore",
                matchConditions=[{"name": "bad", "expression": "request.name.startsWith('probe') || object.data.missing == 'x'"}],
            ),
        ),
        ready(),
        post("configmaps", configmap("a", {"k": "1"})),
        servers={"hook": reviewing(denying(message="seen"))},
        cleanup=cleanup(VALIDATING),
    ),
    case(
        "a match condition that does not compile is refused",
        post(
            f"{GROUP}/{VALIDATING}",
            {
                "metadata": {"name": "${slug}"},
                "webhooks": [
                    {
                        "name": "a.example.com",
                        "clientConfig": {"url": "https://127.0.0.1:1/"},
                        "sideEffects": "None",
                        "admissionReviewVersions": ["v1"],
                        "matchConditions": [
                            {"name": "one", "expression": "object.x =="},
                            {"name": "two", "expression": "'text'"},
                            {"name": "three", "expression": "request.nothing == 1"},
                            {"name": "four", "expression": "params.x == 1"},
                        ],
                    }
                ],
            },
        ),
        cleanup=cleanup(VALIDATING),
    ),
    case(
        "old reviews are spoken with webhooks that want them",
        configure(MUTATING, hook(admissionReviewVersions=["v1beta1", "v1"])),
        ready(),
        post("configmaps", configmap("a", {"k": "1"})),
        arrived("hook", 1, pick=lambda found: [(r["apiVersion"], r["kind"]) for r in reviews(found)]),
        servers={"hook": reviewing(patching(ADD_LABEL, uid="any"))},
        cleanup=cleanup(MUTATING),
    ),
    case(
        "namespaces are seen with the labels they are about to have",
        configure(
            VALIDATING,
            hook(
                rules=[{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["namespaces"], "operations": ["*"]}],
                namespaceSelector={"matchLabels": {"of": "${slug}"}},
            ),
        ),
        ready("hook", "/api/v1/namespaces", {"metadata": {"name": "probe-hook", "labels": {"of": "${slug}"}}}),
        post("/api/v1/namespaces", {"metadata": {"name": "${slug}-x", "labels": {"of": "${slug}"}}}, query={"dryRun": "All"}),
        merge("/api/v1/namespaces/${slug}", {"metadata": {"labels": {"of": "${slug}"}}}, query={"dryRun": "All"}),
        arrived("hook", 2, pick=reviews),
        servers={"hook": reviewing(allow)},
        cleanup=cleanup(VALIDATING),
    ),
    case(
        "webhooks never see the configuration of webhooks",
        configure(
            VALIDATING,
            hook(
                rules=[{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"], "operations": ["*"]}],
                namespaceSelector={"matchLabels": {"kubernetes.io/metadata.name": "${ns}"}},
                objectSelector={"matchLabels": {"of": "${slug}"}},
            ),
        ),
        ready("hook", "configmaps", configmap("probe-hook", labels={"of": "${slug}"})),
        setup(merge(f"{GROUP}/{VALIDATING}/${{slug}}", {"metadata": {"labels": {"of": "${slug}"}}})),
        setup(delete(f"{GROUP}/{VALIDATING}/${{slug}}")),
        arrived("hook", 1, pick=lambda found: [n for n in names(found) if n[2] == "${slug}"]),
        servers={"hook": reviewing(denying(message="nothing passes"))},
        cleanup=cleanup(VALIDATING),
    ),
    case(
        "a slow webhook is given up after its time",
        configure(VALIDATING, hook(timeoutSeconds=1)),
        ready(),
        post("configmaps", configmap("a")),
        servers={"hook": reviewing(lambda request: _slow())},
        cleanup=cleanup(VALIDATING),
    ),
    case(
        "a webhook behind a service without one cannot be called",
        configure(
            VALIDATING,
            hook(
                clientConfig={"service": {"namespace": "${ns}", "name": "nobody", "path": "/x"}},
                objectSelector={"matchLabels": {"go": "there"}},
            ),
            hook("probe.example.com"),
        ),
        ready(),
        post("configmaps", configmap("a", labels={"go": "there"})),
        servers={"hook": reviewing(allow)},
        cleanup=cleanup(VALIDATING),
    ),
    case(
        "a collection is deleted one by one",
        setup(post("configmaps", configmap("a", labels={"l": "1"}))),
        setup(post("configmaps", configmap("b", labels={"l": "1"}))),
        configure(VALIDATING, hook()),
        ready(),
        delete("configmaps", query={"labelSelector": "l=1"}),
        arrived("hook", 2, pick=reviews),
        servers={"hook": reviewing(allow)},
        cleanup=cleanup(VALIDATING),
    ),
    case(
        "a scale is admitted as a scale",
        setup(post("apps/v1:deployments", deployment("w", 2))),
        configure(
            MUTATING,
            hook(
                rules=[
                    *CONFIGMAPS,
                    {"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments/scale"], "operations": ["*"]},
                ]
            ),
        ),
        ready(),
        merge("apps/v1:deployments/w/scale", {"spec": {"replicas": 3}}),
        get("apps/v1:deployments/w", pick=lambda body: body["spec"]["replicas"]),
        arrived("hook", 1, pick=lambda found: [_without_fields(r) for r in reviews(found)]),
        servers={
            "hook": reviewing(
                lambda request: (
                    patching({"op": "replace", "path": "/spec/replicas", "value": 5})(request)
                    if request.get("subResource") == "scale"
                    else allow(request)
                )
            )
        },
        cleanup=cleanup(MUTATING),
    ),
    case(
        "evictions and token requests are admitted as what they are",
        setup(post("pods", {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "x"}]}})),
        configure(
            VALIDATING,
            hook(
                rules=[
                    *CONFIGMAPS,
                    {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/*", "serviceaccounts/*"], "operations": ["*"]},
                ]
            ),
        ),
        ready(),
        setup(post("serviceaccounts/default/token", {"spec": {"expirationSeconds": 600}}, query={"dryRun": "All"})),
        setup(post("pods/p/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}})),
        arrived("hook", 2, pick=lambda found: [_without_object(r) for r in reviews(found)]),
        servers={"hook": reviewing(allow)},
        cleanup=cleanup(VALIDATING),
    ),
    case(
        "a json patch is admitted as an update with patch options",
        setup(post("configmaps", configmap("a", {"k": "1"}))),
        configure(VALIDATING, hook()),
        ready(),
        json_patch("configmaps/a", [{"op": "replace", "path": "/data/k", "value": "2"}], query={"fieldManager": "me"}),
        arrived("hook", 1, pick=lambda found: [(r["request"]["operation"], r["request"]["options"]) for r in reviews(found)]),
        servers={"hook": reviewing(allow)},
        cleanup=cleanup(VALIDATING),
    ),
    case(
        "a mutating webhook sees what the server adds to a pod",
        configure(MUTATING, hook(rules=PODS)),
        ready(path="pods", body=pod("probe-hook")),
        post("pods", pod("a"), pick=filled),
        post("pods", pod("b", priorityClassName="system-cluster-critical", automountServiceAccountToken=False), pick=filled),
        arrived("hook", 2, pick=pods_seen),
        servers={"hook": reviewing(allow)},
        cleanup=cleanup(MUTATING),
    ),
    case(
        "a mutating webhook is not asked about a pod that plugins refuse",
        configure(MUTATING, hook(rules=PODS)),
        ready(path="pods", body=pod("probe-hook")),
        post("pods", pod("a", serviceAccountName="none")),
        post("pods", pod("a", priorityClassName="none")),
        arrived("hook", 0, pick=pods_seen),
        servers={"hook": reviewing(allow)},
        cleanup=cleanup(MUTATING),
    ),
    case(
        "a container that a webhook adds gets the token as well",
        configure(MUTATING, hook(rules=PODS)),
        ready(path="pods", body=pod("probe-hook")),
        post("pods", pod("a"), pick=filled),
        servers={
            "hook": reviewing(
                patching({"op": "add", "path": "/spec/containers/-", "value": {"name": "side", "image": "example/side:1"}})
            )
        },
        cleanup=cleanup(MUTATING),
    ),
    case(
        "what a webhook takes from a pod comes back and webhooks are asked again",
        configure(
            MUTATING,
            hook("first.example.com", path="/1", rules=PODS, reinvocationPolicy="IfNeeded"),
            hook("second.example.com", server="second", path="/2", rules=PODS),
            hook("third.example.com", server="third", path="/3", rules=PODS, reinvocationPolicy="IfNeeded"),
        ),
        ready(path="pods", body=pod("probe-hook")),
        post("pods", pod("a"), pick=filled),
        arrived("hook", 2, pick=pods_seen),
        arrived("second", 1, pick=pods_seen),
        arrived("third", 2, pick=pods_seen),
        servers={
            "hook": reviewing(allow),
            "second": reviewing(patching({"op": "remove", "path": "/spec/tolerations"})),
            "third": reviewing(allow),
        },
        cleanup=cleanup(MUTATING),
    ),
    case(
        "a webhook that changes the class of a pod has to change its priority",
        configure(MUTATING, hook(rules=PODS)),
        ready(path="pods", body=pod("probe-hook")),
        post("pods", pod("a")),
        servers={"hook": reviewing(patching({"op": "add", "path": "/spec/priorityClassName", "value": "system-cluster-critical"}))},
        cleanup=cleanup(MUTATING),
    ),
    case(
        "a mutating webhook sees the protection of a claim",
        configure(MUTATING, hook(rules=CLAIMS)),
        ready(
            path="persistentvolumeclaims",
            body={"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "probe-hook"}, "spec": CLAIM},
        ),
        post("persistentvolumeclaims", {"metadata": {"name": "a"}, "spec": CLAIM}, pick=lambda b: b["metadata"]["finalizers"]),
        arrived("hook", 1, pick=lambda rs: [r["request"]["object"]["metadata"].get("finalizers") for r in reviews(rs)]),
        servers={"hook": reviewing(allow)},
        cleanup=cleanup(MUTATING),
    ),
]


def _without_fields(review: dict[str, Any]) -> Any:
    """A review without who owns which field."""
    request = {key: value for key, value in review["request"].items() if key not in ("object", "oldObject")}
    for name in ("object", "oldObject"):
        shown = review["request"][name]
        request[name] = {**shown, "metadata": {key: value for key, value in shown["metadata"].items() if key != "managedFields"}}
    return request


def _without_object(review: dict[str, Any]) -> Any:
    """A review with the type of the object only."""
    request = {key: value for key, value in review["request"].items() if key != "uid"}
    return {**request, "object": [request["object"][key] for key in ("apiVersion", "kind")]}


def _slow() -> Answer:
    import time

    time.sleep(1.5)
    return Answer({})
