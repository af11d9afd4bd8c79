"""What is measured of choosing and writing has upstream's names, and no placement makes series."""

from __future__ import annotations

import re

from tests.support.choosing import built_in, expressed, scored
from tests.unit.placement.hub.conftest import Site


def series(site: Site, name: str) -> dict[str, int]:
    """By labels, how often it was measured."""
    found = re.findall(rf"^{name}_count{{(.*)}} (\d+)$", site.metrics.render().decode(), re.MULTILINE)
    return {labels: int(count) for labels, count in found}


async def test_choosing_is_measured_as_a_whole_and_by_plugin(site: Site) -> None:
    await site.cluster("a", zone="1")
    policy = {"mode": "Exact", "configurations": [built_in("Steady"), scored("one", "x"), scored("another", "y")]}
    terms = [{"topologyKey": "zone", "topologyKeyType": "Label", "whenUnsatisfiable": "DoNotSchedule"}]
    await site.place(
        "p", predicates=expressed("true"), prioritizerPolicy=policy, spreadPolicy={"spreadConstraints": terms}, numberOfClusters=1
    )
    await site.until_chosen("p", "a")
    own, passes = 'name="placement_scheduling"', site.passes
    assert passes >= 1
    assert series(site, "scheduling_scheduling_duration_seconds") == {own: passes}
    assert series(site, "scheduling_cel_runtime_duration_seconds") == {own: passes}
    assert series(site, "scheduling_bind_duration_seconds")[own] >= 1
    plugins = {
        ("filter", "Predicate"): passes,
        ("filter", "TaintToleration"): passes,
        ("prioritizer", "Steady"): passes,
        ("prioritizer", "AddOn"): 2 * passes,
        ("prioritizer", "Spread"): passes,
    }
    found = series(site, "scheduling_plugin_duration_seconds")
    assert found == {f'{own},plugin_type="{kind}",plugin_name="{name}"': count for (kind, name), count in plugins.items()}
