"""Kubeconfigs written from a `ClientConfig`: self-contained for other machines, or with files of this machine."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from muster.kube import yaml
from muster.machinery import confinement
from muster.runtime.client.kubeconfig import AuthInfo, ClientConfig, KubeconfigError, Material


def dump_kubeconfig(
    config: ClientConfig, *, cluster: str = "default", user: str = "default", context: str = "default", token_file: str = ""
) -> str:
    """A self-contained kubeconfig: the contents of files are embedded. Raises KubeconfigError, also for credentials that only work
    on this machine.

    `token_file` will be beside the kubeconfig and have the token, instead of the config's own credential.
    """
    identity = AuthInfo() if token_file else config.identity
    if identity.exec_plugin is not None:
        raise KubeconfigError("kubeconfig", "user", "exec", "a program of this machine cannot run on others")
    trust = {} if config.insecure else _embedded("certificate-authority", config.ca)
    who: dict[str, Any] = {**_embedded("client-certificate", identity.cert), **_embedded("client-key", identity.key)}
    token = _content(identity.token_file, "tokenFile").decode().strip() if identity.token_file else identity.token
    who |= _set({"token": token, "tokenFile": token_file})
    return yaml.dump(_written(replace(config, identity=identity), trust, who, cluster, user, context))


def context_of(config: ClientConfig, name: str = "default") -> dict[str, Any]:
    """A kubeconfig for this machine, with one context: files and exec plugins are referred to. Raises KubeconfigError."""
    identity, plugin = config.identity, config.identity.exec_plugin
    trust = {} if config.insecure else _referred("certificate-authority", config.ca)
    who: dict[str, Any] = {**_referred("client-certificate", identity.cert), **_referred("client-key", identity.key)}
    who |= {"tokenFile": str(identity.token_file)} if identity.token_file else _set({"token": identity.token})
    if plugin is not None:
        who["exec"] = {
            "apiVersion": plugin.api_version,
            "command": plugin.command,
            "args": list(plugin.args),
            "env": [{"name": key, "value": value} for key, value in plugin.env.items()],
            "provideClusterInfo": plugin.provide_cluster_info,
            "interactiveMode": "IfAvailable",
        }
    return _written(config, trust, who, name, name, name)


def _written(
    config: ClientConfig, trust: dict[str, Any], who: dict[str, Any], cluster: str, user: str, context: str
) -> dict[str, Any]:
    """`trust` and `who` have the CA and the credential; the other fields are added."""
    if config.identity.impersonate:
        raise KubeconfigError("kubeconfig", "user", "as", "cannot be carried over")
    plain: dict[str, Any] = {"tls-server-name": config.tls_server_name, "proxy-url": config.proxy_url}
    plain |= {"insecure-skip-tls-verify": config.insecure}
    person = {"username": config.identity.username, "password": config.identity.password}
    where = {"cluster": cluster, "user": user, **({"namespace": config.namespace} if config.namespace else {})}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster, "cluster": {"server": config.server, **trust, **_set(plain)}}],
        "users": [{"name": user, "user": {**who, **_set(person)}}],
        "contexts": [{"name": context, "context": where}],
        "current-context": context,
    }


def _set(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value}


def _referred(field: str, material: Material | None) -> dict[str, str]:
    return {field: str(material)} if isinstance(material, Path) else _embedded(field, material)


def _embedded(field: str, material: Material | None) -> dict[str, str]:
    return {} if material is None else {f"{field}-data": base64.b64encode(_content(material, field)).decode()}


def _content(material: Material, field: str) -> bytes:
    if isinstance(material, bytes):
        return material
    try:
        return confinement.read(material)
    except OSError as error:
        raise KubeconfigError(confinement.shown(material), "", field, error.strerror or str(error)) from None
