"""Templates that take all that they are given: they end within their limits, and nobody else waits for them."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from muster.gotemplate import Limits
from muster.policy.dependencies import LocalSource
from muster.policy.resolver import ResolveError, ResolveOptions, Resolver

LIMITS = Limits(seconds=0.5, output_bytes=16 * 1024 * 1024)
PATIENCE = 0.1
"""Seconds by which a template at its limits may delay another policy."""
RUNAWAYS = {
    "rounds without end": "{{ range until 9000 }}{{ range until 9000 }}{{ $x := add . 1 }}{{ end }}{{ end }}",
    "output without end": '{{ range until 9000 }}{{ range until 9000 }}{{ "0123456789" }}{{ end }}{{ end }}',
    "a text that doubles": '{{ $x := "0123456789" }}{{ range until 99 }}{{ $x = print $x $x }}{{ end }}',
    "a template that calls itself": '{{ define "a" }}{{ template "a" . }}{{ end }}{{ template "a" . }}',
    "a regular expression": '{{ regexReplaceAll "(a|aa|b|c)+?" (repeat 4000000 "abc ") "xyz" | len }}',
    "a long list": "{{ range until 9 }}{{ $x := sortAlpha (until 1000000) | len }}{{ end }}",
    "keys": '{{ range until 99 }}{{ $x := genPrivateKey "rsa" }}{{ end }}',
    "YAML inside": "{{ range until 999 }}{{ $x := until 9999 | toYaml | fromYaml }}{{ end }}",
    "YAML that is large": '{{ range until 200000 }}\n- {a: 1, b: !!str "x"}{{ end }}',
}
BOMBS = {
    "aliases of aliases": "a: &a [x, x, x, x, x, x, x, x, x]\n"
    + "".join(f"{name}: &{name} [{', '.join(['*' + before] * 9)}]\n" for before, name in zip("abcdefg", "bcdefgh", strict=True)),
    "nesting": "a: " + "[" * 100_000,
    "nested maps": "{a: " * 50_000,
    "actions": "{{ . }}" * 30_000,
    "one long action": "{{ list " + "1 " * 120_000 + "}}",
    "parentheses": "{{ " + "(" * 20_000,
}


async def attempt(text: str, source: LocalSource) -> str:
    try:
        await Resolver(limits=LIMITS).resolve(text, source, ResolveOptions(input_is_yaml=True))
    except ResolveError as error:
        return str(error)
    return ""


async def longest_delay(task: asyncio.Task[Any], source: LocalSource) -> float:
    """How much longer than usual other policies took, while the task went on. One turn may be lost to the machine."""
    other = Resolver()
    delays = []
    number = 0
    while not task.done():
        began = time.perf_counter()
        await asyncio.sleep(0)
        number += 1
        await other.resolve({"v": f'{{{{ "{number}" | upper }}}}'}, source)
        delays.append(time.perf_counter() - began)
        await asyncio.sleep(0.005)
    return sorted(delays)[-2] if len(delays) > 1 else 0.0


@pytest.mark.parametrize("text", RUNAWAYS.values(), ids=RUNAWAYS)
async def test_a_runaway_template_ends_within_its_limits_and_delays_no_other_policy(text: str, shop: LocalSource) -> None:
    began = time.monotonic()
    task = asyncio.create_task(attempt(text, shop))
    delay = await longest_delay(task, shop)
    assert "exceeded" in task.result()
    assert time.monotonic() - began < 30 * LIMITS.seconds
    assert delay < PATIENCE


@pytest.mark.parametrize("text", BOMBS.values(), ids=BOMBS)
async def test_a_bomb_is_refused_and_delays_no_other_policy(text: str, shop: LocalSource) -> None:
    task = asyncio.create_task(attempt(text, shop))
    delay = await longest_delay(task, shop)
    assert task.result().startswith("failed to ")
    assert len(task.result()) < 1000
    assert delay < PATIENCE


async def test_ten_megabytes_of_output_are_given_whole(shop: LocalSource) -> None:
    line = "0123456789" * 100
    task = asyncio.create_task(Resolver().resolve({"v": f'{{{{ repeat 10000 "{line}" }}}}'}, shop))
    delay = await longest_delay(task, shop)
    assert len(task.result().value["v"]) == 10_000_000
    assert delay < PATIENCE


async def test_a_resolve_that_is_cancelled_leaves_nothing_running(shop: LocalSource) -> None:
    endless = {"v": RUNAWAYS["rounds without end"]}
    tasks = [asyncio.create_task(Resolver().resolve(endless, shop)) for _ in range(8)]
    await asyncio.sleep(0.2)
    for task in tasks:
        task.cancel()
    assert all(isinstance(end, asyncio.CancelledError) for end in await asyncio.gather(*tasks, return_exceptions=True))
    # All threads are free again long before the templates' ten seconds are over.
    began = time.monotonic()
    too_much_for_the_loop = {"v": "{{ range until 30000 }}{{ end }}"}
    await Resolver().resolve(too_much_for_the_loop, shop)
    assert time.monotonic() - began < 5
