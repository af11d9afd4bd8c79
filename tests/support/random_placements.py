"""Random worlds of clusters, sets, bindings, scores and placements, and what happens in them step by step; a seed gives always
the same.

A step is what changes and who is looked at then, in the words of `peers/placement`. Most placements make sense; a share does not,
in one way each.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from muster.machinery.objects import Object

GROUP: Final = "cluster.open-cluster-management.io"
START: Final = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
NAMESPACES: Final = ("apps", "ops")
SETS: Final = {
    "blue": {},
    "green": {"clusterSelector": {"selectorType": "ExclusiveClusterSetLabel"}},
    "prod": {"clusterSelector": {"selectorType": "LabelSelector", "labelSelector": {"matchLabels": {"env": "prod"}}}},
    "global": {"clusterSelector": {"selectorType": "LabelSelector", "labelSelector": {}}},
}
EXPRESSIONS: Final = (
    'managedCluster.metadata.labels["env"] == "prod"',
    'has(managedCluster.metadata.labels) && "region" in managedCluster.metadata.labels',
    'managedCluster.metadata.?labels[?"env"].orValue("none") != "dev"',
    'managedCluster.status.version.kubernetes.startsWith("1.3")',
    'semver(managedCluster.status.version.kubernetes).isGreaterThan(semver("1.29.5"))',
    'managedCluster.status.clusterClaims.exists(c, c.name == "platform" && c.value == "aws")',
    'managedCluster.status.clusterClaims.exists(c, c.name == "props" && c.value.parseJSON().gpus > 2)',
    'managedCluster.status.clusterClaims.all(c, c.name != "props" || "x" in c.value.parseJSON().zones)',
    'managedCluster.scores("load").filter(s, s.name == "cpu").all(e, e.value > 0)',
    'managedCluster.scores("load").exists(s, s.value < 0)',
    'quantity(managedCluster.status.allocatable.cpu).isGreaterThan(quantity("4"))',
    "managedCluster.spec.hubAcceptsClient",
    "size(managedCluster.spec.taints) > 0",
    'managedCluster.metadata.name.matches("c0[0-4]")',
    'managedCluster.metadata.name in ["c01", "c03", "c05"]',
    '[1, "mixed"].size() == 2',
    "managedCluster.metadata.name",
    "managedCluster.metadata.nothing.here",
    "true",
)
BROKEN_EXPRESSIONS: Final = (
    "managedCluster.metadata.name ==",
    "nobody.metadata",
    '1 + "a"',
    '"a".matches("(")',
    "sets.contains([1], [1])",
)


def stamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


class Life:
    """One world, as a list of steps."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._rng = random.Random(seed)
        self._now = START
        self._clusters = [f"c{index:02}" for index in range(self._rng.choice((2, 4, 6, 9, 12, 12, 130 if seed % 40 == 0 else 8)))]
        self._alive: set[str] = set()
        self._placements = [(self._rng.choice(NAMESPACES), f"p{index}") for index in range(self._rng.choice((1, 2, 3, 4, 6)))]
        self._bound: set[tuple[str, str]] = set()
        self._sets: set[str] = set()
        self.steps: list[dict[str, Any]] = [self._step(first=index == 0) for index in range(self._rng.randint(3, 6))]

    def _step(self, first: bool) -> dict[str, Any]:
        rng = self._rng
        changed: list[Object] = []
        gone: list[dict[str, str]] = []
        self._now += timedelta(seconds=rng.choice((0, 1, 30, 90, 600)))
        changed += self._change_sets(first, gone)
        for name in self._clusters:
            if first or rng.random() < 0.25:
                if name in self._alive and rng.random() < 0.1:
                    self._alive.discard(name)
                    gone.append({"kind": "ManagedCluster", "name": name})
                elif not first or rng.random() < 0.9:
                    self._alive.add(name)
                    changed.append(self._cluster(name))
            for score in ("load", "cost"):
                if rng.random() < (0.5 if first else 0.1):
                    changed.append(self._score(name, score))
        for namespace, name in self._placements:
            if first or rng.random() < 0.25:
                changed.append(self._placement(namespace, name))
        asked = [f"{namespace}/{name}" for namespace, name in self._placements]
        rng.shuffle(asked)
        return {"now": stamp(self._now), "set": changed, "delete": gone, "sync": asked}

    def _change_sets(self, first: bool, gone: list[dict[str, str]]) -> Iterator[Object]:
        rng = self._rng
        for name, spec in SETS.items():
            if first and rng.random() < 0.85:
                self._sets.add(name)
                yield {"kind": "ManagedClusterSet", "metadata": {"name": name}, "spec": spec}
            elif not first and name in self._sets and rng.random() < 0.03:
                self._sets.discard(name)
                gone.append({"kind": "ManagedClusterSet", "name": name})
        for namespace in NAMESPACES:
            for name in (*SETS, "nowhere"):
                bound = (namespace, name) in self._bound
                if not bound and rng.random() < (0.5 if first else 0.1):
                    self._bound.add((namespace, name))
                    yield {
                        "kind": "ManagedClusterSetBinding",
                        "metadata": {"name": name, "namespace": namespace},
                        "spec": {"clusterSet": name},
                    }
                elif bound and rng.random() < 0.1:
                    self._bound.discard((namespace, name))
                    gone.append({"kind": "ManagedClusterSetBinding", "namespace": namespace, "name": name})

    def _cluster(self, name: str) -> Object:
        rng = self._rng
        labels = {
            key: value
            for key, values in (
                ("env", ("prod", "dev", "")),
                ("region", ("east", "west")),
                (f"{GROUP}/clusterset", ("blue", "green")),
            )
            if rng.random() < 0.8 and (value := rng.choice(values)) is not None
        }
        metadata: Object = {"name": name, "creationTimestamp": stamp(START)}
        if labels:
            metadata["labels"] = labels
        if rng.random() < 0.05:
            metadata |= {"deletionTimestamp": stamp(START), "finalizers": ["x/y"]}
        spec: Object = {"hubAcceptsClient": rng.random() < 0.7, "leaseDurationSeconds": 60}
        if taints := [self._taint() for _ in range(rng.choice((0, 0, 0, 1, 2)))]:
            spec["taints"] = taints
        return {"kind": "ManagedCluster", "metadata": metadata, "spec": spec, "status": self._status()}

    def _taint(self) -> Object:
        rng = self._rng
        return {
            "key": rng.choice(("gpu", "unreachable")),
            "effect": rng.choice(("NoSelect", "PreferNoSelect", "NoSelectIfNew")),
            "value": rng.choice(("", "x")),
            "timeAdded": stamp(self._now - timedelta(seconds=rng.choice((0, 10, 100, 1000)))),
        }

    def _status(self) -> Object:
        rng = self._rng
        claims = [
            {"name": name, "value": rng.choice(values)}
            for name, values in (
                ("platform", ("aws", "gcp")),
                ("id", ("1", "22", "a b c")),
                ("props", ('{"gpus": 4, "zones": ["x", "y"]}', '{"gpus": 1.5, "zones": []}', "not json")),
            )
            if rng.random() < 0.6
        ]
        resources = {
            key: rng.choice(values)
            for key, values in (
                ("cpu", ("1", "3920m", "4", "8", "15890m", "16", "0.5", "1e1")),
                ("memory", ("1Gi", "15Gi", "16Gi", "1500Mi", "32889848Ki", "1.5Gi", "8G")),
            )
            if rng.random() < 0.85
        }
        capacity = {key: value for key, value in resources.items() if rng.random() < 0.9}
        status: Object = {"conditions": [], "version": {"kubernetes": rng.choice(("1.28.1", "1.30.2", "1.31.0", "v1.32.0"))}}
        for key, value in (("clusterClaims", claims), ("allocatable", resources), ("capacity", capacity)):
            if value:
                status[key] = value
        return status

    def _score(self, cluster: str, name: str) -> Object:
        rng = self._rng
        listed = [{"name": one, "value": rng.randint(-100, 100)} for one in ("cpu", "memory") if rng.random() < 0.8]
        status: Object = {"scores": listed}
        if rng.random() < 0.3:
            status["validUntil"] = stamp(self._now + timedelta(seconds=rng.choice((-60, 0, 45, 300))))
        return {"kind": "AddOnPlacementScore", "metadata": {"name": name, "namespace": cluster}, "status": status}

    # Placements

    def _placement(self, namespace: str, name: str) -> Object:
        rng = self._rng
        spec: Object = {
            "predicates": [self._predicate() for _ in range(rng.choice((0, 0, 1, 1, 2)))],
            "tolerations": [self._toleration() for _ in range(rng.choice((0, 0, 1, 2)))],
            "prioritizerPolicy": self._policy(),
            "decisionStrategy": {"groupStrategy": self._groups()},
        }
        if rng.random() < 0.3:
            spec["clusterSets"] = rng.sample(sorted((*SETS, "nowhere")), rng.randint(1, 3))
        if rng.random() < 0.7:
            spec["numberOfClusters"] = rng.choice((0, 1, 2, 3, 3, 5, 8, 20))
        if rng.random() < 0.15:
            self._break(spec)
        return {"kind": "Placement", "metadata": {"name": name, "namespace": namespace}, "spec": spec}

    def _predicate(self) -> Object:
        rng = self._rng
        wanted: Object = {}
        if rng.random() < 0.5:
            wanted["labelSelector"] = self._labels()
        if rng.random() < 0.3:
            wanted["claimSelector"] = {"matchExpressions": [self._requirement(("platform", "id"), ("aws", "gcp", "22"))]}
        if rng.random() < 0.4:
            wanted["celSelector"] = {"celExpressions": [rng.choice(EXPRESSIONS) for _ in range(rng.choice((1, 1, 2)))]}
        return {"requiredClusterSelector": wanted}

    def _labels(self) -> Object:
        rng = self._rng
        if rng.random() < 0.5:
            return {"matchLabels": {"env": rng.choice(("prod", "dev", "none"))}}
        return {"matchExpressions": [self._requirement(("env", "region"), ("prod", "dev", "east", "west"))]}

    def _requirement(self, keys: tuple[str, ...], values: tuple[str, ...]) -> Object:
        rng = self._rng
        operator = rng.choice(("In", "NotIn", "Exists", "DoesNotExist"))
        found = {"key": rng.choice(keys), "operator": operator}
        return {**found, "values": rng.sample(values, rng.randint(1, 2))} if operator in ("In", "NotIn") else found

    def _toleration(self) -> Object:
        rng = self._rng
        toleration: Object = {"operator": rng.choice(("Equal", "Exists", "")), "key": rng.choice(("gpu", "unreachable"))}
        if toleration["operator"] == "Exists":
            if rng.random() < 0.4:
                del toleration["key"]
        else:
            toleration["value"] = rng.choice(("", "x"))
        if rng.random() < 0.3:
            toleration["effect"] = rng.choice(("NoSelect", "NoSelectIfNew"))
        if rng.random() < 0.5:
            toleration["tolerationSeconds"] = rng.choice((0, 10, 100, 150, 1000, 5000, 2**40 if rng.random() < 0.1 else 60))
        return toleration

    def _policy(self) -> Object:
        rng = self._rng
        configurations = [self._configuration() for _ in range(rng.choice((0, 0, 1, 2, 3)))]
        return {"mode": rng.choice(("Additive", "Additive", "Exact", "")), "configurations": configurations}

    def _configuration(self) -> Object:
        rng = self._rng
        weight = rng.choice((-10, -3, -1, 0, 1, 1, 2, 3, 10))
        if rng.random() < 0.6:
            known = ("Steady", "Balance", "ResourceAllocatableCPU", "ResourceAllocatableMemory")
            return {"scoreCoordinate": {"type": "BuiltIn", "builtIn": rng.choice(known)}, "weight": weight}
        score = {"resourceName": rng.choice(("load", "cost", "none")), "scoreName": rng.choice(("cpu", "memory", "none"))}
        return {"scoreCoordinate": {"type": "AddOn", "addOn": score}, "weight": weight}

    def _groups(self) -> Object:
        rng = self._rng
        groups: Object = {
            "decisionGroups": [
                {
                    "groupName": rng.choice(("canary", "second")),
                    "groupClusterSelector": {"labelSelector": self._labels()}
                    if rng.random() < 0.7
                    else {"claimSelector": {"matchExpressions": [self._requirement(("platform",), ("aws", "gcp"))]}},
                }
                for _ in range(rng.choice((0, 0, 1, 2)))
            ]
        }
        if rng.random() < 0.7:
            groups["clustersPerDecisionGroup"] = rng.choice((1, 2, 5, 100, "1%", "25%", "33%", "50%", "66%", "100%"))
        return groups

    def _break(self, spec: Object) -> None:
        rng = self._rng
        policy, groups = spec["prioritizerPolicy"], spec["decisionStrategy"]["groupStrategy"]
        match rng.randrange(10):
            case 0:
                policy["mode"] = "Best"
            case 1:
                policy["configurations"].append({"scoreCoordinate": {"type": "BuiltIn", "builtIn": "NoSuch"}, "weight": 1})
            case 2:
                policy["configurations"].append({"scoreCoordinate": {"type": "AddOn"}, "weight": rng.choice((0, 1))})
            case 3:
                policy["configurations"].append({"scoreCoordinate": {"type": "BuiltIn", "builtIn": "Spread"}, "weight": 1})
            case 4:
                spec["tolerations"].append({"operator": "Equal", "value": "x"})
            case 5:
                spec["tolerations"].append({"key": "gpu", "operator": "Exists", "value": "x"})
            case 6:
                spec["predicates"].append(
                    {"requiredClusterSelector": {"celSelector": {"celExpressions": [rng.choice(BROKEN_EXPRESSIONS)]}}}
                )
            case 7:
                bad: Object = {
                    "key": rng.choice(("env", "-bad-", "env")),
                    "operator": rng.choice(("Like", "In", "Exists")),
                    "values": [],
                }
                spec["predicates"].append({"requiredClusterSelector": {"labelSelector": {"matchExpressions": [bad]}}})
            case 8:
                groups["clustersPerDecisionGroup"] = rng.choice(("two", "x%", "150%", "12.5%", "-5%", "0%", -3, 0))
            case 9:
                spec["numberOfClusters"] = -rng.randint(1, 5)
