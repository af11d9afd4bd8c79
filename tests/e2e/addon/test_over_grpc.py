"""Addons on a cluster whose agents reach their hub over gRPC alone; the addons' own agents go to the hub's API server (A6)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from muster.api.agents import CSR_USER
from tests.e2e.addon.conftest import INSTALL_NAMESPACE, Site
from tests.e2e.addon.test_credentials import enabled, own_signer, signed
from tests.e2e.addon.test_template_addons import allow, with_role
from tests.e2e.addon.test_tokens import READS, TOKEN_FLAG, account
from tests.e2e.transport.conftest import GrpcAgent
from tests.e2e.transport.conftest import Site as GrpcSite
from tests.support.administrator import CSRS, kubeconfig_text
from tests.support.pki import Authority

SERVER = "system:serviceaccount:open-cluster-management-hub:grpc-server-sa"


@pytest.fixture(scope="module")
def remote(grpc: GrpcSite) -> Iterator[GrpcAgent]:
    """The agents of a cluster that was told nothing but the address of the hub's gRPC server."""
    agent = grpc.joined("remote")
    agent.start_work()
    yield agent
    grpc.stop_agents()


def tell_of_api(site: Site, remote: GrpcAgent) -> None:
    """Where the hub's API server is, as joining with --bootstrap-kubeconfig does; that has no credential in it."""
    text = kubeconfig_text(site.hub.cluster.url, site.hub.cluster.ca, {})
    place = f"/api/v1/namespaces/{remote.namespace}/secrets/bootstrap-hub-kubeconfig"
    site.spoke.admin.patch(place, {"stringData": {"kubeconfig": text}}).expect(200)


def gone(site: Site, addon: str, cluster: str) -> None:
    site.disable(addon, cluster)
    site.hub.wait(lambda: site.find(addon, cluster) is None, "the addon to be gone", 60)
    site.hub.wait(lambda: not site.secret(f"{addon}-hub-kubeconfig"), "its Secret to be gone", 60)


def may_read(site: Site, secret: dict[str, bytes], namespace: str) -> bool:
    return site.addon_client(secret).get(f"/api/v1/namespaces/{namespace}/configmaps").status == 200


def test_without_an_address_of_the_api_server_an_addon_is_told_what_is_missing_and_gets_its_credential_with_one(
    site: Site, remote: GrpcAgent
) -> None:
    addon = enabled(site, with_role(allow(site, site.name("role"), READS)), remote.name)
    found = site.wait(addon, "ClusterCertificateRotated", "False", "AddonCredentialNotPossible", cluster=remote.name)
    assert "--bootstrap-kubeconfig" in found["message"]
    assert not site.secret(f"{addon}-hub-kubeconfig")

    tell_of_api(site, remote)
    secret = site.wait_secret(f"{addon}-hub-kubeconfig")
    site.wait(addon, "ClusterCertificateRotated", cluster=remote.name)
    assert secret["cluster-name"].decode() == remote.name
    site.hub.wait(lambda: may_read(site, secret, remote.name), "the rights of its template", 60)
    assert not may_read(site, secret, site.cluster)
    (request,) = site.admin.get(f"{CSRS}?labelSelector=open-cluster-management.io/addon-name={addon}").expect(200)["items"]
    # The hub's API server sees the gRPC server ask, which says for whom: by the certificate that it was called with.
    assert request["spec"]["username"] == SERVER
    assert request["metadata"]["annotations"][CSR_USER].startswith(f"system:open-cluster-management:{remote.name}:")
    # The rest of the addon takes the same way.
    site.wait_on_cluster(f"/api/v1/namespaces/{INSTALL_NAMESPACE}/configmaps/{addon}")
    site.wait(addon, "ManifestApplied", cluster=remote.name)
    gone(site, addon, remote.name)


def test_a_signer_of_the_addons_own_needs_no_api_server(
    site: Site, remote: GrpcAgent, tmp_path_factory: pytest.TempPathFactory
) -> None:
    authority = Authority(tmp_path_factory.mktemp("signer"), "an addon's signer")
    signer = own_signer(site, authority)
    addon = enabled(site, [{"type": "CustomSigner", "customSigner": signer}], remote.name)
    assert signed(site, addon, signer, authority)
    site.disable(addon, remote.name)


def test_tokens_are_got_through_the_grpc_server_too(site: Site, remote: GrpcAgent) -> None:
    tell_of_api(site, remote)
    (agent, _) = remote.processes
    agent.stop()
    agent.command.append(TOKEN_FLAG)
    agent.start()
    addon = enabled(site, with_role(allow(site, site.name("role"), READS)), remote.name)
    secret = site.wait_secret(f"{addon}-hub-kubeconfig")
    assert set(secret) == {"kubeconfig", "token", "cluster-name"}
    site.wait(addon, "TokenRefreshed", cluster=remote.name)
    site.hub.wait(lambda: may_read(site, secret, remote.name), "the rights of its template", 60)
    assert not may_read(site, secret, site.cluster)
    # Made anew, it gives another.
    place = account(site, addon, remote.name)
    site.admin.delete(place).expect(200)
    name = f"{addon}-hub-kubeconfig"
    site.hub.wait(lambda: site.secret(name)["token"] != secret["token"], "another token", 60)
    gone(site, addon, remote.name)
    site.hub.wait(lambda: site.hub.read(place) is None, "its account to be gone", 60)
