"""The names of a hub's and a managed cluster's roles, and the tags that prove their relation.

Both roles share a suffix, the md5 of four values in the order of their tags' keys. It contains the clusters' names in EKS, whatever
the hub calls the managed cluster. Regions are not included: two clusters of one name in one account have the same suffix, so the
tags of an existing role must be checked.
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
"""A tag of a hub's roles: the hub that created it, since the suffix does not contain the region."""
CLUSTER_TAG: Final = "open-cluster-management.io/cluster-name"
"""A tag of a hub's roles: the hub's name of the managed cluster."""


@dataclass(frozen=True)
class RoleNames:
    """A hub and one of its managed clusters."""

    hub: EksCluster
    managed: EksCluster

    @property
    def tags(self) -> Mapping[str, str]:
        """The tags of the managed cluster's role, which the hub's role requires. In the order of their keys."""
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
    """The name of the role with which the hub's controllers create identities, in the hub's account. May be longer than IAM
    allows."""
    return hub.name + CREATOR
