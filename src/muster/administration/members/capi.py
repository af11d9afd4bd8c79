"""The kubeconfigs of clusters that Cluster API has created."""

from __future__ import annotations

import base64

from muster.administration.errors import AdministrationError
from muster.runtime.client import ClientConfig, KubeClient, KubeconfigError, NotFound, parse_kubeconfig
from muster.runtime.client.builtin import SECRETS


async def find_workload_cluster(client: KubeClient, name: str) -> ClientConfig:
    """`name` may have a namespace before a slash. Raises AdministrationError."""
    namespace, separator, cluster = name.rpartition("/")
    namespace = namespace if separator else "default"
    secret = f"{cluster}-kubeconfig"
    where = f"--capi-cluster-name {name}: Secret {namespace}/{secret}"
    try:
        found = await client.get(SECRETS, secret, namespace)
        return parse_kubeconfig(base64.b64decode((found.get("data") or {})["value"]), source=where)
    except NotFound:
        raise AdministrationError(f"{where} is not there", "is this the cluster that Cluster API runs on?") from None
    except KeyError:
        raise AdministrationError(f"{where} has no value") from None
    except (KubeconfigError, ValueError) as error:
        raise AdministrationError(str(error)) from None
