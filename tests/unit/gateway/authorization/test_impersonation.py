"""As whom a cluster sees a caller: never as one of its own system users, and never as another than was meant."""

from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.gateway.authorization import (
    AuthorizationOptions,
    ConfigurationError,
    GatewayAuthorizer,
    HubAccess,
    Impersonation,
    ImpersonationFile,
    explain_refusal,
    missing_grants,
)
from muster.gateway.authorization.impersonation import ORIGINAL_USER, NotImpersonated
from muster.gateway.request_decision import Granted, Refused
from muster.http import Response
from muster.machinery.authentication import UserInfo
from tests.unit.gateway.authorization.hub import USER1, RecordingHub, content, request, resource, rule

IMPERSONATE = b"mode: impersonate"


def test_nobody_is_impersonated_unless_it_is_asked_for() -> None:
    for text in (b"", b"{}", b"mode: shared", b"rules: []"):
        assert Impersonation(text).map_user(USER1, "foo") is None


def test_a_caller_appears_by_name_and_own_groups_and_the_original_is_kept() -> None:
    who = UserInfo("alice", "u-1", ("ops", "system:masters", "system:authenticated", "ops"), {"scopes": ("all",)})
    assert Impersonation(IMPERSONATE).map_user(who, "foo") == UserInfo(
        "alice", "", ("ops", "system:authenticated"), {ORIGINAL_USER: ("alice",)}
    )


def test_a_service_account_of_the_hub_is_none_of_the_cluster() -> None:
    who = UserInfo("system:serviceaccount:a:robot", groups=("system:serviceaccounts", "system:serviceaccounts:a"))
    mapped = Impersonation(IMPERSONATE).map_user(who, "foo")
    assert mapped is not None
    assert mapped.name == "cluster:hub:system:serviceaccount:a:robot"
    assert mapped.groups == ("system:authenticated",)


@pytest.mark.parametrize(
    "name",
    [
        *("system:admin", "system:kube-controller-manager", "system:anonymous", "system:node:n", "system:"),
        *(" system:admin", "\tsystem:admin", "alice ", "ali\nce", "ali\0ce", "", " "),
        "cluster:hub:system:serviceaccount:a:robot",
    ],
)
def test_who_could_become_somebody_else_is_refused(name: str) -> None:
    with pytest.raises(NotImpersonated):
        Impersonation(IMPERSONATE).map_user(UserInfo(name), "foo")


@pytest.mark.parametrize("group", [" system:masters", "ops\r\nImpersonate-Group: system:masters", "", "ops\t"])
def test_a_group_that_could_become_another_is_refused(group: str) -> None:
    with pytest.raises(NotImpersonated):
        Impersonation(IMPERSONATE).map_user(UserInfo("alice", groups=(group,)), "foo")


def test_the_first_rule_that_matches_counts_and_patterns_match_whole_names() -> None:
    mapping = Impersonation(b"""
mode: shared
rules:
- {clusters: [prod], mode: shared}
- {clusters: ["prod-.*"], users: [alice], user: operator, asGroups: [operators]}
- {groups: [ops|dev]}
""")
    alice, bob = UserInfo("alice", groups=("ops",)), UserInfo("bob", groups=("devs",))
    assert mapping.map_user(alice, "prod") is None
    as_operator = mapping.map_user(alice, "prod-1")
    assert as_operator == UserInfo("operator", "", ("operators", "system:authenticated"), {ORIGINAL_USER: ("alice",)})
    by_group = mapping.map_user(alice, "my-prod-1")
    assert by_group is not None
    assert by_group.name == "alice"
    assert mapping.map_user(bob, "prod-1") is None
    assert mapping.map_user(UserInfo("malice", groups=("operators",)), "prod-1") is None


