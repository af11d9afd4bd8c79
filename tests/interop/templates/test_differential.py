"""Random template addons, rendered by upstream's template agent and by ours.

Manifests and the agent's namespace must be equal, but for what Go's types add to every workload, unless the installation has one of
the differences of the one table, and then they must differ. `python -m tests.interop.templates.test_differential FIRST COUNT`
renders any number and counts.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from muster.addon.agent_addon import AddonError, ConfigObject, Installation
from muster.addon.templates.addon import TemplateAddon
from muster.api.addon.v1alpha1 import DEFAULT_NAMESPACE, GROUP, ManagedClusterAddOn
from muster.api.cluster.v1 import ManagedCluster
from tests.interop.templates.oracle import Answer, binary, render
from tests.support.random_templates import DIFFERENCES, RandomTemplate
from tests.support.template_addons import ADDON, CLUSTER


def ours(installation: dict[str, Any]) -> Answer:
    addon = ManagedClusterAddOn.decode({"metadata": {"name": ADDON, "namespace": CLUSTER}, "spec": {}})
    kinds = (("addontemplates", "template"), ("addondeploymentconfigs", "config"))
    configs = tuple(ConfigObject(GROUP, kind, installation[part], "h") for kind, part in kinds if installation[part] is not None)
    try:
        agent = TemplateAddon(ADDON).agent(Installation(ManagedCluster.decode(installation["cluster"]), addon, configs))
    except AddonError as error:
        return {"error": str(error)}
    return {"manifests": list(agent.manifests), "namespace": agent.namespace or DEFAULT_NAMESPACE}


def meant(value: Any) -> Any:
    """Without a status and what is empty or null: Go's types write a good deal of that."""
    if isinstance(value, dict):
        cleaned = {key: meant(item) for key, item in value.items() if key != "status"}
        return {key: item for key, item in cleaned.items() if item not in (None, {}, [], "")}
    return [meant(item) for item in value] if isinstance(value, list) else value


def compare(seeds: Iterable[int]) -> tuple[Counter[str], list[str]]:
    """How many are equal or differ as they should, by the difference, and those that do neither."""
    templates = [RandomTemplate(seed) for seed in seeds]
    installations = [one.installation() for one in templates]
    counts: Counter[str] = Counter()
    unexplained = []
    for one, installation, theirs in zip(templates, installations, render(installations), strict=True):
        mine = ours(installation)
        if (meant(mine) == meant(theirs)) == (not one.difference):
            counts[one.difference or "equal"] += 1
        else:
            counts["unexplained"] += 1
            unexplained.append(
                f"seed {one.seed}, {one.difference!r}:\n{installation}\n  theirs {meant(theirs)}\n  ours   {meant(mine)}"
            )
    return counts, unexplained


@pytest.fixture(scope="module", autouse=True)
def _oracle() -> None:
    if not binary().exists():
        pytest.skip("the templates oracle is not built: make -C peers/templates")


def test_random_template_addons_are_rendered_alike() -> None:
    counts, unexplained = compare(range(600))
    assert not unexplained, "\n".join(unexplained[:3])
    assert counts["equal"] > 0.6 * counts.total()
    assert {one.name for one in DIFFERENCES} <= counts.keys()


if __name__ == "__main__":
    first, count = int(sys.argv[1]), int(sys.argv[2])
    total, left = compare(range(first, first + count))
    print(*left, f"{count} installations: {dict(total.most_common())}", sep="\n")
