"""The authority of a hub's gRPC agents and its server's certificate: made, kept, succeeded, never a moment without trust."""

from __future__ import annotations

import base64
import ssl
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa

from muster.kube.certificates import CLIENT_AUTH, SERVER_AUTH, CertificateAuthority, KeyPair, key_pem, subject
from muster.operator.cluster_manager.grpc_certificates import (
    SERVING_SECRET,
    HubAuthority,
    ensure_authority,
    ensure_serving,
)
from muster.registration.names import GRPC_SIGNER_SECRET
from muster.runtime.client.builtin import SECRETS
from tests.support.fake_clock import FakeClock
from tests.unit.operator.conftest import Cluster

HOSTS = ("cm-grpc-server.ns.svc", "hub.example.com")
NAMESPACE = "default"


class Keeper:
    """Calls the two functions at moments of a test's choice; notes what is trusted, and whether it was stored by then."""

    def __init__(self, place: Cluster) -> None:
        self.place = place
        self.clock = FakeClock(datetime.now().astimezone())
        self.trusted: list[bytes] = []
        self.stored: dict[str, bytes] = {}
        """What the authority's Secret had when the last bundle was trusted."""

    async def authority(self, after: timedelta = timedelta()) -> HubAuthority:
        await self.clock.advance(after.total_seconds())

        async def trust(bundle: bytes) -> None:
            self.trusted.append(bundle)
            self.stored = await self.contents(GRPC_SIGNER_SECRET)

        return await ensure_authority(self.place.admin, NAMESPACE, self.clock, trust)

    async def serving(self, signer: HubAuthority, hosts: tuple[str, ...] = HOSTS) -> list[x509.Certificate]:
        await ensure_serving(self.place.admin, NAMESPACE, hosts, signer, self.clock)
        return x509.load_pem_x509_certificates((await self.contents(SERVING_SECRET))["tls.crt"])

    async def contents(self, name: str) -> dict[str, bytes]:
        found = await self.place.find(SECRETS, name, NAMESPACE)
        return {key: base64.b64decode(value) for key, value in ((found or {}).get("data") or {}).items()}

    async def put(self, **contents: bytes) -> None:
        data = {key.replace("_", "."): base64.b64encode(value).decode() for key, value in contents.items()}
        document = {"metadata": {"name": GRPC_SIGNER_SECRET, "namespace": NAMESPACE}, "type": "kubernetes.io/tls", "data": data}
        await self.place.admin.create(SECRETS, {"apiVersion": "v1", "kind": "Secret", **document})


@pytest.fixture
def keeper(here: Cluster) -> Keeper:
    return Keeper(here)


def names(leaf: x509.Certificate) -> set[str]:
    return set(leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(x509.DNSName))


async def test_they_are_made_once_and_kept(keeper: Keeper) -> None:
    first = await keeper.authority()
    (leaf,) = await keeper.serving(first)
    assert first.authority.signed(leaf)
    assert names(leaf) == set(HOSTS)
    again = await keeper.authority(timedelta(days=30))
    assert again.bundle == first.bundle == keeper.trusted[0]
    assert await keeper.serving(again) == [leaf]


async def test_the_servers_certificate_is_replaced_when_it_is_old_or_goes_by_another_name(keeper: Keeper) -> None:
    signer = await keeper.authority()
    (first,) = await keeper.serving(signer)
    (second,) = await keeper.serving(signer, (*HOSTS, "10.0.0.1"))
    assert first != second
    await keeper.clock.advance(timedelta(days=61).total_seconds())
    (third,) = await keeper.serving(signer, (*HOSTS, "10.0.0.1"))
    assert third.not_valid_after_utc > second.not_valid_after_utc


