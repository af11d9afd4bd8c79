"""Whom an addon is planned for, with which configurations, and whose turn it is: upstream's rules, and where ours differ."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.addon_world import NOW, AddonWorld, addon_document, by_placement, deployment_config, template

A, B, C = deployment_config("a"), deployment_config("b"), deployment_config("c")
ONE = {"type": "Progressive", "progressive": {"maxConcurrency": 1}}


def progressive(**config: Any) -> dict[str, Any]:
    return {"type": "Progressive", "progressive": config}


def message(world: AddonWorld, index: int = 0) -> tuple[str, str, str]:
    condition = world.report()["installProgressions"][index]["conditions"][0]
    return condition["status"], condition["reason"], condition["message"]


# Which configurations


def test_by_hand_everybody_has_the_defaults_at_once() -> None:
    world = AddonWorld(addon_document(defaults=[template("t"), A]))
    world.install("x", "y")
    assert (world.configs("x"), world.released()) == (["a", "t"], "xy")
    assert world.report() == {
        "defaultconfigReferences": [
            {"group": template("t")["group"], "resource": "addontemplates", "desiredConfig": {"name": "t", "specHash": "t-1"}},
            {
                "group": A["group"],
                "resource": A["resource"],
                "desiredConfig": {"name": "a", "namespace": "config", "specHash": "a-1"},
            },
        ]
    }


def test_a_placement_overrides_defaults_and_a_cluster_overrides_both_by_kind_as_a_whole() -> None:
    world = AddonWorld(addon_document(by_placement("p", B, C, B), defaults=[template("t"), A]))
    world.choose("p", "xy")
    world.install("x")
    world.install("y", configs=[A, A])
    assert world.configs("x") == ["b", "c", "t"], "duplicates count once, in their order; kinds are sorted"
    assert world.configs("y") == ["a", "t"]


def test_the_last_placement_wins_where_two_choose_a_cluster() -> None:
    world = AddonWorld(addon_document(by_placement("p", A), by_placement("q", B)))
    world.choose("p", "xy")
    world.choose("q", "yz")
    world.install("x", "y", "z")
    assert [world.configs(cluster) for cluster in "xyz"] == [["a"], ["b"], ["b"]]
    assert message(world)[2] == "selected clusters 2. configured addons 1/1 progressing..., 0 failed 0 timeout."
    assert message(world, 1)[2] == "selected clusters 2. configured addons 2/2 progressing..., 0 failed 0 timeout."


def test_the_reserved_name_and_no_name_are_no_default() -> None:
    world = AddonWorld(addon_document(defaults=[deployment_config("__reserved_no_default__")]))
    world.addon["spec"]["supportedConfigs"].append({"group": "g", "resource": "r"})
    world.install("x")
    assert world.configs("x") == []
    assert world.report() == {}


def test_an_override_of_a_cluster_has_a_hash_at_once_ocm_649() -> None:
    """Defect 24."""
    world = AddonWorld(addon_document(defaults=[A]))
    world.install("x", configs=[B])
    assert [one.config.spec_hash for one in world.planned("x").configs] == ["b-1"]
    world.configure("x")
    world.versions["b"] = 2
    assert [one.config.spec_hash for one in world.planned("x").configs] == ["b-2"]


def test_a_configuration_that_is_not_there_has_no_hash() -> None:
    world = AddonWorld(addon_document(defaults=[A]), versions={"a": 0})
    world.install("x")
    assert [one.config.spec_hash for one in world.planned("x").configs] == [""]


def test_what_another_manager_looks_after_is_not_planned() -> None:
    for lifecycle, managed in [("self", False), ("mine", False), ("addon-manager", True)]:
        annotations = {"addon.open-cluster-management.io/lifecycle": lifecycle}
        world = AddonWorld(addon_document(by_placement("p"), defaults=[A], annotations=annotations))
        world.choose("p", "x")
        world.install("x")
        assert (world.plan().plan is not None) is managed
        assert world.report()["defaultconfigReferences"], "its defaults are shown all the same"
        assert ("installProgressions" in world.addon["status"]) is managed


# Whose turn


def rolled(strategy: dict[str, Any], *groups: str, names: tuple[str, ...] = (), **fares: tuple[str, float]) -> AddonWorld:
    """A placement with groups of clusters; those named have the present configuration, and fare so since so many minutes."""
    world = AddonWorld(addon_document(by_placement("p", A)))
    world.choose("p", *groups, names=names)
    world.install(*"".join(groups))
    for cluster in fares:
        world.configure(cluster)
    for cluster, (reason, minutes) in fares.items():
        world.fare(reason, cluster, minutes=minutes)
    world.addon["spec"]["installStrategy"]["placements"][0]["rolloutStrategy"] = strategy
    return world


def done(minutes: float = 60) -> tuple[str, float]:
    return "Completed", minutes


def failed(minutes: float = 60) -> tuple[str, float]:
    return "Failed", minutes


def busy(minutes: float = 60) -> tuple[str, float]:
    return "Progressing", minutes


CANARY = {"mandatoryDecisionGroups": [{"groupName": "canary"}], "maxConcurrency": 1}
TWO = ("ab", "cd", "e")


@pytest.mark.parametrize(
    ("world", "released"),
    [
        (rolled({"type": "All"}, "abcde"), "abcde"),
        (rolled(progressive(maxConcurrency=2), "abcde"), "ab"),
        (rolled(progressive(maxConcurrency=2), "abcde", a=done()), "abc"),
        (rolled(progressive(maxConcurrency=2, minSuccessTime="5m"), "abcde", a=done(1)), "ab"),
        (rolled(progressive(maxConcurrency=2, maxFailures=0), "abcde", a=failed()), "a"),
        (rolled(progressive(maxConcurrency=2, maxFailures=1), "abcde", a=failed()), "ab"),
        (rolled(progressive(maxConcurrency=2, progressDeadline="1m", maxFailures=1), "abcde", a=failed(2)), "abc"),
        (rolled(progressive(maxConcurrency="40%"), "abcde"), "ab"),
        (rolled(progressive(**CANARY), *TWO, names=("canary",)), "ab"),
        (rolled(progressive(**CANARY), *TWO, names=("canary",), a=done(), b=busy()), "ab"),
        (rolled(progressive(**CANARY), *TWO, names=("canary",), a=done(), b=done()), "abc"),
        (rolled(progressive(**CANARY), *TWO, names=("canary",), a=done(), b=failed()), "ab"),
        (rolled({"type": "ProgressivePerGroup"}, *TWO), "ab"),
        (rolled({"type": "ProgressivePerGroup"}, *TWO, a=done(), b=done()), "abcd"),
        (
            rolled({"type": "ProgressivePerGroup", "progressivePerGroup": {"maxFailures": "50%"}}, *TWO, a=done(), b=failed()),
            "abcd",
        ),
        (rolled({"type": "ProgressivePerGroup"}, *TWO, a=done(), b=failed()), "ab"),
        (
            rolled({"type": "ProgressivePerGroup", "progressivePerGroup": {"mandatoryDecisionGroups": [{"groupIndex": 2}]}}, *TWO),
            "e",
        ),
    ],
    ids=["O1", "O3", "O4", "O5", "O6", "O7", "O8", "O9", "O11", "O12", "O13", "O14", "O15", "O16", "O17", "O18", "O19"],
)
def test_who_is_released(world: AddonWorld, released: str) -> None:
    assert world.released() == released


def test_a_plan_is_looked_at_again_when_a_deadline_or_a_soak_ends() -> None:
    assert rolled(progressive(maxConcurrency=2, minSuccessTime="5m"), "ab", a=done(1)).plan().again == NOW + timedelta(minutes=4)
    late = rolled({"type": "All", "all": {"progressDeadline": "10m"}}, "abcde", b=failed(5), c=failed(20))
    assert late.plan().again == NOW + timedelta(minutes=5)
    assert message(late)[2] == "selected clusters 5. configured addons 4/5 progressing..., 1 failed 1 timeout."


def test_without_a_number_a_progressive_rollout_takes_the_size_of_a_decision_group() -> None:
    for strategy in ({"type": "Progressive"}, progressive(), progressive(maxConcurrency=0)):
        world = AddonWorld(addon_document(by_placement("p", A, strategy=strategy)))
        world.choose("p", "abcde", per_group=2)
        world.install(*"abcde")
        assert world.released() == "ab", strategy


@pytest.mark.parametrize(
    "strategy", [progressive(maxConcurrency="two"), {"type": "All", "all": {"progressDeadline": "90x"}}, {"type": "Backwards"}]
)
def test_a_strategy_that_cannot_be_followed_gives_nobody_anything_new(strategy: dict[str, Any]) -> None:
    world = AddonWorld(addon_document(by_placement("p", A), by_placement("q", B)))
    world.choose("p", "ab")
    world.choose("q", "c")
    world.install(*"abc")
    world.configure("a")
    world.addon["spec"]["installStrategy"]["placements"][0]["rolloutStrategy"] = strategy
    assert world.released() == "ac", "who has it keeps it, and others are not concerned"
    assert message(world)[:2] == ("False", "InvalidRolloutStrategy")


def test_a_new_state_of_a_configuration_rolls_out_cluster_by_cluster_and_is_known_to_be_good_at_the_end() -> None:
    world = AddonWorld(addon_document(by_placement("p", A, strategy=ONE)))
    world.choose("p", "ab")
    world.install("a", "b")
    for cluster in "ab":
        world.configure(cluster)
        world.fare("Completed", cluster)
    assert message(world) == (
        "False",
        "Completed",
        "selected clusters 2. configured addons 2/2 completed with no errors, 0 failed 0 timeout.",
    )
    first = {"name": "a", "namespace": "config", "specHash": "a-1"}
    world.versions["a"] = 2
    assert world.released() == "a"
    assert message(world) == (
        "True",
        "Progressing",
        "selected clusters 2. configured addons 1/2 progressing..., 0 failed 0 timeout.",
    )
    (reference,) = world.report()["installProgressions"][0]["configReferences"]
    assert (reference["lastKnownGoodConfig"], reference["lastAppliedConfig"]) == (first, first)
    world.configure("a")
    world.fare("Progressing", "a")
    assert world.released() == "a"
    world.fare("Completed", "a")
    assert world.released() == "ab"
    world.configure("b")
    world.fare("Completed", "b")
    (reference,) = world.report()["installProgressions"][0]["configReferences"]
    assert reference["lastKnownGoodConfig"] == reference["desiredConfig"] == {**first, "specHash": "a-2"}


def test_a_progression_with_other_references_begins_anew() -> None:
    world = AddonWorld(addon_document(by_placement("p", A), defaults=[template("t")]))
    world.choose("p", "x")
    world.install("x")
    world.configure("x")
    world.fare("Completed", "x")
    world.report()
    world.addon["spec"]["installStrategy"]["placements"][0]["configs"] = [B]
    references = world.report()["installProgressions"][0]["configReferences"]
    assert [set(one) for one in references] == [{"group", "resource", "desiredConfig"}] * 2


def test_a_placement_that_chose_nobody_is_progressing() -> None:
    world = AddonWorld(addon_document(by_placement("p")))
    world.choose("p", "")
    assert message(world) == (
        "True",
        "Progressing",
        "selected clusters 0. configured addons 0/0 progressing..., 0 failed 0 timeout.",
    )


# What is not there


def test_a_lost_placement_leaves_its_clusters_what_they_have() -> None:
    """Defect 17, of configurations."""
    world = AddonWorld(addon_document(by_placement("p", B), by_placement("q"), defaults=[A]))
    world.choose("p", "xy")
    world.choose("q", "z")
    world.install("x", "y", "z")
    for cluster in "xyz":
        world.configure(cluster)
    del world.placements["p"]
    assert (world.configs("x"), world.configs("z")) == (["b"], ["a"])
    assert world.released() == "xyz", "nobody waits for what is there already"
    world.versions = {"b": 2}
    assert world.released() == "z", "nothing changes on clusters of the lost one"
    assert message(world)[:2] == ("Unknown", "PlacementNotFound")
    world.install("new")
    assert world.planned("new").released, "what was never configured is not of the lost one"
    assert world.configs("new") == ["a"]
    world.configure("new")
    assert world.planned("new").released, "nor does it wait for what it has"
    world.versions = {"a": 2}
    assert not world.planned("new").released, "whether the lost one chose it is not known"


def test_a_lost_canary_is_not_rolled_back_to_what_all_others_have() -> None:
    world = AddonWorld(addon_document(by_placement("all", A), by_placement("canary", B)))
    world.choose("all", "xyz")
    world.choose("canary", "z")
    world.install("x", "y", "z")
    world.configure("x", "y", "z")
    del world.placements["canary"]
    assert [world.configs(cluster) for cluster in "xyz"] == [["a"], ["a"], ["b"]]
    assert world.released() == "xyz"
    world.versions = {"a": 2, "b": 2}
    assert world.released() == "xy"
    world.choose("canary", "")
    assert world.configs("z") == ["a"], "a canary that is there and chose nobody has let go"


def test_addons_kept_by_hand_are_named_in_the_progression() -> None:
    """Defect 18."""
    world = AddonWorld(addon_document(by_placement("p")))
    world.choose("p", "x")
    world.install("x")
    world.install("y", annotations={"addon.open-cluster-management.io/disable-automatic-installation": "true"})
    assert message(world)[2].endswith(" 1 installed by hand on other clusters are kept.")


@pytest.mark.parametrize(
    "status",
    [
        {"configReferences": [{"group": "g", "resource": "r"}]},
        {"configReferences": None, "conditions": "none"},
        {"configReferences": [None, 7, {"desiredConfig": []}]},
        {"conditions": [{"type": "Progressing", "status": "True", "reason": "Progressing", "lastTransitionTime": "yesterday"}]},
    ],
)
def test_a_malformed_status_harms_itself_alone(status: Any) -> None:
    world = AddonWorld(addon_document(by_placement("p", A, strategy=ONE)))
    world.choose("p", "abc")
    world.install(*"abc")
    world.managed["b"]["status"] = status
    assert world.released() == "a"
    world.configure("a")
    world.fare("Completed", "a")
    assert world.released() == "ab"


# Properties

CLUSTERS = "abcdef"
chosen = st.text(alphabet=CLUSTERS, max_size=6).map(lambda text: "".join(sorted(set(text))))


@given(st.data())
def test_every_chosen_cluster_is_planned_once_and_with_the_last_placement(data: st.DataObject) -> None:
    picks = data.draw(st.lists(chosen, min_size=1, max_size=3))
    configs = [A, B, C]
    placements = [by_placement(f"p{index}", configs[index], strategy=ONE) for index in range(len(picks))]
    world = AddonWorld(addon_document(*placements))
    for index, pick in enumerate(picks):
        world.choose(f"p{index}", pick)
    world.install(*data.draw(chosen))
    plan = world.plan()
    assert plan.plan is not None
    assert set(plan.plan.clusters) == set("".join(picks)) | world.managed.keys()
    for cluster in set("".join(picks)):
        last = max(index for index, pick in enumerate(picks) if cluster in pick)
        assert world.configs(cluster) == [configs[last]["name"]]
    for share in plan.shares:
        members = {cluster for cluster in share.clusters if plan.plan.clusters[cluster].released}
        assert len(members) <= 1, "one at a time"


@given(st.data())
def test_a_rollout_ends_with_everybody_having_the_configuration(data: st.DataObject) -> None:
    """Whatever is released is configured and completes, in any order: never more at a time than allowed, and all in the end."""
    places = data.draw(st.integers(1, 4))
    world = AddonWorld(addon_document(by_placement("p", A, strategy=progressive(maxConcurrency=places))))
    pick = data.draw(chosen.filter(bool))
    world.choose("p", pick)
    world.install(*pick)
    finished: set[str] = set()
    while finished != set(pick):
        waiting = sorted(set(world.released()) - finished)
        assert waiting
        assert len(waiting) <= places
        cluster = data.draw(st.sampled_from(waiting))
        world.configure(cluster)
        world.fare("Completed", cluster)
        finished.add(cluster)
    assert message(world)[1] == "Completed"


def test_hashes_of_an_addon_that_manages_itself_now_are_kept_true() -> None:
    """Its own manager goes by what is said there, as it goes by the defaults; the rest of a progression is that one's to say."""
    world = AddonWorld(addon_document(by_placement("p", A), defaults=[B]))
    world.choose("p", "x")
    world.install("x")
    before = world.report()
    world.addon["metadata"]["annotations"] = {"addon.open-cluster-management.io/lifecycle": "self"}
    world.versions = {"a": 2, "b": 2}
    found = world.report()
    assert found["defaultconfigReferences"][0]["desiredConfig"]["specHash"] == "b-2"
    (one,), (old,) = found["installProgressions"], before["installProgressions"]
    assert [each["desiredConfig"]["specHash"] for each in one["configReferences"]] == ["a-2"]
    assert one["conditions"] == old["conditions"]
    world.versions = {"a": 0}
    assert [each["desiredConfig"].get("specHash", "") for each in world.report()["installProgressions"][0]["configReferences"]] == [
        ""
    ]
