"""`clusteradm join`: whom it believes to be the hub, which names it takes, what it installs, and what it says."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from pathlib import Path

import pytest
import yaml

from muster.administration.members.hub_trust import is_signed
from muster.administration.members.join_checks import name_problem, token_problem
from muster.api.cluster.v1 import ManagedCluster
from muster.operator.names import KLUSTERLETS, OPERATOR_NAMESPACE
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import AGENT_NAMESPACE
from muster.runtime.client.builtin import CONFIG_MAPS, CRDS, DEPLOYMENTS, NAMESPACES, SECRETS, SERVICE_ACCOUNTS
from tests.support.https_server import Answer, HttpsServer, Received
from tests.support.processes import free_ports
from tests.unit.cli.clusteradm.conftest import AVAILABLE, FRESH, HUB, PLAIN, Fleet
from tests.unit.cli.clusteradm.joining import Joining
from tests.unit.cli.clusteradm.test_init_aws import renamed

TOKEN_REQUEST = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}


async def test_operator_bootstrap_secret_and_klusterlet_are_there(joining: Joining) -> None:
    said = await joining.ok()
    assert "clusteradm accept --clusters cluster1" in said
    assert joining.token not in said
    fleet = joining.fleet
    assert await fleet.find(DEPLOYMENTS, "klusterlet", OPERATOR_NAMESPACE, PLAIN)
    assert await fleet.find(CRDS, "klusterlets.operator.open-cluster-management.io", "", PLAIN)
    spec = (await joining.klusterlet())["spec"]
    assert (spec["clusterName"], spec["namespace"], spec["deployOption"]) == ("cluster1", AGENT_NAMESPACE, {"mode": "Default"})
    assert spec["registrationConfiguration"]["registrationDriver"] == {"authType": "csr"}
    assert spec["registrationConfiguration"]["clientCertExpirationSeconds"] == 31_536_000
    bootstrap = await joining.bootstrap()
    (cluster,) = bootstrap["clusters"]
    assert (cluster["name"], cluster["cluster"]["server"]) == ("hub", joining.server)
    assert b"BEGIN CERTIFICATE" in base64.b64decode(cluster["cluster"]["certificate-authority-data"])
    assert "insecure-skip-tls-verify" not in cluster["cluster"]
    assert bootstrap["users"] == [{"name": "bootstrap", "user": {"token": joining.token}}]
    assert bootstrap["current-context"] == "bootstrap"


async def test_joining_again_changes_nothing(joining: Joining) -> None:
    await joining.ok()
    before = await joining.fleet.revision(PLAIN)
    await joining.ok()
    assert await joining.fleet.revision(PLAIN) == before


async def test_a_dry_run_writes_nothing_on_either_side(joining: Joining) -> None:
    before = await joining.fleet.revision(PLAIN), await joining.fleet.revision(HUB)
    said = await joining.ok("--dry-run", "--wait")
    assert "would apply klusterlets.operator.open-cluster-management.io klusterlet" in said
    assert f"would apply secrets {AGENT_NAMESPACE}/bootstrap-hub-kubeconfig" in said
    assert joining.token not in said
    assert (await joining.fleet.revision(PLAIN), await joining.fleet.revision(HUB)) == before


# Whom to believe


async def test_another_authority_than_the_hash_says_is_refused_before_the_token_is_sent(joining: Joining) -> None:
    joining.digest = "sha256:" + "0" * 64
    assert "it is another hub, or a proxy that intercepts TLS" in await joining.fails()
    assert not await joining.fleet.find(CRDS, "klusterlets.operator.open-cluster-management.io", "", PLAIN)


async def test_without_any_proof_nothing_is_believed_and_the_token_stays_here(joining: Joining) -> None:
    pretender = Pretender(joining.fleet.server.ca_pem)
    with HttpsServer(pretender) as server:
        flags = ["--hub-token", joining.token, "--hub-apiserver", server.url, "--cluster-name", "cluster1"]
        complaint = await joining.fleet.fails("join", *flags, context=PLAIN)
        assert "nothing proves that" in complaint
        assert "--hub-ca-hash" in complaint
        assert "--insecure-skip-ca-verification" in complaint
        # Somebody who has the hub's public authority, and not its key, gets no further.
        complaint = await joining.fleet.fails("join", *flags, "--hub-ca-hash", joining.digest, context=PLAIN)
        assert "does not vouch for the hub" in complaint
        file = Path(joining.fleet.kubeconfig).with_name("ca.crt")
        file.write_bytes(joining.fleet.server.ca_pem)
        assert "does not vouch for the hub" in await joining.fleet.fails("join", *flags, "--ca-file", str(file), context=PLAIN)
    assert server.received, "it was asked for its cluster-info"
    assert not any("authorization" in {name.lower() for name in one.headers} for one in server.received)


class Pretender:
    """Serves the true hub's cluster-info."""

    def __init__(self, ca: bytes) -> None:
        self.ca = ca

    def __call__(self, request: Received) -> Answer:
        cluster = {"server": "https://hub", "certificate-authority-data": base64.b64encode(self.ca).decode()}
        kubeconfig = yaml.safe_dump({"clusters": [{"name": "", "cluster": cluster}]})
        return Answer({"kind": "ConfigMap", "metadata": {"name": "cluster-info"}, "data": {"kubeconfig": kubeconfig}})


