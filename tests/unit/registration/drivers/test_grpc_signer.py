"""What the hub signs for gRPC agents, with which authority, for how long, and what it refuses although somebody approved it."""

import base64
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from hypothesis import given
from hypothesis import strategies as st

from muster.apiserver.server import ApiServer
from muster.fleet.in_process import InProcessClient
from muster.kube import certificates
from muster.kube.certificates import BACKDATE, CLIENT_AUTH, CertificateAuthority
from muster.machinery.clock import SYSTEM
from muster.registration.drivers.certificates.agents import NotAnAgentsRequest
from muster.registration.drivers.certificates.requests import new_key, validity_of
from muster.registration.drivers.grpc.authority import NoAuthority, SigningAuthority
from muster.registration.drivers.grpc.signer import certificate_for
from muster.registration.hub.install import ACCOUNT, permissions
from muster.registration.names import HUB_NAMESPACE, AgentIdentity
from muster.runtime.client.builtin import NAMESPACES, SIGNING_REQUESTS
from tests.support.fake_clock import FakeClock
from tests.unit.registration.drivers import test_csr_approval as csr
from tests.unit.registration.drivers.conftest import BOOTSTRAP, client_of, hub_driver, until
from tests.unit.registration.drivers.grpc_hub import (
    AGENT,
    AuthorityFiles,
    approve,
    ask,
    grpc_server,
    issued,
    request_of,
    verdict,
)

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
MONTH = timedelta(hours=720)


@pytest.fixture
def authority(tmp_path: Path) -> AuthorityFiles:
    return AuthorityFiles(tmp_path)


@pytest.fixture
def behalf(server: ApiServer) -> InProcessClient:
    return grpc_server(server)


def an_authority(now: datetime = NOW, lifetime: timedelta = timedelta(days=365)) -> CertificateAuthority:
    return CertificateAuthority.create("signer", now, lifetime)


def rsa_authority(now: datetime) -> CertificateAuthority:
    """As upstream's operator makes them, with an identifier of the key that is not derived as ours are."""
    key = rsa.generate_private_key(65537, 2048)
    name = certificates.subject("open-cluster-management@upstream")
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(minutes=1))
        .not_valid_after(now + timedelta(days=365))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier(b"derived otherwise"), critical=False)
    )
    return CertificateAuthority(builder.sign(key, hashes.SHA256()), key)


def signed(csr: dict[str, Any], by: CertificateAuthority, longest: timedelta = MONTH, now: datetime = NOW) -> x509.Certificate:
    return x509.load_pem_x509_certificate(certificate_for(csr, by, longest, now))


def asking(builder: x509.CertificateSigningRequestBuilder, key: ec.EllipticCurvePrivateKey | None = None) -> str:
    pem = builder.sign(key or certificates.generate_key(), hashes.SHA256()).public_bytes(Encoding.PEM)
    return base64.b64encode(pem).decode()


def subject(identity: AgentIdentity = AGENT, *more: x509.NameAttribute[Any]) -> x509.Name:
    return x509.Name([*certificates.subject(identity.common_name, sorted(identity.organizations)), *more])


