"""Acting as somebody else by the word of an authorizer that is asked."""

from __future__ import annotations

import pytest

from muster.kube.impersonation import BadImpersonation
from muster.machinery.authentication import AUTHENTICATED, MASTERS, UNAUTHENTICATED, UserInfo
from muster.machinery.authorization import ALLOWED, NO_OPINION, AccessAttributes, AccessDecision
from muster.runtime.auth import ImpersonationForbidden, impersonated
from muster.runtime.client import KubeError, Unreachable

MALLORY = UserInfo("mallory", groups=("devs", AUTHENTICATED))


class Rules:
    """Grants what is written as `resource/name`."""

    def __init__(self, *granted: str) -> None:
        self.granted = granted
        self.asked: list[AccessAttributes] = []

    async def authorize(self, who: UserInfo, asked: AccessAttributes) -> AccessDecision:
        assert who is MALLORY
        assert asked.verb == "impersonate"
        self.asked.append(asked)
        place = f"{asked.namespace}/" if asked.namespace else ""
        return ALLOWED if f"{asked.full_resource}/{place}{asked.name}" in self.granted else NO_OPINION


async def test_without_fields_everybody_is_who_they_are() -> None:
    rules = Rules()
    assert await impersonated(MALLORY, [("accept", "*/*"), ("impersonate-user", "")], rules) is MALLORY
    assert not rules.asked


async def test_every_part_of_an_identity_takes_a_permission_of_its_own() -> None:
    rules = Rules("users/alice", "groups/friends", "uids/7", "userextras/example.org/scope/s1")
    fields = [
        ("impersonate-user", "alice"),
        ("impersonate-group", "friends"),
        ("impersonate-uid", "7"),
        ("impersonate-extra-example.org%2fscope", "s1"),
    ]
    found = await impersonated(MALLORY, fields, rules)
    assert found == UserInfo("alice", "7", ("friends", AUTHENTICATED), {"example.org/scope": ("s1",)})
    for missing in range(4):
        lacking = Rules(*(grant for number, grant in enumerate(rules.granted) if number != missing))
        with pytest.raises(ImpersonationForbidden, match=r'User "mallory" cannot impersonate resource "'):
            await impersonated(MALLORY, fields, lacking)


@pytest.mark.parametrize(
    ("name", "needed", "groups"),
    [
        (
            "system:serviceaccount:a:robot",
            "serviceaccounts/a/robot",
            ("system:serviceaccounts", "system:serviceaccounts:a", AUTHENTICATED),
        ),
        ("system:serviceaccount:a:b:c", "users/system:serviceaccount:a:b:c", (AUTHENTICATED,)),
        ("system:serviceaccount:A:robot", "users/system:serviceaccount:A:robot", (AUTHENTICATED,)),
        ("system:serviceaccount:a", "users/system:serviceaccount:a", (AUTHENTICATED,)),
        ("system:anonymous", "users/system:anonymous", (UNAUTHENTICATED,)),
    ],
)
async def test_names_of_service_accounts_and_of_others(name: str, needed: str, groups: tuple[str, ...]) -> None:
    assert (await impersonated(MALLORY, [("impersonate-user", name)], Rules(needed))).groups == groups


async def test_two_users_are_neither() -> None:
    with pytest.raises(ImpersonationForbidden):
        await impersonated(MALLORY, [("impersonate-user", "alice"), ("impersonate-user", "bob")], Rules("users/alice", "users/bob"))


@pytest.mark.parametrize("field", [("impersonate-group", MASTERS), ("impersonate-uid", "7"), ("impersonate-extra-a", "b")])
async def test_parts_of_an_identity_without_a_user_are_a_bad_request(field: tuple[str, str]) -> None:
    with pytest.raises(BadImpersonation, match="without impersonating a user"):
        await impersonated(MALLORY, [field], Rules(f"groups/{MASTERS}"))


async def test_who_cannot_be_asked_has_not_said_yes() -> None:
    class Down:
        async def authorize(self, who: UserInfo, asked: AccessAttributes) -> AccessDecision:
            raise Unreachable("https://hub", "connection refused")

    with pytest.raises(KubeError):
        await impersonated(MALLORY, [("impersonate-user", "alice")], Down())
