"""The words differential cases are written in.

A case is a name and a list of steps. Paths are written short: `configmaps/a` is in the core group and the case's own
namespace, `apps/v1:deployments/a` in another group, `/api/v1/nodes` absolute. `${ns}` is the namespace, `${slug}` a name
no other case has (for cluster-scoped objects and API groups), and whatever a step `save`s from its answer can be used the
same way by later steps. A case that leaves cluster-scoped objects behind lists their paths in `cleanup`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.support.client import APPLY_PATCH, JSON, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from tests.support.https_server import Behaviour

Differs = Mapping[str, Sequence[str]]
"""Id of an accepted difference → parts of the record it explains, as dotted paths (`status`, `body.message`, `out`)."""


@dataclass(frozen=True)
class Request:
    """One request. `pick` reduces the body before it is kept.

    `until` repeats the request until a part has a value, `present` until a part has any, `not_yet` while the whole body is
    that: what one part of the real server has decided reaches its other parts some time later.
    """

    method: str
    path: str
    body: Any = None
    query: Mapping[str, Any] | None = None
    headers: Mapping[str, str] | None = None
    content_type: str | None = None
    accept: str | None = JSON
    user: str | None = "admin"
    save: Mapping[str, str] = field(default_factory=dict)
    pick: Callable[[Any], Any] | None = None
    until: tuple[str, Any] | None = None
    present: str | None = None
    not_yet: Any = None
    keep: bool = True
    differs: Differs = field(default_factory=dict)

    def title(self) -> str:
        extra = "".join(f" {key}={value}" for key, value in (self.query or {}).items())
        return f"{self.method} {self.path}{extra}" + ("" if self.user == "admin" else f" as {self.user or 'nobody'}")


@dataclass(frozen=True)
class WatchStep:
    """A watch that is open while `during` runs. Reads `take` events, or all until the server ends it."""

    path: str
    query: Mapping[str, Any]
    during: tuple["Step", ...]
    take: int | None
    accept: str
    user: str | None
    timeout: float
    differs: Differs = field(default_factory=dict)

    def title(self) -> str:
        return f"WATCH {self.path}" + "".join(f" {key}={value}" for key, value in self.query.items())


@dataclass(frozen=True)
class Kubectl:
    """A kubectl command in the case's namespace. `{file}`-like input goes through stdin (`-f -`)."""

    arguments: tuple[str, ...]
    input: str | None = None
    kubectl: str = "current"
    user: str = "admin"
    environment: Mapping[str, str] = field(default_factory=dict)
    pick: Callable[[list[str]], Any] | None = None
    differs: Differs = field(default_factory=dict)

    def title(self) -> str:
        return "kubectl " + " ".join(self.arguments)


@dataclass(frozen=True)
class Arrived:
    """What one of the case's own servers has received so far, reduced by `pick`; waits for at least `count`."""

    server: str
    count: int
    pick: Callable[[Any], Any] | None = None
    differs: Differs = field(default_factory=dict)

    def title(self) -> str:
        return f"requests that reached {self.server}"


Step = Request | WatchStep | Kubectl | Arrived


@dataclass(frozen=True)
class Case:
    name: str
    steps: tuple[Step, ...]
    servers: Mapping[str, Behaviour] = field(default_factory=dict)
    cleanup: tuple[str, ...] = ()

    @property
    def slug(self) -> str:
        kept = "".join(character if character.isalnum() else "-" for character in self.name.lower())
        return "d-" + "-".join(part for part in kept.split("-") if part)[:50].rstrip("-")


def case(name: str, *steps: Step, servers: Mapping[str, Behaviour] | None = None, cleanup: Sequence[str] = ()) -> Case:
    """A case; each of `servers` becomes `${name.url}`, `${name.port}` and `${name.ca}` (base64 of its CA)."""
    return Case(name, steps, servers or {}, tuple(cleanup))


def get(path: str, **options: Any) -> Request:
    return Request("GET", path, **options)


def post(path: str, body: Any = None, **options: Any) -> Request:
    return Request("POST", path, body, **options)


def put(path: str, body: Any = None, **options: Any) -> Request:
    return Request("PUT", path, body, **options)


def delete(path: str, body: Any = None, **options: Any) -> Request:
    return Request("DELETE", path, body, **options)


def merge(path: str, body: Any, **options: Any) -> Request:
    return Request("PATCH", path, body, content_type=MERGE_PATCH, **options)


def strategic(path: str, body: Any, **options: Any) -> Request:
    return Request("PATCH", path, body, content_type=STRATEGIC_PATCH, **options)


def json_patch(path: str, body: Any, **options: Any) -> Request:
    return Request("PATCH", path, body, content_type=JSON_PATCH, **options)


def apply(path: str, body: Any, manager: str | None = "one", *, force: bool = False, **options: Any) -> Request:
    query: dict[str, Any] = dict(options.pop("query", {}))
    if manager is not None:
        query["fieldManager"] = manager
    if force:
        query["force"] = "true"
    return Request("PATCH", path, body, content_type=APPLY_PATCH, query=query, **options)


def setup(request: Request) -> Request:
    """The same request, made but not compared: the ground a case stands on."""
    return Request(**{**vars(request), "keep": False})


def watch(
    path: str,
    *during: Step,
    take: int | None = None,
    query: Mapping[str, Any] | None = None,
    accept: str = JSON,
    user: str | None = "admin",
    timeout: float = 10,
    differs: Differs | None = None,
) -> WatchStep:
    return WatchStep(path, query or {}, during, take, accept, user, timeout, differs or {})


def kubectl(*arguments: str, **options: Any) -> Kubectl:
    return Kubectl(arguments, **options)


def arrived(server: str, count: int = 1, **options: Any) -> Arrived:
    return Arrived(server, count, **options)


# Objects that many cases need.


def configmap(name: str, data: Mapping[str, str] | None = None, **metadata: Any) -> dict[str, Any]:
    body: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}
    if data is not None:
        body["data"] = dict(data)
    return body


def secret(name: str, data: Mapping[str, str] | None = None, **metadata: Any) -> dict[str, Any]:
    body: dict[str, Any] = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, **metadata}}
    if data is not None:
        body["stringData"] = dict(data)
    return body


def deployment(name: str, replicas: int | None = 1, **spec: Any) -> dict[str, Any]:
    body: dict[str, Any] = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "example/main:1"}]},
            },
            **spec,
        },
    }
    if replicas is not None:
        body["spec"]["replicas"] = replicas
    return body


def crd(plural: str, kind: str, properties: Mapping[str, Any], *, group: str = "${slug}.io", **version: Any) -> dict[str, Any]:
    """A namespaced CRD with one version `v1`; `version` adds to that version (subresources, columns…)."""
    schema = {"type": "object", "properties": dict(properties)}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}, **version}],
        },
    }


def established(name: str) -> Request:
    """Waits until a CRD is served."""
    return Request(
        "GET",
        f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}",
        until=("status.conditions.type=Established.status", "True"),
        keep=False,
    )
