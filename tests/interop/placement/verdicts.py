"""One pass over one placement, by upstream's controller and by ours, in the same words.

What both start from are the decisions that upstream has made so far: so a difference stays where it is, and does not come back in
every pass after it.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from muster.api.cluster.v1 import ManagedCluster
from muster.api.cluster.v1alpha1 import AddOnPlacementScore
from muster.api.cluster.v1beta1 import MISCONFIGURED, SATISFIED, Placement
from muster.api.cluster.v1beta2 import ManagedClusterSet
from muster.api.meta import Condition
from muster.machinery.golang.timestamps import parse_time
from muster.machinery.objects import Object, ObjectKey
from muster.placement.candidates import candidate_of
from muster.placement.choice import Choice
from muster.placement.hub.inventory import Inventory
from muster.placement.scheduler import schedule
from tests.interop.placement.oracle import Answer


@dataclass(frozen=True)
class Verdict:
    satisfied: tuple[str, str, str] = ("", "", "")
    misconfigured: tuple[str, str, str] = ("", "", "")
    groups: tuple[tuple[str, tuple[str, ...]], ...] = ()
    left: tuple[frozenset[str], ...] = ()
    """By filter."""
    scores: frozenset[tuple[tuple[str, int, frozenset[tuple[str, int]]], int]] = frozenset()
    """Of every prioritizer, and how often."""
    totals: frozenset[tuple[str, int]] = frozenset()
    warned: bool = False

    def differences(self, other: Verdict) -> list[str]:
        names = [one.name for one in dataclasses.fields(self)]
        return [name for name in names if getattr(self, name) != getattr(other, name)]


def of_answer(answer: Answer) -> Verdict:
    conditions = {one["type"]: (one["status"], one["reason"], one["message"]) for one in answer["conditions"] or ()}
    decisions = answer["decisions"] or {}
    satisfied, misconfigured = conditions.get(SATISFIED, ("", "", "")), conditions.get(MISCONFIGURED, ("", "", ""))
    groups = tuple(
        (group.get("decisionGroupName", ""), tuple(name for part in group["decisions"] for name in decisions[part]))
        for group in answer["groups"] or ()
    )
    if misconfigured[0] == "True":
        # How far it came before it found the mistake is nobody's concern.
        return Verdict(satisfied, misconfigured, groups)
    return Verdict(
        satisfied,
        misconfigured,
        groups,
        tuple(frozenset(one["filteredClusters"]) for one in answer["filters"] or ()),
        _counted((one["name"], one["weight"], one["scores"] or {}) for one in answer["scores"] or ()),
        frozenset((answer["totals"] or {}).items()),
        "warning" in answer,
    )


def of_choice(choice: Choice) -> Verdict:
    return Verdict(
        _condition(choice.satisfied),
        _condition(choice.misconfigured),
        tuple((group.name, tuple(one.cluster for one in group.clusters)) for group in choice.groups),
        tuple(frozenset(one.left) for one in choice.filters),
        _counted((one.name, one.weight, one.scores) for one in choice.prioritizers),
        frozenset(choice.totals.items()),
        bool(choice.warnings),
    )


def _condition(condition: Condition) -> tuple[str, str, str]:
    return condition.status, condition.reason, condition.message


def _counted(prioritizers: Any) -> frozenset[tuple[tuple[str, int, frozenset[tuple[str, int]]], int]]:
    return frozenset(Counter((name, weight, frozenset(scores.items())) for name, weight, scores in prioritizers).items())


@dataclass(frozen=True)
class Pass:
    """A pass over one placement, and what both made of it."""

    placement: Placement
    document: Object
    answer: Answer
    choice: Choice
    expired: bool
    """Whether the world has scores whose time is over."""

    @property
    def theirs(self) -> Verdict:
        return of_answer(self.answer)

    @property
    def ours(self) -> Verdict:
        return of_choice(self.choice)

    @property
    def spec(self) -> Object:
        spec: Object = self.document["spec"]
        return spec


@dataclass
class PlayedWorld:
    """What there is so far."""

    inventory: Inventory = field(default_factory=Inventory)
    placements: dict[ObjectKey, Object] = field(default_factory=dict)
    until: dict[tuple[str, str], str] = field(default_factory=dict)
    chosen: dict[ObjectKey, list[str]] = field(default_factory=dict)

    def set(self, document: Object) -> None:
        metadata = document["metadata"]
        key = ObjectKey(metadata.get("namespace", ""), metadata["name"])
        match document["kind"]:
            case "ManagedCluster":
                self.inventory.put_cluster(candidate_of(ManagedCluster.decode(document)))
            case "ManagedClusterSet":
                self.inventory.put_set(ManagedClusterSet.decode(document))
            case "ManagedClusterSetBinding":
                self.inventory.put_binding(key)
            case "AddOnPlacementScore":
                self.until[key.namespace, key.name] = document["status"].get("validUntil", "")
                self.inventory.put_score(AddOnPlacementScore.decode(document))
            case "Placement":
                self.placements[key] = document

    def delete(self, gone: dict[str, str]) -> None:
        match gone["kind"]:
            case "ManagedCluster":
                self.inventory.drop_cluster(gone["name"])
            case "ManagedClusterSet":
                self.inventory.drop_set(gone["name"])
            case "ManagedClusterSetBinding":
                self.inventory.drop_binding(ObjectKey(gone["namespace"], gone["name"]))

    def choose(self, key: ObjectKey, now: datetime) -> Choice:
        placement = Placement.decode(self.placements[key])
        others: Counter[str] = Counter(name for other, names in self.chosen.items() if other != key for name in names)
        present = dict.fromkeys(self.chosen.get(key, ()), 0)
        return schedule(placement, dataclasses.replace(self.inventory.world(placement, now), present=present, others=others))

    def look(self, key: ObjectKey, answer: Answer, now: datetime) -> Pass:
        document = self.placements[key]
        choice = self.choose(key, now)
        if answer.get("panic") is None:
            self.chosen[key] = [name for names in answer["decisions"].values() for name in names]
        expired = any(text and parse_time(text) < now for text in self.until.values())
        return Pass(Placement.decode(document), document, answer, choice, expired)


def passes(steps: list[dict[str, Any]], answers: list[dict[str, Answer]]) -> Iterator[Pass]:
    """Every pass of a world that has been played to upstream, played to ours."""
    world = PlayedWorld()
    for step, answered in zip(steps, answers, strict=True):
        for gone in step["delete"]:
            world.delete(gone)
        for document in step["set"]:
            world.set(document)
        for name in step["sync"]:
            namespace, _, placement = name.partition("/")
            yield world.look(ObjectKey(namespace, placement), answered[name], parse_time(step["now"]))
