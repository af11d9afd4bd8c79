"""Role-based access control over one cluster's roles and bindings.

`system:masters` is allowed everything; everybody else what the rules they hold allow (`muster.kube.rbac`), looked up in an index
that follows the stored roles and bindings (see `grants`).
"""

from __future__ import annotations

from muster.apiserver.auth.grants import GrantIndex
from muster.apiserver.cluster import Cluster
from muster.kube.rbac import EVERYTHING, RawRule, Rule
from muster.machinery.authentication import MASTERS, UserInfo
from muster.machinery.authorization import ALLOWED, AccessAttributes, AccessDecision


class Rbac:
    """Answers for one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._index = GrantIndex(cluster)

    def authorize(self, user: UserInfo, attributes: AccessAttributes) -> AccessDecision:
        if MASTERS in user.groups:
            return ALLOWED
        return self._index.current().decide(user, attributes)

    def rules_for(self, user: UserInfo, namespace: str) -> list[Rule]:
        """Every rule the user has in the namespace (cluster-wide ones included); "" for cluster-wide only."""
        if MASTERS in user.groups:
            return list(EVERYTHING)
        return self._index.current().rules_for(user, namespace)

    def role_rules(self, kind: str, namespace: str, name: str) -> list[RawRule] | None:
        """The rules of a (Cluster)Role, or None if there is no such role."""
        return self._index.current().role_rules(kind, namespace, name)
