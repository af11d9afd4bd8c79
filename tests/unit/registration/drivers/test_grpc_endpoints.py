"""Ways to a hub that are gRPC configurations: which hub one leads to, what an agent makes of one, and what is wrong with one."""

import base64
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.kube import yaml
from muster.kube.certificates import CertificateAuthority
from muster.machinery.clock import SYSTEM
from muster.registration.drivers import endpoints_named, endpoints_of
from muster.registration.drivers.endpoints import ClientSettings, EndpointError, HubAddress
from muster.registration.drivers.grpc.endpoints import CONFIGS, GrpcEndpoint, hub_config
from muster.registration.names import AgentIdentity

CA = b"-----BEGIN CERTIFICATE-----\nof the hub\n-----END CERTIFICATE-----"

PROXY = {"proxyURL": "https://user:passw0rd@proxy:3128", "proxyCAData": base64.b64encode(b"of the proxy").decode()}


def bootstrap(**changes: Any) -> bytes:
    document = {"url": "hub.example:8090", "token": "secret-token", "caData": base64.b64encode(CA).decode(), **changes}
    return yaml.dump({key: value for key, value in document.items() if value is not None}).encode()


def read(content: bytes, directory: Path = Path("/spoke/bootstrap"), **more: Any) -> GrpcEndpoint:
    return CONFIGS.read(directory / "config.yaml", content, **more)


def own(content: bytes, directory: Path | None = None) -> bytes:
    """What an agent makes of the file that it was given."""
    return hub_config(read(content).address, directory)


def test_it_is_what_drivers_and_work_agents_call_so() -> None:
    assert endpoints_of("grpc") is endpoints_named("grpc") is CONFIGS
    assert (CONFIGS.name, CONFIGS.key) == ("grpc", "config.yaml")


class TestWhichHub:
    def test_it_is_known_by_url_and_authority_letter_by_letter(self, tmp_path: Path) -> None:
        found = read(bootstrap())
        assert found.url == found.address.server == "hub.example:8090"
        assert found.address == HubAddress("", "hub.example:8090", CA)
        (tmp_path / "ca.crt").write_bytes(CA + b"\n\n")
        assert read(bootstrap(caData=None, caFile="ca.crt"), tmp_path).address == found.address
        assert read(bootstrap(token="another")).address == found.address, "a token does not make another hub"
        for other in ({"url": "HUB.example:8090"}, {"url": "hub.example"}, {"caData": base64.b64encode(b"other").decode()}):
            assert read(bootstrap(**other)).address != found.address

    def test_what_is_said_of_the_connection_counts(self) -> None:
        plain = read(bootstrap()).address
        assert plain.details == b""
        for more in ({"urls": ["b:1"]}, {"serverHealthinessTimeout": "20s"}, {"keepAliveConfig": {"enable": True}}, PROXY):
            found = read(bootstrap(**more)).address
            assert found != plain
            assert found.fingerprint != plain.fingerprint
        spelled = {"keepAliveConfig": {"enable": False, "time": "30s", "timeout": "10s"}}
        assert read(bootstrap(**spelled)).address == plain, "the defaults, spelled out as upstream's agents write them"

    def test_what_was_known_before_there_were_proxies_is_as_it_was(self) -> None:
        assert b"proxy" not in read(bootstrap(urls=["b:1"])).address.details

    def test_the_agents_own_goes_through_the_same_proxy_and_shows_no_password(self) -> None:
        given = read(bootstrap(**PROXY))
        config = yaml.load(own(bootstrap(**PROXY)))
        assert {key: config[key] for key in PROXY} == PROXY
        assert "passw0rd" not in repr(given.address) + repr(given)

    def test_the_fingerprint_of_other_formats_is_as_it_was(self) -> None:
        address = HubAddress("hub", "https://hub:6443", b"ca")
        assert address.fingerprint == "f480c864da247f9c046ed2c6ea61c38e", "what agents have begun is kept under it"


