"""The ConfigMap aws-auth, and who somebody is by it: as aws-iam-authenticator has it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from muster.fleet.aws.model import Cluster, Entry, State
from muster.fleet.aws.tokens.aws_auth import EMPTY, AwsAuth, Mapped, parse
from muster.fleet.aws.tokens.mapper import ProvenIdentity, Unmapped, mapped
from muster.fleet.aws.world import World
from tests.support.fake_clock import FakeClock

ROLE = "arn:aws:iam::111111111111:role/ocm-hub-1"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
SESSION = ProvenIdentity("111111111111", "arn:aws:sts::111111111111:assumed-role/ocm-hub-1/me@home", "AROA1:me@home", "ASIA1")


def test_roles_users_and_accounts_are_read() -> None:
    found = parse(
        {
            "mapRoles": f"- rolearn: {ROLE.upper()}\n  username: ocm\n  groups: [a, b]\n- rolearn: x\n  username: who\n",
            "mapUsers": "- userarn: arn:aws:iam::1:user/U\n  username: u\n",
            "mapAccounts": "- '111111111111'\n- 222222222222\n",
        }
    )
    assert found.roles == {ROLE.lower(): Mapped("ocm", ("a", "b")), "x": Mapped("who")}
    assert found.users == {"arn:aws:iam::1:user/u": Mapped("u")}
    assert found.accounts == {"111111111111", "222222222222"}


@pytest.mark.parametrize("text", ["{", "- [", "rolearn: x", "- x", "- rolearn: [x]", "7"])
def test_a_part_that_is_broken_is_dropped_whole_and_the_others_stay(text: str) -> None:
    found = parse({"mapRoles": text, "mapUsers": "- {userarn: u, username: jo}"})
    assert (found.roles, found.users) == ({}, {"u": Mapped("jo")})


@pytest.mark.parametrize("bad", ["nonsense", "{username: x}", "{rolearn: 7, username: x}", "[a]"])
def test_an_entry_that_names_nobody_is_dropped_alone(bad: str) -> None:
    good = f"- {{rolearn: '{ROLE}', username: jo}}\n"
    assert parse({"mapRoles": f"{good}- {bad}\n"}).roles == {ROLE: Mapped("jo")}


def test_a_field_of_another_type_is_as_good_as_none() -> None:
    assert parse({"mapRoles": "- {rolearn: x, username: no, groups: y}"}).roles == {"x": Mapped("")}
    assert parse({"mapRoles": "- {rolearn: x, username: jo, groups: [a, 7]}"}).roles == {"x": Mapped("jo", ("a", ""))}


def test_fields_names_may_be_in_any_letters() -> None:
    assert parse({"mapRoles": "- {roleARN: x, Username: jo, GROUPS: [a]}"}).roles == {"x": Mapped("jo", ("a",))}
    assert parse({"mapRoles": "- {rolearn: x, roleARN: y, username: jo}"}).roles == {"x": Mapped("jo")}


def test_of_two_spellings_the_one_with_a_value_of_the_right_type_counts() -> None:
    assert parse({"mapRoles": "- {rolearn: x, Username: jo, username: 7}"}).roles == {"x": Mapped("jo")}
    assert parse({"mapRoles": "- {roleARN: 7, rolearn: x, username: jo}"}).roles == {"x": Mapped("jo")}
    for groups, wanted in (("y", ("a", "b")), ("[c, 7]", ("c", "b")), ("null", ())):
        text = f"- {{rolearn: x, username: jo, GROUPS: [a, b], groups: {groups}}}"
        assert parse({"mapRoles": text}).roles == {"x": Mapped("jo", wanted)}


def test_of_a_field_that_is_there_twice_the_last_counts() -> None:
    assert parse({"mapRoles": "- {rolearn: x, username: a, username: b}"}).roles == {"x": Mapped("b")}


def test_of_two_entries_the_last_counts() -> None:
    text = f"- {{rolearn: '{ROLE}', username: first}}\n- {{rolearn: '{ROLE}', username: second}}\n"
    assert parse({"mapRoles": text}).roles == {ROLE: Mapped("second")}


def test_nothing_is_nobody() -> None:
    assert parse({}) == parse({"mapRoles": ""}) == EMPTY


def cluster(mode: str, *entries: Entry) -> Cluster:
    return Cluster(
        arn="arn:aws:eks:us-west-2:111111111111:cluster/hub-0",
        account="111111111111",
        region="us-west-2",
        name="hub-0",
        endpoint="",
        authority="",
        issuer="",
        mode=mode,
        created=NOW,
        entries={one.principal_arn: one for one in entries},
    )


def entry(username: str = "by-entry", principal_id: str = "AROA1") -> Entry:
    return Entry(
        arn="x", principal_arn=ROLE, principal_id=principal_id, username=username, groups=("g",), created=NOW, modified=NOW
    )


def who(found: Cluster, aws_auth: AwsAuth = EMPTY, identity: ProvenIdentity = SESSION) -> str:
    world = World(State("aws", "00", "", ""), FakeClock())
    try:
        return mapped(world, found, aws_auth, identity).username
    except Unmapped:
        return ""


BY_MAP = parse({"mapRoles": f"- {{rolearn: '{ROLE}', username: by-map}}"})


def test_the_mode_says_which_mapping_counts() -> None:
    assert who(cluster("API", entry()), BY_MAP) == "by-entry"
    assert who(cluster("API"), BY_MAP) == ""
    assert who(cluster("CONFIG_MAP", entry()), BY_MAP) == "by-map"
    assert who(cluster("CONFIG_MAP", entry())) == ""
    assert who(cluster("API_AND_CONFIG_MAP", entry()), BY_MAP) == "by-entry"
    assert who(cluster("API_AND_CONFIG_MAP"), BY_MAP) == "by-map"


def test_an_entry_is_for_the_role_it_was_made_for() -> None:
    assert who(cluster("API", entry(principal_id="AROA2"))) == ""


def test_a_role_with_a_path_is_never_found_in_the_map() -> None:
    with_path = parse({"mapRoles": "- {rolearn: 'arn:aws:iam::111111111111:role/p/ocm-hub-1', username: jo}"})
    assert who(cluster("CONFIG_MAP"), with_path) == ""


def test_accounts_and_users_are_somebody_too() -> None:
    user = ProvenIdentity("111111111111", "arn:aws:iam::111111111111:user/U", "AIDA1", "AKIA1")
    assert who(cluster("CONFIG_MAP"), parse({"mapUsers": f"- {{userarn: '{user.arn}', username: jo}}"}), user) == "jo"
    assert who(cluster("CONFIG_MAP"), parse({"mapAccounts": "- '111111111111'"}), user) == user.arn
    assert who(cluster("CONFIG_MAP"), parse({"mapAccounts": "- '111111111111'"})) == ROLE


@pytest.mark.parametrize(
    ("template", "filled"),
    [
        ("{{AccountID}}:{{SessionName}}", "111111111111:me-home"),
        ("x:{{SessionNameRaw}}", "x:me@home"),
        ("{{AccessKeyID}}", "ASIA1"),
        ("{{EC2PrivateDNSName}}", ""),
        ("", ""),
    ],
)
def test_templates_are_filled(template: str, filled: str) -> None:
    assert who(cluster("CONFIG_MAP"), AwsAuth({ROLE.lower(): Mapped(template)})) == filled


async def test_an_entry_is_seen_later_and_so_is_its_end() -> None:
    clock = FakeClock()
    world = World(State("aws", "00", "", ""), clock)
    world.entries_seen.lag = 10.0
    found = cluster("API")

    def seen() -> list[str]:
        return [one.username for one in world.seen_entries(found)]

    world.put_entry(found, entry("first"))
    assert seen() == []
    await clock.advance(6)
    world.put_entry(found, entry("second"))
    await clock.advance(5)
    assert seen() == ["first"]
    world.drop_entry(found, ROLE)
    await clock.advance(6)
    assert seen() == ["second"]
    await clock.advance(5)
    assert seen() == []
    assert world.entries_seen.pending() == []