def test_a_system_user_can_be_mapped_to_a_name_of_its_own() -> None:
    mapping = Impersonation(b'mode: impersonate\nrules: [{users: ["system:admin"], user: hub-admin, asGroups: []}]')
    mapped = mapping.map_user(UserInfo("system:admin", groups=("system:masters",)), "foo")
    assert mapped == UserInfo("hub-admin", "", ("system:authenticated",), {ORIGINAL_USER: ("system:admin",)})


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (b"mode: full", "mode"),
        (b"modes: shared", "modes"),
        (b"rules: [{user: a, group: [b]}]", "group"),
        (b"rules: [{users: ['(']}]", r"rules\[0\].users\[0\]"),
        (b"rules: [{}, {clusters: ['a', '*']}]", r"rules\[1\].clusters\[1\]"),
        (b"rules: [{users: []}]", r"rules\[0\].users"),
        (b"rules: [{user: 'system:admin'}]", r"rules\[0\].user"),
        (b"rules: [{user: ' system:admin'}]", r"rules\[0\].user"),
        (b"rules: [{user: ''}]", r"rules\[0\].user"),
        (b"rules: [{asGroups: [a, 'system:masters']}]", r"rules\[0\].asGroups\[1\]"),
        (b"rules: [{mode: shared, user: a}]", r"rules\[0\]"),
        (b"rules: {}", "rules"),
        (b"[]", "are invalid"),
        (b"{", "not YAML"),
        (b"mode: shared\nmode: impersonate", "twice"),
    ],
)
def test_a_file_that_cannot_be_understood_names_the_field(text: bytes, named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        Impersonation(text)


async def test_a_file_that_is_broken_later_denies_until_it_is_mended() -> None:
    mapping = Impersonation(b"mode: shared")
    judge = GatewayAuthorizer(HubAccess(RecordingHub(rule("*", "*", "*"))), AuthorizationOptions(), mapping)
    pods = resource("list", "pods")
    assert isinstance(await judge.authorize(USER1, "foo", pods, request()), Granted)
    mapping.replace(b"rules: [{users: ['(']}]")
    refused = await judge.authorize(USER1, "foo", pods, request())
    assert isinstance(refused, Refused)
    assert refused.answer.status == 503
    assert "rules[0].users[0]" in content(refused.answer)["message"]
    assert content(refused.answer)["details"]["causes"][0]["reason"] == "ImpersonationForbidden"
    mapping.replace(IMPERSONATE)
    granted = await judge.authorize(USER1, "foo", pods, request())
    assert isinstance(granted, Granted)
    assert granted.impersonated is not None
    assert granted.impersonated.name == "user1"


async def test_a_file_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    path.write_bytes(b"mode: shared")
    file = ImpersonationFile(path)
    assert file.impersonation.map_user(USER1, "foo") is None
    path.write_bytes(IMPERSONATE)
    await file.refresh()
    assert file.impersonation.map_user(USER1, "foo") is not None
    path.unlink()
    await file.refresh()
    assert file.impersonation.map_user(USER1, "foo") is not None
    path.write_bytes(b"mode: none")
    await file.refresh()
    with pytest.raises(NotImpersonated):
        file.impersonation.map_user(USER1, "foo")


@pytest.mark.parametrize("text", [None, b"mode: none", b" " * (1 << 21)])
def test_a_file_that_is_no_use_stops_the_start_and_is_named(tmp_path: Path, text: bytes | None) -> None:
    path = tmp_path / "rules.yaml"
    if text is not None:
        path.write_bytes(text)
    with pytest.raises(ConfigurationError, match=r"rules\.yaml: "):
        ImpersonationFile(path)


async def test_a_caller_that_cannot_be_mapped_is_refused_by_the_gateway() -> None:
    judge = GatewayAuthorizer(HubAccess(RecordingHub(rule("*", "*", "*"))), AuthorizationOptions(), Impersonation(IMPERSONATE))
    refused = await judge.authorize(UserInfo("system:admin"), "foo", resource("list", "pods"), request())
    assert isinstance(refused, Refused)
    assert refused.answer.status == 403
    assert 'cluster "foo": user "system:admin" cannot be impersonated there' in content(refused.answer)["message"]


names = st.one_of(
    st.text(max_size=12),
    st.builds(
        "".join,
        st.tuples(
            st.sampled_from(["", " ", "\t", "\u00a0", "cluster:hub:"]),
            st.sampled_from(["system:", "System:", "system:serviceaccount:a:", "a"]),
            st.text(max_size=4),
        ),
    ),
)
texts = st.sampled_from([".*", "a.*", "system:.*", "ops", r"\s*system:masters\s*"])
rules = st.fixed_dictionaries(
    {},
    optional={
        "clusters": st.lists(texts, min_size=1, max_size=2),
        "users": st.lists(texts, min_size=1, max_size=2),
        "groups": st.lists(texts, min_size=1, max_size=2),
        "user": names,
        "asGroups": st.lists(names, max_size=3),
    },
)


@given(st.lists(rules, max_size=3), names, st.lists(names, max_size=3), st.sampled_from(["foo", "a1"]))
def test_no_rules_and_no_names_make_anybody_a_system_user(
    given_rules: list[dict[str, object]], name: str, groups: list[str], cluster: str
) -> None:
    try:
        mapping = Impersonation(orjson.dumps({"mode": "impersonate", "rules": given_rules}))
        mapped = mapping.map_user(UserInfo(name, groups=tuple(groups)), cluster)
    except (ConfigurationError, NotImpersonated):
        return
    assert mapped is not None
    arriving = mapped.name.encode().strip(b" \t").decode()  # as Go reads a header field
    assert arriving == mapped.name
    assert not arriving.startswith("system:")
    assert mapped.groups[-1] == "system:authenticated"
    for group in mapped.groups[:-1]:
        assert group.strip(" \t") == group
        assert not group.startswith("system:")
    assert "\n" not in "".join((mapped.name, *mapped.groups, *mapped.extra[ORIGINAL_USER]))
    assert mapped.extra == {ORIGINAL_USER: (name,)}


def refused_by_cluster(kind: str, group: str = "") -> bytes:
    details = {"name": "alice", "kind": kind} | ({"group": group} if group else {})
    return orjson.dumps({"kind": "Status", "code": 403, "reason": "Forbidden", "details": details})


ALICE = UserInfo("alice", groups=("ops", "system:authenticated"), extra={ORIGINAL_USER: ("alice",)})


@pytest.mark.parametrize(("kind", "group"), [("users", ""), ("groups", ""), ("userextras", "authentication.k8s.io")])
def test_a_cluster_that_lets_nobody_impersonate_is_explained(kind: str, group: str) -> None:
    body = refused_by_cluster(kind, group)
    explained = explain_refusal(ALICE, Response(403, [body[:5], body[5:]], [("Audit-Id", "x")], "application/json"))
    assert isinstance(explained, Response)
    assert explained.status == 403
    assert explained.body == [body[:5], body[5:]]
    (_, (name, text)) = explained.headers
    assert name == "Warning"
    for needed in ("users", "alice", "groups", "ops, system:authenticated", f"userextras/{ORIGINAL_USER}"):
        assert needed in text


@pytest.mark.parametrize("body", [b"", b"[]", b"x", b'{"details": []}', b'{"details": null}', refused_by_cluster("pods")])
def test_other_refusals_of_a_cluster_speak_for_themselves(body: bytes) -> None:
    answer = Response(403, body)
    assert explain_refusal(ALICE, answer) is answer


def test_nothing_is_explained_of_what_was_not_refused_or_not_impersonated() -> None:
    for who, answer in ((None, Response(403, refused_by_cluster("users"))), (ALICE, Response(200, refused_by_cluster("users")))):
        assert explain_refusal(who, answer) is answer


def test_the_grants_are_rules_as_a_cluster_takes_them() -> None:
    assert [one["resources"] for one in missing_grants(ALICE)] == [["users"], ["groups"], [f"userextras/{ORIGINAL_USER}"]]
