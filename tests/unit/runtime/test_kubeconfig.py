"""How to reach a cluster, and complaints that name file, context and field."""

import base64
from pathlib import Path
from typing import Any

import pytest

from muster.kube import yaml
from muster.runtime.client import (
    AuthInfo,
    ClientConfig,
    KubeconfigError,
    context_of,
    dump_kubeconfig,
    in_cluster_config,
    load_context,
    load_kubeconfig,
    parse_kubeconfig,
)

PLUGIN = {"apiVersion": "client.authentication.k8s.io/v1", "command": "get-token"}


def kubeconfig(cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None, **changes: Any) -> str:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "https://host:6443/", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [
            {"name": "one", "context": {"cluster": "c", "user": "u", "namespace": "ns"}},
            {"name": "nobody", "context": {"cluster": "c"}},
        ],
        "current-context": "one",
    }
    return yaml.dump({**document, **changes})


def test_the_current_context_is_read_with_everything_in_it() -> None:
    pem = base64.b64encode(b"PEM").decode()
    config = parse_kubeconfig(
        kubeconfig(
            {"certificate-authority-data": pem, "tls-server-name": "kubernetes", "proxy-url": "http://proxy:3128"},
            {"client-certificate-data": pem, "client-key-data": pem, "token": "t", "as": "root", "as-groups": ["g1", "g2"]},
        )
    )
    assert (config.server, config.ca, config.namespace) == ("https://host:6443", b"PEM", "ns")
    assert (config.tls_server_name, config.proxy_url, config.insecure) == ("kubernetes", "http://proxy:3128", False)
    assert (config.identity.cert, config.identity.key, config.identity.token) == (b"PEM", b"PEM", "t")
    assert config.identity.impersonate == (("Impersonate-User", "root"), ("Impersonate-Group", "g1"), ("Impersonate-Group", "g2"))


def test_an_impersonated_users_extras_may_have_any_name() -> None:
    config = parse_kubeconfig(kubeconfig(user={"as": "root", "as-user-extra": {"example.com/a b": ["1", "2"]}}))
    name = "Impersonate-Extra-example.com%2Fa%20b"
    assert config.identity.impersonate == (("Impersonate-User", "root"), (name, "1"), (name, "2"))


def test_another_context_may_be_asked_for_and_may_be_of_nobody() -> None:
    config = parse_kubeconfig(kubeconfig(user={"token": "secret"}), "nobody")
    assert config.identity.token == ""


def test_no_secret_shows_in_a_description() -> None:
    config = parse_kubeconfig(kubeconfig(user={"token": "sesame", "username": "u", "password": "hush"}))
    assert "sesame" not in repr(config)
    assert "hush" not in repr(config)