class TestCertificates:
    @pytest.mark.parametrize("make", [an_authority, rsa_authority])
    def test_one_is_an_agents_client_certificate_and_nothing_else(self, make: Any) -> None:
        by, key = make(NOW), new_key()
        found = signed(request_of("cluster1-aaaaa", key=key), by)
        assert by.signed(found)
        assert certificates.common_name(found.subject) == AGENT.common_name
        assert set(certificates.organizations(found.subject)) == AGENT.organizations
        assert found.public_key() == certificates.load_key(key).public_key()
        extensions = {type(extension.value): extension.value for extension in found.extensions}
        assert list(extensions[x509.ExtendedKeyUsage]) == [ExtendedKeyUsageOID.CLIENT_AUTH]
        assert not extensions[x509.BasicConstraints].ca
        assert set(extensions) == {
            x509.BasicConstraints,
            x509.KeyUsage,
            x509.ExtendedKeyUsage,
            x509.AuthorityKeyIdentifier,
        }

    def test_it_names_the_key_of_its_authority_as_the_authority_does(self) -> None:
        found = signed(request_of("cluster1-aaaaa"), rsa_authority(NOW))
        named = found.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value
        assert named.key_identifier == b"derived otherwise"

    def test_extensions_that_a_request_asks_for_are_not_copied(self) -> None:
        builder = x509.CertificateSigningRequestBuilder().subject_name(subject())
        builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=True)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=3), critical=True)
        found = signed(request_of("cluster1-aaaaa", request=asking(builder)), an_authority())
        usages = found.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        assert list(usages) == [ExtendedKeyUsageOID.CLIENT_AUTH]
        assert not found.extensions.get_extension_for_class(x509.BasicConstraints).value.ca

    def test_an_agent_of_old_gets_the_groups_it_asks_for(self) -> None:
        own = f"system:open-cluster-management:{AGENT.cluster}"
        name = certificates.subject(AGENT.common_name, [own, own])
        builder = x509.CertificateSigningRequestBuilder().subject_name(name)
        found = signed(request_of("cluster1-aaaaa", request=asking(builder)), an_authority())
        assert certificates.organizations(found.subject) == [own]

    @given(
        asked=st.none() | st.integers(600, 2**31 - 1),
        longest=st.integers(1, 10**8).map(lambda seconds: timedelta(seconds=seconds)),
        left=st.integers(1, 10**9).map(lambda seconds: timedelta(seconds=seconds)),
    )
    def test_it_lives_as_asked_and_not_longer_than_hub_and_authority_allow(
        self, asked: int | None, longest: timedelta, left: timedelta
    ) -> None:
        more = {} if asked is None else {"expirationSeconds": asked}
        found = signed(REQUEST | {"spec": REQUEST["spec"] | more}, with_left(left), longest)
        wanted = min(longest, left) if asked is None else min(longest, left, timedelta(seconds=asked))
        assert found.not_valid_after_utc - NOW == wanted
        backdated = NOW - found.not_valid_before_utc
        assert timedelta() <= backdated <= BACKDATE
        # A renewal is due at 20 to 25 % of the life before its end: never at once.
        pem = found.public_bytes(Encoding.PEM)
        if wanted >= timedelta(seconds=30):
            assert validity_of(pem).renewal(lambda: 1.0) > NOW


REQUEST = request_of("cluster1-aaaaa")
_LONG_LIVED = CertificateAuthority.create("long-lived", NOW, timedelta(days=36_500))


def with_left(left: timedelta) -> CertificateAuthority:
    """An authority that ends so soon; one key for all, as making them takes long."""
    name = _LONG_LIVED.certificate.subject
    pem = _LONG_LIVED.sign(name, _LONG_LIVED.key.public_key(), NOW - BACKDATE, NOW + left, (CLIENT_AUTH,))
    return CertificateAuthority(x509.load_pem_x509_certificate(pem), _LONG_LIVED.key)


def _with_names() -> str:
    names = x509.SubjectAlternativeName([x509.DNSName("hub.example")])
    return asking(x509.CertificateSigningRequestBuilder().subject_name(subject()).add_extension(names, critical=False))


def _of(name: x509.Name) -> str:
    return asking(x509.CertificateSigningRequestBuilder().subject_name(name))


BAD: dict[str, dict[str, Any]] = {
    "alternative names": {"request": _with_names()},
    "foreign groups": {"request": _of(certificates.subject(AGENT.common_name, ["system:masters"]))},
    "a group too many": {
        "request": _of(certificates.subject(AGENT.common_name, [*AGENT.organizations, "system:masters"])),
    },
    "another cluster's name": {"request": _of(subject(AgentIdentity("cluster2", "abcde")))},
    "no agent's name": {"request": _of(certificates.subject("system:admin", sorted(AGENT.organizations)))},
    "more in the subject": {"request": _of(subject(AGENT, x509.NameAttribute(NameOID.COUNTRY_NAME, "DE")))},
    "two names": {"request": _of(subject(AGENT, x509.NameAttribute(NameOID.COMMON_NAME, AGENT.common_name)))},
    "a server's usage": {"usages": ["digital signature", "key encipherment", "client auth", "server auth"]},
}


