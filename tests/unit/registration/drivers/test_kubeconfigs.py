"""Which hub a kubeconfig leads to, what it takes to go there, and the kubeconfig that the agent writes for itself."""

import base64
from pathlib import Path
from typing import Any

import pytest

from muster.kube import yaml
from muster.registration.drivers.endpoints import ClientSettings, EndpointError, HubAddress
from muster.registration.drivers.kubeconfigs import KUBECONFIGS, KubeconfigEndpoint, hub_kubeconfig
from muster.runtime.client.kubeconfig import load_kubeconfig


def document(**cluster: Any) -> dict[str, Any]:
    return {
        "current-context": "b",
        "contexts": [{"name": "b", "context": {"cluster": "hub", "user": "u"}}],
        "clusters": [{"name": "hub", "cluster": {"server": "https://hub:6443", **cluster}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }


def read(content: dict[str, Any], base: Path) -> HubAddress:
    return endpoint(content, base).address


def endpoint(content: dict[str, Any], base: Path) -> KubeconfigEndpoint:
    """As it is kept in a file."""
    file, text = base / "kubeconfig", yaml.dump(content).encode()
    file.write_bytes(text)
    return KUBECONFIGS.read(file, text, "Secret test")


@pytest.mark.parametrize(
    "change",
    [
        {"server": "https://other:6443"},
        {"proxy-url": "http://proxy:3128"},
        {"tls-server-name": "other"},
        {"certificate-authority-data": base64.b64encode(b"other").decode()},
    ],
    ids=["server", "proxy", "server name", "authority"],
)
def test_another_server_proxy_or_authority_is_another_hub(change: dict[str, str], tmp_path: Path) -> None:
    one, other = read(document(), tmp_path), read(document(**change), tmp_path)
    assert one != other
    assert one.fingerprint != other.fingerprint


def test_another_name_is_another_hub(tmp_path: Path) -> None:
    renamed = document()
    renamed["contexts"][0]["context"]["cluster"] = renamed["clusters"][0]["name"] = "rebuilt"
    assert read(document(), tmp_path) != read(renamed, tmp_path)


def test_an_authority_counts_by_its_content_wherever_it_is_kept(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes(b"the authority\n")
    inside = document(**{"certificate-authority-data": base64.b64encode(b"the authority").decode()})
    assert read(document(**{"certificate-authority": "ca.crt"}), tmp_path) == read(inside, tmp_path)


def test_another_token_is_the_same_hub(tmp_path: Path) -> None:
    other = document()
    other["users"][0]["user"]["token"] = "t2"
    assert read(document(), tmp_path) == read(other, tmp_path)


@pytest.mark.parametrize("text", [b"", b"[]", b"a: [", b"current-context: b", b"{current-context: b, contexts: [{name: b}]}"])
def test_what_is_no_kubeconfig_is_refused(text: bytes, tmp_path: Path) -> None:
    with pytest.raises(EndpointError) as error:
        KUBECONFIGS.read(tmp_path / "kubeconfig", text, "Secret test")
    assert str(error.value) == f"Secret test: {error.value.problem}"


def test_what_is_kept_beside_a_kubeconfig_counts_before_there_are_files(tmp_path: Path) -> None:
    text = yaml.dump(document(**{"certificate-authority": "ca.crt"})).encode()
    found = KUBECONFIGS.read(tmp_path / "kubeconfig", text, siblings={"ca.crt": b"the authority\n"})
    assert found.address.ca == b"the authority"
    with pytest.raises(EndpointError, match="cluster 'hub': certificate-authority: No such file"):
        KUBECONFIGS.read(tmp_path / "kubeconfig", text)


def test_an_endpoint_names_the_files_that_it_reads_and_connects(tmp_path: Path) -> None:
    content = document()
    content["users"][0]["user"] = {"tokenFile": "token"}
    (tmp_path / "token").write_text("t")
    found = endpoint(content, tmp_path)
    assert dict(found.files()) == {"tokenFile": tmp_path / "token"}
    assert found.is_portable()
    assert found.connect(ClientSettings("test")).server == "https://hub:6443"


def test_what_only_the_agents_pod_can_run_is_not_portable(tmp_path: Path) -> None:
    content = document()
    content["users"][0]["user"] = {
        "exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "aws", "interactiveMode": "Never"}
    }
    assert not endpoint(content, tmp_path).is_portable()


def test_an_endpoint_that_cannot_be_used_says_where_an_administrator_finds_it(tmp_path: Path) -> None:
    content = document()
    content["contexts"][0]["context"]["user"] = "missing"
    with pytest.raises(EndpointError) as error:
        endpoint(content, tmp_path).connect(ClientSettings("test"))
    assert error.value.source == "Secret test"
    assert str(tmp_path) not in str(error.value)


def test_the_url_is_what_is_written_letter_by_letter(tmp_path: Path) -> None:
    found = endpoint(document(server="https://hub:6443/"), tmp_path)
    assert (found.url, found.address.server) == ("https://hub:6443/", "https://hub:6443")


def test_the_agents_kubeconfig_is_the_one_that_others_expect(tmp_path: Path) -> None:
    address = HubAddress("hub", "https://hub:6443", b"authority", "http://proxy:3128")
    text = hub_kubeconfig(address, {"client-certificate": "tls.crt", "client-key": "tls.key"})
    written = yaml.load(text)
    assert written["current-context"] == "default-context"
    assert written["contexts"] == [
        {"name": "default-context", "context": {"cluster": "hub", "namespace": "configuration", "user": "default-auth"}}
    ]
    assert written["users"] == [{"name": "default-auth", "user": {"client-certificate": "tls.crt", "client-key": "tls.key"}}]
    assert "insecure-skip-tls-verify" not in written["clusters"][0]["cluster"]
    assert KUBECONFIGS.read(tmp_path / "kubeconfig", text).address == address


def test_the_agents_kubeconfig_finds_its_files_beside_itself(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_bytes(hub_kubeconfig(HubAddress("hub", "https://hub"), {"client-certificate": "tls.crt", "client-key": "tls.key"}))
    (tmp_path / "tls.crt").write_text("c")
    (tmp_path / "tls.key").write_text("k")
    assert load_kubeconfig(path).identity.cert == tmp_path / "tls.crt"
