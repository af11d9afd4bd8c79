"""What counts as a request of an agent for itself, to the letter; and what a certificate is worth by the clock."""

import base64
import warnings
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from muster.kube import certificates
from muster.registration.drivers.certificates.agents import NotAnAgentsRequest, agent_profile, read_request
from muster.registration.drivers.certificates.requests import (
    Validity,
    certificate_problem,
    is_for,
    is_key,
    new_key,
    request_object,
    validity_of,
)
from muster.registration.names import (
    ADDON_LABEL,
    ALL_CLUSTERS_GROUP,
    CLUSTER_LABEL,
    AgentIdentity,
    cluster_group,
    parse_common_name,
)

Document = dict[str, Any]
AGENT = AgentIdentity("cluster1", "abcde")
KEY = new_key()
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def asked(
    cluster: str = "cluster1",
    common_names: tuple[str, ...] = (AGENT.common_name,),
    organizations: tuple[str, ...] = (cluster_group("cluster1"), ALL_CLUSTERS_GROUP),
    more: tuple[tuple[x509.ObjectIdentifier, str], ...] = (),
    **spec: Any,
) -> Document:
    """A request with a subject of the test's own making."""
    csr = request_object("cluster1-xxxxx", agent_profile(AGENT), KEY)
    attributes = [(NameOID.ORGANIZATION_NAME, name) for name in organizations]
    attributes += [(NameOID.COMMON_NAME, name) for name in common_names]
    name = x509.Name([x509.NameAttribute(kind, value, _validate=False) for kind, value in (*attributes, *more)])
    csr["spec"]["request"] = encoded(certificates.signing_request(certificates.load_key(KEY), name))
    csr["spec"] |= {"username": "jo", **spec}
    csr["metadata"]["labels"] = {CLUSTER_LABEL: cluster}
    return csr


def encoded(pem: bytes) -> str:
    return base64.b64encode(pem).decode()


def refusal(csr: Document) -> NotAnAgentsRequest:
    with pytest.raises(NotAnAgentsRequest) as error:
        read_request(csr)
    return error.value


def test_what_an_agent_asks_is_read_back_as_what_it_meant() -> None:
    csr = request_object("cluster1-xxxxx", agent_profile(AGENT, expiration=7200), KEY)
    csr["spec"] |= {"username": AGENT.common_name, "uid": "7", "groups": ["g"], "extra": {"k": ["v"]}}
    assert csr["spec"]["usages"] == ["digital signature", "key encipherment", "client auth"]
    assert csr["spec"]["signerName"] == "kubernetes.io/kube-apiserver-client"
    assert csr["spec"]["expirationSeconds"] == 7200
    assert csr["metadata"] == {"name": "cluster1-xxxxx", "labels": {"open-cluster-management.io/cluster-name": "cluster1"}}
    request = read_request(csr)
    assert request.identity == AGENT
    assert request.renewal
    requester = request.requester
    assert (requester.name, requester.uid, requester.groups, requester.extra) == (AGENT.common_name, "7", ("g",), {"k": ("v",)})
    assert "expirationSeconds" not in request_object("n", agent_profile(AGENT), KEY)["spec"]


def test_a_name_longer_than_x509_has_it_is_asked_for_and_read_without_a_warning() -> None:
    agent = AgentIdentity("c" * 63, "0d4dd6f6-8a57-4b3a-8f6a-0f2f8f2f8f2f")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="Attribute's length must be")
        csr = request_object("n", agent_profile(agent), KEY)
    assert read_request(csr).identity == agent
    assert is_for(csr, agent_profile(agent), KEY)


def test_a_request_by_somebody_else_is_no_renewal() -> None:
    assert not read_request(asked()).renewal
    assert not read_request(asked(username=AgentIdentity("cluster1", "other").common_name)).renewal


def test_agents_of_old_ask_without_the_group_of_all_clusters() -> None:
    assert read_request(asked(organizations=(cluster_group("cluster1"),))).identity == AGENT


PREFIX = "system:open-cluster-management:"


