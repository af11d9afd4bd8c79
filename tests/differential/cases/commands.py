"""kubectl commands: what a person sees must not tell which server answered."""

import json
import re

from tests.differential.dsl import Kubectl, case, configmap, crd, deployment, established, get, kubectl, merge, post, setup

MAP = setup(post("configmaps", configmap("a", {"k": "v"}, labels={"x": "y"})))
WEB = setup(post("apps/v1:deployments", deployment("web", 2)))
FILE = ("-f", "-")


def text(*documents: object) -> str:
    """Documents as kubectl reads them from its standard input (JSON is YAML)."""
    return "\n---\n".join(json.dumps(document) for document in documents)


def lines_with(*words: str) -> object:
    return lambda lines: [line for line in lines if any(line.startswith(word) for word in words)]


def changes(lines: list[str]) -> list[str]:
    """What `kubectl diff` shows without its temporary file names."""
    return [line for line in lines if line[:1] in "+-" and line[:3] not in ("+++", "---")]


def fields_and_values(lines: list[str]) -> list[str]:
    """What `kubectl explain` shows of a type's fields and enumerations; built-in kinds are described in words of their own."""
    kept: list[str] = []
    in_values = False
    for line in lines:
        in_values = line == "ENUM:" or (in_values and bool(line))
        if in_values or re.match(r"\s*[\w$-]+\s<|\s*enum: |KIND|VERSION|GROUP|FIELD", line):
            kept.append(line)
    return kept


def explain(*arguments: str) -> Kubectl:
    return kubectl("explain", *arguments, pick=fields_and_values)


BRUSH_SPEC = {
    "type": "object",
    "description": "What a brush should be.",
    "required": ["colour"],
    "properties": {
        "colour": {"type": "string", "description": "Its colour.", "enum": ["red", "green"], "default": "red"},
        "size": {"type": "integer", "format": "int32", "minimum": 1, "description": "Its size."},
        "hairs": {
            "type": "array",
            "items": {"type": "object", "properties": {"length": {"type": "number"}}, "required": ["length"]},
        },
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "port": {"x-kubernetes-int-or-string": True},
        "anything": {"x-kubernetes-preserve-unknown-fields": True},
        "template": {
            "type": "object",
            "description": "An object of any kind.",
            "x-kubernetes-embedded-resource": True,
            "x-kubernetes-preserve-unknown-fields": True,
        },
        "templates": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["spec"],
                "properties": {"spec": {"type": "string"}},
                "x-kubernetes-embedded-resource": True,
            },
        },
    },
}
BRUSHES = crd("brushes", "Brush", {"spec": BRUSH_SPEC})

GADGETS = crd("gadgets", "Gadget", {"spec": {"type": "object", "properties": {"size": {"type": "integer", "minimum": 1}}}})
GADGET = {"apiVersion": "${slug}.io/v1", "kind": "Gadget", "metadata": {"name": "g"}, "spec": {"size": 3}}
DEFINITION = ["/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gadgets.${slug}.io"]

