"""Nobody gets further than their permissions reach: detours an attacker would try, each answered as kube-apiserver answers it."""

import base64
from collections.abc import Sequence
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from muster.apiserver.aggregation import Aggregator
from muster.apiserver.aggregation.remote import identity_fields
from muster.apiserver.auth.access import Access
from muster.apiserver.auth.impersonation import impersonated
from muster.apiserver.client import DirectClient, object_path
from muster.apiserver.controllers.certificates import signing_problem
from muster.apiserver.errors import ApiError
from muster.apiserver.server import ApiServer
from muster.http import Headers, Request, Response
from muster.http.message import Connection
from muster.kube.front_proxy import remote_user
from muster.machinery.authentication import AUTHENTICATED, UserInfo
from muster.machinery.authorization import AccessDecision

RBAC = "rbac.authorization.k8s.io/v1"
MALLORY = UserInfo("mallory", groups=(AUTHENTICATED,))
CLUSTER_ROLES = object_path(RBAC, "clusterroles")


@pytest.fixture
def mallory(server: ApiServer) -> DirectClient:
    return server.client(server.clusters["default"], MALLORY, "mallory")


async def grant(client: DirectClient, *rules: dict[str, Sequence[str]]) -> None:
    """Give mallory these rules everywhere."""
    role = {"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": "mallory"}, "rules": list(rules)}
    await client.create(CLUSTER_ROLES, role)
    binding = {
        "apiVersion": RBAC,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "mallory"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "mallory"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "mallory"}],
    }
    await client.create(object_path(RBAC, "clusterrolebindings"), binding)


def rule(verbs: str, resources: str, group: str = "", names: str = "") -> dict[str, Sequence[str]]:
    made: dict[str, Sequence[str]] = {"apiGroups": [group], "resources": resources.split(), "verbs": verbs.split()}
    return {**made, "resourceNames": names.split()} if names else made


def powerful(name: str, **extra: Any) -> dict[str, Any]:
    rules = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["*"]}]
    return {"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules, **extra}


async def test_an_apply_that_creates_needs_the_permission_to_create(client: DirectClient, mallory: DirectClient) -> None:
    await grant(client, rule("patch", "configmaps"))
    path = object_path("v1", "configmaps", "default", "x")
    with pytest.raises(ApiError) as refused:
        await mallory.apply(path, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}, "m")
    wanted = 'User "mallory" cannot create resource "configmaps" in API group "" in the namespace "default"'
    assert refused.value.code == 403
    assert wanted in refused.value.message


async def test_a_put_that_creates_needs_the_permission_to_create(client: DirectClient, mallory: DirectClient) -> None:
    await grant(client, rule("update", "leases", "coordination.k8s.io"))
    path = object_path("coordination.k8s.io/v1", "leases", "default", "x")
    with pytest.raises(ApiError) as refused:
        await mallory.update(path, {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "x"}})
    assert refused.value.code == 403
    assert 'cannot create resource "leases"' in refused.value.message


async def test_a_label_does_not_smuggle_a_foreign_role_into_an_aggregated_one(client: DirectClient, mallory: DirectClient) -> None:
    await grant(client, rule("get update patch", "clusterroles", "rbac.authorization.k8s.io"))
    await client.create(CLUSTER_ROLES, powerful("strong"))
    with pytest.raises(ApiError) as refused:
        await mallory.merge(
            f"{CLUSTER_ROLES}/strong", {"metadata": {"labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}}}
        )
    assert refused.value.code == 403
    assert "attempting to grant RBAC permissions not currently held" in refused.value.message


async def test_finalizers_of_a_foreign_role_may_change_so_that_it_can_be_collected(
    client: DirectClient, mallory: DirectClient
) -> None:
    await grant(client, rule("get update patch", "clusterroles", "rbac.authorization.k8s.io"))
    await client.create(CLUSTER_ROLES, powerful("strong"))
    changed = await mallory.merge(f"{CLUSTER_ROLES}/strong", {"metadata": {"finalizers": ["example.com/wait"]}})
    assert changed["metadata"]["finalizers"] == ["example.com/wait"]


async def test_only_full_authority_changes_a_role_that_aggregates(client: DirectClient, mallory: DirectClient) -> None:
    await grant(client, rule("get update patch", "clusterroles", "rbac.authorization.k8s.io"))
    aggregating = {"clusterRoleSelectors": [{"matchLabels": {"nobody": "has"}}]}
    await client.create(CLUSTER_ROLES, {**powerful("sum", aggregationRule=aggregating), "rules": []})
    with pytest.raises(ApiError) as refused:
        await mallory.merge(f"{CLUSTER_ROLES}/sum", {"aggregationRule": None})
    assert refused.value.code == 403
    assert "must have cluster-admin privileges to use the aggregationRule" in refused.value.message


async def test_escalating_one_named_role_does_not_allow_creating_one(client: DirectClient, mallory: DirectClient) -> None:
    await grant(
        client,
        rule("create", "clusterroles", "rbac.authorization.k8s.io"),
        rule("escalate", "clusterroles", "rbac.authorization.k8s.io", "strong"),
    )
    with pytest.raises(ApiError) as refused:
        await mallory.create(CLUSTER_ROLES, powerful("strong"))
    assert refused.value.code == 403


async def test_a_static_token_proves_nothing_to_a_foreign_audience(server: ApiServer) -> None:
    access = server.clusters["default"].part(Access)
    bootstrap = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "bootstrap-token-abcdef"},
        "type": "bootstrap.kubernetes.io/token",
        "stringData": {
            "token-id": "abcdef",
            "token-secret": "0123456789abcdef",
            "usage-bootstrap-authentication": "true",
        },
    }
    client = server.client(server.clusters["default"])
    await client.create(object_path("v1", "secrets", "kube-system"), bootstrap)
    token = "abcdef.0123456789abcdef"
    assert await access.token_identity(token, ["https://elsewhere"]) is None
    found = await access.token_identity(token, ["https://elsewhere", access.audiences[0]])
    assert found is not None
    assert found[1] == [access.audiences[0]]
    assert await access.token_identity(token) is not None


