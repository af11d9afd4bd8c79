"""APIServices: local ones that come by themselves, remote ones that are proxied, and how unavailability shows."""

import re
from typing import Any

from tests.differential.dsl import case, crd, delete, established, get, kubectl, post, put, setup
from tests.support.https_server import Answer, Received

SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
RESOURCES = [
    {
        "name": "widgets",
        "singularName": "widget",
        "namespaced": True,
        "kind": "Widget",
        "verbs": ["get", "list", "create"],
        "shortNames": ["wi"],
    },
    {"name": "widgets/status", "singularName": "", "namespaced": True, "kind": "Widget", "verbs": ["get"]},
]


def extension(received: Received) -> Answer:
    """An API server that knows no aggregated discovery and tells what it was asked."""
    path = received.path.partition("?")[0]
    parts = path.strip("/").split("/")
    if path == "/apis":
        return Answer("404 page not found", 404)
    if len(parts) == 3:
        listed = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "/".join(parts[1:]), "resources": RESOURCES}
        return Answer(listed)
    if parts[-1] == "teapot":
        return Answer("short and stout", 418, {"X-Pot": "yes"})
    seen = {
        key: value
        for key, value in sorted(received.headers.items())
        if re.match("x-remote-(user|group|uid)|authorization|impersonate|x-odd", key)
    }
    return Answer(
        {"kind": "Echo", "method": received.method, "path": received.path, "headers": seen, "body": received.body.decode()}
    )


def external() -> Any:
    """A Service that leads to this machine."""
    return setup(post("services", {"metadata": {"name": "ext"}, "spec": {"type": "ExternalName", "externalName": "localhost"}}))


def remote(**spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "v1.${slug}.io"},
        "spec": {
            "group": "${slug}.io",
            "version": "v1",
            "groupPriorityMinimum": 1000,
            "versionPriority": 15,
            "insecureSkipTLSVerify": True,
            **spec,
        },
    }


def delegated(*, trust: str = "insecureSkipTLSVerify: true", version: str = "v1", priority: int = 1000) -> Any:
    """An APIService for the case's server; its port is a number, so it is written as text."""
    text = f"""
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {{name: {version}.${{slug}}.io}}
spec:
  group: ${{slug}}.io
  version: {version}
  groupPriorityMinimum: {priority}
  versionPriority: 15
  {trust}
  service: {{namespace: ${{ns}}, name: ext, port: ${{ext.port}}}}
"""
    return setup(post(SERVICES, text, content_type="application/yaml"))


UNAVAILABLE = "service unavailable\n"


def available() -> tuple[Any, Any]:
    """Waits until requests are proxied: the proxy learns only after the status says so that the service is available."""
    return (
        setup(get(f"{SERVICES}/v1.${{slug}}.io", until=("status.conditions.type=Available.status", "True"))),
        setup(get("/apis/${slug}.io/v1", not_yet=UNAVAILABLE)),
    )


def unavailable(path: str) -> Any:
    """Waits until the proxy knows the service."""
    return get(path, until=("", UNAVAILABLE))


def unborn(body: Any) -> Any:
    """Without what tells how and when it was made."""
    return {**body, "metadata": {key: body["metadata"][key] for key in ("name", "labels")}}


def conditions(body: Any) -> Any:
    return [
        {key: c.get(key) for key in ("type", "status", "reason", "message")} for c in body.get("status", {}).get("conditions", ())
    ]


def group(body: Any) -> Any:
    """What the group list says about this case's group."""
    return [g for g in body["groups"] if g["name"].startswith("d-")]


GONE = [f"{SERVICES}/v1.${{slug}}.io"]

