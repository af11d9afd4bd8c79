"""Random expressions as predicates, compiled and evaluated by upstream's environment for clusters and by ours.

The generator is that of the CEL engine's own differential; what stands for variables there are literals here, and JSON in
annotations of the cluster.
"""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

from muster.machinery.objects import Object
from tests.interop.cel.test_differential import generate
from tests.interop.placement.oracle import binary, play
from tests.interop.placement.verdicts import Pass, passes

LITERALS = {
    "$i": "7",
    "$j": "(-3)",
    "$d": "2.5",
    "$s": "'héllo'",
    "$t": "'a,b,c'",
    "$b": "true",
    "$li": "[3, 1, 2]",
    "$ls": "['x', 'a,b', '']",
    "$mi": "{'k': 1}",
    "$ms": "{'k': 'v'}",
    "$y": "managedCluster.metadata.annotations.y.parseJSON()",
    "$z": "managedCluster.metadata.annotations.z.parseJSON()",
}
WORLD: list[Object] = [
    {
        "kind": "ManagedClusterSet",
        "metadata": {"name": "global"},
        "spec": {"clusterSelector": {"selectorType": "LabelSelector", "labelSelector": {}}},
    },
    {"kind": "ManagedClusterSetBinding", "metadata": {"name": "global", "namespace": "apps"}, "spec": {"clusterSet": "global"}},
    {
        "kind": "ManagedCluster",
        "metadata": {"name": "a", "annotations": {"y": '{"k": [1, "a", 2.5, null], "n": {"m": true}}', "z": "[1, 2, 3]"}},
        "spec": {"hubAcceptsClient": True},
        "status": {"conditions": []},
    },
]


_MIXED_NUMBERS = re.compile(r"found no matching overload for '_[<>]=?_' applied to '\((double, int|int, double)\)'")


@pytest.fixture(scope="module", autouse=True)
def _oracle() -> None:
    if not binary().exists():
        pytest.skip("the placement oracle is not built: make -C peers/placement")


def expression(rng: random.Random) -> str:
    text = generate(rng, "bool", 2)
    for name in sorted(LITERALS, key=len, reverse=True):
        text = text.replace(name, LITERALS[name])
    return text


def placement(name: str, text: str) -> Object:
    predicates = [{"requiredClusterSelector": {"celSelector": {"celExpressions": [text]}}}]
    return {
        "kind": "Placement",
        "metadata": {"name": name, "namespace": "apps"},
        "spec": {"predicates": predicates, "tolerations": []},
    }


def agree(seen: Pass) -> bool:
    ours, theirs = seen.ours, seen.theirs
    if _MIXED_NUMBERS.search(theirs.misconfigured[2]):
        # Ours lets them be compared, as Kubernetes does; upstream only where it does not notice.
        return True
    if ours.misconfigured[2].startswith("Predicate:instantiation failed: "):
        # Upstream finds out on the cluster, and does not select it: a row of the table of accepted differences.
        return theirs.misconfigured[0] == "False" and not theirs.groups[0][1]
    return (ours.misconfigured, ours.groups) == (theirs.misconfigured, theirs.groups)


@pytest.mark.parametrize("seed", range(4))
def test_random_expressions_select_alike(seed: int) -> None:
    rng = random.Random(seed)
    texts = {f"p{number}": expression(rng) for number in range(250)}
    asked: list[dict[str, Any]] = [
        {
            "now": "2026-11-16T12:00:00Z",
            "set": [*WORLD, *(placement(name, text) for name, text in texts.items())],
            "delete": [],
            "sync": [f"apps/{name}" for name in texts],
        }
    ]
    different = [
        f"{texts[seen.placement.metadata.name]}\n  theirs {seen.theirs.misconfigured[2]}\n  ours   {seen.ours.misconfigured[2]}"
        for seen in passes(asked, play([asked])[0])
        if not agree(seen)
    ]
    assert not different, "\n".join(different[:10])