CASES = [
    case(
        "kubectl get in its forms",
        MAP,
        kubectl("get", "configmap", "a"),
        kubectl("get", "cm", "-l", "x=y", "--show-labels"),
        kubectl("get", "cm", "a", "-o", "wide"),
        kubectl("get", "cm", "a", "-o", "name"),
        kubectl("get", "cm", "a", "-o", "jsonpath={.data.k}"),
        kubectl("get", "cm", "a", "-o", "go-template={{.metadata.name}}"),
        kubectl("get", "cm", "a", "-o", "custom-columns=NAME:.metadata.name,K:.data.k"),
        kubectl("get", "cm", "a", "--no-headers"),
    ),
    case("kubectl get of what is not there", kubectl("get", "cm", "none"), kubectl("get", "nothings"), kubectl("get", "deploy")),
    case("kubectl get ignores what is not there on request", kubectl("get", "cm", "none", "--ignore-not-found")),
    case(
        "kubectl get sorted",
        MAP,
        setup(post("configmaps", configmap("b", labels={"x": "y"}))),
        kubectl("get", "cm", "-l", "x=y", "--sort-by=.metadata.name", "-o", "name"),
    ),
    case("kubectl get all", WEB, kubectl("get", "all")),
    case(
        "kubectl get several kinds", MAP, WEB, kubectl("get", "cm/a", "deploy/web", "-o", "name"), kubectl("get", "deploy", "web")
    ),
    case("kubectl get raw", kubectl("get", "--raw", "/healthz"), kubectl("get", "--raw", "/nope")),
    case("kubectl describe", MAP, kubectl("describe", "configmap", "a"), kubectl("describe", "namespace", "${ns}")),
    case("kubectl describe a deployment", WEB, kubectl("describe", "deployment", "web")),
    case(
        "kubectl describe a service account and a role",
        kubectl("describe", "serviceaccount", "default"),
        kubectl("create", "role", "reader", "--verb=get,list", "--resource=pods,configmaps"),
        kubectl("describe", "role", "reader"),
    ),
    case(
        "kubectl creates by command",
        kubectl("create", "configmap", "c", "--from-literal=a=b"),
        kubectl("create", "secret", "generic", "s", "--from-literal=a=b"),
        kubectl("create", "serviceaccount", "robot"),
        kubectl("create", "deployment", "d", "--image=example/d:1", "--replicas=0"),
        kubectl("create", "rolebinding", "rb", "--clusterrole=view", "--serviceaccount=${ns}:robot"),
        kubectl("create", "quota", "q", "--hard=pods=1"),
        kubectl("create", "job", "j", "--image=example/j:1"),
        kubectl("create", "service", "clusterip", "svc", "--tcp=80:80"),
        get("apps/v1:deployments/d", pick=lambda body: body["spec"]["replicas"]),
        get("configmaps/c"),
        get("secrets/s"),
        get(
            "batch/v1:jobs/j",
            pick=lambda body: [body["spec"].get("backoffLimit"), body["spec"]["template"]["spec"]["restartPolicy"]],
        ),
    ),
    case("kubectl create twice", MAP, kubectl("create", "configmap", "a"), kubectl("create", "namespace", "${ns}")),
    case("kubectl create refuses unknown fields", kubectl("create", *FILE, input=text({**configmap("b"), "frob": 1}))),
    case(
        "kubectl apply",
        kubectl("apply", *FILE, input=text(configmap("b", {"k": "1"}))),
        kubectl("apply", *FILE, input=text(configmap("b", {"k": "1"}))),
        kubectl("apply", *FILE, input=text(configmap("b", {"k": "2"}))),
        get("configmaps/b"),
    ),
    case(
        "kubectl apply of a deployment",
        kubectl("apply", *FILE, input=text(deployment("w", 1))),
        kubectl("apply", *FILE, input=text(deployment("w", 3))),
        get("apps/v1:deployments/w", pick=lambda body: body["spec"]),
    ),
    case(
        "kubectl apply on the server",
        kubectl("apply", "--server-side", *FILE, input=text(configmap("b", {"k": "1"}))),
        kubectl("apply", "--server-side", *FILE, input=text(configmap("b", {"k": "2"}))),
        get("configmaps/b"),
    ),
    case(
        "kubectl apply on the client and then on the server",
        kubectl("apply", *FILE, input=text(configmap("b", {"k": "1", "l": "1"}))),
        kubectl("apply", "--server-side", *FILE, input=text(configmap("b", {"k": "2"}))),
        get("configmaps/b"),
    ),
    case(
        "kubectl apply on the server and then on the client",
        kubectl("apply", "--server-side", *FILE, input=text(configmap("b", {"k": "1"}))),
        kubectl("apply", *FILE, input=text(configmap("b", {"k": "2"}))),
        get("configmaps/b"),
    ),
    case(
        "kubectl apply explains a conflict",
        MAP,
        setup(merge("configmaps/a", {"data": {"k": "other"}}, query={"fieldManager": "someone"})),
        kubectl("apply", "--server-side", *FILE, input=text(configmap("a", {"k": "mine"}))),
        kubectl("apply", "--server-side", "--force-conflicts", *FILE, input=text(configmap("a", {"k": "mine"}))),
    ),
    case(
        "kubectl apply as dry run",
        kubectl("apply", "--dry-run=server", *FILE, input=text(configmap("b", {"k": "1"}))),
        kubectl("get", "cm", "b"),
    ),
    case("kubectl apply of an invalid object", kubectl("apply", *FILE, input=text({**configmap("Bad")}))),
    case(
        "kubectl applies a definition and its object together",
        kubectl("apply", *FILE, input=text(GADGETS)),
        kubectl("wait", "--for=condition=Established", "crd/gadgets.${slug}.io", "--timeout=20s"),
        kubectl("apply", *FILE, input=text(GADGET)),
        kubectl("get", "gadgets"),
        kubectl("get", "gadgets.${slug}.io", "g", "-o", "jsonpath={.spec.size}"),
        kubectl("apply", *FILE, input=text({**GADGET, "spec": {"size": 0}})),
        kubectl("delete", "gadget", "g"),
        cleanup=DEFINITION,
    ),
    case(
        "kubectl patches in three ways",
        WEB,
        kubectl(
            "patch", "deployment", "web", "-p", '{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"s:1"}]}}}}'
        ),
        kubectl("patch", "deployment", "web", "--type=merge", "-p", '{"spec":{"replicas":5}}'),
        kubectl("patch", "deployment", "web", "--type=json", "-p", '[{"op":"replace","path":"/spec/replicas","value":6}]'),
        kubectl("patch", "deployment", "web", "--type=merge", "-p", '{"spec":{"replicas":6}}'),
        kubectl("patch", "deployment", "web", "--subresource=scale", "--type=merge", "-p", '{"spec":{"replicas":7}}'),
        get(
            "apps/v1:deployments/web",
            pick=lambda body: [body["spec"]["replicas"], len(body["spec"]["template"]["spec"]["containers"])],
        ),
    ),
    case(
        "kubectl replace",
        MAP,
        kubectl("replace", *FILE, input=text(configmap("a", {"k": "new"}))),
        kubectl("replace", *FILE, input=text(configmap("none"))),
        get("configmaps/a"),
    ),
    case(
        "kubectl edit",
        MAP,
        Kubectl(("edit", "configmap", "a"), environment={"KUBE_EDITOR": "sed -i s/v$/edited/"}),
        get("configmaps/a", pick=lambda body: body["data"]),
    ),
    case(
        "kubectl label and annotate",
        MAP,
        kubectl("label", "cm", "a", "new=label"),
        kubectl("label", "cm", "a", "new=other"),
        kubectl("label", "cm", "a", "new=other", "--overwrite"),
        kubectl("label", "cm", "a", "new-"),
        kubectl("annotate", "cm", "a", "note=text"),
        get("configmaps/a"),
    ),
    case(
        "kubectl scale and rollout",
        WEB,
        kubectl("scale", "deployment", "web", "--replicas=4"),
        kubectl("scale", "deployment", "web", "--replicas=5", "--current-replicas=9"),
        kubectl("set", "image", "deployment/web", "main=example/main:2"),
        kubectl("rollout", "pause", "deployment/web"),
        kubectl("autoscale", "deployment", "web", "--max=3", "--cpu=50%"),
        get("apps/v1:deployments/web", pick=lambda body: body["spec"]),
    ),
    case(
        "kubectl delete",
        MAP,
        kubectl("delete", "cm", "a"),
        kubectl("delete", "cm", "a"),
        kubectl("delete", "cm", "a", "--ignore-not-found"),
        kubectl("delete", "cm", "-l", "nothing=here"),
    ),
    case(
        "kubectl delete waits for finalizers",
        setup(post("configmaps", configmap("f", finalizers=["a.io/x"]))),
        kubectl("delete", "cm", "f", "--wait=false"),
        kubectl("delete", "cm", "f", "--timeout=3s"),
        setup(merge("configmaps/f", {"metadata": {"finalizers": None}})),
        kubectl("get", "cm", "f"),
    ),
    case(
        "kubectl delete in the foreground and as dry run",
        WEB,
        kubectl("delete", "deployment", "web", "--dry-run=server"),
        kubectl("delete", "deployment", "web", "--cascade=foreground"),
    ),
    case(
        "kubectl wait",
        MAP,
        kubectl("wait", "--for=jsonpath={.data.k}=v", "cm/a", "--timeout=5s"),
        kubectl("wait", "--for=jsonpath={.data.k}=w", "cm/a", "--timeout=3s"),
        kubectl("wait", "--for=delete", "cm/none", "--timeout=3s"),
        kubectl("wait", "--for=create", "cm/a", "--timeout=3s"),
    ),
    case(
        "kubectl diff",
        MAP,
        kubectl("diff", *FILE, input=text(configmap("a", {"k": "other"})), pick=changes),
        kubectl("diff", *FILE, input=text(configmap("new", {"k": "1"})), pick=changes),
    ),
    case(
        "kubectl diff on the server",
        setup(post("configmaps", configmap("b", {"k": "v"}))),
        kubectl("diff", "--server-side", *FILE, input=text(configmap("b", {"k": "v", "l": "w"})), pick=changes),
    ),
    case(
        "kubectl auth can-i",
        kubectl("auth", "can-i", "create", "pods"),
        kubectl("auth", "can-i", "create", "pods", user="alice"),
        kubectl("auth", "can-i", "get", "/healthz", user="alice"),
        kubectl("auth", "can-i", "list", "deployments.apps", "--subresource=scale", user="alice"),
        kubectl("auth", "can-i", "create", "pods", "--as=bob", "--as-group=system:masters"),
    ),
    case(
        "kubectl auth can-i lists rules",
        kubectl("create", "role", "reader", "--verb=get", "--resource=secrets", "--resource-name=one"),
        kubectl("create", "rolebinding", "r", "--role=reader", "--user=alice"),
        kubectl("auth", "can-i", "--list", user="alice", pick=lines_with("secrets", "selfsubject", "Resources")),
    ),
    case(
        "kubectl auth whoami",
        kubectl("auth", "whoami"),
        kubectl("auth", "whoami", user="carol"),
        kubectl("auth", "whoami", "-o", "json", user="alice"),
    ),
    case(
        "kubectl says what is forbidden",
        kubectl("get", "pods", user="alice"),
        kubectl("create", "configmap", "x", user="alice"),
        kubectl("delete", "namespace", "${ns}", user="alice"),
    ),
    # Discovery is cached beforehand: how kubectl words a refusal depends on which of its requests meets it.
    case("kubectl with a wrong token", kubectl("get", "pods"), kubectl("get", "pods", user="wrong")),
    case(
        "kubectl create token",
        kubectl("create", "token", "default"),
        kubectl("create", "token", "default", "--duration=10s"),
        kubectl("create", "token", "none"),
    ),
    case(
        "kubectl explain",
        kubectl("explain", "configmap.data", pick=lines_with("KIND", "VERSION", "FIELD")),
        kubectl("explain", "deployment.spec.replicas", pick=lines_with("GROUP", "KIND", "VERSION", "FIELD")),
        kubectl("explain", "deployment.spec.nope"),
        kubectl("explain", "nothings"),
    ),
    case(
        "kubectl explain shows fields and their values",
        explain("pods"),
        explain("pods.spec.containers", "--recursive"),
        explain("pods.spec.containers.imagePullPolicy"),
        explain("deployments", "--recursive"),
        explain("services.spec", "--recursive"),
        explain("networkpolicies", "--recursive"),
        explain("events", "--api-version=events.k8s.io/v1"),
        explain("customresourcedefinitions.spec", "--recursive"),
        explain("horizontalpodautoscalers.spec.metrics", "--recursive"),
        explain("secrets.data"),
    ),
    case(
        "kubectl explain of a custom resource",
        setup(post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", BRUSHES)),
        established("brushes.${slug}.io"),
        get("/openapi/v3/apis/${slug}.io/v1", until=("openapi", "3.0.0"), keep=False),
        explain("brushes.${slug}.io", "--recursive"),
        kubectl("explain", "brushes.${slug}.io.spec"),
        kubectl("explain", "brushes.${slug}.io.spec.colour"),
        explain("brushes.${slug}.io.spec.template"),
        explain("brushes.${slug}.io.spec.templates"),
        cleanup=["/apis/apiextensions.k8s.io/v1/customresourcedefinitions/brushes.${slug}.io"],
    ),
    case(
        "kubectl api-resources",
        kubectl("api-resources", "--api-group=apps", "-o", "wide"),
        kubectl("api-resources", "--api-group=rbac.authorization.k8s.io"),
        kubectl("api-resources", "--api-group=batch", "-o", "name"),
        kubectl("api-resources", "--namespaced=false", "--api-group=", pick=lines_with("namespaces", "nodes", "persistentvolumes")),
    ),
    case("kubectl lists versions", kubectl("api-versions", pick=lines_with("v1", "apps/", "batch/", "rbac."))),
    case(
        "kubectl get as yaml round trips",
        MAP,
        kubectl("get", "cm", "a", "-o", "yaml"),
        kubectl("get", "cm", "a", "-o", "json", "--show-managed-fields"),
    ),
    case(
        "kubectl expose and run",
        WEB,
        kubectl("expose", "deployment", "web", "--port=80"),
        kubectl("get", "service", "web", "-o", "jsonpath={.spec.ports[0].port}"),
        kubectl("run", "p", "--image=example/p:1", "--restart=Never"),
        kubectl("get", "pod", "p"),
    ),
    case("kubectl events", kubectl("events"), kubectl("get", "events")),
    case("kubectl top without metrics", kubectl("top", "pods")),
    case(
        "kubectl logs without a node",
        kubectl("run", "p", "--image=example/p:1", "--restart=Never"),
        kubectl("logs", "p"),
    ),
]