class TestRefusals:
    @pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
    def test_no_certificate_is_made_of_what_is_not_an_agents(self, bad: dict[str, Any]) -> None:
        with pytest.raises(NotAnAgentsRequest):
            signed(request_of("cluster1-aaaaa", **bad), an_authority())

    async def test_whoever_asked_is_told_although_somebody_approved(
        self, admin: InProcessClient, behalf: InProcessClient, authority: AuthorityFiles
    ) -> None:
        for number, bad in enumerate(BAD.values()):
            await ask(behalf, f"cluster1-bad{number}", **bad)
            await approve(admin, f"cluster1-bad{number}")
        async with hub_driver(admin, authority.options(BOOTSTRAP), driver="grpc"):
            for number in range(len(BAD)):
                name = f"cluster1-bad{number}"
                await until(lambda name=name: said(admin, name, "Approved,Failed"))  # type: ignore[misc]
                assert await issued(admin, name) is None
        failed = (await admin.get(SIGNING_REQUESTS, "cluster1-bad0"))["status"]["conditions"][-1]
        assert (failed["reason"], failed["message"]) == (
            "SignerValidationFailure",
            "spec.request: it asks for alternative names",
        )

    async def test_none_of_them_is_approved_automatically(
        self, admin: InProcessClient, behalf: InProcessClient, authority: AuthorityFiles
    ) -> None:
        for number, bad in enumerate(BAD.values()):
            await ask(behalf, f"cluster1-bad{number}", **bad)
        async with hub_driver(admin, authority.options(BOOTSTRAP), driver="grpc"):
            await ask(behalf, "cluster1-good")
            await until(lambda: issued(admin, "cluster1-good"))
            for number in range(len(BAD)):
                assert await verdict(admin, f"cluster1-bad{number}") == ""

    async def test_requests_of_other_signers_are_not_signed(
        self, admin: InProcessClient, behalf: InProcessClient, authority: AuthorityFiles
    ) -> None:
        await ask(behalf, "cluster1-other", signerName="example.com/other")
        await approve(admin, "cluster1-other")
        async with hub_driver(admin, authority.options(BOOTSTRAP), driver="grpc"):
            await ask(behalf, "cluster1-good")
            await until(lambda: issued(admin, "cluster1-good"))
            assert await issued(admin, "cluster1-other") is None
            assert await verdict(admin, "cluster1-other") == "Approved"


async def said(client: InProcessClient, name: str, wanted: str) -> bool:
    return await verdict(client, name) == wanted


async def signed_by(client: InProcessClient, name: str, by: CertificateAuthority) -> bool:
    found = await issued(client, name)
    return found is not None and by.signed(found)


class TestTheAuthoritysFiles:
    async def test_another_authority_signs_from_the_moment_it_is_there(
        self, admin: InProcessClient, behalf: InProcessClient, authority: AuthorityFiles
    ) -> None:
        """Requests are under way all the time; each is answered, by the old one or by the new."""
        key, first = new_key(), authority.authority
        async with hub_driver(admin, authority.options(BOOTSTRAP), driver="grpc"):
            for number in range(6):
                await ask(behalf, f"cluster1-{number}", key=key)
            await until(lambda: signed_by(admin, "cluster1-0", first))
            authority.replace()
            for number in range(6, 12):
                await ask(behalf, f"cluster1-{number}", key=key)
            for number in range(12):
                name = f"cluster1-{number}"
                by = (authority.authority,) if number >= 6 else (first, authority.authority)
                found = await until(lambda name=name: issued(admin, name))  # type: ignore[misc]
                assert any(one.signed(found) for one in by), name

    async def test_requests_wait_while_the_pair_is_half_replaced(
        self, admin: InProcessClient, behalf: InProcessClient, authority: AuthorityFiles
    ) -> None:
        clock = FakeClock(SYSTEM.now())
        key = authority.key.read_bytes()
        authority.replace()
        whole = authority.key.read_bytes()
        authority.key.write_bytes(key)
        async with hub_driver(admin, authority.options(BOOTSTRAP), driver="grpc", clock=clock):
            await ask(behalf, "cluster1-aaaaa")
            await until(lambda: said(admin, "cluster1-aaaaa", "Approved"))
            assert await issued(admin, "cluster1-aaaaa") is None
            authority.key.write_bytes(whole)
            await until(lambda: ticked(clock, signed_by(admin, "cluster1-aaaaa", authority.authority)))

    def test_what_is_wrong_is_said_by_file(self, tmp_path: Path) -> None:
        files = AuthorityFiles(tmp_path)
        reader, now = SigningAuthority(files.certificate, files.key), SYSTEM.now()
        certificate, key = files.certificate.read_bytes(), files.key.read_bytes()
        assert reader.current(now).certificate == files.authority.certificate
        client = files.authority.issue("somebody", now, timedelta(days=1))
        problems = {
            "No such file": (None, key),
            "expected a certificate in PEM": (b"-", key),
            "unencrypted RSA or elliptic-curve private key": (certificate, b"-----BEGIN EC PRIVATE KEY-----"),
            "there is no certificate for the key in it": (certificate, new_key()),
            "is not one of an authority": (client.certificate, client.key),
        }
        for text, (one, other) in problems.items():
            files.certificate.unlink(missing_ok=True)
            if one is not None:
                files.certificate.write_bytes(one)
            files.key.write_bytes(other)
            with pytest.raises(NoAuthority, match=text) as problem:
                reader.current(now)
            assert b"PRIVATE" not in str(problem.value).encode()
        files.certificate.write_bytes(certificate)
        files.key.write_bytes(key)
        assert reader.current(now).certificate == files.authority.certificate
        with pytest.raises(NoAuthority, match="this authority ended at"):
            reader.current(files.authority.certificate.not_valid_after_utc)

    def test_of_a_bundle_the_certificate_of_the_key_counts(self, tmp_path: Path) -> None:
        files = AuthorityFiles(tmp_path)
        older = an_authority(SYSTEM.now())
        files.certificate.write_bytes(older.pem + files.authority.pem)
        found = SigningAuthority(files.certificate, files.key).current(SYSTEM.now())
        assert found.certificate == files.authority.certificate


