"""go-template-utils and our resolver agree on generated policies: results, sensitivity, and the text of every error.

A run draws the same ones each time. `POLICY_FUZZ_SEED` draws others and `POLICY_FUZZ_COUNT` more of them; a failure names the seed.
Errors are compared after upstream's first words: it then repeats the document, ours comes to the reason at once.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

import orjson
import pytest

from muster.policy.dependencies import LocalSource
from muster.policy.names import HUB_DELIMITERS, MANAGED_DELIMITERS
from muster.policy.resolver import AllowedObject, Encryption, ResolveError, ResolveOptions, Resolver
from tests.interop.policy.accepted_differences import FAILED, RESOLVER
from tests.interop.policy.comparison import Outcome, compare, go_result
from tests.interop.policy.policies import KINDS, Policies, PolicyCase, cluster

COUNT = int(os.environ.get("POLICY_FUZZ_COUNT", "3000"))
SEED = int(os.environ.get("POLICY_FUZZ_SEED", "20261118"))
BATCH = 500
"""Cases of one cluster."""
_REPEATING = ("failed to resolve the template", "failed to parse the template JSON string")
"""Errors in which upstream repeats the document."""


def options_of(case: PolicyCase) -> ResolveOptions:
    fields = {**case.strings, **case.labels, **case.objects}
    secret = Encryption(case.key, case.fallback_key, case.iv, case.encrypt, case.decrypt) if case.encrypt or case.decrypt else None
    return ResolveOptions(
        # Fields in the order of the peer's struct.
        context=dict(sorted(fields.items())) if fields or case.empty_context else None,
        lookup_namespace=case.namespace,
        allow_list=tuple(AllowedObject(*entry) for entry in case.allow),
        denylist=frozenset(case.deny),
        encryption=secret,
        input_is_yaml=case.is_yaml,
    )


def _canonical(document: Any) -> str:
    return orjson.dumps(document, option=orjson.OPT_SORT_KEYS).decode()


async def our_result(resolvers: dict[Any, Resolver], source: LocalSource, case: PolicyCase) -> str:
    delims = HUB_DELIMITERS if case.hub else MANAGED_DELIMITERS
    resolver = resolvers.setdefault((delims, case.indentation), Resolver(delims, case.indentation))
    try:
        resolution = await resolver.resolve(case.raw, source, options_of(case))
    except ResolveError as error:
        prefix = str(error).partition(": ")[0]
        return f"{FAILED}{error if error.detail == str(error) else f'{prefix}: {error.detail}'}"
    return ("sensitive: " if resolution.sensitive else "") + _canonical(resolution.value)


def their_result(case: PolicyCase, answer: dict[str, Any]) -> str:
    """What upstream said, without the document in it."""
    if "error" in answer:
        for start in _REPEATING:
            answer["error"] = answer["error"].replace(f"{start} {case.raw}: ", f"{start}: ", 1)
    elif "result" in answer:
        answer["result"] = _canonical(orjson.loads(answer["result"]))
    return go_result(answer)


async def compare_batch(seed: int, count: int) -> Outcome:
    objects = cluster(seed)
    source = LocalSource(objects)
    policies = Policies(seed)
    cases = [policies.case() for _ in range(count)]
    resolvers: dict[Any, Resolver] = {}
    ours = [await our_result(resolvers, source, case) for case in cases]
    world = {"kinds": KINDS, "objects": objects}
    asked = [(repr(case), {"resolve": case.question()}) for case in cases]
    return await asyncio.to_thread(
        compare, asked, lambda at: ours[at], RESOLVER, [world], lambda at, answer: their_result(cases[at], answer)
    )


@pytest.mark.timeout(0)
async def test_policies_are_resolved_as_go_template_utils_resolves_them() -> None:
    outcome = Outcome()
    for number in range(-(-COUNT // BATCH)):
        outcome.add(await compare_batch(SEED + number, min(BATCH, COUNT - number * BATCH)))
    print(outcome)
    assert outcome.compared == COUNT
    assert not outcome.different, f"POLICY_FUZZ_SEED={SEED}: {outcome}"
    assert outcome.compared - outcome.failed >= COUNT // 4, "most policies are errors: the generator has gone astray"
