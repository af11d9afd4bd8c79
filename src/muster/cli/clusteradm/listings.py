"""The listings of `clusteradm get`: for each kind a function that queries the hub and returns a `Listing` with OCM's columns.

An object that cannot be parsed (of another version of its kind) is listed by name only, and does not affect others.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from muster.administration.content.addon_steps import AddonView, missing_step, reasons
from muster.administration.content.addons import ADDONS, CLUSTER_ADDONS
from muster.administration.content.works import DECISIONS, PLACEMENTS
from muster.api import Condition, Document, MalformedObject, condition_of
from muster.api.addon.v1alpha1 import ClusterManagementAddOn, ManagedClusterAddOn
from muster.api.cluster.v1 import AVAILABLE, ManagedCluster
from muster.api.cluster.v1beta1 import MISCONFIGURED, PLACEMENT_LABEL, SATISFIED, Placement, PlacementDecision
from muster.api.cluster.v1beta2 import EMPTY, ManagedClusterSet, ManagedClusterSetBinding
from muster.api.resource import TypedObject as ApiResource
from muster.api.work.v1 import ManifestWork
from muster.cli.clusteradm.work.details import COLUMNS, MORE, work_details, work_item
from muster.cli.output import Item, Listing
from muster.machinery.golang.quantities import QuantityError, parse_quantity
from muster.machinery.objects import GVR, Object
from muster.registration.drivers.ownership import owner_of
from muster.registration.hub.sets.members import selector_of
from muster.registration.kinds import CLUSTER_SET_BINDINGS, CLUSTER_SETS, MANAGED_CLUSTERS, MANIFEST_WORKS
from muster.registration.names import ADDON_LABEL, CLUSTER_LABEL, CLUSTER_SET_LABEL
from muster.runtime.client import Forbidden, KubeClient
from muster.runtime.client.builtin import SIGNING_REQUESTS

HOW_REGISTERED: Final = ("Driver", "Identity")
"""The cluster's registration driver, and its name at the identity provider, as its annotations have them."""
R = TypeVar("R", bound=ApiResource)


@dataclass(frozen=True)
class Question:
    """What is queried. Empty fields mean all."""

    names: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()
    namespace: str = ""
    cluster_set: str = ""
    selector: str = ""

    @property
    def places(self) -> tuple[str, ...]:
        """The namespaces to query: no permissions in others are needed. An empty one stands for all."""
        return tuple(dict.fromkeys(self.clusters)) or (self.namespace,)


Collect = Callable[[KubeClient, Question], Awaitable[Listing]]


def _read(kind: type[R], documents: Iterable[Object]) -> list[tuple[R | None, Object]]:
    found: list[tuple[R | None, Object]] = []
    for document in documents:
        try:
            found.append((kind.decode(document), document))
        except MalformedObject:
            found.append((None, document))
    return found


def _status(conditions: tuple[Condition, ...], kind: str) -> str:
    found = condition_of(conditions, kind)
    return found.status if found else ""


def _status_of(conditions: tuple[Condition, ...], kind: str) -> str:
    return (_status(conditions, kind) or "unknown").lower()


def _unreadable(document: Object, width: int, more: int = 0) -> Item:
    name = document["metadata"]["name"]
    return Item(name, [name, "<unreadable>", *[""] * (width - 2)], {"Problem": "cannot be read"}, document, [""] * more)


def _chosen(document: Object, question: Question) -> bool:
    return not question.names or document["metadata"]["name"] in question.names


def _by_name(documents: Iterable[Object]) -> list[Object]:
    return sorted(documents, key=lambda one: (one["metadata"].get("namespace") or "", one["metadata"]["name"]))


async def clusters(client: KubeClient, question: Question) -> Listing:
    columns = ("Name", "Accepted", "Available", "ClusterSet", "CPU", "Memory", "Kubernetes Version")
    selector = question.selector
    if question.cluster_set:
        await client.get(CLUSTER_SETS, question.cluster_set)
        selector = ",".join(filter(None, (selector, f"{CLUSTER_SET_LABEL}={question.cluster_set}")))
    found = await client.list(MANAGED_CLUSTERS, label_selector=selector)
    chosen = [one for one in _by_name(found.items) if _chosen(one, question)]
    items = [
        _cluster(cluster, document) if cluster is not None else _unreadable(document, len(columns), len(HOW_REGISTERED))
        for cluster, document in _read(ManagedCluster, chosen)
    ]
    return Listing("ManagedCluster", columns, items, HOW_REGISTERED)


def _cluster(cluster: ManagedCluster, document: Object) -> Item:
    status, name = cluster.status, cluster.metadata.name
    accepted, available = cluster.spec.hub_accepts_client, _status(status.conditions, AVAILABLE)
    cluster_set = cluster.metadata.labels.get(CLUSTER_SET_LABEL, "")
    cpu, memory = str(status.capacity.get("cpu", "")), str(status.capacity.get("memory", ""))
    version = status.version.kubernetes
    fields = {
        "Accepted": accepted,
        "Available": available,
        "ClusterSet": cluster_set,
        "KubernetesVersion": version,
        "Capacity.Cpu": cpu,
        "Capacity.Memory": memory,
    }
    owner = owner_of(cluster)
    registered = (owner.name, owner.identity_of(cluster)) if owner is not None else ("<unknown>", "")
    return Item(name, (name, accepted, available, cluster_set, cpu, _memory(memory), version), fields, document, registered)


