"""ManagedServiceAccounts and the gateway's account, through every process that has a part in them."""

from __future__ import annotations

import base64

from tests.e2e.accounts.conftest import GATEWAY, MANAGED, path, reported
from tests.e2e.addon.conftest import INSTALL_NAMESPACE, Site
from tests.support.administrator import RBAC, Document, read_secret
from tests.support.client import Client
from tests.support.processes import Server

LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{INSTALL_NAMESPACE}/leases"


def want(site: Site, name: str, **spec: object) -> None:
    kind = {"apiVersion": "authentication.open-cluster-management.io/v1beta1", "kind": "ManagedServiceAccount"}
    body = {**kind, "metadata": {"name": name}, "spec": {"rotation": {"validity": "1h0m0s"}, **spec}}
    site.admin.post(path(site), body).expect(201)


def as_account(site: Site, token: str) -> Client:
    return Client(site.spoke.cluster.url, ca=site.spoke.cluster.ca, token=token)


def test_an_account_lives_with_its_token_on_the_hub_and_goes(site: Site, agent: Server) -> None:
    site.wait(MANAGED, "Available")
    assert site.on_cluster(f"{LEASES}/{MANAGED}")
    want(site, "probe")
    token = reported(site, "probe")
    secret = read_secret(site.admin, site.cluster, "probe")
    assert set(secret) == {"ca.crt", "token"}
    assert secret["ca.crt"].strip() == site.spoke.cluster.ca.read_bytes().strip()
    me = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    client = as_account(site, token)
    who = client.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", me).expect(201)
    assert who["status"]["userInfo"]["username"] == f"system:serviceaccount:{INSTALL_NAMESPACE}:probe"
    assert client.get("/api/v1/namespaces").status == 403

    malformed = {"data": {"token": base64.b64encode(b"no token").decode()}}
    site.admin.patch(f"/api/v1/namespaces/{site.cluster}/secrets/probe", malformed).expect(200)
    second = site.hub.wait(lambda: _good(site, "probe"), "a good token", 60)
    agent.stop()
    site.spoke.admin.delete(f"/api/v1/namespaces/{INSTALL_NAMESPACE}/serviceaccounts/probe").expect(200)
    agent.start()
    third = reported(site, "probe", besides=second)
    site.hub.wait(lambda: as_account(site, third).get("/api/v1/namespaces").status == 403, "the new token to serve", 60)
    site.hub.wait(lambda: as_account(site, second).get("/api/v1/namespaces").status == 401, "the old token to end", 60)

    site.admin.delete(path(site, "probe")).expect(200)
    place = f"/api/v1/namespaces/{INSTALL_NAMESPACE}/serviceaccounts/probe"
    site.hub.wait(lambda: site.on_cluster(place) is None, "the account to go", 60)
    site.hub.wait(lambda: not read_secret(site.admin, site.cluster, "probe"), "the Secret to go", 60)


def _good(site: Site, name: str) -> str:
    token = read_secret(site.admin, site.cluster, name).get("token", b"").decode()
    return token if token.count(".") == 2 else ""


def test_an_account_that_is_brief(site: Site, agent: Server) -> None:
    want(site, "brief", ttlSecondsAfterCreation=5)
    site.hub.wait(lambda: site.hub.read(path(site, "brief")) is None, "the end of it", 60)
    place = f"/api/v1/namespaces/{INSTALL_NAMESPACE}/serviceaccounts/brief"
    site.hub.wait(lambda: site.on_cluster(place) is None, "the account to go", 60)


def test_the_agents_own_account_is_not_for_the_hub(site: Site, agent: Server) -> None:
    name = "managed-serviceaccount-addon-agent"
    want(site, name)

    def told() -> str:
        conditions = ((site.hub.read(path(site, name)) or {}).get("status") or {}).get("conditions") or []
        return next((str(one["message"]) for one in conditions if (one["type"], one["status"]) == ("TokenReported", "False")), "")

    assert "somebody else" in site.hub.wait(told, "the condition", 60)
    assert read_secret(site.admin, site.cluster, name) == {}
    site.admin.delete(path(site, name)).expect(200)


def test_the_gateways_account_may_do_what_its_role_lets_it(site: Site, agent: Server) -> None:
    site.enable(GATEWAY)
    site.wait(GATEWAY, "Available")
    client = as_account(site, reported(site, GATEWAY))
    assert client.get("/api/v1/secrets").status == 200
    assert client.get("/metrics").status == 200
    config = site.config(site.name("view"), customizedVariables=[{"name": "clusterRole", "value": "view"}])
    site.admin.patch(site.path(GATEWAY), {"spec": {"configs": [config]}}).expect(200)
    site.hub.wait(lambda: client.get("/api/v1/secrets").status == 403, "fewer rights", 60)
    site.hub.wait(lambda: client.get("/api/v1/pods").status == 200, "the role's rights", 60)
    site.disable(GATEWAY)
    site.hub.wait(lambda: site.find(GATEWAY) is None, "the addon to go", 60)
    site.hub.wait(lambda: site.hub.read(path(site, GATEWAY)) is None, "the account to go", 60)
    site.hub.wait(lambda: client.get("/api/v1/pods").status == 401, "the token to end", 60)
    site.hub.wait(lambda: not _bindings(site), "the rights to go", 60)


def _bindings(site: Site) -> list[Document]:
    found: list[Document] = site.spoke.admin.get(f"{RBAC}/clusterrolebindings").expect(200)["items"]
    return [one for one in found if GATEWAY in one["metadata"]["name"]]
