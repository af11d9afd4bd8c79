"""Operator Lifecycle Manager as far as policies see it, played from a script: no bundles, no images, no dependency solver.

`install_kinds` defines OLM's kinds with the fields that policies use. `ScriptedOLM` then resolves Subscriptions from the packages
it is given, makes InstallPlans and waits for their approval, installs ClusterServiceVersions with their CustomResourceDefinitions
and Deployments, and keeps the statuses. Each `step` looks at everything and does what is next, so it may be called by a test, or
over and over by `run`. It talks to any API server; `playing_olm` has it run beside tests that block.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import orjson

from muster.machinery.clock import SYSTEM
from muster.machinery.objects import GVR, Object
from muster.policy.operators.kinds import (
    CATALOG_SOURCES,
    CSVS,
    INSTALL_PLANS,
    OLM_GROUP,
    OPERATOR_GROUPS,
    PACKAGE_MANIFESTS,
    PACKAGE_NAMESPACE,
    SUBSCRIPTIONS,
    name_of,
    namespace_of,
    subscription_label,
    text_at,
    uid_of,
    value_at,
)
from muster.runtime.client import AlreadyExists, Conflict, HttpClient, KubeClient, NotFound, load_kubeconfig
from muster.runtime.client.builtin import CRDS, DEPLOYMENTS, NAMESPACES
from muster.runtime.install import apply_all, await_definitions

T = TypeVar("T")
CATALOG, CATALOG_NAMESPACE = "catalog", "olm"
LAST_UPDATED = "2026-01-01T00:00:00Z"
_STRING = {"type": "string"}
_FREE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_SPECS: dict[GVR, Object] = {
    SUBSCRIPTIONS: {
        "type": "object",
        "required": ["name", "source", "sourceNamespace"],
        "properties": {
            **dict.fromkeys(("name", "source", "sourceNamespace", "channel", "startingCSV", "installPlanApproval"), _STRING),
            "config": _FREE,
        },
    },
    OPERATOR_GROUPS: {
        "type": "object",
        "properties": {
            "targetNamespaces": {"type": "array", "items": _STRING, "x-kubernetes-list-type": "set"},
            "selector": _FREE,
            "serviceAccountName": _STRING,
            "staticProvidedAPIs": {"type": "boolean"},
            "upgradeStrategy": {"type": "string", "enum": ["Default", "TechPreviewUnsafeFailForward"], "default": "Default"},
        },
        "default": {"upgradeStrategy": "Default"},
    },
    INSTALL_PLANS: {
        "type": "object",
        "required": ["approval", "approved", "clusterServiceVersionNames"],
        "properties": {
            "approval": _STRING,
            "approved": {"type": "boolean"},
            "clusterServiceVersionNames": {"type": "array", "items": _STRING},
            "generation": {"type": "integer"},
        },
    },
    CSVS: _FREE,
    CATALOG_SOURCES: _FREE,
    PACKAGE_MANIFESTS: _FREE,
}


def widgets(package: str) -> GVR:
    """The kind that the operator of a package brings."""
    return GVR(f"{package}.example.com/v1", "widgets", "Widget")


def _definition(resource: GVR, spec: Object) -> Object:
    # The PackageManifest API is an aggregated one, without a status of its own.
    subresources: Object = {} if resource is PACKAGE_MANIFESTS else {"subresources": {"status": {}}}
    return {
        "apiVersion": CRDS.api_version,
        "kind": CRDS.kind,
        "metadata": {"name": str(resource)},
        "spec": {
            "group": resource.group,
            "names": {"kind": resource.kind, "plural": resource.plural, "singular": resource.kind.lower()},
            "scope": "Namespaced",
            "versions": [
                {
                    "name": resource.version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": _FREE}}},
                    **subresources,
                }
            ],
        },
    }


async def install_kinds(client: KubeClient) -> None:
    documents = [_definition(resource, spec) for resource, spec in _SPECS.items()]
    await apply_all(client, [(CRDS, document) for document in documents], "test")
    await await_definitions(client, [str(resource) for resource in _SPECS], SYSTEM)


async def remove_kinds(client: KubeClient) -> None:
    for resource in _SPECS:
        await client.delete(CRDS, str(resource))


@dataclass
class Package:
    """What a catalog offers. Versions of a channel are in the order of upgrades."""

    name: str
    channels: dict[str, list[str]]
    requires: dict[str, list[str]] = field(default_factory=dict)
    """By version: packages that have to be installed with it."""
    suggested_namespace: str = ""
    deprecated: str = ""
    """Why the package is deprecated, if it is."""
    deprecated_channels: dict[str, str] = field(default_factory=dict)
    deprecated_versions: dict[str, str] = field(default_factory=dict)

    @property
    def default_channel(self) -> str:
        return next(iter(self.channels))

    def manifest(self) -> Object:
        channels: list[Object] = []
        for name, versions in self.channels.items():
            entries = [{"name": version, **_deprecation(self.deprecated_versions.get(version))} for version in reversed(versions)]
            suggested = {"annotations": {"operatorframework.io/suggested-namespace": self.suggested_namespace}}
            channel = {"name": name, "currentCSV": versions[-1], "currentCSVDesc": suggested, "entries": entries}
            channels.append({**channel, **_deprecation(self.deprecated_channels.get(name))})
        status = {
            "packageName": self.name,
            "catalogSource": CATALOG,
            "catalogSourceNamespace": CATALOG_NAMESPACE,
            "defaultChannel": self.default_channel,
            "channels": channels,
            **_deprecation(self.deprecated),
        }
        return {
            "apiVersion": PACKAGE_MANIFESTS.api_version,
            "kind": PACKAGE_MANIFESTS.kind,
            "metadata": {"name": self.name, "namespace": PACKAGE_NAMESPACE},
            "status": status,
        }


def _deprecation(message: str | None) -> Object:
    return {"deprecation": {"message": message}} if message else {}


class ScriptedOLM:
    def __init__(self, client: KubeClient) -> None:
        self.client = client
        self.packages: dict[str, Package] = {}
        self.failing: set[str] = set()
        """ClusterServiceVersions that do not come up."""
        self.unavailable: set[str] = set()
        """Deployments that do not come up."""
        self.stalled = False
        """Whether InstallPlans remain in the phase Installing."""

    # What administrators do.

    async def prepare(self, *packages: Package) -> None:
        for namespace in (CATALOG_NAMESPACE, PACKAGE_NAMESPACE):
            with suppress(AlreadyExists):
                await self.client.create(NAMESPACES, _object(NAMESPACES, namespace))
        await self.client.create(CATALOG_SOURCES, _object(CATALOG_SOURCES, CATALOG, CATALOG_NAMESPACE), CATALOG_NAMESPACE)
        await self.set_catalog_state("READY")
        for package in packages:
            await self.offer(package)

    async def offer(self, package: Package) -> None:
        self.packages[package.name] = package
        await self.client.apply(PACKAGE_MANIFESTS, package.manifest(), manager="catalog")

    async def set_catalog_state(self, state: str) -> None:
        status = {"connectionState": {"lastObservedState": state} if state else None}
        await self.client.patch(CATALOG_SOURCES, CATALOG, {"status": status}, CATALOG_NAMESPACE, subresource="status")

    async def approve(self, plan: Object) -> None:
        await self.client.patch(INSTALL_PLANS, name_of(plan), {"spec": {"approved": True}}, namespace_of(plan))

    async def plans(self, namespace: str) -> list[Object]:
        """The oldest first."""
        found = (await self.client.list(INSTALL_PLANS, namespace)).items
        return sorted(found, key=lambda plan: int(value_at(plan, "spec", "generation") or 0))

    # What OLM does.

    async def run(self, interval: float = 0.05) -> None:
        while True:
            with suppress(Conflict, NotFound):
                await self.step()
            await asyncio.sleep(interval)

    async def step(self) -> None:
        """Everything that is next, for every namespace."""
        subscriptions = (await self.client.list(SUBSCRIPTIONS)).items
        for namespace in sorted({namespace_of(one) for one in subscriptions}):
            await self._resolve(namespace, [one for one in subscriptions if namespace_of(one) == namespace])
            for plan in await self.plans(namespace):
                await self._install(plan)
        for csv in (await self.client.list(CSVS)).items:
            await self._run_operator(csv)
        await self._collect_garbage()

    async def _resolve(self, namespace: str, subscriptions: list[Object]) -> None:
        if len((await self.client.list(OPERATOR_GROUPS, namespace)).items) != 1:
            return
        problems = [problem for one in subscriptions if (problem := await self._problem(one))]
        if problems:
            message = f"constraints not satisfiable: {', '.join(problems)}"
            for one in subscriptions:
                await self._set_failure(one, "ConstraintsNotSatisfiable", message)
            return
        for one in subscriptions:
            await self._set_failure(one, "", "")
        upgrades = {name_of(one): version for one in subscriptions if (version := self._next(one))}
        if upgrades:
            await self._plan(namespace, subscriptions, upgrades)

    async def _problem(self, subscription: Object) -> str:
        spec, name = subscription["spec"], name_of(subscription)
        package = self.packages.get(spec["name"])
        try:
            catalog = await self.client.get(CATALOG_SOURCES, spec["source"], spec["sourceNamespace"])
        except NotFound:
            catalog = {}
        if text_at(catalog, "status", "connectionState", "lastObservedState") != "READY":
            where = f"catalog {spec['source']} in namespace {spec['sourceNamespace']}"
            return f"no operators found from {where} referenced by subscription {name}"
        if package is None:
            return f"no operators found in package {spec['name']} in the catalog referenced by subscription {name}"
        channel = spec.get("channel") or package.default_channel
        if channel not in package.channels:
            where = f"channel {channel} of package {spec['name']}"
            return f"no operators found in {where} in the catalog referenced by subscription {name}"
        return ""

    async def _set_failure(self, subscription: Object, reason: str, message: str) -> None:
        failure = {"type": "ResolutionFailed", "status": "True", "reason": reason, "message": message}
        wanted = [failure] if reason else []
        if (value_at(subscription, "status", "conditions") or []) != wanted:
            await self._set_subscription(subscription, conditions=wanted)

    async def _set_subscription(self, subscription: Object, **status: Any) -> None:
        patch = {"status": {"lastUpdated": LAST_UPDATED, **status}}
        answer = await self.client.patch(
            SUBSCRIPTIONS, name_of(subscription), patch, namespace_of(subscription), subresource="status"
        )
        subscription["status"] = answer["status"]

    def _next(self, subscription: Object) -> str:
        """What it is to have next; empty when it has the last."""
        package = self.packages[subscription["spec"]["name"]]
        versions = package.channels[subscription["spec"].get("channel") or package.default_channel]
        installed = text_at(subscription, "status", "installedCSV")
        if not installed:
            return subscription["spec"].get("startingCSV") or versions[-1]
        at = versions.index(installed) if installed in versions else -1
        return versions[at + 1] if at + 1 < len(versions) else ""

    async def _plan(self, namespace: str, subscriptions: list[Object], upgrades: dict[str, str]) -> None:
        """One plan for all that can change in the namespace, unless there is one already."""
        names = sorted({*upgrades.values(), *(one for version in upgrades.values() for one in self._required(version))})
        plans = await self.plans(namespace)
        if not any(sorted(plan["spec"]["clusterServiceVersionNames"]) == names for plan in plans):
            manual = any(one["spec"].get("installPlanApproval") == "Manual" for one in subscriptions)
            approval = {"approval": "Manual" if manual else "Automatic", "approved": not manual}
            plan = _object(INSTALL_PLANS, f"install-{len(plans) + 1}", namespace)
            plan["spec"] = {**approval, "clusterServiceVersionNames": names, "generation": len(plans) + 1}
            created = await self.client.create(INSTALL_PLANS, plan, namespace)
            phase = "RequiresApproval" if manual else "Installing"
            lookups = [self._bundle(version) for version in names]
            await self._set_plan(created, phase, bundleLookups=lookups)
        for one in subscriptions:
            version = upgrades.get(name_of(one))
            if version and text_at(one, "status", "currentCSV") != version:
                await self._set_subscription(one, currentCSV=version, state="UpgradePending")

    def _required(self, version: str) -> Iterable[str]:
        for package in self.packages.values():
            for name in package.requires.get(version, ()):
                required = self.packages[name]
                yield required.channels[required.default_channel][-1]

    def _bundle(self, version: str) -> Object:
        owner = next(one for one in self.packages.values() if any(version in versions for versions in one.channels.values()))
        properties = [{"type": "olm.package", "value": {"packageName": owner.name, "version": "1.0.0"}}]
        required = owner.requires.get(version, ())
        properties += [{"type": "olm.package.required", "value": {"packageName": name}} for name in required]
        return {"identifier": version, "properties": orjson.dumps({"properties": properties}).decode()}

    async def _set_plan(self, plan: Object, phase: str, **status: Any) -> None:
        patch = {"status": {"phase": phase, **status}}
        await self.client.patch(INSTALL_PLANS, name_of(plan), patch, namespace_of(plan), subresource="status")

    async def _install(self, plan: Object) -> None:
        if not plan["spec"]["approved"] or text_at(plan, "status", "phase") not in ("RequiresApproval", "Installing"):
            return
        if self.stalled:
            await self._set_plan(plan, "Installing")
            return
        namespace = namespace_of(plan)
        for version in plan["spec"]["clusterServiceVersionNames"]:
            await self._install_version(version, namespace)
        await self._set_plan(plan, "Complete")

    async def _install_version(self, version: str, namespace: str) -> None:
        for subscription in (await self.client.list(SUBSCRIPTIONS, namespace)).items:
            if text_at(subscription, "status", "currentCSV") == version:
                await self._create_csv(version, subscription)
                before = text_at(subscription, "status", "installedCSV")
                await self._set_subscription(subscription, installedCSV=version, state="AtLatestKnown")
                if before and before != version:
                    with suppress(NotFound):
                        await self.client.delete(CSVS, before, namespace)
                return

    async def _create_csv(self, version: str, subscription: Object) -> None:
        namespace = namespace_of(subscription)
        label = {f"{OLM_GROUP}/{subscription_label(name_of(subscription), namespace)}": ""}
        csv = _object(CSVS, version, namespace)
        csv["metadata"]["labels"] = label
        deployment = f"{name_of(subscription)}-controller"
        csv["spec"] = {"install": {"strategy": "deployment", "spec": {"deployments": [{"name": deployment}]}}}
        definition = _definition(widgets(subscription["spec"]["name"]), _FREE)
        definition["metadata"]["labels"] = label
        with suppress(AlreadyExists):
            await self.client.create(CSVS, csv, namespace)
        with suppress(AlreadyExists):
            await self.client.create(CRDS, definition)

    async def _run_operator(self, csv: Object) -> None:
        """The Deployments of a ClusterServiceVersion, and how it fares."""
        if value_at(csv, "metadata", "deletionTimestamp"):
            return
        for one in csv["spec"]["install"]["spec"]["deployments"]:
            await self._run_deployment(one["name"], csv)
        status = {"phase": "Succeeded", "reason": "InstallSucceeded", "message": "install strategy completed with no errors"}
        if name_of(csv) in self.failing:
            status = {"phase": "Failed", "reason": "ComponentUnhealthy", "message": "installing: deployment changed old hash"}
        if any(text_at(csv, "status", key) != value for key, value in status.items()):
            await self.client.patch(CSVS, name_of(csv), {"status": status}, namespace_of(csv), subresource="status")

    async def _run_deployment(self, name: str, csv: Object) -> None:
        namespace = namespace_of(csv)
        try:
            found = await self.client.get(DEPLOYMENTS, name, namespace)
        except NotFound:
            found = await self.client.create(DEPLOYMENTS, _deployment(name, csv), namespace)
        if text_at(found, "metadata", "labels", "olm.owner") != uid_of(csv):
            await self.client.patch(DEPLOYMENTS, name, {"metadata": {"labels": {"olm.owner": uid_of(csv)}}}, namespace)
        unavailable = 1 if name in self.unavailable else 0
        if (value_at(found, "status", "unavailableReplicas") or 0) != unavailable:
            status = {"unavailableReplicas": unavailable or None, "replicas": 1}
            await self.client.patch(DEPLOYMENTS, name, {"status": status}, namespace, subresource="status")

    async def _collect_garbage(self) -> None:
        """Deployments go with their ClusterServiceVersion; not every server has a garbage collector."""
        csvs = {uid_of(csv) for csv in (await self.client.list(CSVS)).items}
        for found in (await self.client.list(DEPLOYMENTS, label_selector="olm.owner")).items:
            if text_at(found, "metadata", "labels", "olm.owner") not in csvs:
                with suppress(NotFound):
                    await self.client.delete(DEPLOYMENTS, name_of(found), namespace_of(found))


class PlayedOLM:
    """OLM in a thread of its own."""

    def __init__(self, olm: ScriptedOLM, loop: asyncio.AbstractEventLoop) -> None:
        self.olm = olm
        self._loop = loop

    def do(self, work: Coroutine[Any, Any, T], timeout: float = 30) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout)

    def subscription(self, name: str, namespace: str) -> Object | None:
        with suppress(NotFound):
            return self.do(self.olm.client.get(SUBSCRIPTIONS, name, namespace))
        return None


@contextmanager
def playing_olm(kubeconfig: Path, *packages: Package) -> Iterator[PlayedOLM]:
    """OLM on the cluster of a kubeconfig: its kinds are installed, it is there until the end."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="olm", daemon=True)
    thread.start()

    async def begin() -> tuple[PlayedOLM, asyncio.Task[None]]:
        olm = ScriptedOLM(HttpClient(load_kubeconfig(kubeconfig), agent="olm"))
        await install_kinds(olm.client)
        await olm.prepare(*packages)
        return PlayedOLM(olm, loop), asyncio.create_task(olm.run())

    async def end(played: PlayedOLM, task: asyncio.Task[None]) -> None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await played.olm.client.close()

    played, task = asyncio.run_coroutine_threadsafe(begin(), loop).result(60)
    try:
        yield played
        assert not task.done(), task
    finally:
        played.do(end(played, task))
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)


def _object(resource: GVR, name: str, namespace: str = "") -> Object:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}


def _deployment(name: str, csv: Object) -> Object:
    deployment = _object(DEPLOYMENTS, name, namespace_of(csv))
    deployment["metadata"]["labels"] = {"olm.owner": uid_of(csv)}
    pod = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "operator", "image": "operator"}]}}
    deployment["spec"] = {"selector": {"matchLabels": {"app": name}}, "template": pod, "replicas": 0}
    return deployment