CASES = [
    case(
        "built-in apiservices are there from the start",
        get(f"{SERVICES}/v1.apps", pick=unborn),
        get(f"{SERVICES}/v1.", pick=unborn),
        get(f"{SERVICES}/v2.autoscaling", pick=unborn),
        get(f"{SERVICES}/v1.apiregistration.k8s.io"),
        kubectl("get", "apiservices", "v1.apps", "v1.", "v1.batch"),
    ),
    case(
        "custom groups have apiservices as long as they are served",
        setup(post(DEFINITIONS, crd("things", "Thing", {}))),
        established("things.${slug}.io"),
        get(f"{SERVICES}/v1.${{slug}}.io", until=("status.conditions.type=Available.status", "True")),
        setup(delete(f"{DEFINITIONS}/things.${{slug}}.io")),
        get(f"{SERVICES}/v1.${{slug}}.io", until=("code", 404)),
        cleanup=[f"{DEFINITIONS}/things.${{slug}}.io"],
    ),
    case(
        "apiservices are checked",
        post(
            SERVICES,
            {
                "metadata": {"name": "wrong"},
                "spec": {"group": "x.io", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1},
            },
        ),
        post(SERVICES, {"metadata": {"name": "v1.x.io"}, "spec": {"group": "x.io", "version": "v1"}}),
        post(
            SERVICES,
            {
                "metadata": {"name": "v1.x.io"},
                "spec": {
                    "group": "x.io",
                    "version": "v1",
                    "groupPriorityMinimum": 30000,
                    "versionPriority": 2000,
                    "insecureSkipTLSVerify": True,
                },
            },
        ),
        post(
            SERVICES,
            {
                "metadata": {"name": "v1.x.io"},
                "spec": {
                    "group": "x.io",
                    "version": "v1",
                    "groupPriorityMinimum": 1,
                    "versionPriority": 1,
                    "service": {"name": "a", "port": 70000},
                },
            },
        ),
    ),
    case(
        "an apiservice without its service is not available",
        setup(post(SERVICES, remote(service={"namespace": "${ns}", "name": "nobody"}))),
        get(f"{SERVICES}/v1.${{slug}}.io", present="status.conditions", pick=conditions),
        unavailable("/apis/${slug}.io/v1"),
        unavailable("${slug}.io/v1:widgets"),
        kubectl("get", "apiservice", "v1.${slug}.io"),
        cleanup=GONE,
    ),
    case(
        "an apiservice without the right port is not available",
        setup(post("services", {"metadata": {"name": "ext"}, "spec": {"ports": [{"port": 80}]}})),
        setup(post(SERVICES, remote(service={"namespace": "${ns}", "name": "ext"}))),
        get(f"{SERVICES}/v1.${{slug}}.io", present="status.conditions", pick=conditions),
        cleanup=GONE,
    ),
    case(
        "an apiservice without endpoints is not available",
        setup(post("services", {"metadata": {"name": "ext"}, "spec": {"ports": [{"port": 443}]}})),
        setup(post(SERVICES, remote(service={"namespace": "${ns}", "name": "ext"}))),
        get(f"{SERVICES}/v1.${{slug}}.io", present="status.conditions", pick=conditions),
        cleanup=GONE,
    ),
    case(
        "requests for a remote group travel on with the user's name",
        external(),
        delegated(),
        *available(),
        get(f"{SERVICES}/v1.${{slug}}.io", pick=conditions),
        get(
            "${slug}.io/v1:widgets/a",
            query={"x": "1 2", "y": "%2f"},
            headers={"X-Odd": "kept", "X-Remote-User": "eve", "X-Remote-Group": "system:masters"},
        ),
        post("${slug}.io/v1:widgets", {"any": "thing"}),
        put("${slug}.io/v1:widgets/a/status", "text", content_type="text/plain"),
        get("/apis/${slug}.io/v1/teapot"),
        get("${slug}.io/v1:widgets", headers={"Impersonate-User": "bob", "Impersonate-Group": "friends"}),
        get("${slug}.io/v1:widgets", user="alice"),
        kubectl("get", "--raw", "/apis/${slug}.io/v1/namespaces/x/widgets"),
        servers={"ext": extension},
        cleanup=GONE,
    ),
    case(
        "discovery includes remote groups",
        external(),
        delegated(),
        *available(),
        get("/apis/${slug}.io/v1"),
        get("/apis/${slug}.io", until=("name", "d-discovery-includes-remote-groups.io")),
        get("/apis", pick=lambda body: [g for g in body["groups"] if g["name"] == "d-discovery-includes-remote-groups.io"]),
        get(
            "/apis",
            accept="application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
            present="items.-1.versions.0.resources",
            pick=lambda body: [g for g in body["items"] if g["metadata"]["name"] == "d-discovery-includes-remote-groups.io"],
        ),
        servers={"ext": extension},
        cleanup=GONE,
    ),
    case(
        "a remote server must be the one it claims to be",
        external(),
        delegated(trust="caBundle: ${ext.ca}"),
        *available(),
        get("${slug}.io/v1:widgets", differs={"certificate-messages": ["body"]}),
        servers={"ext": extension},
        cleanup=GONE,
    ),
    case(
        "a remote server that fails discovery is not available",
        external(),
        delegated(),
        get(f"{SERVICES}/v1.${{slug}}.io", present="status.conditions", pick=conditions),
        unavailable("${slug}.io/v1:widgets"),
        servers={"ext": lambda received: Answer("no", 500)},
        cleanup=GONE,
    ),
    case(
        "the authentication configmap tells whom to trust",
        get(
            "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication",
            pick=lambda body: body["data"],
        ),
    ),
]