def _memory(quantity: str) -> str:
    """In Gi or Mi; an invalid quantity is shown as it is."""
    try:
        number = parse_quantity(quantity).value
    except QuantityError:
        return quantity
    if number >= 1 << 30:
        return f"{number / (1 << 30):.1f}".removesuffix(".0") + "Gi"
    return f"{number >> 20}Mi" if number >= 1 << 20 else quantity


async def works(client: KubeClient, question: Question) -> Listing:
    found = [one for namespace in question.places for one in (await client.list(MANIFEST_WORKS, namespace)).items]
    chosen = [one for one in _by_name(found) if _chosen(one, question)]
    items = [
        work_item(work, document, named=bool(question.names))
        if work is not None
        else _unreadable(document, len(COLUMNS), len(MORE))
        for work, document in _read(ManifestWork, chosen)
    ]
    return Listing("ManifestWork", COLUMNS, items, MORE)


async def addons(client: KubeClient, question: Question) -> Listing:
    columns, more = ("Name", "InstalledClusters", "Available"), ("Waiting",)
    offered = (await client.list(CLUSTER_ADDONS)).items
    installed = (await client.list(ADDONS)).items
    spread: dict[str, list[Object]] = {one["metadata"]["name"]: [] for one in _by_name(offered)}
    for addon in _by_name(installed):
        if not question.clusters or addon["metadata"]["namespace"] in question.clusters:
            spread.setdefault(addon["metadata"]["name"], []).append(addon)
    works = (await client.list(MANIFEST_WORKS, label_selector=ADDON_LABEL)).items
    documents = {one["metadata"]["name"]: one for one in offered}
    found = _read(ManagedCluster, await _if_allowed(client, MANAGED_CLUSTERS))
    requests = await _if_allowed(client, SIGNING_REQUESTS, ADDON_LABEL)
    hub = AddonsHub(_definitions(offered), {raw["metadata"]["name"]: one for one, raw in found}, works, requests)
    items = [
        _addon(name, on_clusters, hub, documents.get(name) or {"items": on_clusters})
        for name, on_clusters in spread.items()
        if not question.names or name in question.names
    ]
    return Listing("ClusterManagementAddOn", columns, items, more)


@dataclass(frozen=True)
class AddonsHub:
    """The objects of the hub that addons depend on, as far as the caller may read them."""

    definitions: Mapping[str, ClusterManagementAddOn]
    clusters: Mapping[str, ManagedCluster | None]
    works: Sequence[Object]
    requests: Sequence[Object]

    def view(self, addon: ManagedClusterAddOn) -> AddonView:
        name, cluster = addon.metadata.name, addon.metadata.namespace
        requests = [one for one in self.requests if _labelled(one, name, cluster)]
        return AddonView(addon, self.definitions.get(name), self.clusters.get(cluster), requests)


def _labelled(request: Object, addon: str, cluster: str) -> bool:
    labels = request["metadata"].get("labels") or {}
    return labels.get(ADDON_LABEL) == addon and labels.get(CLUSTER_LABEL) == cluster


def _definitions(documents: Sequence[Object]) -> dict[str, ClusterManagementAddOn]:
    return {raw["metadata"]["name"]: one for one, raw in _read(ClusterManagementAddOn, documents) if one is not None}


async def _if_allowed(client: KubeClient, resource: GVR, selector: str = "") -> list[Object]:
    try:
        return list((await client.list(resource, label_selector=selector)).items)
    except Forbidden:
        return []


def _addon(name: str, installed: Sequence[Object], hub: AddonsHub, document: Document) -> Item:
    fields: dict[str, Any] = _strategy(hub.definitions.get(name))
    available, waiting = 0, []
    for addon, raw in _read(ManagedClusterAddOn, installed):
        cluster = raw["metadata"]["namespace"]
        if addon is None:
            fields[cluster] = {"Problem": "cannot be read"}
            continue
        conditions = {
            kind: _status_of(addon.status.conditions, kind) for kind in ("Available", "ManifestApplied", "RegistrationApplied")
        }
        available += conditions["Available"] == "true"
        branch: dict[str, Any] = {"Status": conditions}
        if addon.status.conditions:
            branch["Reasons"] = dict(reasons(addon))
        if (missing := missing_step(hub.view(addon))) is not None:
            branch["Missing"] = str(missing)
            waiting.append(f"{cluster} ({missing.step})")
        mine = [
            one
            for one in hub.works
            if one["metadata"]["namespace"] == cluster and (one["metadata"].get("labels") or {}).get(ADDON_LABEL) == name
        ]
        if mine:
            branch["ManifestWork"] = {
                one["metadata"]["name"]: work_details(work) for work, one in _read(ManifestWork, mine) if work is not None
            }
        fields[cluster] = branch
    return Item(name, (name, len(installed), available), fields, document, (waiting,))