async def test_who_asks_for_it_joins_without_proof(joining: Joining) -> None:
    fleet = joining.fleet
    flags = ["--hub-token", joining.token, "--hub-apiserver", joining.server, "--cluster-name", "cluster1"]
    result = await fleet.run("join", *flags, "--insecure-skip-ca-verification", context=PLAIN)
    assert result.exit_code == 0, result.output
    assert "is not verified, and receives the token" in result.stderr
    cluster = (await joining.bootstrap())["clusters"][0]["cluster"]
    assert base64.b64decode(cluster["certificate-authority-data"]) == fleet.server.ca_pem, "from then on it is believed no more"


async def test_a_file_with_the_authority_is_proof(joining: Joining, tmp_path: Path) -> None:
    file = tmp_path / "ca.crt"
    file.write_bytes(joining.fleet.server.ca_pem)
    await joining.fleet.admin().delete(CONFIG_MAPS, "cluster-info", "kube-public")
    flags = ["--hub-token", joining.token, "--hub-apiserver", joining.server, "--cluster-name", "cluster1"]
    await joining.fleet.ok("join", *flags, "--ca-file", str(file), context=PLAIN)
    assert "does not publish its CA" in await joining.fails(name="cluster1")


async def test_authorities_of_the_system_are_proof(joining: Joining, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", write(tmp_path / "system.crt", joining.fleet.server.ca_pem))
    await joining.fleet.admin().delete(CONFIG_MAPS, "cluster-info", "kube-public")
    flags = ["--hub-token", joining.token, "--hub-apiserver", joining.server, "--cluster-name", "cluster1"]
    await joining.fleet.ok("join", *flags, context=PLAIN)
    assert (await joining.bootstrap())["clusters"] == [{"name": "hub", "cluster": {"server": joining.server}}]


async def test_a_hub_that_is_away_is_told(joining: Joining) -> None:
    (port,) = free_ports(1)
    joining.server = f"https://127.0.0.1:{port}"
    assert f"--hub-apiserver: {joining.server}: " in await joining.fails()


async def test_a_cluster_info_signed_with_the_bootstrap_token_is_proof(joining: Joining) -> None:
    fleet = joining.fleet
    token = json.loads(await fleet.ok("init", "-o", "json", "--force", "--use-bootstrap-token"))["hub-token"]
    info = await fleet.admin().get(CONFIG_MAPS, "cluster-info", "kube-public")
    data = signed(info["data"]["kubeconfig"], token)
    flags = ["--hub-token", token, "--hub-apiserver", joining.server, "--cluster-name", "cluster1"]
    assert "nothing proves" in await fleet.fails("join", *flags, context=PLAIN)
    await fleet.admin().patch(CONFIG_MAPS, "cluster-info", {"data": data}, "kube-public")
    await fleet.ok("join", *flags, context=PLAIN)
    assert (await joining.bootstrap())["users"][0]["user"]["token"] == token


def signed(kubeconfig: str, token: str) -> dict[str, str]:
    identifier, secret = token.split(".")
    header, payload = (
        base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
        for text in (json.dumps({"alg": "HS256", "kid": identifier}), kubeconfig)
    )
    digest = hmac.new(secret.encode(), f"{header}.{payload}".encode(), hashlib.sha256).digest()
    signature = base64.urlsafe_b64encode(digest).decode().rstrip("=")
    return {"kubeconfig": kubeconfig, f"jws-kubeconfig-{identifier}": f"{header}..{signature}"}


def test_a_signature_counts_for_its_content_and_its_token_alone() -> None:
    token = "abcdef.0123456789abcdef"
    data = signed("clusters: []", token)
    assert is_signed({"data": data}, token)
    assert not is_signed({"data": {**data, "kubeconfig": "clusters: [1]"}}, token)
    assert not is_signed({"data": data}, "abcdef.0123456789abcdee")
    assert not is_signed({"data": data}, "not-a-bootstrap-token")
    assert not is_signed({"data": {**data, "jws-kubeconfig-abcdef": "..."}}, token)
    assert not is_signed({}, token)


# Tokens and names


async def test_a_token_that_the_hub_does_not_take_is_explained(joining: Joining) -> None:
    joining.token = "abcdef.0123456789abcdef"
    complaint = await joining.fails()
    assert "--hub-token: the hub does not accept this token" in complaint
    assert "get token" in complaint
    assert joining.token not in complaint
    assert not await joining.fleet.find(NAMESPACES, AGENT_NAMESPACE, "", PLAIN)


def test_a_token_that_is_over_says_when() -> None:
    def token(expires: int) -> str:
        return f"e30.{base64.urlsafe_b64encode(json.dumps({'exp': expires}).encode()).decode().rstrip('=')}.x"

    assert token_problem(token(1_700_000_000)) == "this token has expired at 2023-11-14T22:13:20Z"
    assert "revoked" in token_problem(token(99_999_999_999))


async def test_a_token_without_the_rights_of_a_newcomer_is_refused(joining: Joining) -> None:
    joining.token = "mallory-token"
    assert "its holder may not create managedclusters" in await joining.fails()


async def test_a_server_that_is_no_hub_is_refused(joining: Joining) -> None:
    fleet = joining.fleet
    await fleet.admin(FRESH).create(SERVICE_ACCOUNTS, {"metadata": {"name": "somebody", "namespace": "default"}}, "default")
    answer = await fleet.admin(FRESH).create(SERVICE_ACCOUNTS, TOKEN_REQUEST, "default", name="somebody", subresource="token")
    file = fleet.kubeconfig.with_name("ca.crt")
    file.write_bytes(fleet.server.ca_pem)
    joining.token, joining.server = answer["status"]["token"], fleet.server.cluster_url(FRESH)
    assert "non-hub cluster" in await joining.fails("--ca-file", str(file))


async def test_a_name_that_a_living_cluster_has_is_not_taken_from_it(joining: Joining) -> None:
    await joining.fleet.cluster("cluster1", spec={"hubAcceptsClient": True}, status={"conditions": AVAILABLE})
    complaint = await joining.fails()
    assert "cluster1 has joined the hub and is alive" in complaint
    assert not await joining.fleet.find(NAMESPACES, AGENT_NAMESPACE, "", PLAIN)
    await joining.ok("--force")
    assert (await joining.klusterlet())["spec"]["clusterName"] == "cluster1"


async def test_a_name_that_was_announced_is_free(joining: Joining) -> None:
    await joining.fleet.cluster("cluster1")
    await joining.ok()


async def test_a_cluster_that_lives_under_its_name_may_join_again(joining: Joining) -> None:
    await joining.ok()
    await joining.fleet.cluster("cluster1", spec={"hubAcceptsClient": True}, status={"conditions": AVAILABLE})
    complaint = await joining.fails()
    assert "is alive" in complaint, "whether that is us is not known before there is a credential"
    kubeconfig = yaml.safe_dump(await joining.bootstrap())
    known = {"cluster-name": "cluster1", "kubeconfig": kubeconfig}
    data = {key: base64.b64encode(value.encode()).decode() for key, value in known.items()}
    secret = {"metadata": {"name": "hub-kubeconfig-secret", "namespace": AGENT_NAMESPACE}, "data": data}
    await joining.fleet.admin(PLAIN).create(SECRETS, secret, AGENT_NAMESPACE)
    await joining.ok()


def test_another_cluster_is_known_by_its_id_and_by_its_arn() -> None:
    document = {
        "metadata": {"name": "c", "annotations": {"agent.open-cluster-management.io/managed-cluster-arn": "arn:a"}},
        "status": {"conditions": AVAILABLE, "clusterClaims": [{"name": "id.k8s.io", "value": "one"}]},
    }
    cluster = ManagedCluster.decode(document)
    assert "its id.k8s.io is one" in name_problem(cluster, "two")
    assert name_problem(cluster, "one") == "", "it is the same one that comes back"
    assert "arn:a" in name_problem(cluster, "", "arn:b")
    assert "is alive" in name_problem(cluster)
    leaving = {**document, "metadata": {"name": "c", "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    assert "is being deleted" in name_problem(ManagedCluster.decode(leaving))


async def test_a_cluster_that_is_managed_under_another_name_is_left_alone(joining: Joining) -> None:
    await joining.ok()
    complaint = await joining.fails(name="cluster2")
    assert "managed already, as cluster1, by Klusterlet klusterlet" in complaint
    assert "unjoin --cluster-name cluster1" in complaint
    await joining.ok("--force", name="cluster2")
    assert (await joining.klusterlet())["spec"]["clusterName"] == "cluster2"


@pytest.mark.parametrize("name", ["Upper", "with.dot", "-dash", "a" * 64, "managed-clusters"])
async def test_a_name_that_cannot_be_one_is_refused(joining: Joining, name: str) -> None:
    assert "cannot name a cluster" in await joining.fails(name=name)


# Options


async def test_options_reach_the_klusterlet(joining: Joining, tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    section = {"externalServerURLs": [{"url": "https://here"}], "mode": "Singleton"}
    values.write_text(yaml.safe_dump({"klusterlet": section, "replicaCount": 2}))
    await joining.ok(
        "--singleton",
        "--feature-gates=ClusterClaim=false,RawFeedbackJsonString=true",
        "--klusterlet-annotation=site=north,agent.open-cluster-management.io/row=3",
        "--client-cert-expiration-seconds=7200",
        "--addon-kubeclient-registration-auth=token",
        "--addon-token-expiration-seconds=3600",
        "--proxy-url=http://127.0.0.1:1",
        "--force",
        "--klusterlet-values-file",
        str(values),
        "--ca-file",
        write(tmp_path / "ca.crt", joining.fleet.server.ca_pem),
        "--image-registry=example.io/team",
        "--bundle-version=v9",
    )
    spec = (await joining.klusterlet())["spec"]
    assert spec["deployOption"]["mode"] == "Singleton"
    assert spec["externalServerURLs"] == [{"url": "https://here"}]
    registration = spec["registrationConfiguration"]
    assert registration["featureGates"] == [{"feature": "ClusterClaim", "mode": "Disable"}]
    assert spec["workConfiguration"]["featureGates"] == [{"feature": "RawFeedbackJsonString", "mode": "Enable"}]
    prefix = "agent.open-cluster-management.io"
    assert registration["clusterAnnotations"] == {f"{prefix}/site": "north", f"{prefix}/row": "3"}
    assert registration["clientCertExpirationSeconds"] == 7200
    assert registration["addOnKubeClientRegistrationDriver"] == {"authType": "token", "token": {"expirationSeconds": 3600}}
    assert (await joining.bootstrap())["clusters"][0]["cluster"]["proxy-url"] == "http://127.0.0.1:1"
    deployment = await joining.fleet.find(DEPLOYMENTS, "klusterlet", OPERATOR_NAMESPACE, PLAIN)
    assert deployment
    assert deployment["spec"]["replicas"] == 2
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == "example.io/team/muster:v9"


def write(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    return str(path)


async def test_other_drivers_are_wired(joining: Joining) -> None:
    hub, managed = (f"arn:aws:eks:us-west-2:{account}:cluster/c" for account in ("1" * 12, "2" * 12))
    await joining.ok("--registration-auth=aws-irsa", "--eks-hub-cluster-arn", hub, "--managed-cluster-arn", managed)
    driver = (await joining.klusterlet())["spec"]["registrationConfiguration"]["registrationDriver"]
    assert driver == {"authType": "awsirsa", "awsIrsa": {"hubClusterArn": hub, "managedClusterArn": managed}}
    # EKS signs no client certificates for addons.
    assert (await joining.klusterlet())["spec"]["registrationConfiguration"]["addOnKubeClientRegistrationDriver"] == {
        "authType": "token"
    }


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (
            ["--registration-auth=kerberos"],
            "--registration-auth: invalid registration-Auth type: there is no",
        ),
        (["--registration-auth=pigeon", "--force"], "there is no registration driver 'pigeon'; there are: awsirsa, csr, grpc"),
        (["--driver-option=acme.a=b"], "--driver-option: 'acme' is none of the given drivers"),
    ],
)
async def test_what_no_driver_hears_is_refused(joining: Joining, flags: list[str], complaint: str) -> None:
    before = await joining.fleet.revision(PLAIN)
    assert complaint in await joining.fails(*flags)
    assert await joining.fleet.revision(PLAIN) == before


async def test_a_hosted_cluster_is_managed_from_here(joining: Joining, tmp_path: Path) -> None:
    managed = yaml.safe_load(joining.fleet.kubeconfig.read_text()) | {"current-context": FRESH}
    file = tmp_path / "managed"
    file.write_text(yaml.safe_dump(managed))
    await joining.ok("--mode", "hosted", "--managed-cluster-kubeconfig", str(file))
    (klusterlet,) = (await joining.fleet.admin(PLAIN).list(KLUSTERLETS)).items
    name = klusterlet["metadata"]["name"]
    assert name.startswith("klusterlet-hosted-")
    assert klusterlet["spec"]["deployOption"]["mode"] == "Hosted"
    assert klusterlet["spec"]["namespace"] == f"open-cluster-management-{name}"
    assert (await joining.bootstrap(name))["current-context"] == "bootstrap"
    way = yaml.safe_load((await joining.secret("external-managed-kubeconfig", name))["kubeconfig"])
    assert way["clusters"][0]["cluster"]["server"] == joining.fleet.server.cluster_url(FRESH)
    await joining.ok("--mode", "hosted", "--managed-cluster-kubeconfig", str(file))
    assert len((await joining.fleet.admin(PLAIN).list(KLUSTERLETS)).items) == 1
    await joining.ok(name="cluster2")
    assert len((await joining.fleet.admin(PLAIN).list(KLUSTERLETS)).items) == 2, "the cluster itself is managed too"


async def test_agents_can_be_sent_where_the_hub_says(joining: Joining) -> None:
    info = await joining.fleet.admin().get(CONFIG_MAPS, "cluster-info", "kube-public")
    told = info["data"]["kubeconfig"].replace(joining.server, "https://hub.internal:6443")
    await joining.fleet.admin().patch(CONFIG_MAPS, "cluster-info", {"data": {"kubeconfig": told}}, "kube-public")
    await joining.ok("--force-internal-endpoint-lookup")
    assert (await joining.bootstrap())["clusters"][0]["cluster"]["server"] == "https://hub.internal:6443"


async def test_a_cluster_of_cluster_api_is_found(joining: Joining) -> None:
    fleet = joining.fleet
    managed = yaml.safe_load(fleet.kubeconfig.read_text()) | {"current-context": FRESH}
    data = {"value": base64.b64encode(yaml.safe_dump(managed).encode()).decode()}
    secret = {"metadata": {"name": "made-kubeconfig", "namespace": "default"}, "data": data}
    await fleet.admin(PLAIN).create(SECRETS, secret, "default")
    await joining.ok("--capi-import", "--capi-cluster-name", "default/made")
    assert await fleet.find(KLUSTERLETS, "klusterlet", "", FRESH)
    assert not await fleet.find(CRDS, "klusterlets.operator.open-cluster-management.io", "", PLAIN)
    assert "Secret default/other-kubeconfig is not there" in await joining.fails("--capi-import", "--capi-cluster-name", "other")


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["--registration-auth=psychic"], "invalid registration-Auth type"),
        (["--registration-auth=awsirsa"], "hub-cluster-arn is required when registration-auth type is awsirsa"),
        (["--registration-auth=awsirsa", "--hub-cluster-arn=arn:eks:x", "--managed-cluster-arn=x"], "--hub-cluster-arn: "),
        (["--registration-auth=grpc"], "grpc-server is required"),
        (["--mode", "hosted"], "--managed-cluster-kubeconfig: needed with --mode hosted"),
        (["--managed-cluster-kubeconfig", "/nonexistent"], "--managed-cluster-kubeconfig: /nonexistent"),
        (["--feature-gates=Teleport=true"], "Teleport is no feature gate"),
        (["--client-cert-expiration-seconds=60"], "--client-cert-expiration-seconds: must be 3600 or more"),
        (["--ca-file", "/nonexistent"], "--ca-file /nonexistent"),
        (["--hub-ca-hash", "md5:abc"], "is not sha256:"),
        (["--proxy-url", "socks5://x"], "--proxy-url: 'socks5://x' is not an http or https URL"),
        (["--addon-token-expiration-seconds=9"], "only with --addon-kubeclient-registration-auth=token"),
    ],
)
async def test_wrong_options_are_named_and_nothing_is_written(joining: Joining, flags: list[str], complaint: str) -> None:
    before = await joining.fleet.revision(PLAIN)
    assert complaint in await joining.fails(*flags)
    assert await joining.fleet.revision(PLAIN) == before