def test_files_are_relative_to_the_kubeconfig_and_stay_files(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("CA")
    path = tmp_path / "config"
    path.write_text(kubeconfig({"certificate-authority": "ca.crt"}, {"tokenFile": "token", "exec": {**PLUGIN, "command": "./get"}}))
    config = load_kubeconfig(path)
    assert config.ca == tmp_path / "ca.crt"
    assert config.identity.token_file == tmp_path / "token"
    assert config.identity.exec_plugin is not None
    assert config.identity.exec_plugin.command == str(tmp_path / "get")


def test_a_kubeconfig_that_is_written_needs_no_files(tmp_path: Path) -> None:
    for name in ("ca.crt", "tls.crt", "tls.key", "token"):
        (tmp_path / name).write_text(name)
    read = parse_kubeconfig(
        kubeconfig(
            {"certificate-authority": "ca.crt", "proxy-url": "http://proxy:3128", "tls-server-name": "kubernetes"},
            {"client-certificate": "tls.crt", "client-key": "tls.key", "tokenFile": "token"},
        ),
        base=tmp_path,
    )
    again = parse_kubeconfig(dump_kubeconfig(read, cluster="hub"), base=tmp_path / "elsewhere")
    assert (again.server, again.ca, again.namespace) == (read.server, b"ca.crt", "ns")
    assert (again.proxy_url, again.tls_server_name, again.insecure) == ("http://proxy:3128", "kubernetes", False)
    assert (again.identity.cert, again.identity.key, again.identity.token) == (b"tls.crt", b"tls.key", "token")


@pytest.mark.parametrize(("user", "field"), [({"exec": PLUGIN}, "exec"), ({"token": "t", "as": "root"}, "as")])
def test_what_is_only_of_use_here_is_not_written(user: dict[str, Any], field: str) -> None:
    with pytest.raises(KubeconfigError) as refusal:
        dump_kubeconfig(parse_kubeconfig(kubeconfig(user=user)))
    assert refusal.value.field == field


def test_a_token_may_lie_beside_a_kubeconfig_that_is_written(tmp_path: Path) -> None:
    config = ClientConfig("https://hub:6443", b"ca", proxy_url="http://proxy:3128", identity=AuthInfo(token="mine"))
    (tmp_path / "config").write_text(dump_kubeconfig(config, user="robot", token_file="token"))
    again = load_kubeconfig(tmp_path / "config")
    assert again.identity == AuthInfo(token_file=tmp_path / "token")
    assert (again.server, again.ca, again.proxy_url) == (config.server, config.ca, config.proxy_url)
    assert "mine" not in (tmp_path / "config").read_text()


def test_several_files_are_merged_and_the_first_one_counts(tmp_path: Path) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    first.write_text(yaml.dump({"current-context": "one", "users": [{"name": "u", "user": {"token": "first"}}]}))
    second.write_text(kubeconfig(user={"token": "second"}))
    config = load_kubeconfig(environ={"KUBECONFIG": f"{first}:{tmp_path / 'missing'}:{second}"})
    assert config.identity.token == "first"
    assert config.server == "https://host:6443"


@pytest.mark.parametrize(
    ("text", "context", "expected"),
    [
        (kubeconfig(), "two", "f: context: 'two' does not exist; there are nobody, one"),
        (
            kubeconfig(contexts=[]).replace("current-context: one", ""),
            "",
            "f: current-context: not set, and no context was given",
        ),
        (kubeconfig(clusters=[]), "", "f: context 'one': cluster: 'c' does not exist; there are none"),
        (kubeconfig({"server": "host:6443"}), "", "f: cluster 'c': server: 'host:6443' is not an http or https URL"),
        (kubeconfig({"server": "https://h:99999"}), "", "f: cluster 'c': server: 'https://h:99999' is not an http or https URL"),
        (kubeconfig({"server": "https://[::1"}), "", "f: cluster 'c': server: 'https://[::1' is not an http or https URL"),
        (kubeconfig({"proxy-url": "http://p:x"}), "", "f: cluster 'c': proxy-url: only http and https proxies are supported"),
        (kubeconfig({"certificate-authority-data": "%"}), "", "f: cluster 'c': certificate-authority-data: not valid base64"),
        (kubeconfig({"certificate-authority": "/nowhere"}), "", "f: cluster 'c': certificate-authority: /nowhere: no such file"),
        (
            kubeconfig({"insecure-skip-tls-verify": True, "certificate-authority-data": "QQ=="}),
            "",
            "f: cluster 'c': insecure-skip-tls-verify: may not be combined with a certificate authority",
        ),
        (
            kubeconfig({"proxy-url": "socks5://p:1"}),
            "",
            "f: cluster 'c': proxy-url: only http and https proxies are supported",
        ),
        (
            kubeconfig(user={"client-certificate-data": "QQ=="}),
            "",
            "f: user 'u': client-key: client-certificate and client-key must be given together",
        ),
        (kubeconfig(user={"token": 5}), "", "f: user 'u': token: must be a string"),
        (kubeconfig(user={"exec": {**PLUGIN, "command": ""}}), "", "f: user 'u': exec: command: not set"),
        (
            kubeconfig(user={"exec": {**PLUGIN, "apiVersion": "v9"}}),
            "",
            "f: user 'u': exec: apiVersion: 'v9' is not supported; expected client.authentication.k8s.io/v1 or "
            "client.authentication.k8s.io/v1beta1",
        ),
        (kubeconfig(user={"auth-provider": {}}), "", "f: user 'u': auth-provider: was removed from Kubernetes; use exec"),
        ("[]", "", "f: not a kubeconfig: expected a map"),
        ("a: [", "", "f: yaml: line 2: did not find expected node content"),
    ],
)
def test_a_complaint_names_the_place(text: str, context: str, expected: str) -> None:
    with pytest.raises(KubeconfigError) as refused:
        parse_kubeconfig(text, context, source="f")
    assert str(refused.value) == expected


def test_a_pod_finds_its_cluster(tmp_path: Path) -> None:
    for name, content in (("token", "t"), ("ca.crt", "CA"), ("namespace", "mine\n")):
        (tmp_path / name).write_text(content)
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    config = in_cluster_config(tmp_path, environ)
    assert (config.server, config.namespace, config.identity.token_file) == ("https://[fd00::1]:443", "mine", tmp_path / "token")
    with pytest.raises(KubeconfigError, match="KUBERNETES_SERVICE_HOST"):
        in_cluster_config(tmp_path, {})
    with pytest.raises(KubeconfigError, match="is the service account's token mounted"):
        in_cluster_config(tmp_path / "empty", environ)


def test_one_context_is_taken_out_whole_and_works_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("PEM")
    plugin = {**PLUGIN, "command": "./get", "interactiveMode": "Always"}
    user = {"tokenFile": "token", "exec": plugin, "as": "root"}
    path = tmp_path / "config"
    path.write_text(kubeconfig({"certificate-authority": "ca.crt"}, user))
    taken = load_context(path)
    assert taken["clusters"] == [
        {"name": "c", "cluster": {"server": "https://host:6443/", "certificate-authority": str(tmp_path / "ca.crt")}}
    ]
    there = {**user, "tokenFile": str(tmp_path / "token"), "exec": {**plugin, "command": str(tmp_path / "get")}}
    assert taken["users"] == [{"name": "u", "user": there}]
    assert (taken["current-context"], [one["name"] for one in taken["contexts"]]) == ("one", ["one"])
    assert load_context(taken) == taken, "a document is as good as a file"
    assert load_context(path, "nobody")["users"] == []


def test_a_config_becomes_a_kubeconfig_whose_files_stay_files(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret")
    config = ClientConfig("https://host", b"PEM", identity=AuthInfo(token_file=token))
    document = context_of(config, "hub")
    assert document["users"] == [{"name": "hub", "user": {"tokenFile": str(token)}}]
    assert "secret" not in str(document)
    again = parse_kubeconfig(yaml.dump(document))
    assert (again.server, again.ca, again.identity.token_file) == ("https://host", b"PEM", token)
    plugged = parse_kubeconfig(kubeconfig(user={"exec": {**PLUGIN, "args": ["a"], "env": [{"name": "A", "value": "1"}]}}))
    assert parse_kubeconfig(yaml.dump(context_of(plugged))).identity.exec_plugin == plugged.identity.exec_plugin
