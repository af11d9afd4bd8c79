"""The agent keeps an account for each ManagedServiceAccount, and its token on the hub: made, rotated, repaired, removed."""

from __future__ import annotations

import base64

import pytest

from muster.accounts.names import ACCOUNT_LABEL
from muster.machinery.objects import Object
from muster.runtime.client import NotFound
from muster.runtime.client.builtin import LEASES, SECRETS, SERVICE_ACCOUNTS
from tests.unit.accounts.conftest import ACCOUNTS, AUTHORITY, CLUSTER, NAMESPACE, AccountSite, claims_of, is_gone


async def test_an_account_and_its_token_on_the_hub(site: AccountSite) -> None:
    made = await site.want("gateway")
    async with site.agent():
        token = await site.reported("gateway")
    account = await site.service_account("gateway")
    assert account is not None
    assert account["metadata"]["labels"] == {ACCOUNT_LABEL: "true"}
    secret = await site.secret("gateway")
    assert secret is not None
    assert (secret["type"], set(secret["data"])) == ("Opaque", {"ca.crt", "token"})
    assert base64.b64decode(secret["data"]["ca.crt"]) == AUTHORITY
    assert secret["metadata"]["labels"] == {ACCOUNT_LABEL: "true"}
    (owner,) = secret["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("ManagedServiceAccount", "gateway", made["metadata"]["uid"])
    assert claims_of(token)["sub"] == f"system:serviceaccount:{NAMESPACE}:gateway"
    assert claims_of(token)["exp"] - claims_of(token)["iat"] == 3600
    assert await site.is_accepted(token)
    created = await site.condition("gateway", "SecretCreated")
    assert created is not None
    assert created["status"] == "True"


async def test_a_restart_and_a_quiet_afternoon_change_nothing(site: AccountSite) -> None:
    await site.want("gateway", validity="240h")
    async with site.agent():
        token = await site.reported("gateway")
    async with site.agent() as life:
        lease = await site.until(lambda: site.spoke.get(LEASES, "managed-serviceaccount", NAMESPACE), "the lease")
        before = len([one for one in life.writes if "leases" not in one[1]])
        await site.clock.advance(3 * 3600)
        written = [one for one in life.writes if "leases" not in one[1]]
        assert {path.rpartition("/")[2] for _, path in written[before:]} <= {"tokenreviews"}
    assert lease["spec"]["leaseDurationSeconds"] == 60
    assert await site.token("gateway") == token


async def test_rotated_after_four_fifths_of_its_life_and_both_serve_meanwhile(site: AccountSite) -> None:
    await site.want("gateway", validity="1h")
    async with site.agent():
        first = await site.reported("gateway")
        await site.clock.advance(0.8 * 3600 - 60)
        assert await site.token("gateway") == first
        await site.clock.advance(65)
        second = await site.reported("gateway", besides=first)
    assert await site.is_accepted(first)
    assert await site.is_accepted(second)


async def test_the_real_life_of_a_token_counts_not_what_was_asked_for(site: AccountSite) -> None:
    """As EKS, which gives a day at the most."""
    await site.want("gateway", validity="1h")
    async with site.agent():
        first = await site.reported("gateway")
        await site.hub.patch(ACCOUNTS, "gateway", {"spec": {"rotation": {"validity": "8640h"}}}, CLUSTER)
        await site.clock.advance(0.8 * 3600 + 5)
        second = await site.reported("gateway", besides=first)
    assert claims_of(second)["exp"] - claims_of(second)["iat"] == 8640 * 3600


async def test_a_shorter_validity_counts_at_once(site: AccountSite) -> None:
    await site.want("gateway", validity="8640h")
    async with site.agent():
        first = await site.reported("gateway")
        await site.hub.patch(ACCOUNTS, "gateway", {"spec": {"rotation": {"validity": "1h"}}}, CLUSTER)
        second = await site.reported("gateway", besides=first)
    assert claims_of(second)["exp"] - claims_of(second)["iat"] == 3600


def _without_label(secret: Object) -> Object:
    return {"metadata": {"labels": {ACCOUNT_LABEL: None}}}


def _with_more(secret: Object) -> Object:
    return {"data": {"more": "eA=="}, "metadata": {"ownerReferences": None}}


def _with_other_authority(secret: Object) -> Object:
    return {"data": {"ca.crt": "eA=="}}


@pytest.mark.parametrize("spoil", [_without_label, _with_more, _with_other_authority])
async def test_a_changed_secret_is_put_right_with_the_token_it_had(site: AccountSite, spoil: object) -> None:
    assert callable(spoil)
    await site.want("gateway")
    async with site.agent():
        token = await site.reported("gateway")
        good = await site.secret("gateway")
        assert good is not None
        await site.hub.patch(SECRETS, "gateway", spoil(good), CLUSTER)

        async def mended() -> bool:
            found = await site.secret("gateway")
            assert found is not None
            same = all(found["metadata"].get(part) == good["metadata"][part] for part in ("labels", "ownerReferences"))
            return same and found["data"] == good["data"]

        await site.until(mended, "the Secret to be put right")
    assert await site.token("gateway") == token


@pytest.mark.parametrize("token", ["", "no.token", "a.b.c", "\u2028", "..", "e30.e30.e30"])
async def test_a_malformed_token_is_replaced(site: AccountSite, token: str) -> None:
    await site.want("gateway")
    async with site.agent():
        await site.reported("gateway")
        data = {"token": base64.b64encode(token.encode()).decode()}
        await site.hub.patch(SECRETS, "gateway", {"data": data}, CLUSTER)
        await site.until(lambda: _is_of(site, "gateway"), "a good token")


async def _is_of(site: AccountSite, name: str) -> bool:
    token = await site.token(name)
    try:
        return bool(claims_of(token)["sub"].endswith(f":{name}"))
    except (LookupError, ValueError):
        return False


async def test_a_token_that_is_refused_or_another_accounts_is_replaced(site: AccountSite) -> None:
    await site.want("one")
    await site.want("two")
    async with site.agent():
        one, two = await site.reported("one"), await site.reported("two")
        head, payload, signature = one.split(".")
        for wrong in (two, f"{head}.{payload}.{signature[::-1]}"):
            await site.hub.patch(SECRETS, "one", {"data": {"token": base64.b64encode(wrong.encode()).decode()}}, CLUSTER)
            await site.reported("one", besides=wrong)
            assert await site.is_accepted(await site.token("one"))


async def test_what_is_deleted_comes_back(site: AccountSite) -> None:
    await site.want("gateway")
    async with site.agent():
        first = await site.reported("gateway")
        await site.hub.delete(SECRETS, "gateway", CLUSTER)
        second = await site.reported("gateway", besides=first)
        await site.spoke.delete(SERVICE_ACCOUNTS, "gateway", NAMESPACE)
        third = await site.reported("gateway", besides=second)
    assert await site.is_accepted(third)
    assert not await site.is_accepted(second)


async def test_a_token_is_reviewed_now_and_then(site: AccountSite) -> None:
    """No watch tells of a signing key that is gone."""
    await site.want("gateway", validity="240h")
    async with site.agent() as life:
        first = await site.reported("gateway")
        before = len(life.asked)
        await site.clock.advance(3700)
        assert [path for _, path in life.asked[before:] if path.endswith("tokenreviews")]
        assert await site.token("gateway") == first


async def test_tokens_of_a_former_account_of_the_same_name_end(site: AccountSite) -> None:
    await site.want("brief")
    async with site.agent():
        first = await site.reported("brief")
    await site.hub.delete(ACCOUNTS, "brief", CLUSTER)
    await site.want("brief")
    async with site.agent():
        second = await site.reported("brief", besides=first)
    assert await site.is_accepted(second)
    assert not await site.is_accepted(first)


async def test_an_account_that_somebody_else_made_is_left_alone(site: AccountSite) -> None:
    """Its rights would be the hub's; the agent's own account is among those in its namespace."""
    name = "managed-serviceaccount-addon-agent"
    await site.want(name)
    await site.want("other")
    async with site.agent() as life:
        message = await site.failing(name, "somebody else")
        assert ACCOUNT_LABEL in message
        await site.reported("other")
        assert not [path for _, path in life.asked if f"{name}/token" in path]
        await site.hub.delete(ACCOUNTS, name, CLUSTER)
        await site.want("last")
        await site.reported("last")
    assert await site.secret(name) is None
    account = await site.service_account(name)
    assert account is not None
    assert not account["metadata"].get("labels")


async def test_a_secret_that_somebody_else_made_is_left_alone(site: AccountSite) -> None:
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "import", "namespace": CLUSTER}, "data": {"token": "eA=="}}
    await site.hub.create(SECRETS, body, CLUSTER)
    typed = {
        **body,
        "metadata": {"name": "typed", "namespace": CLUSTER, "labels": {ACCOUNT_LABEL: "true"}},
        "type": "example.com/x",
    }
    await site.hub.create(SECRETS, typed, CLUSTER)
    await site.want("import")
    await site.want("typed")
    async with site.agent():
        await site.failing("import", "somebody else", "SecretCreated")
        await site.failing("typed", "example.com/x")
    assert await site.token("import") == "x"
    assert await site.token("typed") == "x"


