"""The names by which a hub's and a managed cluster's roles know each other, and the tags that prove it.

Both roles carry one suffix, the md5 of four values in the order of their tags' keys. The clusters' names in it are those that EKS
knows, whatever the hub calls the managed cluster. Regions are no part of it: two clusters of one name in one account have the same
suffix, so who finds a role there already has to look whose it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import md5
from typing import Final

from muster.aws.arns import EksCluster

LONGEST_ROLE: Final = 64
HUB_ROLE: Final = "ocm-hub-"
MANAGED_ROLE: Final = "ocm-managed-cluster-"
CREATOR: Final = "_managed-cluster-identity-creator"

HUB_ARN_TAG: Final = "open-cluster-management.io/hub-cluster-arn"
"""On a hub's roles: which hub made it, since the suffix does not say in which region."""
CLUSTER_TAG: Final = "open-cluster-management.io/cluster-name"
"""On a hub's roles: what the hub calls the managed cluster."""


@dataclass(frozen=True)
class RoleNames:
    """A hub and one of its managed clusters."""

    hub: EksCluster
    managed: EksCluster

    @property
    def tags(self) -> Mapping[str, str]:
        """Of the managed cluster's role; the hub's role trusts whoever has them. In the order of their keys."""
        return {
            "hub_cluster_account_id": self.hub.account,
            "hub_cluster_name": self.hub.name,
            "managed_cluster_account_id": self.managed.account,
            "managed_cluster_name": self.managed.name,
        }

    @property
    def suffix(self) -> str:
        return md5("#".join(self.tags.values()).encode(), usedforsecurity=False).hexdigest()

    @property
    def hub_role(self) -> str:
        """The role's name, in the hub's account."""
        return HUB_ROLE + self.suffix

    @property
    def hub_role_arn(self) -> str:
        return self.hub.role_arn(self.hub_role)

    @property
    def managed_role(self) -> str:
        """The role's name, in the managed cluster's account."""
        return MANAGED_ROLE + self.suffix

    @property
    def managed_role_arn(self) -> str:
        return self.managed.role_arn(self.managed_role)


def identity_creator(hub: EksCluster) -> str:
    """The role as which the hub's controllers make identities: its name, in the hub's account. May be longer than IAM allows."""
    return hub.name + CREATOR
