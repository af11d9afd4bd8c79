"""Proxy settings of an addon's pods: environment variables, and the proxy's CA as a file.

The CA is deployed as a ConfigMap whenever it is configured; it is mounted, with a variable for its path, only if there is a proxy.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Final

from muster.addon.agent_addon import AddonError
from muster.addon.templates.workloads import Mount
from muster.api.addon.v1alpha1 import ProxyConfig
from muster.machinery.objects import Object

_DIRECTORY: Final = "/managed/proxy-ca"
_FILE: Final = "ca-bundle.crt"
_VOLUME: Final = "proxy-ca-bundle"


def config_map_name(addon: str) -> str:
    return f"{addon}-proxy-ca"


def proxy_variables(proxy: ProxyConfig) -> Mapping[str, str]:
    settings = (("HTTP_PROXY", proxy.http_proxy), ("HTTPS_PROXY", proxy.https_proxy), ("NO_PROXY", proxy.no_proxy))
    variables = {spelling: value for name, value in settings if value for spelling in (name, name.lower())}
    if variables and proxy.ca_bundle:
        variables["CA_BUNDLE_FILE_PATH"] = f"{_DIRECTORY}/{_FILE}"
    return variables


def proxy_mounts(proxy: ProxyConfig, addon: str) -> tuple[Mount, ...]:
    if not proxy.ca_bundle or not proxy_variables(proxy):
        return ()
    return (Mount(_VOLUME, _DIRECTORY, {"configMap": {"name": config_map_name(addon)}}),)


def proxy_authority(proxy: ProxyConfig, addon: str, namespace: str) -> tuple[Object, ...]:
    """The ConfigMap with the CA, if there is one. Raises AddonError."""
    if not proxy.ca_bundle:
        return ()
    try:
        bundle = base64.b64decode(proxy.ca_bundle, validate=True).decode()
    except (binascii.Error, ValueError):
        raise AddonError("AddOnDeploymentConfig: proxyConfig.caBundle: expected certificates in PEM, in base64") from None
    metadata = {"name": config_map_name(addon), "namespace": namespace}
    return ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {_FILE: bundle}},)
