"""`muster grpc-server`: what its options become, and that it serves, tells how it is and stops cleanly."""

import re
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from muster.apiserver.server import ApiServer
from muster.cli import grpc_server
from muster.cli.muster import main
from muster.fleet.in_process import InProcessClient
from muster.http.tls import HTTP_2, client_context
from muster.kube.certificates import SERVER_AUTH, CertificateAuthority
from muster.registration.hub.install import install
from muster.transport.contract.wire import PUBLISH
from muster.transport.rpc.channel import RpcChannel
from muster.transport.rpc.status import Code, RpcError
from muster.transport.server.config import GrpcServerConfig
from tests.support.commands import serving
from tests.support.fetching import fetch


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    path = tmp_path / "kubeconfig"
    path.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        "contexts: [{name: c, context: {cluster: c, user: u}}]\n"
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\nusers: [{name: u, user: {}}]\n"
    )
    return path


def settings(kubeconfig: Path, *arguments: str) -> grpc_server.Settings:
    context = grpc_server.command.make_context("grpc-server", ["--kubeconfig", str(kubeconfig), *arguments])
    return grpc_server.settings(context.params)


def test_without_options_it_is_as_upstreams(kubeconfig: Path) -> None:
    found = settings(kubeconfig)
    assert found.options.config == GrpcServerConfig()
    assert (found.options.host, found.options.heartbeat) == ("", 10.0)
    assert found.health == ("127.0.0.1", 8081)


def test_upstreams_flags_are_taken(kubeconfig: Path, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text('server_bind_port: "9999"\ntls_min_version: VersionTLS12\n')
    found = settings(
        kubeconfig,
        f"--server-config={file}",
        "--namespace=hub",
        "--listen=0.0.0.0:8443",
        "--kube-api-qps=50",
        "--kube-api-burst=100",
        "--broker-heartbeat-interval=30s",
        "--tls-min-version=VersionTLS13",
        "--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        f"--terminate-on-files={file},{kubeconfig}",
    )
    config = found.options.config
    assert (config.server_bind_port, config.tls_min_version) == (9999, ssl.TLSVersion.TLSv1_3)
    assert config.cipher_suites == ("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256")
    assert (found.options.heartbeat, found.health, found.namespace) == (30.0, ("0.0.0.0", 8443), "hub")
    assert found.terminate_on == (file, kubeconfig)


def test_heartbeats_and_gates(kubeconfig: Path) -> None:
    assert settings(kubeconfig, "--broker-heartbeat-disabled", "--broker-heartbeat-interval=1s").options.heartbeat is None
    rules = settings(kubeconfig, "--feature-gates=ManagedClusterAgentRestriction=true,DefaultClusterSet=false").options.rules
    assert (rules.agent_restriction, rules.default_cluster_set) == (True, False)


@pytest.mark.parametrize(
    ("argument", "problem"),
    [
        ("--broker-heartbeat-interval=1s", "1s is too short"),
        ("--tls-min-version=VersionTLS10", "--tls-min-version"),
        ("--tls-cipher-suites=RC4", "RC4: no such cipher suite; there are TLS_ECDHE"),
        ("--persistence=etcd", "--persistence"),
        ("--listen=8443", "'8443' is not HOST:PORT"),
        ("--feature-gates=Unheard=true", "Unheard is no feature gate"),
    ],
)
def test_a_wrong_value_is_refused_by_name(kubeconfig: Path, argument: str, problem: str) -> None:
    result = CliRunner().invoke(main, ["grpc-server", "--kubeconfig", str(kubeconfig), argument])
    assert result.exit_code == 2
    assert problem in " ".join(result.output.split())


def test_an_unknown_key_of_the_file_is_named_with_those_there_are(kubeconfig: Path, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("tls_cert: a\n")
    result = CliRunner().invoke(main, ["grpc-server", "--kubeconfig", str(kubeconfig), f"--server-config={file}"])
    assert result.exit_code == 1
    assert f"--server-config: {file}: tls_cert: no such key; there are tls_cert_file," in " ".join(result.output.split())


def test_missing_certificates_are_named(kubeconfig: Path, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(f"tls_cert_file: {tmp_path}/tls.crt\n")
    result = CliRunner().invoke(main, ["grpc-server", "--kubeconfig", str(kubeconfig), f"--server-config={file}"])
    assert result.exit_code == 1
    assert f"{tmp_path}/tls.crt: there is no such file or directory" in " ".join(result.output.split())


async def test_it_serves_tells_how_it_is_and_on_sigterm_ends_well(
    server: ApiServer, admin_kubeconfig: Path, tmp_path: Path
) -> None:
    await install(InProcessClient(server.client(server.clusters["default"])))
    now = datetime.now(UTC)
    authority = CertificateAuthority.create("serving", now, timedelta(days=1))
    pair = authority.issue("hub", now, timedelta(days=1), usages=(SERVER_AUTH,), hosts=("127.0.0.1",))
    for name, content in (("tls.crt", pair.certificate), ("tls.key", pair.key), ("ca.crt", authority.pem)):
        (tmp_path / name).write_bytes(content)
    config = tmp_path / "config.yaml"
    config.write_text(
        f"tls_cert_file: {tmp_path}/tls.crt\ntls_key_file: {tmp_path}/tls.key\nclient_ca_file: {tmp_path}/ca.crt\n"
        'server_bind_port: "0"\n'
    )
    words = ("--kubeconfig", str(admin_kubeconfig), "--bind-host=127.0.0.1", "--health-port=0", f"--server-config={config}")
    async with serving("grpc-server", *words) as line:
        ports = re.search(r"^ready: gRPC server of https://127\.0\.0\.1:\S+ on port (\d+); health on port (\d+)$", line)
        assert ports is not None, line
        for page in ("healthz", "readyz", "metrics"):
            code, text = await fetch(f"http://127.0.0.1:{ports[2]}/{page}")
            assert code == 200, text
        channel = RpcChannel("127.0.0.1", int(ports[1]), tls=client_context(authority.pem, alpn=HTTP_2))
        with pytest.raises(RpcError) as refused:
            await channel.unary(PUBLISH, b"", timeout=30)
        assert refused.value.code is Code.UNAUTHENTICATED
        await channel.close()