@pytest.mark.parametrize("validity", ["9m59s", "-1h", "0s", "forever", "", "2000000h"])
async def test_a_validity_that_no_server_grants_is_named(site: AccountSite, validity: str) -> None:
    await site.want("gateway", validity=validity)
    async with site.agent() as life:
        await site.failing("gateway", "spec.rotation.validity")
        assert not [path for _, path in life.asked if path.endswith("/token")]
        await site.hub.patch(ACCOUNTS, "gateway", {"spec": {"rotation": {"validity": "10m"}}}, CLUSTER)
        await site.reported("gateway")


async def test_removal_takes_the_account_along_also_after_a_restart(site: AccountSite) -> None:
    await site.want("one")
    await site.want("two")
    foreign = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "foreign", "namespace": NAMESPACE}}
    await site.spoke.create(SERVICE_ACCOUNTS, foreign, NAMESPACE)
    async with site.agent():
        token = await site.reported("one")
        await site.reported("two")
        await site.hub.delete(ACCOUNTS, "one", CLUSTER)
        await site.until(lambda: is_gone(site, "one"), "the account to go")
    assert not await site.is_accepted(token)
    await site.hub.delete(ACCOUNTS, "two", CLUSTER)
    async with site.agent():
        await site.until(lambda: is_gone(site, "two"), "the account to go")
    assert await site.service_account("foreign") is not None
    with pytest.raises(NotFound):
        await site.hub.get(ACCOUNTS, "one", CLUSTER)
