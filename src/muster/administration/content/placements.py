"""Creates, deletes and explains placements; an explanation uses the scheduling function of the hub.

An explanation is computed here, from what the caller may list: it needs no service on the hub, and reveals nothing beyond the
caller's permissions. Kinds that the caller may not list are left out and named, because they may change the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeVar

from muster.administration.content.manifests import read_manifests
from muster.administration.content.works import DECISIONS, PLACEMENTS
from muster.administration.errors import AdministrationError, Refused
from muster.administration.hubs import CLUSTERADM
from muster.api import Document, MalformedObject
from muster.api.cluster.v1 import ManagedCluster
from muster.api.cluster.v1alpha1 import AddOnPlacementScore
from muster.api.cluster.v1beta1 import Placement, PlacementDecision
from muster.api.cluster.v1beta2 import ManagedClusterSet, ManagedClusterSetBinding
from muster.api.resource import TypedObject
from muster.kube.names import dns1123_label, label_value
from muster.kube.selectors import Requirement, SelectorError, parse_label_selector
from muster.machinery.clock import SYSTEM, Clock
from muster.machinery.objects import ObjectKey
from muster.placement.candidates import candidate_of
from muster.placement.choice import Choice
from muster.placement.explanation import Verdict, verdicts
from muster.placement.hub.inventory import Inventory
from muster.placement.scheduler import schedule
from muster.registration.kinds import CLUSTER_SET_BINDINGS
from muster.runtime.client import AlreadyExists, Forbidden, KubeClient, NotFound, served

R = TypeVar("R", bound=TypedObject)
BUILT_IN: Final = "BuiltIn"
ADD_ON: Final = "AddOn"
_OPERATORS: Final = {"=": "In", "==": "In", "in": "In", "!=": "NotIn", "notin": "NotIn", "exists": "Exists", "!": "DoesNotExist"}
_WEIGHTS: Final = range(-10, 11)


@dataclass(frozen=True)
class PlacementOptions:
    """The options of a new placement."""

    cluster_sets: tuple[str, ...] = ()
    label_selectors: tuple[str, ...] = ()
    """Each one becomes a predicate; a cluster needs to match only one."""
    count: int | None = None
    prioritizers: tuple[str, ...] = ()
    """`BuiltIn:<Name>:<weight>` or `AddOn:<resource>:<score>:<weight>`."""

    def spec(self) -> Document:
        """Raises AdministrationError."""
        spec: Document = {}
        if self.cluster_sets:
            spec["clusterSets"] = list(self.cluster_sets)
        if self.count is not None:
            spec["numberOfClusters"] = self.count
        if self.label_selectors:
            spec["predicates"] = [
                {"requiredClusterSelector": {"labelSelector": _selector(label_selector)}} for label_selector in self.label_selectors
            ]
        if self.prioritizers:
            spec["prioritizerPolicy"] = {"configurations": [_prioritizer(prioritizer) for prioritizer in self.prioritizers]}
        return spec


def _selector(text: str) -> Document:
    try:
        requirements = parse_label_selector(text).requirements
        return {"matchExpressions": [_expression(requirement) for requirement in requirements]}
    except (SelectorError, KeyError) as error:
        problem = f"operator {error} is none of a placement's" if isinstance(error, KeyError) else str(error)
        raise AdministrationError(f"--label-selectors: {text!r}: {problem}") from None


def _expression(requirement: Requirement) -> Document:
    expression: Document = {"key": requirement.key, "operator": _OPERATORS[requirement.operator]}
    return {**expression, "values": list(requirement.values)} if requirement.values else expression


def _prioritizer(text: str) -> Document:
    kind, *rest = text.split(":")
    try:
        weight = int(rest[-1])
    except (IndexError, ValueError):
        weight = _WEIGHTS.stop
    if kind == BUILT_IN and len(rest) == 2 and rest[0] and weight in _WEIGHTS:
        return {"scoreCoordinate": {"type": BUILT_IN, "builtIn": rest[0]}, "weight": weight}
    if kind == ADD_ON and len(rest) == 3 and rest[0] and rest[1] and weight in _WEIGHTS:
        score = {"resourceName": rest[0], "scoreName": rest[1]}
        return {"scoreCoordinate": {"type": ADD_ON, "addOn": score}, "weight": weight}
    forms = f"{BUILT_IN}:<Name>:<weight> nor {ADD_ON}:<resource>:<score>:<weight>, with a weight from -10 to 10"
    raise AdministrationError(f"--prioritizers: {text!r} is neither {forms}")


async def create(client: KubeClient, name: str, namespace: str, options: PlacementOptions, *, overwrite: bool = False) -> str:
    """Raises AdministrationError."""
    if problems := [*dns1123_label(name), *label_value(name)]:
        raise AdministrationError(f"{name!r} cannot name a placement: {problems[0]}")
    spec = options.spec()
    for cluster_set in options.cluster_sets:
        try:
            await client.get(CLUSTER_SET_BINDINGS, cluster_set, namespace)
        except NotFound:
            remedy = f"bind it with clusterset bind {cluster_set} --namespace {namespace}"
            raise AdministrationError(f"--clustersets: {cluster_set} is not bound to namespace {namespace}", remedy) from None
    kind = {"apiVersion": PLACEMENTS.api_version, "kind": PLACEMENTS.kind}
    document = {**kind, "metadata": {"name": name, "namespace": namespace}, "spec": spec}
    try:
        await client.create(PLACEMENTS, document, manager=CLUSTERADM)
    except AlreadyExists:
        if not overwrite:
            raise Refused(f"there is a Placement {namespace}/{name} already", "add --overwrite to change it") from None
        found = await client.get(PLACEMENTS, name, namespace)
        await client.update(PLACEMENTS, {**found, "spec": spec}, manager=CLUSTERADM)
        return f"Placement {namespace}/{name} is updated"
    return f"Placement {namespace}/{name} is created"


async def delete(client: KubeClient, name: str, namespace: str) -> str:
    try:
        await client.delete(PLACEMENTS, name, namespace)
    except NotFound:
        return f"Placement {namespace}/{name} not found or is already deleted"
    return f"Placement {namespace}/{name} is deleted"


@dataclass(frozen=True)
class Explanation:
    placement: Placement
    choice: Choice
    verdicts: Sequence[Verdict]
    unseen: tuple[str, ...]
    """Kinds that the caller may not list in all namespaces; they may change the result."""


def read_placement(file: str, namespace: str) -> Placement:
    """The placement in a file, or `-` for stdin; in `namespace` if it names none. Raises AdministrationError."""
    document, *others = read_manifests([file])
    if others or (document["apiVersion"], document["kind"]) != (PLACEMENTS.api_version, PLACEMENTS.kind):
        raise AdministrationError(f"--filename {file}: expected one manifest, a {PLACEMENTS.kind} of {PLACEMENTS.api_version}")
    metadata = document["metadata"]
    try:
        return Placement.decode({**document, "metadata": {**metadata, "namespace": metadata.get("namespace") or namespace}})
    except MalformedObject as error:
        raise AdministrationError(f"--filename {file}: {error}") from None


async def get_placement(client: KubeClient, name: str, namespace: str) -> Placement:
    """Raises AdministrationError."""
    try:
        return await client.get(Placement, name, namespace)
    except NotFound:
        raise AdministrationError(f"there is no Placement {namespace}/{name}", "see get placements") from None


async def explain(client: KubeClient, placement: Placement, *, clock: Clock = SYSTEM) -> Explanation:
    """Explain a placement that exists or is only drafted. Raises the client's errors."""
    metadata = placement.metadata
    try:
        there = await client.get(Placement, metadata.name, metadata.namespace)
    except NotFound:
        there = None
    inventory, unseen = await _inventory(client, metadata.namespace, clock)
    # The present decisions of the existing placement count, for the draft too.
    known = placement if there is None else _with_uid(placement, there)
    now: datetime = clock.now()
    world = inventory.world(known, now)
    choice = schedule(placement, world)
    return Explanation(placement, choice, verdicts(placement, world, choice), unseen)


