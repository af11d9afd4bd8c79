"""Our verdict about an object without a server: decoded, defaulted, admitted, prepared and validated as by a write.

A verdict is `{"object": …}` or `{"message": …}`; objects are stripped of what differs between any two servers (uids, times,
allocated addresses) and of what admission plug-ins add to pods, so that verdicts of two servers can be compared.
"""

from __future__ import annotations

import asyncio
import copy
from dataclasses import dataclass, field
from functools import cache
from typing import Any, cast

from muster.apiserver.admission.chain import AdmissionChain, Operation
from muster.apiserver.admission.plugins import mutating_plugins
from muster.apiserver.builtin.kinds import CONVERSIONS
from muster.apiserver.builtin.resources import builtin_resources
from muster.apiserver.decode import strict
from muster.apiserver.object_meta import check_metadata, check_metadata_update, fill_on_create, restore_on_update
from muster.apiserver.registry.resource import ServedResource
from muster.kube.fielderrors import FieldError
from muster.machinery.authentication import UserInfo
from muster.machinery.objects import Object

NAMESPACE = "registry-verdicts"
UID = "11111111-2222-3333-4444-555555555555"
Verdict = dict[str, Any]


ADMIN = UserInfo("admin", groups=("system:masters", "system:authenticated"))


class EmptyCluster:
    """Addresses of a cluster without Services."""

    def cluster_ip(self, wanted: str, owner: str) -> str:
        if wanted and not wanted.startswith("10.0."):
            raise LookupError(f"the provided IP ({wanted}) is not in the valid range. The range of valid IPs is 10.0.0.0/16")
        return wanted or "10.0.12.34"

    def node_port(self, wanted: int, owner: str) -> int:
        return wanted or 30123


@dataclass
class Request:
    """What a hook may ask of the request it runs in."""

    verb: str = "create"
    subresource: str = ""
    user: UserInfo = ADMIN
    namespace: str = NAMESPACE
    addresses: EmptyCluster = field(default_factory=EmptyCluster)
    pods_on_loopback: bool = False
    warnings: list[str] = field(default_factory=list)

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    @property
    def username(self) -> str:
        return self.user.name

    def now(self) -> str:
        return "2026-01-01T00:00:00Z"

    def is_large(self) -> bool:
        return False

    def read(self, resource: str, key: str) -> Object | None:
        """Service accounts there are of any name, and nothing else."""
        return {} if resource == "/serviceaccounts" else None

    def scan(self, resource: str, namespace: str) -> list[Object]:
        return []


_CHAIN = AdmissionChain([mutating_plugins()])


def _admitted(resource: ServedResource, obj: Object, request: Request) -> Object:
    return asyncio.run(_CHAIN.mutate(cast(Any, request), resource, Operation("CREATE", obj, None)))


@cache
def row(api_version: str, kind: str) -> ServedResource:
    return next(r for r in builtin_resources() if (r.api_version, r.kind) == (api_version, kind))


def path(resource: ServedResource) -> str:
    base = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    return base + (f"/namespaces/{NAMESPACE}" if resource.namespaced else "") + f"/{resource.plural}"


def named(api_version: str, kind: str, body: Object, name: str) -> Object:
    """The whole object to send, named unless the body names itself."""
    obj = {"apiVersion": api_version, "kind": kind, **_in_namespace(copy.deepcopy(body))}
    obj.setdefault("metadata", {}).setdefault("name", name)
    return obj


