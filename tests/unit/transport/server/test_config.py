"""The configuration file of OCM's server, and what is wrong with one."""

import ssl
from pathlib import Path

import pytest

from muster.transport.server.config import ConfigError, GrpcServerConfig, parse_config, read_config


def test_a_file_that_is_not_there_means_the_defaults(tmp_path: Path) -> None:
    assert read_config(tmp_path / "config.yaml") == GrpcServerConfig()


@pytest.mark.parametrize("content", [b"", b"---\n", b"# nothing\n"])
def test_an_empty_file_means_the_defaults(content: bytes) -> None:
    assert parse_config(content) == GrpcServerConfig()


def test_every_key_is_read() -> None:
    config = parse_config(
        b"""
tls_cert_file: /c/tls.crt
tls_key_file: /c/tls.key
client_ca_file: /c/ca.crt
tls_min_version: VersionTLS13
tls_max_version: VersionTLS13
cipher_suites: TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_AES_128_GCM_SHA256
server_bind_port: "9090"
max_concurrent_streams: 100
max_receive_message_size: 1048576
max_send_message_size: 2097152
connection_timeout: 2m
write_buffer_size: 0
read_buffer_size: 1024
max_connection_age: 24h
client_min_ping_interval: 500ms
server_ping_interval: 1m30s
server_ping_timeout: 5s
permit_ping_without_stream: true
cert_watch_interval: 31s
"""
    )
    assert config == GrpcServerConfig(
        tls_cert_file="/c/tls.crt",
        tls_key_file="/c/tls.key",
        client_ca_file="/c/ca.crt",
        tls_min_version=ssl.TLSVersion.TLSv1_3,
        cipher_suites=("ECDHE-RSA-AES128-GCM-SHA256",),
        server_bind_port=9090,
        max_concurrent_streams=100,
        max_receive_message_size=1 << 20,
        max_send_message_size=2 << 20,
        connection_timeout=120.0,
        write_buffer_size=0,
        read_buffer_size=1024,
        max_connection_age=86400.0,
        client_min_ping_interval=0.5,
        server_ping_interval=90.0,
        server_ping_timeout=5.0,
        permit_ping_without_stream=True,
        cert_watch_interval=31.0,
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("tls_crt_file: a", "tls_crt_file: no such key; there are tls_cert_file, tls_key_file,"),
        ("server_bind_port: 70000", "server_bind_port: 70000 is not a port"),
        ("server_bind_port: true", "server_bind_port: True is not a port"),
        ("tls_min_version: VersionTLS11", "tls_min_version: 'VersionTLS11' is not one of VersionTLS12, VersionTLS13"),
        ("cipher_suites: RC4", "cipher_suites: RC4: no such cipher suite"),
        ("max_connection_age: 5 minutes", "max_connection_age: time:"),
        ("max_connection_age: 0s", "max_connection_age: '0s' is too short"),
        ("cert_watch_interval: 30s", "cert_watch_interval: '30s' is too short; more than 30s"),
        ("max_receive_message_size: 4M", "max_receive_message_size: '4M' is not a whole number"),
        ("permit_ping_without_stream: 1", "permit_ping_without_stream: 1 is neither true nor false"),
        ("client_ca_file: ''", "client_ca_file: the path of a file is expected"),
        ("tls_min_version: VersionTLS13\ntls_max_version: VersionTLS12", "tls_min_version is higher"),
        ("[]", "keys and values are expected"),
        ("a: [", "is not YAML"),
        ("server_bind_port: 1\nserver_bind_port: 2", "is not YAML"),
    ],
)
def test_what_cannot_be_meant_is_named_with_what_is_expected(content: str, said: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_config(content.encode())
    assert said in str(error.value)