def test_names_in_headers_are_utf8_both_ways() -> None:
    named = UserInfo("Łukasz", "ü", ("grupa ł",), {"team": ("zespół",)})
    headers = Headers([(name.lower().encode(), value.encode("latin-1")) for name, value in identity_fields(named)])
    request = Request("GET", "/", headers, Connection(("127.0.0.1", 0), "https"), received=0.0)
    assert remote_user(request.headers.items()) == named
    asking = Headers([(b"impersonate-user", "Łukasz".encode()), (b"impersonate-group", "grupa ł".encode())])
    acting = impersonated(
        MALLORY, Request("GET", "/", asking, request.connection, received=0.0), lambda user, what: AccessDecision(True)
    )
    assert (acting.name, acting.groups) == ("Łukasz", ("grupa ł", AUTHENTICATED))


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/api/v1/watch/namespaces/default/secrets/mine", 404),
        ("/api/v1/watch/namespaces/default/secrets/other", 403),
        ("/api/v1/watch/secrets", 403),
        ("/api/v1/proxy/secrets/mine", 403),
    ],
)
async def test_a_verb_in_the_path_is_authorized_as_that_verb_and_serves_nothing(
    server: ApiServer, client: DirectClient, mallory: DirectClient, path: str, code: int
) -> None:
    await grant(client, rule("watch", "secrets", names="mine"), rule("get list", "secrets"))
    with pytest.raises(ApiError) as refused:
        await mallory.get(path)
    assert refused.value.code == code


async def test_a_path_with_empty_segments_does_not_reach_a_remote_server_as_if_it_were_discovery(
    server: ApiServer, mallory: DirectClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Remote:
        group, version, name, available = "far.example.com", "v1", "v1.far.example.com", True

        def address(self) -> tuple[str, int]:
            raise AssertionError("the remote server was about to be asked")

    aggregator = server.clusters["default"].part(Aggregator)
    monkeypatch.setitem(aggregator.remotes, ("far.example.com", "v1"), Remote())
    for path in ("/apis/far.example.com/v1//namespaces/x/secrets", "/apis/far.example.com/v1/namespaces//secrets"):
        answer = await mallory.send("GET", path)
        assert isinstance(answer, Response)
        assert answer.status in (403, 404)


@pytest.mark.parametrize("path", ["/api/v1/namespaces/default/status/x", "/apis/apps/v1/namespaces/default/deployments/x/scale/y"])
async def test_a_path_beyond_a_subresource_is_not_taken_for_the_subresource(client: DirectClient, path: str) -> None:
    with pytest.raises(ApiError) as missing:
        await client.get(path)
    assert (missing.value.code, missing.value.message) == (404, "the server could not find the requested resource")


def node_request(
    common_names: Sequence[str], signer: str, usages: Sequence[str], names: Sequence[x509.GeneralName] = ()
) -> dict[str, Any]:
    subject = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes")]
    subject += [x509.NameAttribute(NameOID.COMMON_NAME, name) for name in common_names]
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(subject))
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    made = builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    pem = made.public_bytes(serialization.Encoding.PEM)
    return {"signerName": f"kubernetes.io/{signer}", "usages": list(usages), "request": base64.b64encode(pem).decode()}


CLIENT_USAGES = ("digital signature", "client auth")
SERVING_USAGES = ("digital signature", "key encipherment", "server auth")
LOCALHOST = x509.DNSName("localhost")


@pytest.mark.parametrize(
    ("request_", "problem"),
    [
        (node_request(["system:node:a"], "kube-apiserver-client-kubelet", CLIENT_USAGES), ""),
        (
            node_request(["system:node:a", "admin"], "kube-apiserver-client-kubelet", CLIENT_USAGES),
            "subject common name does not begin with system:node:",
        ),
        (
            node_request(["system:node:a"], "kube-apiserver-client-kubelet", CLIENT_USAGES, [LOCALHOST]),
            "DNS subjectAltNames are not allowed",
        ),
        (
            node_request(["system:node:a"], "kube-apiserver-client-kubelet", ["client auth"]),
            "usages did not match [client auth digital signature key encipherment]",
        ),
        (node_request(["system:node:a"], "kubelet-serving", SERVING_USAGES, [LOCALHOST]), ""),
        (node_request(["system:node:a"], "kubelet-serving", SERVING_USAGES), "DNS or IP subjectAltName is required"),
        (
            node_request(["kubernetes"], "kubelet-serving", SERVING_USAGES, [LOCALHOST]),
            "subject common name does not begin with system:node:",
        ),
        (
            node_request(["u"], "kube-apiserver-client", ["client auth", "server auth"]),
            "invalid usage for client certificate: server auth",
        ),
    ],
)
def test_the_signers_of_nodes_sign_for_nodes_only(request_: dict[str, Any], problem: str) -> None:
    assert signing_problem(request_) == problem