class TestTheAgentsOwn:
    def test_it_leads_to_the_same_hub_with_the_agents_files_and_without_the_token(self, tmp_path: Path) -> None:
        written = own(bootstrap(urls=["b:1"], serverHealthinessTimeout="20s"), tmp_path)
        assert yaml.load(written) == {
            "url": "hub.example:8090",
            "urls": ["b:1"],
            "caData": base64.b64encode(CA + b"\n").decode(),
            "clientCertFile": str(tmp_path / "tls.crt"),
            "clientKeyFile": str(tmp_path / "tls.key"),
            "serverHealthinessTimeout": "20s",
        }
        assert b"secret-token" not in written
        assert read(written).address == read(bootstrap(urls=["b:1"], serverHealthinessTimeout="20s")).address

    def test_without_a_directory_that_others_know_its_files_are_beside_it(self, tmp_path: Path) -> None:
        found = read(own(bootstrap()), tmp_path)
        assert found.files() == {"clientCertFile": tmp_path / "tls.crt", "clientKeyFile": tmp_path / "tls.key"}

    def test_a_copy_elsewhere_has_its_own_files(self, tmp_path: Path) -> None:
        """As operators and probes read a Secret: never a file of the reader's."""
        written = own(bootstrap(), Path("/spoke/hub-kubeconfig"))
        named = {"clientCertFile": Path("/spoke/hub-kubeconfig/tls.crt"), "clientKeyFile": Path("/spoke/hub-kubeconfig/tls.key")}
        assert read(written, tmp_path).files() == named, "nothing is beside it"
        here = {"clientCertFile": tmp_path / "tls.crt", "clientKeyFile": tmp_path / "tls.key"}
        assert read(written, tmp_path, siblings={"tls.crt": b"", "tls.key": b""}).files() == here
        for name in ("tls.crt", "tls.key"):
            (tmp_path / name).write_bytes(b"x")
        assert read(written, tmp_path).files() == here
        assert read(written, tmp_path, siblings={"tls.crt": b""}).files() == named, "a half of a pair is none"
        elsewhere = bootstrap(token=None, clientCertFile="/etc/other.crt", clientKeyFile="/etc/other.key")
        assert read(elsewhere, tmp_path).files()["clientCertFile"] == Path("/etc/other.crt"), "those that it names otherwise stay"

    def test_upstreams_own_file_is_read(self, tmp_path: Path) -> None:
        upstream = {
            "caData": base64.b64encode(CA).decode(),
            "clientCertFile": "/spoke/hub-kubeconfig/tls.crt",
            "clientKeyFile": "/spoke/hub-kubeconfig/tls.key",
            "url": "hub.example:8090",
            "token": "",
            "keepAliveConfig": {"enable": False},
        }
        found = read(yaml.dump(upstream).encode(), tmp_path, siblings={"tls.crt": b"", "tls.key": b""})
        assert found.address == read(bootstrap()).address

    @given(
        url=st.from_regex(r"[a-z]{1,20}\.example(:[1-9][0-9]{0,3})?", fullmatch=True),
        urls=st.lists(st.from_regex(r"[a-z]{1,20}:[1-9][0-9]{0,3}", fullmatch=True), max_size=3),
        ca=st.binary(min_size=1, max_size=40).map(lambda ca: b"x" + ca.strip() + b"x"),
        health=st.none() | st.integers(1, 10**6).map(lambda ms: f"{ms}ms"),
        keepalive=st.fixed_dictionaries(
            {},
            optional={"enable": st.booleans(), "time": st.integers(1, 999).map("{}s".format), "permitWithoutStream": st.booleans()},
        ),
    )
    def test_whatever_an_agent_was_given_its_own_leads_to_the_same_hub(
        self, url: str, urls: list[str], ca: bytes, health: str | None, keepalive: dict[str, Any]
    ) -> None:
        given_ = bootstrap(
            url=url,
            urls=urls,
            caData=base64.b64encode(ca).decode(),
            serverHealthinessTimeout=health,
            keepAliveConfig=keepalive,
        )
        address = read(given_).address
        made = read(own(given_, Path("/spoke/hub-kubeconfig")))
        assert made.address == address
        assert made.config.keepalive == read(given_).config.keepalive
        assert own(own(given_)) == own(given_), "made of its own it is the same"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"- a list", "expected a map"),
        (b"{", "line"),
        (bootstrap(url=None), "url: not set"),
        (bootstrap(url="hub:port"), "url: 'hub:port' leads nowhere"),
        (bootstrap(caData=None), "caFile: not set; a token is only shown to a server that caFile or caData vouches for"),
        (bootstrap(caData="%"), "caData: not valid base64"),
        (bootstrap(caData=None, caFile="gone.crt"), "caFile: No such file"),
        (bootstrap(token=None), "token: not set, nor is clientCertFile"),
        (bootstrap(clientCertFile="tls.crt"), "clientKeyFile: not set"),
    ],
)
def test_what_is_wrong_is_said_by_key_and_place(content: bytes, problem: str, tmp_path: Path) -> None:
    with pytest.raises(EndpointError) as error:
        read(content, tmp_path, source="Secret a/b")
    assert error.value.source == "Secret a/b"
    assert problem in error.value.problem
    assert "secret-token" not in str(error.value)


class TestConnecting:
    async def test_a_client_is_the_clusters_whose_certificate_it_is(self, tmp_path: Path) -> None:
        identity = AgentIdentity("cluster1", "abcde")
        authority = CertificateAuthority.create("ca", SYSTEM.now())
        pair = authority.issue(identity.common_name, SYSTEM.now(), timedelta(hours=1), organizations=identity.organizations)
        (tmp_path / "tls.crt").write_bytes(pair.certificate)
        (tmp_path / "tls.key").write_bytes(pair.key)
        endpoint = read(own(bootstrap()), tmp_path)
        assert endpoint.is_portable()
        for cluster in ("", "cluster1"):
            client = endpoint.connect(ClientSettings("test", cluster=cluster))
            assert client.server == "hub.example:8090"
            await client.close()

    def test_a_newcomer_has_to_say_for_which_cluster(self) -> None:
        with pytest.raises(EndpointError, match="this one has no name yet"):
            read(bootstrap()).connect(ClientSettings("test"))

    def test_what_is_wrong_with_the_certificate_is_said_by_key(self, tmp_path: Path) -> None:
        endpoint = read(own(bootstrap()), tmp_path)
        with pytest.raises(EndpointError, match="clientCertFile: No such file"):
            endpoint.connect(ClientSettings("test"))
        (tmp_path / "tls.crt").write_bytes(b"nonsense")
        with pytest.raises(EndpointError, match="clientCertFile: not a certificate"):
            endpoint.connect(ClientSettings("test"))

    def test_no_secret_is_shown(self) -> None:
        assert "secret-token" not in repr(read(bootstrap()))
