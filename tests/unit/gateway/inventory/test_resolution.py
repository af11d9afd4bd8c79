"""Where a cluster's requests go, by whose word; and what people see of it."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.proxy.v1alpha1 import ClusterGateway
from muster.gateway.inventory.document import document
from muster.gateway.inventory.health import HEALTHY
from muster.gateway.inventory.resolution import ResolvedCluster, Sources, resolve_cluster
from muster.gateway.names import (
    CLUSTER_PROXY_ANNOTATION,
    CREDENTIALS_NAMESPACE,
    ENDPOINT_TYPE,
    OAM_CREDENTIAL_TYPE,
    OAM_ENDPOINT_TYPE,
)
from muster.gateway.target import (
    CREDENTIAL_EXPIRED,
    CREDENTIAL_MISSING,
    CREDENTIAL_UNUSABLE,
    ENDPOINT_MISSING,
    ENDPOINT_UNUSABLE,
    BearerToken,
    ClientCertificate,
    Endpoint,
    Trust,
)
from tests.unit.gateway.inventory.objects import (
    AUTHORITY,
    NOW,
    OTHER_AUTHORITY,
    URL,
    account,
    account_secret,
    b64,
    client_pair,
    credential,
    jwt,
    managed_cluster,
    sources,
)

HOUR = timedelta(hours=1)
CA = AUTHORITY.pem.decode()
C1 = (Endpoint("api.c1.example", 6443),)
ADMINISTRATORS = "https://admin.example:6443"


def joined(found: Sources, name: str = "c1", *, loopback: bool = False) -> ResolvedCluster:
    result = resolve_cluster(name, found, loopback=loopback)
    assert result is not None
    return result


def problem(found: Sources, name: str = "c1") -> str:
    target = joined(found, name).target
    assert target.problem is not None
    assert "\n" not in target.problem.message
    return target.problem.cause


def by_account(cluster: object = None, **data: bytes | str) -> Sources:
    values: dict[str, Any] = {"token": jwt(), "ca__crt": CA, **data}
    return sources(cluster or managed_cluster(), None, account(), account_secret(**values))


# The three types of the seed.


def by_cluster_proxy(label: str = ENDPOINT_TYPE, *, known: bool = True, **data: str | bytes) -> Sources:
    given: dict[str, Any] = {"ca__crt": CA, "token": "t", **data}
    secret = credential(labels={label: "ClusterProxy"}, **given)
    return replace(sources(None, secret), cluster_proxy=known)


def test_an_accepted_cluster_is_reached_as_its_managed_service_account() -> None:
    found = joined(by_account(token=jwt(NOW + HOUR)))
    target = found.target
    assert target.problem is None
    assert target.endpoints == C1
    assert target.trust == Trust(AUTHORITY.pem)
    assert target.credential == BearerToken(jwt(NOW + HOUR), NOW + HOUR)
    assert target.account == "system:serviceaccount:ocm:cluster-gateway"
    shown = ClusterGateway.decode(document(found, HEALTHY, NOW))
    access = shown.spec.access
    assert (access.endpoint, access.ca_bundle) == (URL, b64(AUTHORITY.pem))
    assert access.credential is not None
    assert access.credential.type == "ManagedServiceAccount"
    assert access.credential.managed_service_account is not None
    assert (access.credential.managed_service_account.namespace, access.credential.managed_service_account.name) == (
        "c1",
        "cluster-gateway",
    )
    assert shown.status.healthy
    assert shown.status.expiration_timestamp == "2026-01-01T01:00:00Z"


@pytest.mark.parametrize("label", ["proxy.open-cluster-management.io/cluster-credential-type", OAM_CREDENTIAL_TYPE])
def test_a_labelled_secret_needs_no_managed_cluster(label: str) -> None:
    secret = credential(label=label, endpoint=f"{ADMINISTRATORS}\n", ca__crt=CA, token=jwt())
    found = joined(sources(None, secret))
    assert found.target.problem is None
    assert found.target.endpoints == (Endpoint("admin.example", 6443),)
    shown = document(found, HEALTHY, NOW)
    assert shown["spec"]["access"]["credential"] == {"type": "ServiceAccountToken", "serviceAccountToken": {"token": ""}}
    assert shown["metadata"]["labels"] == {label: "ServiceAccountToken"}


def test_a_client_certificate_is_shown_without_its_key() -> None:
    pair = client_pair()
    secret = credential(kind="X509Certificate", endpoint=URL, ca=CA, tls__crt=pair.certificate, tls__key=pair.key)
    found = joined(sources(None, secret))
    assert found.target.problem is None
    assert isinstance(found.target.credential, ClientCertificate)
    shown = document(found, HEALTHY, NOW)
    assert shown["spec"]["access"]["credential"]["x509Certificate"] == {
        "certificate": pair.certificate.decode(),
        "privateKey": "",
    }
    assert shown["status"]["expirationTimestamp"] == "2026-01-31T00:00:00Z"
    assert b"PRIVATE KEY" not in orjson.dumps(shown)


def test_a_labelled_secret_wins_over_the_account() -> None:
    secret = credential(endpoint=ADMINISTRATORS, ca__crt=OTHER_AUTHORITY.pem, token="administrators")
    target = joined(sources(managed_cluster(), secret, account(), account_secret(token=jwt(), ca__crt=CA))).target
    assert target.credential == BearerToken("administrators")
    assert target.trust.authorities == OTHER_AUTHORITY.pem
    assert [one.url for one in target.endpoints] == [ADMINISTRATORS]


def test_a_secret_may_say_where_and_leave_the_token_with_the_account() -> None:
    secret = credential(
        kind="ManagedServiceAccount",
        endpoint=f"{ADMINISTRATORS},https://second.example/base",
        proxy_url="http://proxy:3128",
        tls_server_name="kubernetes.default.svc",
    )
    target = joined(sources(managed_cluster(), secret, account(), account_secret(token=jwt(), ca__crt=CA))).target
    assert target.problem is None
    assert [one.url for one in target.endpoints] == [ADMINISTRATORS, "https://second.example:443/base"]
    assert target.trust == Trust(AUTHORITY.pem, "kubernetes.default.svc")
    assert target.proxy_url == "http://proxy:3128"
    assert target.credential == BearerToken(jwt())


@pytest.mark.parametrize("label", [ENDPOINT_TYPE, OAM_ENDPOINT_TYPE])
def test_a_cluster_behind_cluster_proxy_proves_itself_by_the_usual_name(label: str) -> None:
    found = joined(by_cluster_proxy(label))
    target = found.target
    assert (target.problem, target.cluster_proxy, target.tunnel) == (None, True, False)
    assert (target.trust, target.endpoints) == (Trust(AUTHORITY.pem), (Endpoint("kubernetes.default.svc", 443),))
    assert document(found, HEALTHY, NOW)["spec"]["access"]["endpoint"] == "https://kubernetes.default.svc:443"
    named = joined(by_cluster_proxy(label, tls_server_name="api.internal", endpoint=ADMINISTRATORS)).target
    assert named.trust == Trust(AUTHORITY.pem, "api.internal")
    assert named.endpoints == target.endpoints, "as upstream, an address beside it says nothing"


def test_the_account_may_vouch_for_a_cluster_behind_cluster_proxy() -> None:
    secret = credential(kind="ManagedServiceAccount", labels={ENDPOINT_TYPE: "ClusterProxy"})
    found = sources(managed_cluster(), secret, account(), account_secret(token=jwt(), ca__crt=CA))
    target = joined(replace(found, cluster_proxy=True)).target
    assert (target.problem, target.trust, target.credential) == (None, Trust(AUTHORITY.pem), BearerToken(jwt()))


def test_without_a_way_to_cluster_proxy_the_remedy_names_the_flags() -> None:
    shown = document(joined(by_cluster_proxy(known=False)), HEALTHY, NOW)["status"]
    assert not shown["healthy"]
    for flag in ("--proxy-host", "--proxy-ca-cert", "--proxy-cert", "--proxy-key", CLUSTER_PROXY_ANNOTATION):
        assert flag in shown["healthyReason"]


# Who has a gateway.


@pytest.mark.parametrize(
    "cluster",
    [
        managed_cluster(accepted=False),
        managed_cluster(deletionTimestamp="2026-01-01T00:00:00Z"),
        managed_cluster(deletionTimestamp=5),
        {"metadata": {"name": "c1"}},
        {"metadata": {"name": "c1"}, "spec": {"hubAcceptsClient": "true"}},
    ],
)
def test_a_cluster_that_is_not_accepted_or_is_leaving_has_none_whatever_secrets_there_are(cluster: dict[str, Any]) -> None:
    secret = credential(endpoint=URL, token="t")
    assert resolve_cluster("c1", sources(cluster, secret, account(), account_secret(token="t"))) is None


def test_a_secret_without_the_label_is_none() -> None:
    assert resolve_cluster("c1", sources(None, credential(label="other", endpoint=URL, token="t"))) is None
    assert resolve_cluster("c1", sources()) is None


def test_no_cluster_is_named_like_the_namespace_of_credentials() -> None:
    assert resolve_cluster(CREDENTIALS_NAMESPACE, by_account(managed_cluster(CREDENTIALS_NAMESPACE))) is None


def test_a_name_that_no_cluster_can_have_has_none() -> None:
    assert resolve_cluster("a.b", sources(None, credential("a.b", endpoint=URL, token="t"))) is None


# What is wrong, and said.


@pytest.mark.parametrize(
    ("found", "cause"),
    [
        (sources(managed_cluster()), CREDENTIAL_MISSING),
        (sources(managed_cluster(), None, account()), CREDENTIAL_MISSING),
        (sources(managed_cluster(), None, account(), account_secret(ca__crt=CA)), CREDENTIAL_MISSING),
        (sources(managed_cluster(), None, None, account_secret(token="t")), CREDENTIAL_MISSING),
        (by_account(token="two words"), CREDENTIAL_UNUSABLE),
        (by_account(managed_cluster("c1", {})), ENDPOINT_UNUSABLE),
        (by_account({"metadata": {"name": "c1"}, "spec": {"hubAcceptsClient": True}}), ENDPOINT_MISSING),
        (sources(None, credential(endpoint=URL)), CREDENTIAL_MISSING),
        (sources(None, credential(endpoint=URL, token="a b")), CREDENTIAL_UNUSABLE),
        (sources(None, credential(kind="Dynamic", endpoint=URL, exec="{}")), CREDENTIAL_UNUSABLE),
        (sources(None, credential(kind="X509Certificate", endpoint=URL, tls__crt=CA)), CREDENTIAL_MISSING),
        (sources(None, credential(kind="X509Certificate", endpoint=URL, tls__crt=CA, tls__key="x")), CREDENTIAL_UNUSABLE),
        (sources(None, credential(endpoint="http://x", token="t")), ENDPOINT_UNUSABLE),
        (sources(None, credential(endpoint=f"{URL},http://x", token="t")), ENDPOINT_UNUSABLE),
        (sources(None, credential(endpoint=URL, ca__crt="rubbish", token="t")), ENDPOINT_UNUSABLE),
        (sources(None, credential(endpoint=URL, proxy_url="x", token="t")), ENDPOINT_UNUSABLE),
        (sources(None, credential(endpoint=URL, tls_server_name="a b", token="t")), ENDPOINT_UNUSABLE),
        (sources(None, credential(endpoint=URL, insecure="yes", token="t")), ENDPOINT_UNUSABLE),
        (sources(None, credential(endpoint=URL, insecure="true", ca__crt=CA, token="t")), ENDPOINT_UNUSABLE),
        (sources(None, credential(labels={ENDPOINT_TYPE: "Elsewhere"}, token="t")), ENDPOINT_UNUSABLE),
        (by_cluster_proxy(ca__crt=b""), ENDPOINT_UNUSABLE),
        (by_cluster_proxy(insecure="true"), ENDPOINT_UNUSABLE),
        (by_cluster_proxy(proxy_url="http://proxy:3128"), ENDPOINT_UNUSABLE),
        (by_cluster_proxy(tls_server_name="a b"), ENDPOINT_UNUSABLE),
        (by_cluster_proxy(known=False), ENDPOINT_UNUSABLE),
        (sources(None, credential(token="t")), ENDPOINT_MISSING),
    ],
)
def test_what_is_missing_or_wrong_is_the_targets_problem(found: Sources, cause: str) -> None:
    assert problem(found) == cause
    shown = document(joined(found), HEALTHY, NOW)
    assert not shown["status"]["healthy"]
    assert shown["status"]["healthyReason"].startswith(f"{cause}: ")


def test_a_credential_is_good_until_it_expires() -> None:
    found = joined(by_account(token=jwt(NOW + HOUR)))
    assert document(found, HEALTHY, NOW + HOUR - timedelta(seconds=1))["status"]["healthy"]
    assert document(found, HEALTHY, NOW + HOUR)["status"]["healthyReason"].startswith(CREDENTIAL_EXPIRED)


def test_where_the_token_does_not_say_the_account_tells_when_it_expires() -> None:
    token = account_secret(token="opaque", ca__crt=CA)
    found = sources(managed_cluster(), None, account(expirationTimestamp="2026-01-01T01:00:00Z"), token)
    assert joined(found).expires == NOW + HOUR
    odd = sources(managed_cluster(), None, account(expirationTimestamp="tomorrow"), token)
    assert joined(odd).expires is None


# A hostile agent.


@pytest.mark.parametrize(
    "url", ["http://api.example", "https://169.254.169.254", "https://127.0.0.1:8443", "https://u:p@api.example"]
)
def test_an_agents_address_that_may_not_be_is_passed_over(url: str) -> None:
    alone = by_account(managed_cluster("c1", {"url": url}))
    assert problem(alone) == ENDPOINT_UNUSABLE
    beside = by_account(managed_cluster("c1", {"url": url}, {"url": URL, "caBundle": b64(AUTHORITY.pem)}))
    assert joined(beside).target.endpoints == C1
    assert joined(beside).target.problem is None


def test_an_agent_may_name_loopback_where_everything_is_on_one_machine() -> None:
    found = by_account(managed_cluster("c1", {"url": "https://127.0.0.1:6443/clusters/c1"}))
    assert joined(found, loopback=True).target.problem is None


def test_all_addresses_count_in_order_with_the_authorities_of_each() -> None:
    cluster = managed_cluster(
        "c1", {"url": URL, "caBundle": b64(AUTHORITY.pem)}, {"url": "https://b.example", "caBundle": b64(OTHER_AUTHORITY.pem)}
    )
    target = joined(by_account(cluster)).target
    assert [one.host for one in target.endpoints] == ["api.c1.example", "b.example"]
    assert target.trust.authorities == AUTHORITY.pem + OTHER_AUTHORITY.pem


def test_without_authorities_those_of_the_system_count_and_never_none() -> None:
    found = sources(managed_cluster("c1", {"url": URL}), None, account(), account_secret(token="t"))
    assert joined(found).target.trust == Trust()
    assert joined(sources(None, credential(endpoint=URL, token="t"))).target.trust == Trust()


def test_only_a_token_and_authorities_count_of_an_accounts_secret() -> None:
    target = joined(
        by_account(endpoint="https://evil.example", proxy_url="http://evil", insecure="true", tls_server_name="evil")
    ).target
    assert target.endpoints == C1
    assert target.trust == Trust(AUTHORITY.pem)
    assert target.proxy_url == ""


def test_a_secret_of_the_accounts_name_without_its_label_means_nothing() -> None:
    secret = account_secret(token="t", ca__crt=CA)
    secret["metadata"]["labels"] = {}
    assert problem(sources(managed_cluster(), None, account(), secret)) == CREDENTIAL_MISSING


def test_an_administrators_token_never_goes_where_only_the_agent_says() -> None:
    cluster = managed_cluster("c1", {"url": "https://evil.example", "caBundle": b64(OTHER_AUTHORITY.pem)})
    assert problem(sources(cluster, credential(token="administrators"))) == ENDPOINT_MISSING
    assert problem(sources(cluster, credential(token="administrators", insecure="true"))) == ENDPOINT_MISSING
    target = joined(sources(cluster, credential(token="administrators", ca__crt=CA))).target
    assert target.problem is None
    assert target.trust == Trust(AUTHORITY.pem)


def test_a_cluster_that_names_another_ones_address_gets_its_own_token_only() -> None:
    """Nor does it get anything of the other by sharing address and authority with it."""
    own = joined(by_account(token="own")).target
    other = sources(managed_cluster("c2"), None, account("c2"), account_secret("c2", token="other", ca__crt=CA))
    target = joined(other, "c2").target
    assert target.endpoints == own.endpoints
    assert target.trust == own.trust
    assert own.credential == BearerToken("own")
    assert target.credential == BearerToken("other")


def test_insecure_is_an_administrators_word() -> None:
    found = joined(sources(None, credential(endpoint=URL, insecure="true", token="t")))
    assert found.target.trust == Trust(insecure=True)
    assert document(found, HEALTHY, NOW)["status"]["healthyReason"].startswith("Insecure: ")


# Nothing leaks.


def test_annotations_that_repeat_a_secret_are_not_shown() -> None:
    token = jwt(NOW + HOUR)
    pair = client_pair()
    secret = credential(endpoint=URL, ca__crt=CA, token=token)
    secret["metadata"]["annotations"] = {
        "kubectl.kubernetes.io/last-applied-configuration": orjson.dumps(secret).decode(),
        "tool": orjson.dumps(secret["data"]).decode(),
        "plain": f"Bearer {token}",
        "key": pair.key.decode(),
        "coded": b64(b"x" + pair.key),
        "kept": "yes",
    }
    shown = document(joined(sources(None, secret)), HEALTHY, NOW)
    assert shown["metadata"]["annotations"] == {"kept": "yes"}
    assert token not in orjson.dumps(shown).decode()


def test_provider_is_what_the_cluster_claims_to_be() -> None:
    cluster = managed_cluster()
    cluster["status"] = {"clusterClaims": [{"name": "product.open-cluster-management.io", "value": "OpenShift"}]}
    assert joined(by_account(cluster)).provider == "OpenShift"
    cluster["status"]["clusterClaims"].append({"name": "platform.open-cluster-management.io", "value": "AWS"})
    assert joined(by_account(cluster)).provider == "AWS"


def test_identity_labels_and_age_are_the_managed_clusters() -> None:
    cluster = managed_cluster(uid="u", creationTimestamp="2025-01-01T00:00:00Z", labels={"a": "b"}, annotations={"c": "d"})
    assert document(joined(by_account(cluster)), HEALTHY, NOW)["metadata"] == {
        "name": "c1",
        "uid": "u",
        "creationTimestamp": "2025-01-01T00:00:00Z",
        "labels": {"a": "b"},
        "annotations": {"c": "d"},
    }


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=8) | st.sampled_from([b64("x"), b64(CA), URL, jwt()]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
_ANY_META = st.fixed_dictionaries({"name": _JSON, "labels": _JSON, "annotations": _JSON, "deletionTimestamp": _JSON}) | _JSON
_ANY_CLUSTER = st.fixed_dictionaries(
    {
        "metadata": _ANY_META,
        "spec": st.fixed_dictionaries(
            {
                "hubAcceptsClient": st.sampled_from([True, True, "true", None]),
                "managedClusterClientConfigs": st.lists(
                    st.fixed_dictionaries({"url": _JSON, "caBundle": _JSON}) | _JSON, max_size=3
                )
                | _JSON,
            }
        )
        | _JSON,
        "status": st.fixed_dictionaries({"clusterClaims": st.lists(_JSON, max_size=2)}) | _JSON,
    }
)
_KEYS = ("endpoint", "ca.crt", "ca", "token", "tls.crt", "tls.key", "proxy-url", "tls-server-name", "insecure")
_ANY_DATA = st.dictionaries(st.sampled_from(_KEYS), _JSON | st.binary(max_size=9).map(b64)) | _JSON
_ANY_TYPE = st.sampled_from(["ServiceAccountToken", "X509Certificate", "ManagedServiceAccount", "Dynamic"]) | _JSON


@given(_ANY_CLUSTER, _ANY_TYPE, _ANY_DATA, _ANY_DATA, _JSON)
def test_whatever_stands_in_objects_they_are_read_and_nothing_is_trusted_for_it(
    cluster: dict[str, Any], kind: Any, data: Any, token_data: Any, status: Any
) -> None:
    secret = credential()
    secret["metadata"]["labels"] = {"proxy.open-cluster-management.io/cluster-credential-type": kind}
    secret["data"] = data
    token = account_secret()
    token["data"] = token_data
    hub_account = account()
    hub_account["status"] = status
    for found in (
        sources(cluster, secret, hub_account, token),
        sources(cluster, None, hub_account, token),
        sources(None, secret, hub_account, token),
    ):
        result = resolve_cluster("c1", found)
        if result is None:
            continue
        target = result.target
        assert (target.problem is not None) or (target.credential is not None and target.endpoints)
        if found.credential is None:
            assert not target.trust.insecure
            assert not target.proxy_url
        ClusterGateway.decode(document(result, HEALTHY, NOW))