@pytest.mark.parametrize(
    "csr",
    [
        asked("cluster1xyz"),
        asked("cluster"),
        asked(common_names=(f"{PREFIX}cluster1xyz:abcde",)),
        asked(common_names=(f"{PREFIX}cluster1:abcde:more",)),
        asked(common_names=(f"{PREFIX}cluster1:",)),
        asked(common_names=(f"{PREFIX}cluster1",)),
        asked(common_names=(f"{PREFIX}:abcde",)),
        asked(common_names=(f"{PREFIX}cluster1: abcde",)),
        asked(common_names=(f" {AGENT.common_name}",)),
        asked(common_names=("system:admin",)),
        asked(common_names=()),
        asked(common_names=(AGENT.common_name, "system:admin")),
        asked(common_names=("system:admin", AGENT.common_name)),
        asked(organizations=()),
        asked(organizations=(ALL_CLUSTERS_GROUP,)),
        asked(organizations=(cluster_group("cluster2"), ALL_CLUSTERS_GROUP)),
        asked(organizations=(cluster_group("cluster1"), cluster_group("cluster2"))),
        asked(organizations=(cluster_group("cluster1"), "system:masters")),
        asked(organizations=(f"{cluster_group('cluster1')} ",)),
        asked(more=((NameOID.ORGANIZATIONAL_UNIT_NAME, "x"),)),
        asked(more=((x509.ObjectIdentifier("1.3.6.1.4.1.57683.2"), "uid-of-somebody"),)),
    ],
)
def test_a_subject_that_is_not_exactly_the_labelled_clusters_agent_is_refused(csr: Document) -> None:
    assert refusal(csr).field == "spec.request"


def test_no_cluster_can_have_the_group_of_all_clusters_for_its_own() -> None:
    csr = asked("managed-clusters", (f"{PREFIX}managed-clusters:a",), (ALL_CLUSTERS_GROUP,))
    assert refusal(csr).field == "spec.request"


def without_label(csr: Document) -> None:
    csr["metadata"]["labels"] = {}


def for_an_addon(csr: Document) -> None:
    csr["metadata"]["labels"][ADDON_LABEL] = "helloworld"


def set_spec(**values: Any) -> Callable[[Document], None]:
    return lambda csr: csr["spec"].update(values)


def with_alternative_name(csr: Document) -> None:
    subject = certificates.subject(AGENT.common_name, sorted(AGENT.organizations))
    csr["spec"]["request"] = encoded(certificates.signing_request(certificates.load_key(KEY), subject, ["kubernetes.default"]))


def with_anothers_signature(csr: Document) -> None:
    """The agent's subject, signed by a key that is not the one inside."""
    ours = x509.load_pem_x509_csr(base64.b64decode(csr["spec"]["request"])).public_bytes(serialization.Encoding.DER)
    theirs = bytearray(ours)
    theirs[-1] ^= 1
    body = base64.encodebytes(bytes(theirs)).decode()
    csr["spec"]["request"] = encoded(f"-----BEGIN CERTIFICATE REQUEST-----\n{body}-----END CERTIFICATE REQUEST-----\n".encode())


def as_something_else(csr: Document) -> None:
    pem = base64.b64decode(csr["spec"]["request"]).replace(b"CERTIFICATE REQUEST", b"NEW CERTIFICATE REQUEST")
    csr["spec"]["request"] = encoded(pem)


def behind_another_block(csr: Document) -> None:
    csr["spec"]["request"] = encoded(KEY + base64.b64decode(csr["spec"]["request"]))


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (without_label, f"metadata.labels[{CLUSTER_LABEL}]"),
        (for_an_addon, f"metadata.labels[{ADDON_LABEL}]"),
        (set_spec(signerName="kubernetes.io/kubelet-serving"), "spec.signerName"),
        (set_spec(signerName=None), "spec.signerName"),
        (set_spec(usages=["digital signature", "key encipherment", "server auth"]), "spec.usages"),
        (set_spec(usages=["digital signature", "key encipherment", "client auth", "server auth"]), "spec.usages"),
        (set_spec(usages=["client auth"]), "spec.usages"),
        (set_spec(usages=[]), "spec.usages"),
        (set_spec(request="%%%"), "spec.request"),
        (set_spec(request=""), "spec.request"),
        (set_spec(request=encoded(b"hello")), "spec.request"),
        (set_spec(request=encoded(KEY)), "spec.request"),
        (with_alternative_name, "spec.request"),
        (with_anothers_signature, "spec.request"),
        (as_something_else, "spec.request"),
        (behind_another_block, "spec.request"),
    ],
)
def test_anything_beyond_a_plain_client_certificate_is_refused(change: Callable[[Document], None], field: str) -> None:
    csr = asked()
    change(csr)
    assert refusal(csr).field == field


@pytest.mark.parametrize("csr", [{}, {"metadata": None, "spec": None}, {"metadata": {"labels": {CLUSTER_LABEL: "a"}}}])
def test_an_object_without_its_parts_is_refused_not_stumbled_over(csr: Document) -> None:
    refusal(csr)


