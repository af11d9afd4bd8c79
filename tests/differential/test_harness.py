"""The judge judged: masks keep what matters, and differences are found, excused and un-excused."""

from typing import Any

from tests.differential.comparing import differences
from tests.differential.dsl import case, get, setup, watch
from tests.differential.masking import Mask

UID = "0b7c9d6e-1f2a-4b3c-8d4e-5f6a7b8c9d0e"
OTHER_UID = "1b7c9d6e-1f2a-4b3c-8d4e-5f6a7b8c9d0e"


def thing(revision: str, uid: str = UID, **metadata: Any) -> dict[str, Any]:
    return {"kind": "Thing", "metadata": {"name": "a", "uid": uid, "resourceVersion": revision, **metadata}}


def record(status: int, **body: Any) -> dict[str, Any]:
    return {"step": "GET things", "status": status, "headers": {}, "body": body}


def test_the_same_revision_has_the_same_name_and_a_new_one_another() -> None:
    mask = Mask()
    first, again, later = (mask.value(thing(revision))["metadata"]["resourceVersion"] for revision in ("7", "7", "9"))
    assert (first, again, later) == ("<rv1>", "<rv1>", "<rv2>")


def test_a_recreated_object_is_told_from_the_old_one() -> None:
    mask = Mask()
    assert mask.value(thing("1"))["metadata"]["uid"] != mask.value(thing("2", OTHER_UID))["metadata"]["uid"]


def test_list_revisions_are_not_compared() -> None:
    page = {"kind": "ThingList", "metadata": {"resourceVersion": "5", "continue": "abc"}, "items": []}
    assert Mask().value(page)["metadata"] == {"resourceVersion": "<rv>", "continue": "<continue>"}


def test_generated_names_are_masked_wherever_they_turn_up() -> None:
    mask = Mask()
    mask.value(thing("1", generateName="job-", name="job-x7k2p"))
    assert mask.prose('things "job-x7k2p" not found') == 'things "job-<5 random>" not found'


def test_the_path_of_a_logical_cluster_is_invisible() -> None:
    assert Mask("/clusters/hub").text("/clusters/hub/openapi/v3/api/v1?hash=AB12") == "/openapi/v3/api/v1?hash=<hash>"


def test_a_difference_is_reported_with_its_step() -> None:
    story = case("one", get("things"))
    report = differences(story, [record(200, a=1)], [record(404, a=1)])
    assert "GET things" in report
    assert differences(story, [record(200, a=1)], [record(200, a=1)]) == ""


def test_a_missing_answer_is_a_difference() -> None:
    assert differences(case("one", get("things")), [record(200)], []) != ""


def test_an_accepted_difference_is_excused_while_it_exists() -> None:
    story = case("one", get("things", differs={"words": ["body.message"]}))
    assert differences(story, [record(400, message="x")], [record(400, message="y")]) == ""
    assert "words" in differences(story, [record(400, message="x")], [record(400, message="x")])


def test_an_excuse_for_one_part_does_not_cover_another() -> None:
    story = case("one", get("things", differs={"words": ["body.message"]}))
    assert differences(story, [record(400, message="x")], [record(422, message="y")]) != ""


def test_steps_and_answers_stay_in_line_around_watches_and_setups() -> None:
    story = case("one", setup(get("ground")), watch("things", get("inner", differs={"words": ["body"]})), get("last"))
    expected = [record(200), record(200, a=1), record(200)]
    assert differences(story, expected, [record(200), record(200, a=2), record(200)]) == ""
    assert differences(story, expected, [record(200), record(200, a=2), record(500)]) != ""
