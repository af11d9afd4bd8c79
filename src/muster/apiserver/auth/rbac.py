"""RBAC authorization with the roles and bindings of one cluster.

`system:masters` is allowed everything; all others what the rules they hold allow (`muster.kube.rbac`), found in an index that
follows the stored roles and bindings (`grants`).
"""

from __future__ import annotations

from muster.apiserver.auth.grants import GrantIndex
from muster.apiserver.cluster import Cluster
from muster.kube.rbac import EVERYTHING, RawRule, Rule
from muster.machinery.authentication import MASTERS, UserInfo
from muster.machinery.authorization import ALLOWED, AccessAttributes, AccessDecision


class Rbac:
    """The RBAC authorizer of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._index = GrantIndex(cluster)

    def authorize(self, user: UserInfo, attributes: AccessAttributes) -> AccessDecision:
        if MASTERS in user.groups:
            return ALLOWED
        return self._index.current().decide(user, attributes)

    def rules_for(self, user: UserInfo, namespace: str) -> list[Rule]:
        """All rules that the user holds in a namespace, cluster-wide ones included; only the latter for ""."""
        if MASTERS in user.groups:
            return list(EVERYTHING)
        return self._index.current().rules_for(user, namespace)

    def role_rules(self, kind: str, namespace: str, name: str) -> list[RawRule] | None:
        """The rules of a (Cluster)Role, or None if there is no such role."""
        return self._index.current().role_rules(kind, namespace, name)