async def test_what_is_missing_is_named(fleet: Fleet) -> None:
    for flags, complaint in (
        ([], "--hub-token: token is missing"),
        (["--hub-token=t"], "--cluster-name: cluster-name is missing"),
        (["--hub-token=t", "--cluster-name=c"], "--hub-apiserver: hub-server is missing"),
        (["--hub-token=t", "--cluster-name=c", "--hub-apiserver=http://hub"], "is not an https URL"),
    ):
        assert complaint in await fleet.fails("join", *flags, context=PLAIN)
    assert "--mode" in await fleet.fails("join", "--mode=sideways", context=PLAIN, code=2)


async def test_missing_permission_is_told_and_the_wrong_context_too(joining: Joining) -> None:
    flags = [*joining.flags, "--cluster-name", "cluster1"]
    assert "forbidden" in await joining.fleet.fails("join", *flags, context="mallory@plain")
    assert "'nowhere' does not exist" in await joining.fleet.fails("join", *flags, context="nowhere")


async def test_waiting_tells_what_for_and_ends_with_1_when_time_is_over(joining: Joining) -> None:
    complaint = await joining.fails("--wait", "--timeout", "1")
    assert "waiting: Klusterlet klusterlet: Deployment open-cluster-management/klusterlet" in complaint
    assert "not so after 1 s" in complaint


