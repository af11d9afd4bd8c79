"""A hub as seen from outside: whether a cluster is one, where it is reached, and how newcomers learn whom to trust there.

Newcomers find address and authority in ConfigMap `kube-public/cluster-info`, where kubeadm puts them too. It holds nothing secret,
and reading it must be possible before one can be known to the hub, so it is open to everybody; what is read there is believed only
if its authority has the hash that the join command carries. A cluster-info that is there already is left as it is.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cryptography import x509

from muster.administration.errors import AdministrationError, NotAHub
from muster.api import Document
from muster.kube import yaml
from muster.kube.certificates import fingerprint
from muster.machinery.oserrors import explain_file_error
from muster.operator.applier import Wanted
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.runtime.client import ClientConfig, KubeClient, KubeError, NotFound
from muster.runtime.client.builtin import CONFIG_MAPS, ROLE_BINDINGS, ROLES
from muster.runtime.install import RBAC_GROUP, binding, named, rule

PUBLIC_NAMESPACE: Final = "kube-public"
CLUSTER_INFO: Final = "cluster-info"
CLUSTER_INFO_ROLE: Final = "open-cluster-management:bootstrap:cluster-info"
MADE_BY: Final = "open-cluster-management.io/created-by"
"""Label of what `clusteradm` made outside of namespaces of its own, so that it can be told from what was there."""
CLUSTERADM: Final = "clusteradm"
"""Field manager of what `clusteradm` applies."""


async def require_hub(client: KubeClient) -> None:
    """Raises NotAHub where ManagedClusters are not served."""
    try:
        served = await client.api_resources(MANAGED_CLUSTERS.api_version)
    except NotFound:
        raise NotAHub(client.server) from None
    if MANAGED_CLUSTERS.plural not in {one.plural for one in served}:
        raise NotAHub(client.server)


async def is_hub(client: KubeClient) -> bool:
    try:
        await require_hub(client)
    except (NotAHub, KubeError):
        return False
    return True


@dataclass(frozen=True)
class HubAddress:
    """Where agents reach the hub. `ca` is PEM, and empty where authorities of the system vouch for the hub."""

    server: str
    ca: bytes = field(default=b"", repr=False)

    @classmethod
    def of(cls, config: ClientConfig) -> HubAddress:
        try:
            ca = config.ca.read_bytes() if isinstance(config.ca, Path) else config.ca or b""
        except OSError as error:
            raise AdministrationError(f"certificate authority {config.ca!s}: {explain_file_error(error)}") from None
        return cls(config.server, ca)

    @property
    def ca_hash(self) -> str:
        """As kubeadm has it: of the authority's public key. Empty where there is not exactly one authority."""
        try:
            found = x509.load_pem_x509_certificates(self.ca)
        except ValueError:
            return ""
        return fingerprint(found[0].public_key()) if len(found) == 1 else ""


async def has_cluster_info(client: KubeClient) -> bool:
    try:
        await client.get(CONFIG_MAPS, CLUSTER_INFO, PUBLIC_NAMESPACE)
    except NotFound:
        return False
    return True


def cluster_info(address: HubAddress) -> list[Wanted]:
    """The ConfigMap, and that everybody may read it."""
    cluster: Document = {"server": address.server}
    if address.ca:
        cluster["certificate-authority-data"] = base64.b64encode(address.ca).decode()
    kubeconfig = {"apiVersion": "v1", "kind": "Config", "clusters": [{"name": "", "cluster": cluster}]}
    everybody = {"kind": "Group", "apiGroup": RBAC_GROUP, "name": "system:unauthenticated"}
    authenticated = {**everybody, "name": "system:authenticated"}
    bound = binding(CLUSTER_INFO_ROLE, "Role", CLUSTER_INFO_ROLE, everybody, PUBLIC_NAMESPACE)
    reading = rule("", ["configmaps"], ["get"], [CLUSTER_INFO])
    labels = {"labels": {MADE_BY: CLUSTERADM}}
    return [
        (CONFIG_MAPS, {"metadata": named(CLUSTER_INFO, PUBLIC_NAMESPACE) | labels, "data": {"kubeconfig": yaml.dump(kubeconfig)}}),
        (ROLES, {"metadata": named(CLUSTER_INFO_ROLE, PUBLIC_NAMESPACE) | labels, "rules": [reading]}),
        (ROLE_BINDINGS, {**bound, "metadata": bound["metadata"] | labels, "subjects": [everybody, authenticated]}),
    ]