def _strategy(definition: ClusterManagementAddOn | None) -> dict[str, Any]:
    """The placements that install an addon, and the progress of their rollouts; empty for one that is installed manually."""
    if definition is None or definition.spec.install_strategy.type != "Placements":
        return {}
    strategies = {
        (one.namespace, one.name): progressing.message
        for one in definition.status.install_progressions
        if (progressing := condition_of(one.conditions, "Progressing")) is not None
    }
    placements = definition.spec.install_strategy.placements
    found = {f"{one.namespace}/{one.name}": strategies.get((one.namespace, one.name), "") for one in placements}
    return {"InstalledBy": found or "no placement"}


async def placements(client: KubeClient, question: Question) -> Listing:
    columns = ("Name", "Namespace", "Status", "Reason", "SelectedClusters")
    found = await client.list(PLACEMENTS, question.namespace)
    decided: dict[tuple[str, str], list[str]] = {}
    for decision, raw in _read(PlacementDecision, (await client.list(DECISIONS, question.namespace)).items):
        placement = (raw["metadata"].get("labels") or {}).get(PLACEMENT_LABEL, "")
        if decision is not None:
            names = [one.cluster_name for one in decision.status.decisions]
            decided.setdefault((raw["metadata"]["namespace"], placement), []).extend(names)
    items = [
        _placement(placement, document, decided) if placement is not None else _unreadable(document, len(columns))
        for placement, document in _read(Placement, [one for one in _by_name(found.items) if _chosen(one, question)])
    ]
    return Listing("Placement", columns, items)


def _placement(placement: Placement, document: Object, decided: Mapping[tuple[str, str], list[str]]) -> Item:
    metadata, status = placement.metadata, placement.status
    chosen = decided.get((metadata.namespace, metadata.name)) or []
    satisfied = condition_of(status.conditions, SATISFIED)
    fields = {
        "Namespace": metadata.namespace,
        "ClusterSet": list(placement.spec.cluster_sets),
        "Status.NumberOfSelectedClusters": status.number_of_selected_clusters,
        "Status.Conditions.PlacementConditionSatisfied": _status_of(status.conditions, SATISFIED),
        "Status.Conditions.PlacementConditionMisconfigured": _status_of(status.conditions, MISCONFIGURED),
        **{
            f"Status.Reasons.{one.type}": f"{one.reason}: {one.message}"
            for one in status.conditions
            if one.type in (SATISFIED, MISCONFIGURED)
        },
        "PlacementDecision": chosen or "NoClusterSelected",
    }
    cells = (
        metadata.name,
        metadata.namespace,
        satisfied.status if satisfied else "",
        satisfied.reason if satisfied else "",
        chosen,
    )
    return Item(f"{metadata.namespace}/{metadata.name}", cells, fields, document)


async def cluster_sets(client: KubeClient, question: Question) -> Listing:
    columns = ("Name", "Bound Namespaces", "Status", "Managed Namespaces")
    found = (await client.list(CLUSTER_SETS)).items
    bindings = _read(ManagedClusterSetBinding, (await client.list(CLUSTER_SET_BINDINGS)).items)
    members = [one for one, _ in _read(ManagedCluster, (await client.list(MANAGED_CLUSTERS)).items) if one is not None]
    bound: dict[str, list[str]] = {}
    for one, raw in bindings:
        if one is not None:
            bound.setdefault(one.spec.cluster_set, []).append(raw["metadata"]["namespace"])
    items = [
        _cluster_set(one, document, sorted(bound.get(document["metadata"]["name"], ())), members)
        if one is not None
        else _unreadable(document, len(columns))
        for one, document in _read(ManagedClusterSet, [one for one in _by_name(found) if _chosen(one, question)])
    ]
    return Listing("ManagedClusterSet", columns, items)


def _cluster_set(one: ManagedClusterSet, document: Object, bound: list[str], clusters: Sequence[ManagedCluster]) -> Item:
    name, selector = one.metadata.name, selector_of(one)
    empty = condition_of(one.status.conditions, EMPTY)
    status = empty.message if empty else ""
    namespaces = [namespace.name for namespace in one.spec.managed_namespaces]
    fields = {
        "BoundNamespace": bound,
        "Status": status,
        "Clusters": [cluster.metadata.name for cluster in clusters if selector.matches(cluster.metadata.labels)],
        "ManagedNamespaces": namespaces,
    }
    return Item(name, (name, bound, status, namespaces), fields, document)


COLLECTORS: Final[Mapping[str, Collect]] = {
    "clusters": clusters,
    "works": works,
    "addons": addons,
    "placements": placements,
    "clustersets": cluster_sets,
}
WATCHED: Final[Mapping[str, tuple[GVR, ...]]] = {
    "clusters": (MANAGED_CLUSTERS,),
    "works": (MANIFEST_WORKS,),
    "addons": (CLUSTER_ADDONS, ADDONS),
    "placements": (PLACEMENTS, DECISIONS),
    "clustersets": (CLUSTER_SETS, CLUSTER_SET_BINDINGS),
}
"""The resources that are in the rows of each kind."""