async def ticked(clock: FakeClock, probe: Any) -> Any:
    await clock.advance(10)
    return await probe


class TestDeaths:
    async def test_a_hub_goes_on_where_another_ended(
        self, admin: InProcessClient, behalf: InProcessClient, authority: AuthorityFiles
    ) -> None:
        """Asked while there was no hub; approved, and the hub gone before it was signed; signed, and a third hub comes."""
        key = new_key()
        await ask(behalf, "cluster1-aaaaa", key=key)
        away = {**authority.options(BOOTSTRAP), "grpc-key-file": (str(authority.key) + "-not-there",)}
        async with hub_driver(admin, away, driver="grpc"):
            await until(lambda: said(admin, "cluster1-aaaaa", "Approved"))
        assert await issued(admin, "cluster1-aaaaa") is None
        async with hub_driver(admin, authority.options(BOOTSTRAP), driver="grpc"):
            first = await until(lambda: issued(admin, "cluster1-aaaaa"))
        async with hub_driver(admin, authority.options(BOOTSTRAP), driver="grpc"):
            await ask(behalf, "cluster1-bbbbb", key=key)
            await until(lambda: issued(admin, "cluster1-bbbbb"))
            assert await issued(admin, "cluster1-aaaaa") == first

    async def test_two_hubs_at_once_sign_once(
        self, admin: InProcessClient, behalf: InProcessClient, authority: AuthorityFiles
    ) -> None:
        key, seen = new_key(), {}
        options = authority.options(BOOTSTRAP)
        async with hub_driver(admin, options, driver="grpc"), hub_driver(admin, options, driver="grpc"):
            for number in range(10):
                await ask(behalf, f"cluster1-{number}", key=key)
            for number in range(10):
                name = f"cluster1-{number}"
                seen[name] = await until(lambda name=name: issued(admin, name))  # type: ignore[misc]
            await ask(behalf, "cluster1-marker", key=key)
            await until(lambda: issued(admin, "cluster1-marker"))
        for name, first in seen.items():
            assert await issued(admin, name) == first

    async def test_a_request_that_goes_while_it_is_signed_is_no_failure(
        self, admin: InProcessClient, behalf: InProcessClient, authority: AuthorityFiles
    ) -> None:
        async with hub_driver(admin, authority.options(BOOTSTRAP), driver="grpc"):
            for number in range(20):
                await ask(behalf, f"cluster{number}-gone", AgentIdentity(f"cluster{number}", "abcde"))
                await admin.delete(SIGNING_REQUESTS, f"cluster{number}-gone")
            await ask(behalf, "stays-00000", AgentIdentity("stays", "abcde"))
            await until(lambda: issued(admin, "stays-00000"))


async def test_the_hubs_own_account_has_the_rights_that_this_takes(
    admin: InProcessClient, server: ApiServer, behalf: InProcessClient, authority: AuthorityFiles
) -> None:
    await admin.create(NAMESPACES, {"metadata": {"name": HUB_NAMESPACE}})
    for resource, document in permissions(HUB_NAMESPACE):
        if document["metadata"].get("namespace", HUB_NAMESPACE) == HUB_NAMESPACE:
            await admin.apply(resource, document, manager="test")
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{HUB_NAMESPACE}", "system:authenticated")
    hub = client_of(server, f"system:serviceaccount:{HUB_NAMESPACE}:{ACCOUNT}", groups)
    await csr.may_renew(admin)
    async with hub_driver(hub, authority.options(BOOTSTRAP), driver="grpc"):
        await ask(behalf, "cluster1-first")
        await until(lambda: issued(admin, "cluster1-first"))
        await ask(behalf, "cluster1-renew", user=AGENT.common_name)
        await until(lambda: issued(admin, "cluster1-renew"))
        await ask(behalf, "cluster1-bad", **BAD["alternative names"])
        await approve(admin, "cluster1-bad")
        await until(lambda: said(admin, "cluster1-bad", "Approved,Failed"))
