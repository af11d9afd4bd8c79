"""What an addon manager made of a step, in words that are the same for upstream's and for ours."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from muster.api.addon.v1alpha1 import PROGRESSING
from muster.api.addons import CONFIG_HASH_ANNOTATION
from muster.api.cluster.v1beta1 import PLACEMENT_LABEL
from muster.api.resource import known_fields
from muster.machinery.golang.timestamps import parse_time
from muster.machinery.objects import Object
from tests.interop.addon.played import Answer, PlayedManager
from tests.support.random_addons import NAME, Step

Facts = dict[str, Any]
"""By where it is written, such as `c1 references`."""


@dataclass(frozen=True)
class Seen:
    """A step, and what both made of it."""

    step: Step
    before: Answer | None
    answer: Answer
    offer: Object
    """The ClusterManagementAddOn as it is asked for in this step."""
    lost: frozenset[str]
    """Placements that it refers to and that are not there."""
    chosen: Mapping[str, frozenset[str]]
    """Clusters by the placement that chose them."""
    with_own: frozenset[str]
    """Clusters that have configurations of their own."""
    hashes: Mapping[tuple[str, ...], str]
    """Of the configurations as they are, by group, resource, namespace and name."""
    theirs: Facts
    ours: Facts

    def differences(self) -> list[str]:
        places = sorted(self.theirs.keys() | self.ours.keys())
        return [place for place in places if self.theirs.get(place) != self.ours.get(place)]


def facts(offers: Iterable[Object], addons: Iterable[Object], works: Iterable[Object]) -> Facts:
    found: Facts = {}
    for offer in offers:
        status = offer.get("status") or {}
        found["defaults"] = _references(status.get("defaultconfigReferences"))
        for one in status.get("installProgressions") or ():
            found[f"{one['name']} references"] = _references(one.get("configReferences"))
            found[f"{one['name']} progress"] = _progress(one)
    for addon in addons:
        cluster, status = addon["metadata"]["namespace"], addon.get("status") or {}
        found[f"{cluster} references"] = _references(status.get("configReferences"))
        for kind in ("Configured", PROGRESSING, "ManifestApplied"):
            found[f"{cluster} {kind}"] = _condition(status, kind)
    for work in works:
        metadata = work["metadata"]
        hashes = (metadata.get("annotations") or {}).get(CONFIG_HASH_ANNOTATION, "{}")
        found[f"{metadata['namespace']} work {metadata['name']}"] = orjson.loads(hashes)
    return found


def _references(references: list[Object] | None) -> list[tuple[Any, ...]]:
    """Of one kind in any order: upstream keeps those of placements in a set, and gives them in a random one."""
    return sorted(
        (
            one.get("group", ""),
            one["resource"],
            *(_config(one.get(name)) for name in ("desiredConfig", "lastAppliedConfig", "lastKnownGoodConfig")),
        )
        for one in references or ()
    )


def _config(config: Object | None) -> tuple[str, ...]:
    return tuple(config.get(name, "") for name in ("namespace", "name", "specHash")) if config else ()


def _condition(status: Object, kind: str) -> tuple[str, str, str]:
    conditions: list[Object] = status.get("conditions") or []
    found: Object = next((one for one in conditions if one["type"] == kind), {})
    return found.get("status", ""), found.get("reason", ""), found.get("message", "")


def _progress(progression: Object) -> tuple[Any, ...]:
    """Status, reason and the numbers: of clusters that were chosen, that are done or under way, that failed, that are late. The
    sentence around them was another in v1.2, and it did not tell the chosen from those for whom the placement counts."""
    status, reason, message = _condition(progression, PROGRESSING)
    found = re.fullmatch(r"(?:selected clusters (\d+)\. configured addons )?(\d+)/(\d+) .*, (\d+) failed (\d+) timeout\.", message)
    if found is None:
        return status, reason, message
    selected, begun, of, failed, late = found.groups()
    return status, reason, int(selected or of), int(begun), int(failed), int(late)


def of_answer(answer: Answer) -> Facts:
    return facts(answer["offers"].values(), answer["addons"].values(), answer["works"].values())


def of_ours(played: PlayedManager) -> Facts:
    offers = [known_fields(played.offer)] if played.offer is not None else []
    works = [known_fields(one) for some in played.works.values() for one in some]
    return facts(offers, map(known_fields, played.addons.values()), works)


def steps_seen(steps: list[Step], answers: list[Answer]) -> Iterator[Seen]:
    """Every step of a life that has been played to upstream, played to ours."""
    ours = PlayedManager()
    before: Answer | None = None
    offer: Object = {}
    for step, answer in zip(steps, answers, strict=True):
        if before is not None:
            ours.take_over(before)
        for gone in step["delete"]:
            ours.delete(gone)
        for document in step["set"]:
            ours.set(document)
            offer = document if document["kind"] == "ClusterManagementAddOn" else offer
        settled = ours.settle(step["agents"], parse_time(step["now"]))
        asked = {one["name"] for one in offer["spec"]["installStrategy"].get("placements", ())}
        lost = frozenset(asked - {key.name for key in ours.placements})
        chosen: dict[str, frozenset[str]] = {}
        for one in ours.decisions.values():
            name = one.metadata.labels[PLACEMENT_LABEL]
            clusters = frozenset(each.cluster_name for each in one.status.decisions)
            chosen[name] = chosen.get(name, frozenset()) | clusters if name in asked else frozenset()
        with_own = frozenset(cluster for cluster, one in ours.addons.items() if one.spec.configs)
        told = of_ours(ours) if settled else {"settled": False}
        hashes = {tuple(key): one.spec_hash for key, one in ours.configs.found.items()}
        yield Seen(step, before, answer, offer, lost, chosen, with_own, hashes, of_answer(answer), told)
        before = answer


__all__ = ["NAME", "Facts", "Seen", "of_answer", "of_ours", "steps_seen"]