def _with_uid(placement: Placement, there: Placement) -> Placement:
    document = placement.document()
    return Placement.decode({**document, "metadata": {**document.get("metadata", {}), "uid": there.metadata.uid}})


async def _inventory(client: KubeClient, namespace: str, clock: Clock) -> tuple[Inventory, tuple[str, ...]]:
    inventory = Inventory(clock)
    unseen: list[str] = []
    for cluster in await _read(client, ManagedCluster):
        inventory.put_cluster(candidate_of(cluster))
    for cluster_set in await _read(client, ManagedClusterSet):
        inventory.put_set(cluster_set)
    for binding in await _read(client, ManagedClusterSetBinding, namespace):
        inventory.put_binding(ObjectKey(namespace, binding.metadata.name))
    try:
        for score in await _read(client, AddOnPlacementScore):
            inventory.put_score(score)
    except Forbidden:
        unseen.append(served(AddOnPlacementScore).plural)
    try:
        decisions = await _read(client, PlacementDecision)
    except Forbidden:
        unseen.append(f"{DECISIONS.plural} of other namespaces")
        decisions = await _read(client, PlacementDecision, namespace)
    for decision in decisions:
        inventory.decisions.observe(decision)
    return inventory, tuple(unseen)


async def _read(client: KubeClient, kind: type[R], namespace: str = "") -> list[R]:
    """The objects that can be parsed."""
    found: list[R] = []
    for document in (await client.list(served(kind), namespace)).items:
        try:
            found.append(kind.decode(document))
        except MalformedObject:
            continue
    return found
