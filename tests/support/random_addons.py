"""Random lives of an addon: placements with decisions, configurations, strategies, clusters with wishes of their own, and how their
work agents fare, step by step; a seed gives always the same.

A step is what changes, in the words of `peers/addons`. Most of what is asked for makes sense; a share does not, in one way each.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from muster.machinery.objects import Object
from tests.support.random_placements import stamp

NAME: Final = "played"
GROUP: Final = "addon.open-cluster-management.io"
PLACING: Final = "cluster.open-cluster-management.io"
START: Final = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
SETTINGS: Final = {"group": GROUP, "resource": "addondeploymentconfigs"}
MAPS: Final = {"group": "", "resource": "configmaps"}
STRANGE: Final = {"group": "", "resource": "secrets"}
"""A kind of configuration that the addon does not read."""
NAMES: Final = ("red", "blue", "green")
LOST: Final = "lost"
"""A configuration that is never made."""
VALUES: Final = ("1", "<b>&c", "", "\u2028 ü", "true")
STATES: Final = (*("ready",) * 9, *("applied",) * 3, *("silent",) * 3, "failing")

Step = dict[str, Any]


class AddonLife:
    """One world, as a list of steps."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._rng = random.Random(seed)
        self._now = START
        self._clusters = [f"c{index}" for index in range(self._rng.randint(1, 7))]
        self._placements = [f"p{index}" for index in range(self._rng.choice((0, 1, 1, 1, 2, 3)))]
        self._apart = self._rng.random() < 0.6
        """Whether no two placements choose the same cluster."""
        self._there: set[str] = set()
        self._generation: dict[tuple[str, str], int] = {}
        self._own: set[str] = set()
        self._decided: dict[str, int] = {}
        self._states: dict[str, str] = {}
        self.steps: list[Step] = [self._step(first=index == 0) for index in range(self._rng.randint(3, 6))]

    def _step(self, first: bool) -> Step:
        rng = self._rng
        self._now += timedelta(minutes=rng.choice((0, 1, 4, 6, 11)))
        changed: list[Object] = []
        gone: list[dict[str, str]] = []
        if first:
            changed += [{**_kind(PLACING, "v1", "ManagedCluster"), "metadata": {"name": name}} for name in self._clusters]
        changed += self._configs(first)
        for name in self._placements:
            if first or rng.random() < 0.3:
                changed += self._placement(name, gone)
            elif name in self._there and rng.random() < 0.02:
                gone.append({"kind": "Placement", "namespace": "default", "name": name})
                self._there.discard(name)
        if first or rng.random() < 0.35:
            changed.append(self._offer())
        if not first or not self._placements:
            changed += self._wishes()
        if first or rng.random() < 0.8:
            for name in self._clusters:
                if first or rng.random() < 0.5:
                    self._states[name] = rng.choice(STATES)
        return {"now": stamp(self._now), "set": changed, "delete": gone, "agents": dict(self._states)}

    def _configs(self, first: bool) -> Iterator[Object]:
        for kind, version, api in (("AddOnDeploymentConfig", "v1alpha1", GROUP), ("ConfigMap", "v1", "")):
            for name in NAMES:
                if not first and self._rng.random() > 0.2:
                    continue
                generation = self._generation[kind, name] = self._generation.get((kind, name), 0) + 1
                value = self._rng.choice(VALUES)
                spec: Object = {"agentInstallNamespace": "agents", "customizedVariables": [{"name": "A", "value": value}]}
                content: Object = {"spec": spec} if api else {"data": {"a": value}}
                metadata = {"name": name, "namespace": "default", "generation": generation}
                yield {**_kind(api, version, kind), "metadata": metadata, **content}

    def _placement(self, name: str, gone: list[dict[str, str]]) -> Iterator[Object]:
        """A placement and its decisions, one for each group."""
        rng = self._rng
        self._there.add(name)
        per_group: int | str = rng.choice((1, 2, "50%", "100%"))
        strategy = {"groupStrategy": {"clustersPerDecisionGroup": per_group}}
        metadata = {"name": name, "namespace": "default"}
        yield {**_kind(PLACING, "v1beta1", "Placement"), "metadata": metadata, "spec": {"decisionStrategy": strategy}}
        turn, turns = (self._placements.index(name), len(self._placements)) if self._apart else (0, 1)
        chosen = [cluster for cluster in self._clusters[turn::turns] if rng.random() < 0.7]
        rng.shuffle(chosen)
        cuts = sorted(rng.sample(range(len(chosen) + 1), min(rng.choice((0, 0, 1, 2)), len(chosen) + 1)))
        parts = [sorted(chosen[start:end]) for start, end in zip([0, *cuts], [*cuts, len(chosen)], strict=True)]
        for index, part in enumerate(parts):
            labels = {
                f"{PLACING}/placement": name,
                f"{PLACING}/decision-group-index": str(index),
                f"{PLACING}/decision-group-name": "canary" if index == 0 and len(parts) > 1 else "",
            }
            decision = {"metadata": {"name": f"{name}-decision-{index + 1}", "namespace": "default", "labels": labels}}
            status = {"decisions": [{"clusterName": cluster, "reason": ""} for cluster in part]}
            yield {**_kind(PLACING, "v1beta1", "PlacementDecision"), **decision, "status": status}
        for index in range(len(parts), self._decided.get(name, 0)):
            gone.append({"kind": "PlacementDecision", "namespace": "default", "name": f"{name}-decision-{index + 1}"})
        self._decided[name] = len(parts)

    def _offer(self) -> Object:
        rng = self._rng
        supported = []
        for kind in (SETTINGS, MAPS):
            if rng.random() < 0.9:
                default = {"defaultConfig": {"name": self._name(), "namespace": "default"}} if rng.random() < 0.6 else {}
                supported.append({**kind, **default})
        placements = [
            {"namespace": "default", "name": name, "configs": self._references(0.5), "rolloutStrategy": self._strategy()}
            for name in self._placements
            if rng.random() < 0.9
        ]
        rng.shuffle(placements)
        strategy: Object = {"type": "Placements", "placements": placements} if placements else {"type": "Manual"}
        lifecycle = rng.choice(("", "", "", "", "addon-manager", "self" if rng.random() < 0.15 else ""))
        annotations = {f"{GROUP}/lifecycle": lifecycle} if lifecycle else {}
        metadata = {"name": NAME, "annotations": annotations}
        spec = {"supportedConfigs": supported, "installStrategy": strategy}
        return {**_kind(GROUP, "v1alpha1", "ClusterManagementAddOn"), "metadata": metadata, "spec": spec}

    def _references(self, share: float, strange: float = 0.0) -> list[Object]:
        rng = self._rng
        found: list[Object] = []
        for kind in (SETTINGS, MAPS):
            if rng.random() < share:
                names = [self._name() for _ in range(2 if rng.random() < 0.15 else 1)]
                found += [{**kind, "name": name, "namespace": "default"} for name in names]
        if rng.random() < strange:
            found.append({**STRANGE, "name": "red", "namespace": "default"})
        return found

    def _name(self) -> str:
        return self._rng.choice(NAMES) if self._rng.random() < 0.97 else LOST

    def _strategy(self) -> Object:
        rng = self._rng
        kind = rng.choice(("All", "Progressive", "Progressive", "ProgressivePerGroup"))
        terms: Object = {}
        if rng.random() < 0.4:
            terms["progressDeadline"] = rng.choice(("None", "3m", "10m"))
        if rng.random() < 0.4:
            terms["minSuccessTime"] = rng.choice(("0s", "5m", "10m"))
        if kind == "All":
            return {"type": kind, "all": terms}
        if rng.random() < 0.5:
            terms["maxFailures"] = rng.choice((0, 1, 2, "40%"))
        if rng.random() < 0.25:
            terms["mandatoryDecisionGroups"] = [rng.choice(({"groupName": "canary"}, {"groupIndex": 1}))]
        if kind == "ProgressivePerGroup":
            return {"type": kind, "progressivePerGroup": terms}
        if rng.random() < 0.8:
            terms["maxConcurrency"] = rng.choice((1, 2, 3, "30%", "100%"))
        return {"type": kind, "progressive": terms}

    def _wishes(self) -> Iterator[Object]:
        """ManagedClusterAddOns that people write: with configurations of their own, or none any more."""
        for cluster in self._clusters:
            if self._rng.random() < (0.12 if self._placements else 0.5):
                metadata = {"name": NAME, "namespace": cluster}
                spec = {"configs": self._references(0.4, strange=0.05)}
                yield {**_kind(GROUP, "v1alpha1", "ManagedClusterAddOn"), "metadata": metadata, "spec": spec}


def _kind(group: str, version: str, kind: str) -> dict[str, str]:
    return {"apiVersion": f"{group}/{version}" if group else version, "kind": kind}