labels = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)
odd = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=12)


@given(labels, odd, odd)
def test_no_name_that_merely_looks_like_a_clusters_is_taken_for_it(cluster: str, before: str, after: str) -> None:
    """Whatever is put around a cluster's name, the result is read as that cluster only where it is that cluster."""
    agent = parse_common_name(f"{PREFIX}{before}{cluster}{after}:abcde")
    assert agent is None or agent.cluster == f"{before}{cluster}{after}"
    assert agent is None or agent.common_name == f"{PREFIX}{before}{cluster}{after}:abcde"
    other = parse_common_name(f"{PREFIX}{cluster}:{before}:{after}")
    assert other is None


@given(labels, st.from_regex(r"[a-z0-9]{1,8}", fullmatch=True), labels)
def test_a_request_is_read_as_its_own_clusters_and_under_no_other_label(cluster: str, agent: str, label: str) -> None:
    identity = AgentIdentity(cluster, agent)
    csr = request_object("n", agent_profile(identity), KEY)
    csr["metadata"]["labels"] = {CLUSTER_LABEL: label}
    if label == cluster:
        assert read_request(csr).identity == identity
    else:
        refusal(csr)


def test_a_request_is_an_agents_own_only_with_its_key_and_name() -> None:
    csr = request_object("n", agent_profile(AGENT), KEY)
    assert is_for(csr, agent_profile(AGENT), KEY)
    assert not is_for(csr, agent_profile(AGENT), new_key())
    assert not is_for(csr, agent_profile(AgentIdentity("cluster1", "other")), KEY)
    assert not is_for({**csr, "spec": {**csr["spec"], "signerName": "example.com/other"}}, agent_profile(AGENT), KEY)
    assert not is_for({}, agent_profile(AGENT), KEY)


def test_a_stored_key_that_cannot_be_used_is_none() -> None:
    assert is_key(KEY)
    for broken in (b"", b"hello", KEY[:60]):
        assert not is_key(broken)


AUTHORITY = certificates.CertificateAuthority.create("ca", NOW)


def issued(identity: AgentIdentity = AGENT, lifetime: timedelta = timedelta(days=1), key: bytes = KEY) -> bytes:
    subject = certificates.subject(identity.common_name, sorted(identity.organizations))
    public = certificates.load_key(key).public_key()
    return AUTHORITY.sign(subject, public, NOW, NOW + lifetime, (certificates.CLIENT_AUTH,))


def test_a_certificate_is_good_for_its_agent_with_its_key_until_it_ends() -> None:
    good = issued()
    assert certificate_problem(good, KEY, AGENT.common_name, NOW) == ""
    assert certificate_problem(good, KEY, AGENT.common_name, NOW + timedelta(hours=23)) == ""
    assert "expired at 2026-01-02T00:00:00Z" in certificate_problem(good, KEY, AGENT.common_name, NOW + timedelta(days=1))
    assert "not for the stored key" in certificate_problem(good, new_key(), AGENT.common_name, NOW)
    assert "is for 'system:open-cluster-management:cluster1:abcde'" in certificate_problem(
        good, KEY, AgentIdentity("cluster1", "x").common_name, NOW
    )
    assert "cannot be read" in certificate_problem(b"junk", KEY, AGENT.common_name, NOW)
    assert "no client certificate" in certificate_problem(b"", KEY, AGENT.common_name, NOW)
    assert "no client certificate" in certificate_problem(good, b"", AGENT.common_name, NOW)


def test_a_chain_is_good_until_the_first_of_it_ends() -> None:
    authority = certificates.CertificateAuthority.create("short", NOW, timedelta(hours=6))
    chain = issued() + authority.pem
    assert validity_of(chain).until == NOW + timedelta(hours=6)
    assert "expired" in certificate_problem(chain, KEY, AGENT.common_name, NOW + timedelta(hours=7))


@given(st.floats(0, 1, exclude_max=True))
def test_renewal_comes_when_a_quarter_to_a_fifth_of_the_life_is_left(chance: float) -> None:
    life = timedelta(days=100)
    left = NOW + life - Validity(NOW, NOW + life).renewal(lambda: chance)
    assert 0.20 * life <= left <= 0.25 * life


def test_requests_are_signed_with_sha256() -> None:
    request = x509.load_pem_x509_csr(base64.b64decode(request_object("n", agent_profile(AGENT), KEY)["spec"]["request"]))
    assert isinstance(request.signature_hash_algorithm, hashes.SHA256)
