"""Connections are made with the credential of now; one that cannot be used is named, and the last good one stays."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from muster.kube.certificates import CertificateAuthority, KeyPair
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.runtime.client import KubeError, NoCredential, Unauthorized
from muster.transport.client.config import NO_PROXY, ProxySettings, TransportConfig
from muster.transport.client.dialer import open_client
from muster.transport.client.proxies import find_proxy

NOW = datetime.now(UTC)


def issue(authority: CertificateAuthority) -> KeyPair:
    return authority.issue("agent", NOW, timedelta(hours=1))


@pytest.fixture(scope="module")
def authority() -> CertificateAuthority:
    return CertificateAuthority.create("ca", NOW)


def config(authority: CertificateAuthority, directory: Path) -> TransportConfig:
    return TransportConfig("127.0.0.1:1", ca=authority.pem, cert=directory / "tls.crt", key=directory / "tls.key")


async def test_a_missing_certificate_is_named(authority: CertificateAuthority, tmp_path: Path) -> None:
    client = open_client(config(authority, tmp_path), "c1")
    with pytest.raises(NoCredential, match=r"tls\.crt: no such file"):
        await client.get(MANAGED_CLUSTERS, "c1")
    await client.close()


async def test_a_pair_that_does_not_match_is_refused_and_the_last_one_stays(
    authority: CertificateAuthority, tmp_path: Path
) -> None:
    good, other = issue(authority), issue(authority)
    (tmp_path / "tls.crt").write_bytes(good.certificate)
    (tmp_path / "tls.key").write_bytes(other.key)
    client = open_client(config(authority, tmp_path), "c1")
    with pytest.raises(NoCredential, match="unusable certificate"):
        _ = client.connection.channel
    (tmp_path / "tls.key").write_bytes(good.key)
    first = client.connection.channel
    (tmp_path / "tls.crt").write_bytes(other.certificate)
    client.connection.renew()
    assert client.connection.channel is not first
    await client.close()


async def test_a_token_file_that_is_gone_is_no_token(authority: CertificateAuthority, tmp_path: Path) -> None:
    made = open_client(TransportConfig("127.0.0.1:1", ca=authority.pem, token_file=tmp_path / "token"), "c1")
    with pytest.raises(Unauthorized, match="token: no such file"):
        await made.get(MANAGED_CLUSTERS, "c1")
    await made.close()


def test_the_proxy_that_the_file_names_goes_before_the_environments(
    authority: CertificateAuthority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://environment.example:3128")
    monkeypatch.setenv("NO_PROXY", "direct.example")
    named = ProxySettings("https://named.example:3129", authority.pem)
    for host, settings, expected in (
        ("hub.example", named, "named.example:3129"),
        ("direct.example", named, "named.example:3129"),
        ("hub.example", NO_PROXY, "environment.example:3128"),
        ("direct.example", NO_PROXY, None),
    ):
        found = find_proxy(host, 8090, settings)
        assert (found.name if found else None) == expected


async def test_authorities_of_a_proxy_that_are_none_are_said_to_be_none(authority: CertificateAuthority) -> None:
    pair = issue(authority)
    proxy = ProxySettings("https://named.example:3129", b"rubbish")
    chosen = TransportConfig("hub.example:8090", ca=authority.pem, cert=pair.certificate, key=pair.key, proxy=proxy)
    client = open_client(chosen, "c1")
    with pytest.raises(NoCredential, match="no certificate among the proxy's authorities"):
        await client.get(MANAGED_CLUSTERS, "c1")
    await client.close()


async def test_a_proxy_that_cannot_be_spoken_to_is_said_to_be_one(
    authority: CertificateAuthority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = issue(authority)
    (tmp_path / "tls.crt").write_bytes(pair.certificate)
    (tmp_path / "tls.key").write_bytes(pair.key)
    monkeypatch.setenv("HTTPS_PROXY", "socks5://proxy.example:1080")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    chosen = TransportConfig("hub.example:8090", ca=authority.pem, cert=pair.certificate, key=pair.key)
    client = open_client(chosen, "c1")
    with pytest.raises(KubeError, match="HTTPS_PROXY"):
        await client.get(MANAGED_CLUSTERS, "c1")
    await client.close()