async def test_what_is_applied_is_also_written_to_a_file(joining: Joining, tmp_path: Path) -> None:
    file = tmp_path / "all.yaml"
    await joining.ok("--output-file", str(file))
    kinds = [document["kind"] for document in yaml.safe_load_all(file.read_text())]
    assert kinds[0] == "CustomResourceDefinition"
    assert {"Deployment", "Secret", "Klusterlet"} <= set(kinds)
    assert file.stat().st_mode & 0o777 == 0o600


async def test_the_hub_knows_nothing_of_a_cluster_whose_agent_does_not_run(joining: Joining) -> None:
    await joining.ok()
    assert await joining.fleet.find(MANAGED_CLUSTERS, "cluster1") is None


async def test_the_managed_clusters_arn_is_that_of_its_context(joining: Joining) -> None:
    hub, managed = (f"arn:aws:eks:us-west-2:{account}:cluster/c" for account in ("1" * 12, "2" * 12))
    renamed(joining.fleet.kubeconfig, PLAIN, managed)
    await joining.ok("--registration-auth=aws-irsa", "--eks-hub-cluster-arn", hub)
    driver = (await joining.klusterlet())["spec"]["registrationConfiguration"]["registrationDriver"]
    assert driver["awsIrsa"] == {"hubClusterArn": hub, "managedClusterArn": managed}
