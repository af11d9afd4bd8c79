"""Which signing requests are an addon's, and every way that somebody else's could look like one."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from muster.addon.agent_addon import CustomSigner, KubeClient, Registration
from muster.addon.requests.request import NotAnAddonsRequest, check_requester, read_request, registration_for
from muster.api.addons import AddonIdentity, dns_name
from muster.api.agents import CSR_USER
from muster.machinery.authentication import UserInfo
from tests.support.addon_requests import ADDON, CLUSTER, IDENTITY, agent_of, content, request_of, subject_of

GRPC = "system:serviceaccount:open-cluster-management-hub:grpc-server-sa"
ACCOUNTS = frozenset((GRPC,))
OWN = CustomSigner("example.com/own", "me", ("g1", "g2"), ("unit",))
RESERVED = CustomSigner("kubernetes.io/kubelet-serving", "me")
HIDDEN = CustomSigner("kubernetes.io/kube-apiserver-client", "system:admin", ("system:masters",))
REGISTRATIONS: tuple[Registration, ...] = (KubeClient(), OWN, RESERVED, HIDDEN)
OWN_SUBJECT = subject_of("me", ("g1", "g2"), ("unit",))
AGENT = agent_of()
SERVER = UserInfo(GRPC, groups=("system:serviceaccounts", "system:authenticated"))
LONG = "a" * 253


def judged(csr: dict[str, Any]) -> Registration:
    request = read_request(csr, ACCOUNTS)
    check_requester(request)
    return registration_for(request, REGISTRATIONS)


def asked(pem: bytes | None = None, **changes: Any) -> dict[str, Any]:
    return request_of(pem, **{"requester": AGENT, **changes})


def subject(*, extra: Any = (), **parts: Any) -> bytes:
    return content([*subject_of(**parts), *extra])


def other(cluster: str = CLUSTER, addon: str = ADDON, agent: str = "hello-agent") -> bytes:
    identity = AddonIdentity(cluster, addon, agent)
    return content(subject_of(identity.user, identity.groups))


def unsigned() -> bytes:
    """With a signature that is not that of its key."""
    lines = content().splitlines()
    body = bytearray(base64.b64decode(b"".join(lines[1:-1])))
    body[-1] ^= 1
    return b"\n".join((lines[0], base64.b64encode(bytes(body)), lines[-1]))


GOOD: dict[str, tuple[dict[str, Any], Registration]] = {
    "the agent's own": (asked(), KubeClient()),
    "as older agents ask": (asked(subject(organizations=(*IDENTITY.groups, "system:authenticated"))), KubeClient()),
    "organizations in another order": (asked(subject(organizations=IDENTITY.groups[::-1])), KubeClient()),
    "a signer of its own": (asked(content(OWN_SUBJECT), signer=OWN.signer), OWN),
    "over gRPC": (asked(requester=SERVER, annotations={CSR_USER: AGENT.name}), KubeClient()),
    "by a provider's identity": (
        asked(requester=UserInfo("arn:aws:sts::1:assumed-role/x/y", groups=("open-cluster-management:cluster1",))),
        KubeClient(),
    ),
}

ATTACKS: dict[str, dict[str, Any]] = {
    "a third organization, of another cluster": asked(
        subject(organizations=(*IDENTITY.groups, "system:open-cluster-management:cluster2"))
    ),
    "a third organization, of cluster masters": asked(subject(organizations=(*IDENTITY.groups, "system:masters"))),
    "one organization twice instead of both": asked(subject(organizations=(IDENTITY.groups[0],) * 2)),
    "one organization only": asked(subject(organizations=IDENTITY.groups[:1])),
    "all four organizations": asked(subject(organizations=(*IDENTITY.groups, "system:authenticated", "x"))),
    "no organization": asked(subject(organizations=())),
    "cluster10's agent for cluster1": asked(requester=agent_of("cluster10")),
    "cluster1's agent for cluster10": asked(cluster="cluster10"),
    "another cluster's agent": asked(requester=agent_of("cluster2")),
    "an agent's name without its group": asked(requester=UserInfo(AGENT.name, groups=("system:authenticated",))),
    "another cluster's name in this cluster's group": asked(requester=agent_of("cluster2", "open-cluster-management:cluster1")),
    "the bootstrap account": asked(
        requester=UserInfo(
            "system:serviceaccount:open-cluster-management:agent-registration-bootstrap", groups=("system:serviceaccounts",)
        )
    ),
    "an administrator": asked(requester=UserInfo("admin", groups=("system:masters",))),
    "a name that begins like the agent's": asked(requester=UserInfo(f"{AGENT.name}:x", groups=AGENT.groups)),
    "nobody": asked(requester=UserInfo("")),
    "the addon's own agent": asked(requester=UserInfo(IDENTITY.user, groups=IDENTITY.groups)),
    "gRPC for another cluster's agent": asked(requester=SERVER, annotations={CSR_USER: agent_of("cluster2").name}),
    "gRPC without a word for whom": asked(requester=SERVER),
    "gRPC for the bootstrap account": asked(requester=SERVER, annotations={CSR_USER: "system:serviceaccount:ns:sa"}),
    "a stranger with gRPC's annotation": asked(requester=agent_of("cluster2"), annotations={CSR_USER: AGENT.name}),
    "another addon's subject": asked(other(addon="other")),
    "another cluster's subject": asked(other(cluster="cluster2")),
    "a prefix of the addon's name": asked(other(addon="hell")),
    "another agent of the addon": asked(other(agent="other-agent")),
    "the registration agent's subject": asked(content(subject_of(AGENT.name, ("system:open-cluster-management:cluster1",)))),
    "labels of another addon": asked(addon="other"),
    "labels of another cluster": asked(cluster="cluster2"),
    "no label of a cluster": asked(cluster=""),
    "no label of an addon": asked(addon=""),
    "the group of all clusters as a cluster": asked(cluster="managed-clusters"),
    "names of 253 characters": asked(cluster=LONG, addon=LONG),
    "an addon of 253 characters": asked(addon=LONG),
    "a name of the hub's own requests": asked(name="cluster1-abcde"),
    "a foreign signer": asked(signer="example.com/foreign"),
    "the hub's own signer": asked(signer="open-cluster-management.io/grpc"),
    "no signer": asked(signer=""),
    "the kubelets' signer": asked(signer="kubernetes.io/kube-apiserver-client-kubelet"),
    "a signer of Kubernetes that a template names": asked(content(subject_of("me", ())), signer=RESERVED.signer),
    "Kubernetes' client signer with a template's subject": asked(content(subject_of("system:admin", ("system:masters",)))),
    "a signer of its own by a stranger": asked(content(OWN_SUBJECT), signer=OWN.signer, requester=UserInfo("mallory")),
    "a signer of its own by another cluster": asked(content(OWN_SUBJECT), signer=OWN.signer, requester=agent_of("cluster2")),
    "a signer of its own for another user": asked(content(subject_of("you", ("g1", "g2"), ("unit",))), signer=OWN.signer),
    "a signer of its own with one group more": asked(content(subject_of("me", ("g1", "g2", "g3"), ("unit",))), signer=OWN.signer),
    "a signer of its own without the unit": asked(content(subject_of("me", ("g1", "g2"))), signer=OWN.signer),
    "the client's subject from its own signer": asked(signer=OWN.signer),
    "its own signer's subject as a client": asked(content(OWN_SUBJECT)),
    "no alternative name": asked(content(names=[])),
    "another addon's alternative name": asked(content(names=[x509.DNSName(dns_name("other"))])),
    "a second alternative name": asked(content(names=[x509.DNSName(dns_name(ADDON)), x509.DNSName("kubernetes.default.svc")])),
    "an address beside the name": asked(content(names=[x509.DNSName(dns_name(ADDON)), x509.RFC822Name("a@b.example")])),
    "the name as an address of a resource": asked(content(names=[x509.UniformResourceIdentifier(dns_name(ADDON))])),
    "a server's usage": asked(usages=("digital signature", "key encipherment", "server auth")),
    "a further usage": asked(usages=("digital signature", "key encipherment", "client auth", "server auth")),
    "an authority's usage": asked(usages=("cert sign",)),
    "no usage": asked(usages=()),
    "an authority's constraints": asked(content(extensions=[x509.BasicConstraints(ca=True, path_length=None)])),
    "a common name more": asked(subject(extra=[(NameOID.COMMON_NAME, "x")])),
    "the right common name first, another last": asked(content([(NameOID.COMMON_NAME, IDENTITY.user), *subject_of("x")])),
    "a unit": asked(subject(units=("x",))),
    "a country": asked(subject(extra=[(NameOID.COUNTRY_NAME, "DE")])),
    "no common name": asked(content(subject_of()[:-1])),
    "somebody else's signature": asked(unsigned()),
    "no request": asked(b""),
    "a certificate's block": asked(content().replace(b"CERTIFICATE REQUEST", b"CERTIFICATE")),
    "noise": asked(b"\x00\xff" * 100),
    "a null request": asked(request=None),
    "null labels": {**asked(), "metadata": {"name": "addon-x", "labels": None}},
    "a null spec": {**asked(), "spec": None},
    "nothing": {},
}


@pytest.mark.parametrize("case", GOOD)
def test_what_an_addons_agent_asks_for_itself_is_its(case: str) -> None:
    csr, registration = GOOD[case]
    assert judged(csr) == registration


@pytest.mark.parametrize("case", ATTACKS)
def test_nothing_else_is(case: str) -> None:
    """Defect 15: no third organization, no requester by prefix, no other signer, usage or alternative name, no stranger."""
    with pytest.raises(NotAnAddonsRequest) as caught:
        judged(ATTACKS[case])
    assert caught.value.field


def test_an_addon_may_name_its_agent_and_then_no_other_will_do() -> None:
    named = (KubeClient(agent="mine"),)
    assert registration_for(read_request(asked(other(agent="mine"))), named)
    with pytest.raises(NotAnAddonsRequest):
        registration_for(read_request(asked()), named)


def test_a_signer_of_its_own_without_a_user_knows_the_agent_as_the_hub_does() -> None:
    signer = CustomSigner("example.com/own")
    csr = asked(content(subject_of(organizations=())), signer=signer.signer)
    assert registration_for(read_request(csr), (signer,)) == signer


def test_the_longest_names_are_read_as_they_are() -> None:
    addon, cluster = "a" * 200, "c" * 63
    identity = AddonIdentity(cluster, addon, f"{addon}-agent")
    pem = content(subject_of(identity.user, identity.groups), names=[x509.DNSName(dns_name(addon))])
    request = read_request(asked(pem, cluster=cluster, addon=addon, requester=agent_of(cluster)))
    check_requester(request)
    assert registration_for(request, (KubeClient(),)) == KubeClient()
