"""Addons' agents that come to the hub with tokens instead of certificates, and those that change from one to the other (A6)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import yaml

from tests.e2e.addon.conftest import Site
from tests.e2e.addon.test_credentials import enabled
from tests.e2e.addon.test_template_addons import allow, with_role
from tests.support.administrator import CSRS, RBAC

READS = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}
TOKEN_FLAG = "--addon-kubeclient-registration-auth=token"


def restarted(site: Site, *flags: str) -> None:
    """The managed cluster's agent, as one that is told this of addons."""
    agent = site.agent.process
    agent.stop()
    agent.command = [one for one in agent.command if one != TOKEN_FLAG] + list(flags)
    agent.start()


@pytest.fixture
def tokens(site: Site) -> Iterator[Site]:
    """The site with an agent that gets tokens for addons."""
    restarted(site, TOKEN_FLAG)
    yield site
    restarted(site)


def with_token(secret: dict[str, bytes]) -> bool:
    return "token" in secret


def with_certificate(secret: dict[str, bytes]) -> bool:
    return "tls.crt" in secret


def usable(site: Site, addon: str, kind: Callable[[dict[str, bytes]], bool], *, before: bool = False) -> dict[str, bytes]:
    """The addon's Secret, once it is of this kind and the hub lets its agent do what it may. It is there and whole all the time,
    and if `before`, what was in it before is good for as long as it is in it."""
    found: dict[str, bytes] = {}

    def look() -> bool:
        nonlocal found
        found = site.secret(f"{addon}-hub-kubeconfig")
        assert found, "the Secret is there while its content changes"
        (user,) = yaml.safe_load(found["kubeconfig"])["users"]
        assert set(user["user"].values()) <= found.keys()
        assert with_token(found) != with_certificate(found)
        if before and not kind(found):
            assert may_read(site, found) or site.secret(f"{addon}-hub-kubeconfig") != found, "it has lost its rights"
        return kind(found) and may_read(site, found)

    site.hub.wait(look, f"a credential of {addon} that can be used", 60)
    return found


def may_read(site: Site, secret: dict[str, bytes], namespace: str = "") -> bool:
    return site.addon_client(secret).get(f"/api/v1/namespaces/{namespace or site.cluster}/configmaps").status == 200


def account(site: Site, addon: str, cluster: str = "") -> str:
    return f"/api/v1/namespaces/{cluster or site.cluster}/serviceaccounts/{addon}-agent"


def uid(site: Site, addon: str) -> str:
    return str((site.hub.read(account(site, addon)) or {}).get("metadata", {}).get("uid", ""))


def test_a_token_gives_the_rights_of_the_template_and_no_others(tokens: Site) -> None:
    site = tokens
    addon = enabled(site, with_role(allow(site, site.name("role"), READS)))
    site.wait_secret(f"{addon}-hub-kubeconfig")
    secret = usable(site, addon, with_token)
    assert set(secret) == {"kubeconfig", "token", "cluster-name"}
    assert secret["cluster-name"].decode() == site.cluster
    ready = site.wait(addon, "TokenInfrastructureReady")
    assert ready["message"] == f"ServiceAccount {site.cluster}/{addon}-agent (UID: {uid(site, addon)}) is ready"
    assert site.wait(addon, "TokenRefreshed", reason="AddonTokenRefreshed")["message"].startswith(
        "Addon token refreshed, expires at "
    )
    (registration,) = site.status(addon)["registrations"]
    assert registration["subject"]["user"] == f"system:serviceaccount:{site.cluster}:{addon}-agent"

    agent = site.addon_client(secret)
    assert agent.get("/api/v1/namespaces/default/configmaps").status == 403
    assert agent.get(f"/api/v1/namespaces/{site.cluster}/secrets").status == 403
    assert agent.post(f"{account(site, addon)}/token", {"spec": {}}).status == 403
    assert site.admin.get(f"{CSRS}?labelSelector=open-cluster-management.io/addon-name={addon}").expect(200)["items"] == []

    site.disable(addon)
    site.hub.wait(lambda: site.find(addon) is None, "the addon to be gone", 60)
    site.hub.wait(lambda: not site.secret(f"{addon}-hub-kubeconfig"), "its Secret to be gone", 60)
    site.hub.wait(lambda: uid(site, addon) == "", "its account to be gone", 60)
    for kind in ("roles", "rolebindings"):
        place = f"{RBAC}/namespaces/{site.cluster}/{kind}/{addon}-token-role"
        site.hub.wait(lambda place=place: site.hub.read(place) is None, f"{place} to be gone", 60)  # type: ignore[misc]
    assert agent.get(f"/api/v1/namespaces/{site.cluster}/configmaps").status in (401, 403)


def test_an_account_that_is_made_anew_gives_another_token(tokens: Site) -> None:
    site = tokens
    addon = enabled(site, with_role(allow(site, site.name("role"), READS)))
    site.wait_secret(f"{addon}-hub-kubeconfig")
    first, before = usable(site, addon, with_token), uid(site, addon)
    site.admin.delete(account(site, addon)).expect(200)
    again = usable(site, addon, lambda secret: secret.get("token") not in (None, first["token"]))
    assert uid(site, addon) not in ("", before)
    # API servers remember a token that was good for some seconds.
    site.hub.wait(lambda: not may_read(site, first), "the first token to end", 60)
    assert may_read(site, again)
    site.disable(addon)


def test_an_agent_goes_over_to_certificates_and_back_and_its_secret_is_always_whole(tokens: Site) -> None:
    site = tokens
    addon = enabled(site, with_role(allow(site, site.name("role"), READS)))
    site.wait_secret(f"{addon}-hub-kubeconfig")
    token = usable(site, addon, with_token)
    restarted(site)
    certificate = usable(site, addon, with_certificate, before=True)
    site.wait(addon, "ClusterCertificateRotated")
    site.hub.wait(lambda: uid(site, addon) == "", "its account to be gone", 60)
    site.hub.wait(lambda: not may_read(site, token), "the token to end", 60)
    site.hub.wait(lambda: site.condition(addon, "TokenInfrastructureReady") == {}, "nothing to be said of tokens", 60)
    restarted(site, TOKEN_FLAG)
    usable(site, addon, with_token, before=True)
    site.wait(addon, "TokenRefreshed")
    site.hub.wait(lambda: not may_read(site, certificate), "the certificate to have no rights", 60)
    site.disable(addon)
