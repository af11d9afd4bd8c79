"""Upstream's config.yaml: read as upstream reads it, never without TLS, and complained about by key with the remedy."""

import base64
import contextlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.kube import yaml
from muster.transport.client.config import (
    ConfigError,
    KeepAlive,
    ProxySettings,
    TransportConfig,
    dump_config,
    host_and_port,
    load_config,
    parse_config,
)

PEM = b"-----BEGIN CERTIFICATE-----\n"
DATA = base64.b64encode(PEM).decode()


def parsed(**keys: Any) -> TransportConfig:
    return parse_config(yaml.dump(keys), "secret/config.yaml", Path("/etc/hub"))


def test_a_bootstrap_file_has_address_authority_and_token() -> None:
    config = parsed(url="hub.example:8090", caData=DATA, token="t0ken\n")
    assert config == TransportConfig("hub.example:8090", ca=PEM, token="t0ken")
    assert "t0ken" not in repr(config)


def test_an_agents_file_has_a_certificate_whose_files_are_found_beside_it() -> None:
    config = parsed(url="hub:8090", caFile="ca.crt", clientCertFile="tls.crt", clientKeyFile="/abs/tls.key")
    assert (config.ca, config.cert, config.key) == (Path("/etc/hub/ca.crt"), Path("/etc/hub/tls.crt"), Path("/abs/tls.key"))


def test_data_wins_over_files() -> None:
    config = parsed(url="hub:1", caData=DATA, caFile="x", clientCertData=DATA, clientCertFile="x", clientKeyData=DATA)
    assert (config.ca, config.cert, config.key) == (PEM, PEM, PEM)


def test_unknown_keys_are_passed_over() -> None:
    assert parsed(url="hub:1", caData=DATA, token="t", somethingNew={"a": 1}).url == "hub:1"


def test_further_addresses_come_after_the_first_and_once_each() -> None:
    config = parsed(url="a:1", urls=["b:1", "a:1", "[::1]:8090"], caData=DATA, token="t")
    assert config.addresses == ("a:1", "b:1", "[::1]:8090")


def test_durations_are_gos() -> None:
    keepalive = {"enable": True, "time": "1m30s", "timeout": 5_000_000_000, "permitWithoutStream": True}
    config = parsed(url="a:1", caData=DATA, token="t", keepAliveConfig=keepalive, serverHealthinessTimeout="20s")
    assert config.keepalive == KeepAlive(True, 90.0, 5.0, True)
    assert config.health_timeout == 20.0


def test_a_proxys_password_is_shown_to_nobody() -> None:
    config = parsed(url="hub:1", caData=DATA, token="t", proxyURL="http://user:passw0rd@proxy:3128")
    assert config.proxy.url == "http://user:passw0rd@proxy:3128"
    assert "passw0rd" not in repr(config)


GOOD: dict[str, Any] = {"url": "hub:8090", "caData": DATA, "token": "t"}


@pytest.mark.parametrize(
    ("changes", "key", "problem"),
    [
        ({"url": ""}, "url", "give the gRPC server's address"),
        ({"url": 7}, "url", "must be a string"),
        ({"url": "https://hub:8090"}, "url", "leads nowhere"),
        ({"url": "hub:port"}, "url", "'port' is no port"),
        ({"urls": "hub:1"}, "urls", "must be a list"),
        ({"urls": ["hub:0"]}, "urls", "'0' is no port"),
        ({"caData": "!"}, "caData", "not valid base64"),
        ({"caData": None}, "caFile", "a token is only shown to a server"),
        ({"clientCertData": DATA}, "clientKeyFile", "together or not at all"),
        ({"clientKeyFile": "k"}, "clientCertFile", "together or not at all"),
        ({"token": None}, "token", "give a token or a client certificate"),
        ({"keepAliveConfig": []}, "keepAliveConfig", "must be a map"),
        ({"keepAliveConfig": {"time": "soon"}}, "keepAliveConfig.time", "invalid duration"),
        ({"keepAliveConfig": {"enable": "yes"}}, "keepAliveConfig.enable", "true or false"),
        ({"serverHealthinessTimeout": "-1s"}, "serverHealthinessTimeout", "greater than zero"),
        ({"serverHealthinessTimeout": 1.5}, "serverHealthinessTimeout", "a duration such as 30s"),
        ({"proxyURL": "socks5://user:t0ken@proxy:1080"}, "proxyURL", "the http or https URL of a proxy"),
        ({"proxyURL": "http://proxy:port"}, "proxyURL", "the http or https URL of a proxy"),
        ({"proxyURL": "https://proxy", "proxyCAData": "!"}, "proxyCAData", "not valid base64"),
        ({"proxyCAData": DATA}, "proxyCAData", "set without proxyURL"),
    ],
)
def test_a_complaint_names_file_key_and_remedy(changes: dict[str, Any], key: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parsed(**{**GOOD, **changes})
    assert (caught.value.source, caught.value.key) == ("secret/config.yaml", key)
    assert problem in str(caught.value)
    assert "t0ken" not in str(caught.value)


def test_nothing_makes_a_connection_without_identity_or_tls() -> None:
    """Upstream speaks plain HTTP/2 then, whatever authority is given."""
    for keys in ({}, {"caData": DATA}):
        with pytest.raises(ConfigError):
            parsed(url="hub:1", **keys)


@pytest.mark.parametrize("text", ["", "- a", "7", "{"])
def test_what_is_no_configuration_is_said_to_be_none(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_config(text)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.yaml"):
        load_config(tmp_path / "nowhere.yaml")


@pytest.mark.parametrize(
    ("address", "place"),
    [
        ("hub:8090", ("hub", 8090)),
        ("hub", ("hub", 443)),
        ("10.0.0.1:1", ("10.0.0.1", 1)),
        ("[::1]:8090", ("::1", 8090)),
        ("::1", ("::1", 443)),
        ("dns:///hub.example:8090", ("hub.example", 8090)),
    ],
)
def test_addresses_are_read_as_gos_clients_do(address: str, place: tuple[str, int]) -> None:
    assert host_and_port(address) == place


_paths = st.sampled_from(["/a/tls.crt", "/b/c.pem"]).map(Path)
_material = st.binary(min_size=1, max_size=20) | _paths
_seconds = st.integers(1, 10**6).map(lambda milliseconds: milliseconds / 1000)
_configs = st.builds(
    TransportConfig,
    url=st.sampled_from(["hub:8090", "hub.example"]),
    urls=st.lists(st.sampled_from(["b:1", "c:2"]), unique=True).map(tuple),
    ca=_material,
    cert=st.just(b"cert"),
    key=_paths,
    token=st.sampled_from(["", "abc"]),
    token_file=st.none() | _paths,
    keepalive=st.builds(KeepAlive, st.booleans(), _seconds, _seconds, st.booleans()),
    health_timeout=st.none() | _seconds,
    proxy=st.builds(ProxySettings) | st.builds(ProxySettings, st.just("https://proxy:3128"), st.none() | st.just(PEM)),
)


@given(_configs)
def test_what_is_written_is_read_again(config: TransportConfig) -> None:
    assert parse_config(dump_config(config)) == config


@given(st.text(max_size=200) | st.binary(max_size=200))
def test_whatever_is_in_a_file_only_a_complaint_comes_of_it(text: str | bytes) -> None:
    with contextlib.suppress(ConfigError):
        parse_config(text)