async def test_an_old_authority_vouches_for_its_successor_and_both_are_trusted(keeper: Keeper, tmp_path: Path) -> None:
    old = await keeper.authority()
    await keeper.serving(old)
    new = await keeper.authority(timedelta(days=2500))
    assert new.authority.certificate != old.authority.certificate
    assert (keeper.trusted[-1], keeper.stored["tls.crt"]) == (new.bundle, old.authority.pem), "trusted before it can sign"
    assert x509.load_pem_x509_certificates(new.bundle) == [new.authority.certificate, old.authority.certificate]
    leaf, vouched = await keeper.serving(new)
    assert new.authority.signed(leaf)
    # The library checks times against the real clock, so only signatures and names are judged here.
    vouched.verify_directly_issued_by(old.authority.certificate)
    leaf.verify_directly_issued_by(vouched)
    assert (await keeper.authority()).bundle == new.bundle
    assert await keeper.serving(new) == [leaf, vouched]
    last = await keeper.authority(timedelta(days=2500))
    assert old.authority.certificate not in x509.load_pem_x509_certificates(last.bundle), "it has ended"


def test_who_trusts_only_the_old_authority_accepts_what_the_successor_signed(tmp_path: Path) -> None:
    now = datetime.now().astimezone()
    old, new = (CertificateAuthority.create(name, now) for name in ("old", "new"))
    pair = new.issue("server", now, timedelta(days=1), usages=(SERVER_AUTH,), hosts=["hub"])
    chain = KeyPair(pair.certificate + old.vouch(new), pair.key)
    for trusted, shown, accepted in ((old, chain, True), (new, chain, True), (old, pair, False)):
        assert handshake(tmp_path, trusted, shown) is accepted


def handshake(directory: Path, trusted: CertificateAuthority, shown: KeyPair) -> bool:
    (directory / "tls.crt").write_bytes(shown.certificate)
    (directory / "tls.key").write_bytes(shown.key)
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(directory / "tls.crt", directory / "tls.key")
    client = ssl.create_default_context(cadata=trusted.pem.decode())
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [client.wrap_bio(back, there, server_hostname="hub"), serving.wrap_bio(there, back, server_side=True)]
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLCertVerificationError:
                return False
    return True


async def test_an_authority_that_somebody_put_there_is_used(keeper: Keeper) -> None:
    own = theirs(keeper.clock.now())
    await keeper.put(tls_crt=own.pem, tls_key=key_pem(own.key))
    found = await keeper.authority()
    assert found.authority.certificate == own.certificate
    assert (await keeper.contents(GRPC_SIGNER_SECRET))["ca.crt"] == own.pem
    (leaf,) = await keeper.serving(found)
    assert own.signed(leaf)
    new = await keeper.authority(timedelta(days=300))
    (_, vouched) = await keeper.serving(new)
    vouched.verify_directly_issued_by(own.certificate)


def theirs(now: datetime) -> CertificateAuthority:
    """As OCM's operator makes it: on an RSA key, for a year."""
    key = rsa.generate_private_key(65537, 2048)
    name = subject("open-cluster-management.io_signer@1")
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(now - timedelta(minutes=1)).not_valid_after(now + timedelta(days=365))
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    return CertificateAuthority(builder.sign(key, hashes.SHA256()), key)


@pytest.mark.parametrize("broken", ["no key", "no authority", "garbage", "ended"])
async def test_what_cannot_sign_is_replaced(keeper: Keeper, broken: str) -> None:
    now = keeper.clock.now()
    own = CertificateAuthority.create("broken", now - timedelta(days=20), timedelta(days=10 if broken == "ended" else 3650))
    pair = own.pair()
    if broken == "no authority":
        pair = own.issue("client", now, timedelta(days=9), usages=(CLIENT_AUTH,))
    elif broken == "no key":
        pair = KeyPair(pair.certificate, CertificateAuthority.create("other", now).pair().key)
    elif broken == "garbage":
        pair = KeyPair(b"garbage", b"garbage")
    other = CertificateAuthority.create("another", now)
    await keeper.put(tls_crt=pair.certificate, tls_key=pair.key, ca_crt=other.pem)
    found = await keeper.authority()
    assert found.authority.certificate.subject != subject("broken")
    assert found.bundle == found.authority.pem + other.pem, "whoever another one vouched for comes in still"
