"""What references of a plan take over from those that were there."""

from __future__ import annotations

from muster.addon.framework.configuration import planned_references
from muster.addon.plans import Planned, PlannedConfig
from muster.api.addon.v1alpha1 import GROUP, ConfigReference, ConfigSpecHash


def config(name: str, spec_hash: str) -> ConfigSpecHash:
    return ConfigSpecHash(name=name, namespace="default", spec_hash=spec_hash)


def planned(*configs: ConfigSpecHash) -> Planned:
    return Planned(tuple(PlannedConfig(GROUP, "addondeploymentconfigs", one) for one in configs), released=True)


APPLIED = ConfigReference(
    group=GROUP,
    resource="addondeploymentconfigs",
    name="red",
    namespace="default",
    last_observed_generation=3,
    desired_config=config("red", "1"),
    last_applied_config=config("red", "1"),
)


def test_what_was_applied_of_the_same_object_is_kept() -> None:
    (found,) = planned_references(planned(config("red", "2")), (APPLIED,))
    assert (found.desired_config, found.last_applied_config) == (config("red", "2"), config("red", "1"))
    assert found.last_observed_generation == 3


def test_another_object_begins_anew() -> None:
    """As upstream has it: nothing of this one has been applied."""
    (found,) = planned_references(planned(config("blue", "1")), (APPLIED,))
    assert (found.last_applied_config, found.last_observed_generation) == (None, 0)


def test_each_of_several_keeps_its_own() -> None:
    blue, red = planned_references(planned(config("blue", "1"), config("red", "1")), (APPLIED,))
    assert (blue.last_applied_config, red.last_applied_config) == (None, config("red", "1"))