def _in_namespace(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _in_namespace(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_in_namespace(item) for item in value]
    return NAMESPACE if value == "$NS" else value


def _refusal(resource: ServedResource, obj: Object, problems: list[FieldError]) -> Verdict:
    texts = list(dict.fromkeys(str(problem) for problem in problems))
    said = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    kind = "Event" if resource.kind == "Event" else resource.group_kind
    return {"message": f'{kind} "{obj["metadata"].get("name", "")}" is invalid: {said}'}


def created(resource: ServedResource, obj: Object, request: Request | None = None) -> tuple[Object | None, Verdict]:
    """(the object as it would be stored, the verdict) of a create."""
    request = request or Request()
    obj = copy.deepcopy(obj)
    try:
        obj, _ = strict.decode_typed(obj, resource.schema)
    except strict.DecodeError as error:
        return None, {"message": strict.cannot_be_handled(resource.kind, resource.version, str(error))}
    strategy = resource.strategy
    strategy.default(obj)
    fill_on_create(resource, obj["metadata"], request.now(), UID)
    if resource.namespaced:
        obj["metadata"]["namespace"] = NAMESPACE
    obj = _admitted(resource, obj, request)
    if resource.has_status and resource.drops_status_on_create:
        obj.pop("status", None)
    if (rest := strategy.prepare(request, obj, None)) is not None:
        rest()
    problems = check_metadata(resource, obj) + strategy.validate(request, obj, None, valid=True)
    problems = problems or strategy.allocate(request, obj)
    if problems:
        return None, _refusal(resource, obj, problems)
    return obj, {"object": comparable(_shown(resource, obj))}


def replaced(resource: ServedResource, old: Object, new: Object, request: Request | None = None) -> Verdict:
    """The verdict of a PUT of `new` over the stored `old`."""
    request = request or Request(verb="update")
    new, _ = strict.decode_typed(copy.deepcopy(new), resource.schema)
    strategy = resource.strategy
    strategy.default(new)
    restore_on_update(resource, request.subresource, new, old)
    if (rest := strategy.prepare(request, new, old)) is not None:
        rest()
    problems = check_metadata_update(resource, new, old) + strategy.validate(request, new, old, valid=True)
    problems = problems or strategy.allocate(request, new)
    return _refusal(resource, new, problems) if problems else {"object": comparable(_shown(resource, new))}


def _shown(resource: ServedResource, obj: Object) -> Object:
    copied = copy.deepcopy(obj)
    conversion = CONVERSIONS.get((resource.group, resource.version, resource.plural))
    return copied if conversion is None else conversion.from_storage(conversion.to_storage(copied))


def merged(target: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


_SERVER_MADE = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "namespace")
_POD_ADMISSION = ("tolerations", "priority", "preemptionPolicy", "serviceAccount", "serviceAccountName")


def comparable(obj: Object) -> Object:
    obj = copy.deepcopy(obj)
    for key in _SERVER_MADE:
        obj["metadata"].pop(key, None)
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    if obj["kind"] == "Pod":
        _without_pod_admission(spec)
    elif obj["kind"] == "Service":
        _mask_addresses(spec)
    elif obj["kind"] == "Node":
        spec.pop("taints", None)
    elif obj["kind"] == "PersistentVolume":
        status.pop("lastPhaseTransitionTime", None)
    return _without_uids(obj) if obj["kind"] == "Job" else obj


def _without_pod_admission(spec: Object) -> None:
    for key in _POD_ADMISSION:
        spec.pop(key, None)
    spec["volumes"] = [v for v in spec.get("volumes") or () if not v["name"].startswith("kube-api-access-")]
    for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
        mounts = [m for m in container.pop("volumeMounts", ()) if not m["name"].startswith("kube-api-access-")]
        container["volumeMounts"] = mounts


def _mask_addresses(spec: Object) -> None:
    if spec.get("clusterIP") not in (None, "None"):
        spec["clusterIP"], spec["clusterIPs"] = "allocated", ["allocated"] * len(spec.get("clusterIPs") or ())
    for port in spec.get("ports") or ():
        if port.get("nodePort"):
            port["nodePort"] = -1


def _without_uids(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: "uid" if key.endswith("controller-uid") else _without_uids(item) for key, item in value.items()}
    return [_without_uids(item) for item in value] if isinstance(value, list) else value
