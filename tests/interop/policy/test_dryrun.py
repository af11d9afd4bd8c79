"""Random ConfigurationPolicies with the objects of a cluster, run by upstream's dryrun and by ours.

Compliance, conditions, messages, diffs and related objects must be equal, unless the policy has one of the differences of the one
table. `python -m tests.interop.policy.test_dryrun FIRST COUNT [templated]` runs any number and counts.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from muster.kube.yaml import dump
from muster.machinery import logs
from muster.machinery.objects import GVR, Object
from muster.policy.configuration.interfaces import Cluster
from muster.policy.dryrun.mappings import Mappings, written
from muster.policy.dryrun.objects import FakeCluster, InvalidObject
from muster.policy.dryrun.policies import read_policy
from muster.policy.dryrun.run import DryRunError, dry_run
from muster.policy.resolver import Resolver
from tests.interop.oracle_program import Oracle
from tests.interop.policy.differences import explanation
from tests.support.random_policies import KINDS, RandomPolicy

ORACLE = Oracle("policy")
_TIMES = ("lastTransitionTime", "lastEvaluated", "lastTimestamp")


def ours(world: Object, kinds: Sequence[GVR] = KINDS) -> Object:
    policy, _ = read_policy(dump(world["policy"]))
    try:
        imagined = FakeCluster(Mappings(kinds), world["objects"])
        run = asyncio.run(dry_run(policy, Cluster(imagined, imagined), Resolver()))
    except (DryRunError, InvalidObject) as error:
        return {"code": 1, "error": str(error)}
    code = 0 if run.status.compliant == "Compliant" else 2
    return {"code": code, "status": run.document, "messages": list(run.messages)}


def meant(answer: Object) -> Object:
    """Without times, and without what Go's types write although it is empty."""
    if answer["code"] == 1:
        return {"code": 1}
    return {key: _plain(answer[key]) for key in ("code", "status", "messages")}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        items = {key: _plain(item) for key, item in value.items() if key not in _TIMES}
        return {key: item for key, item in items.items() if item not in (None, {}, [], "")}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def deviating(one: Object, other: Object) -> set[str]:
    """The parts in which two answers differ."""
    parts = {key for key in ("code", "messages") if one.get(key) != other.get(key)}
    left, right = one.get("status", {}), other.get("status", {})
    return parts | {key for key in left.keys() | right.keys() if left.get(key) != right.get(key)}


def compare(policies: Sequence[RandomPolicy]) -> tuple[Counter[str], list[str]]:
    """How many are equal or differ as they may, by the difference, and those that do neither."""
    counts: Counter[str] = Counter()
    unexplained = []
    with tempfile.TemporaryDirectory() as directory:
        mappings = Path(directory) / "mappings.yaml"
        mappings.write_text(dump(written(KINDS)))
        flags = ["--mappings-file", str(mappings)]
        answers = ORACLE.play([{**one.world, "flags": flags} for one in policies])
    for one, theirs in zip(policies, answers, strict=True):
        mine = ours(one.world)
        parts = deviating(meant(mine), meant(theirs))
        if not parts:
            counts[f"equal, exit code {theirs['code']}"] += 1
        elif name := explanation(one.policy, one.objects, parts):
            counts[name] += 1
        else:
            counts["unexplained"] += 1
            unexplained.append(f"seed {one.seed}, {parts}:\n{one.world}\n  theirs {theirs}\n  ours   {mine}")
    return counts, unexplained


@pytest.fixture(scope="module", autouse=True)
def _oracle() -> None:
    if not ORACLE.binary().exists():
        pytest.skip("the policy oracle is not built: make -C peers/policy")


@pytest.mark.parametrize("templated", [False, True], ids=["plain", "templated"])
def test_random_policies_fare_alike(templated: bool) -> None:
    with logs.diverted(lambda _: None):
        counts, unexplained = compare([RandomPolicy(seed, templated) for seed in range(300)])
    assert not unexplained, "\n".join(unexplained[:3])
    assert sum(count for name, count in counts.items() if name.startswith("equal")) > 0.97 * counts.total()
    assert all(counts[f"equal, exit code {code}"] > 5 for code in (0, 1, 2)), "every outcome is among them"


if __name__ == "__main__":
    first, count = int(sys.argv[1]), int(sys.argv[2])
    with logs.diverted(lambda _: None):
        total, left = compare([RandomPolicy(seed, "templated" in sys.argv) for seed in range(first, first + count)])
    print(*left, f"{count} policies: {dict(total.most_common())}", sep="\n")
