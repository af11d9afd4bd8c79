"""Two work agents that play the same lives on one cluster, and what there is to see of each: upstream's and ours.

`Twin` is one of them with its own namespace on the hub and its own names on the managed cluster; `seen` is everything that people
can see of its works there, with those names taken out, so that the two can be compared. Left out is what differs between any two
objects (uids, times, addresses) and the order of conditions, which are a map.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from muster.machinery.objects import GVR, Object
from muster.runtime.auth.rbac import ROLE_BINDINGS, ROLES
from muster.runtime.client.builtin import CLUSTER_ROLES, CONFIG_MAPS, CRDS, NAMESPACES, SECRETS
from muster.runtime.client.errors import Invalid, NotFound
from muster.work.kinds import APPLIED_WORKS, MANIFEST_WORKS
from muster.work.names import CONFIG_HASH
from tests.support.random_works import SPACE, Life, Version, placed
from tests.support.working import Workplace

KINDS: Final = {
    resource.kind: resource
    for resource in (
        *(CONFIG_MAPS, SECRETS, ROLES, ROLE_BINDINGS, CLUSTER_ROLES, NAMESPACES, CRDS),
        GVR("v1", "services", "Service"),
        GVR("v1", "pods", "Pod"),
        GVR("v1", "serviceaccounts", "ServiceAccount"),
        GVR("v1", "resourcequotas", "ResourceQuota"),
        GVR("apps/v1", "deployments", "Deployment"),
        GVR("apps/v1", "statefulsets", "StatefulSet"),
        GVR("apps/v1", "daemonsets", "DaemonSet"),
        GVR("batch/v1", "jobs", "Job"),
        GVR("batch/v1", "cronjobs", "CronJob"),
        GVR("networking.k8s.io/v1", "networkpolicies", "NetworkPolicy"),
        GVR("policy/v1", "poddisruptionbudgets", "PodDisruptionBudget"),
        GVR("rbac.authorization.k8s.io/v1", "clusterrolebindings", "ClusterRoleBinding"),
        GVR("admissionregistration.k8s.io/v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration"),
        GVR("admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration"),
    )
}
_UID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT[\d:]+Z")
_ALLOCATED: Final = ("clusterIP", "clusterIPs", "nodePort", "healthCheckNodePort")
_METADATA: Final = ("name", "namespace", "labels", "annotations", "finalizers")
_AGGREGATOR: Final = "clusterrole-aggregation-controller"
"""Makes a role that was just deleted anew, now and then."""
_OF_CONTROLLERS: Final = frozenset(("ReplicaSet", "Job", "DaemonSet", "StatefulSet"))


@dataclass
class Twin:
    side: str
    place: Workplace

    def name(self, life: str) -> str:
        return f"{self.side}-{life}"

    # What people do.

    async def play(self, life: Life, number: int) -> None:
        version = placed_version(life.versions[number], self.place.namespace)
        for manifest, patch in version.meddling:
            await self._meddle(manifest, patch)
        name = self.name(life.name)
        if number == 0:
            kind = {"apiVersion": MANIFEST_WORKS.api_version, "kind": MANIFEST_WORKS.kind}
            metadata = {"name": name, "namespace": self.place.name, "labels": version.labels}
            await self.place.admin.create(MANIFEST_WORKS, {**kind, "metadata": metadata, "spec": version.spec})
        else:
            option = version.spec["deleteOption"] and {"selectivelyOrphans": None, **version.spec["deleteOption"]}
            patch = {"metadata": {"labels": version.labels}, "spec": {**version.spec, "deleteOption": option}}
            await self.place.admin.patch(MANIFEST_WORKS, name, patch, self.place.name)

    async def _meddle(self, manifest: Object, patch: Object) -> None:
        resource = _resource(manifest)
        metadata = manifest["metadata"]
        try:
            await self.place.admin.patch(
                resource,
                metadata["name"],
                patch,
                metadata.get("namespace", ""),
                subresource="status" if "status" in patch else "",
                manager="stranger",
            )
        except (NotFound, Invalid):
            return  # Strangers do not get everything either.

    async def delete(self, life: Life) -> None:
        await self.place.delete(self.name(life.name))

    # What people see.

    async def seen(self) -> dict[str, Object]:
        """By the name of a life, of those that there is anything of."""
        resources = [*KINDS.values(), *await self._own_kinds()]
        works, records, *kinds = await asyncio.gather(
            self._listed(MANIFEST_WORKS, self.place.name), self._listed(APPLIED_WORKS), *map(self._listed, resources)
        )
        found: defaultdict[str, Object] = defaultdict(lambda: {"objects": {}})
        for work in works:
            name = work["metadata"]["name"].partition("-")[2]
            found[name]["status"] = _status(work)
        for record in records:
            _, _, name = record["metadata"]["name"].partition("-")
            if name.startswith("side-"):
                found[name.removeprefix("side-")]["record"] = _record(record)
        for item in (item for kind in kinds for item in kind):
            if owner := self._life_of(item):
                key = f"{item['kind']} {item['metadata'].get('namespace', '')}/{item['metadata']['name']}"
                found[owner]["objects"][key] = _object(item)
        return found

    async def _own_kinds(self) -> list[GVR]:
        """Those that works have defined."""
        found = []
        for definition in (await self.place.admin.list(CRDS)).items:
            spec = definition["spec"]
            said = (definition.get("status") or {}).get("conditions") or ()
            established = any((one["type"], one["status"]) == ("Established", "True") for one in said)
            if established and spec["group"] == f"{self.place.namespace}.example.com":
                found.append(GVR(f"{spec['group']}/v1", spec["names"]["plural"], spec["names"]["kind"]))
        return found

    async def _listed(self, resource: GVR, namespace: str = "") -> list[Object]:
        try:
            listed = await self.place.admin.list(resource, namespace)
        except NotFound:
            return []
        text = json.dumps([{"apiVersion": resource.api_version, "kind": resource.kind, **item} for item in listed.items])
        text = text.replace(self.place.namespace, SPACE).replace(f"{self.side}-w", "side-w")
        items: list[Object] = json.loads(_TIME.sub("time", _UID.sub("uid", text)))
        return items

    def _life_of(self, item: Object) -> str:
        metadata = item["metadata"]
        if {entry["manager"] for entry in metadata.get("managedFields", ())} == {_AGGREGATOR}:
            return ""
        if any(owner["kind"] in _OF_CONTROLLERS for owner in metadata.get("ownerReferences", ())):
            return ""
        if SPACE not in metadata["name"] and not metadata.get("namespace", "").startswith(SPACE):
            return ""
        found = re.search(r"(?<![a-z])(w\d+)(?:-|trees)", metadata["name"])
        return found[1] if found else ""


def placed_version(version: Version, space: str) -> Version:
    return Version(placed(version.spec, space), version.labels, tuple(placed(version.meddling, space)))


def _resource(manifest: Object) -> GVR:
    if manifest["kind"] in KINDS:
        return KINDS[manifest["kind"]]
    plural = manifest["kind"].lower().removeprefix("tree") + "trees"
    return GVR(manifest["apiVersion"], plural, manifest["kind"])


def _object(item: Object) -> Object:
    metadata = item["metadata"]
    kept = {key: metadata[key] for key in _METADATA if key in metadata}
    if CONFIG_HASH in (kept.get("annotations") or {}):
        kept["annotations"][CONFIG_HASH] = "hash"
        if "-shared" in metadata["name"]:
            # Of several works that apply it the last one counts, and that is anybody.
            del kept["annotations"]
    owners = sorted((one["kind"], one["name"], len(one)) for one in metadata.get("ownerReferences", ()))
    body = {key: value for key, value in item.items() if key not in ("metadata", "status")}
    going = "deletionTimestamp" in metadata
    return {**_unallocated(body), "metadata": kept, "owners": owners, **({"going": True} if going else {})}


def _unallocated(value: Any) -> Any:
    if isinstance(value, list):
        return [_unallocated(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        key: "allocated" if key in _ALLOCATED and one not in ("None", ["None"]) else _unallocated(one) for key, one in value.items()
    }


def _record(record: Object) -> Object:
    metadata = record["metadata"]
    return {
        "labels": metadata.get("labels", {}),
        "finalizers": metadata.get("finalizers", []),
        "work": record["spec"]["manifestWorkName"],
        "resources": [_said(one) for one in (record.get("status") or {}).get("appliedResources") or []],
        "evicted": "evictionStartTime" in (record.get("status") or {}),
    }


def _said(identity: Object) -> Object:
    """Clients do not tell an empty field from none."""
    return {key: value for key, value in identity.items() if value != ""}


def _status(work: Object) -> Object:
    generation = work["metadata"]["generation"]
    status = work.get("status") or {}
    return {
        "finalizers": work["metadata"].get("finalizers") or [],
        "conditions": _conditions(status.get("conditions") or [], generation),
        "manifests": [
            {
                "meta": _said(one["resourceMeta"]),
                "conditions": _conditions(one["conditions"], generation),
                "values": (one.get("statusFeedback") or {}).get("values") or [],
            }
            for one in (status.get("resourceStatus") or {}).get("manifests") or []
        ],
    }


def _conditions(conditions: list[Object], generation: int) -> Object:
    return {
        one["type"]: {
            **{key: one.get(key, "") for key in ("status", "reason", "message")},
            "about": _about(one.get("observedGeneration", 0), generation),
        }
        for one in conditions
    }


def _about(observed: int, generation: int) -> str:
    return "no generation" if not observed else "this generation" if observed == generation else "an earlier generation"


@dataclass(frozen=True)
class Deviation:
    """A place where the two differ; None is nothing there."""

    path: tuple[str, ...]
    theirs: Any
    ours: Any

    def __str__(self) -> str:
        return f"{'.'.join(self.path)}\n    theirs: {json.dumps(self.theirs)}\n    ours:   {json.dumps(self.ours)}"


def deviations(theirs: Any, ours: Any, path: tuple[str, ...] = ()) -> Iterator[Deviation]:
    if theirs == ours:
        return
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in sorted(theirs.keys() | ours.keys()):
            yield from deviations(theirs.get(key), ours.get(key), (*path, key))
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        for index, (one, other) in enumerate(zip(theirs, ours, strict=True)):
            yield from deviations(one, other, (*path, str(index)))
    else:
        yield Deviation(path, theirs, ours)
