"""A hub seen from outside: whether a cluster is one, its address, and how new clusters get its CA.

New clusters find address and CA in ConfigMap `kube-public/cluster-info`, where kubeadm puts them too. It contains nothing secret
and must be readable before authentication, so everyone may read it; its content is trusted only if the CA has the hash in the join
command. An existing cluster-info is not changed.
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
"""Label of objects that `clusteradm` created outside of its own namespaces, to distinguish them from existing ones."""
CLUSTERADM: Final = "clusteradm"
"""Field manager of objects that `clusteradm` applies."""


async def require_hub(client: KubeClient) -> None:
    """Raises NotAHub if ManagedClusters are not served."""
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
    """The address of the hub for agents. `ca` is PEM, and empty if the system's CAs verify the hub."""

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
        """The hash of the CA's public key, as kubeadm computes it. Empty unless there is exactly one CA."""
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
    """The ConfigMap, and the permission for everyone to read it."""
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
