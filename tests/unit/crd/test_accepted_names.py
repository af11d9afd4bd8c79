"""Who gets a name: the first definition that asked for it, until it is free again."""

from __future__ import annotations

from typing import Any

from muster.apiserver.crd.accepted_names import FINALIZER, begin_deletion, is_served, needs_cleanup, reconcile_status

NOW, LATER = "2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z"


def definition(plural: str, kind: str, group: str = "x.io", **names: Any) -> dict[str, Any]:
    wanted = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List", **names}
    return {
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "names": wanted},
        "status": {"storedVersions": ["v1"]},
    }


def accepted(plural: str, kind: str, **names: Any) -> dict[str, Any]:
    found = definition(plural, kind, **names)
    return {**found, "status": reconcile_status(found, [], NOW)}


def conditions(status: dict[str, Any]) -> dict[str, tuple[str, str, str]]:
    return {found["type"]: (found["status"], found["reason"], found["message"]) for found in status["conditions"]}


def test_free_names_are_accepted_and_the_definition_is_established() -> None:
    found = accepted("things", "Thing", shortNames=["t"], categories=["all"])
    assert found["status"]["acceptedNames"] == found["spec"]["names"]
    assert conditions(found["status"]) == {
        "NamesAccepted": ("True", "NoConflicts", "no conflicts found"),
        "Established": ("True", "InitialNamesAccepted", "the initial names have been accepted"),
    }
    assert is_served(found)
    assert found["status"]["storedVersions"] == ["v1"]


def test_a_settled_definition_keeps_its_status() -> None:
    found = accepted("things", "Thing")
    assert reconcile_status(found, [], LATER) == found["status"]


def test_a_taken_kind_is_refused_and_the_rest_accepted() -> None:
    newcomer = definition("others", "Thing", singular="other")
    status = reconcile_status(newcomer, [accepted("things", "Thing")], NOW)
    assert conditions(status) == {
        "NamesAccepted": ("False", "ListKindConflict", '"ThingList" is already in use'),
        "Established": ("False", "NotAccepted", "not all names are accepted"),
    }
    assert status["acceptedNames"] == {"plural": "others", "singular": "other", "kind": ""}
    assert not is_served({"status": status})


def test_several_short_names_in_use_are_all_named() -> None:
    newcomer = definition("others", "Other", shortNames=["t", "u", "o"])
    status = reconcile_status(newcomer, [accepted("things", "Thing", shortNames=["t", "u"])], NOW)
    assert conditions(status)["NamesAccepted"] == ("False", "ShortNamesConflict", '["t" is already in use, "u" is already in use]')


def test_names_of_another_group_do_not_matter() -> None:
    newcomer = definition("things", "Thing", group="y.io")
    assert is_served({"status": reconcile_status(newcomer, [accepted("things", "Thing")], NOW)})


def test_a_freed_name_establishes_the_waiting_definition() -> None:
    waiting = definition("others", "Thing", singular="other")
    waiting["status"] = reconcile_status(waiting, [accepted("things", "Thing")], NOW)
    status = reconcile_status(waiting, [], LATER)
    assert is_served({"status": status})
    assert [condition["lastTransitionTime"] for condition in status["conditions"]] == [LATER, LATER]


def test_an_established_definition_stays_so_when_a_new_name_is_taken() -> None:
    found = accepted("things", "Thing")
    found["spec"]["names"]["shortNames"] = ["o"]
    status = reconcile_status(found, [accepted("others", "Other", shortNames=["o"])], LATER)
    assert is_served({"status": status})
    assert conditions(status)["NamesAccepted"][1] == "ShortNamesConflict"
    assert "shortNames" not in status["acceptedNames"]


def test_a_deleted_definition_waits_for_its_instances() -> None:
    found = accepted("things", "Thing")
    begin_deletion(found, LATER)
    assert found["metadata"]["finalizers"] == [FINALIZER]
    assert conditions(found["status"])["Terminating"][:2] == ("True", "InstanceDeletionPending")
    assert not needs_cleanup(found)
    found["metadata"]["deletionTimestamp"] = LATER
    assert needs_cleanup(found)
