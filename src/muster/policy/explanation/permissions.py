"""The permissions that a policy's templates need: list and watch of exactly what they read.

Hub templates are read with the addon's user of one managed cluster, managed templates with the controller's service account, not
with the user of this program. SubjectAccessReviews determine what these may read; missing permissions are returned as Roles,
limited by name for objects read by name, and their bindings.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import orjson

from muster.api.addon.v1alpha1 import ManagedClusterAddOn
from muster.api.addons import TOKEN_DRIVER, AddonIdentity, addon_group, cluster_addon_group, drivers_in_use, token_user
from muster.api.resource import MalformedObject
from muster.machinery.objects import Object
from muster.policy.names import CONFIG_POLICY_ADDON, STANDALONE_ADDON
from muster.runtime.cache import Selection
from muster.runtime.client import KubeClient, KubeError
from muster.runtime.client.builtin import ACCESS_REVIEWS

VERBS: Final = ("list", "watch")
AGENT_NAMESPACE: Final = "open-cluster-management-agent-addon"
_RBAC: Final = "rbac.authorization.k8s.io"


@dataclass(frozen=True)
class Account:
    """The subject, and the prefix of names of its roles."""

    user: str
    groups: tuple[str, ...]
    subject: Object
    role: str


async def find_hub_account(hub: KubeClient, cluster_name: str) -> Account:
    """The user with which the cluster's controller reads the hub, from its addon's status; the usual one if that cannot be read."""
    try:
        addon = await hub.get(ManagedClusterAddOn, STANDALONE_ADDON, cluster_name)
    except (KubeError, MalformedObject):
        return hub_account(cluster_name)
    return hub_account(cluster_name, by_token=TOKEN_DRIVER in drivers_in_use(addon.status))


def hub_account(cluster_name: str, *, by_token: bool = False) -> Account:
    """The standalone addon's user on the hub. Permissions are granted to its group of this one cluster; an agent with a token
    has no such group, so they are granted to the user."""
    role = f"hub-templates-{cluster_name}"
    if by_token:
        user = token_user(cluster_name, STANDALONE_ADDON)
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{cluster_name}", "system:authenticated")
        return Account(user, groups, {"apiGroup": _RBAC, "kind": "User", "name": user}, role)
    identity = AddonIdentity(cluster_name, STANDALONE_ADDON, STANDALONE_ADDON)
    group = cluster_addon_group(cluster_name, STANDALONE_ADDON)
    groups = (group, addon_group(STANDALONE_ADDON), "system:authenticated")
    return Account(identity.user, groups, {"apiGroup": _RBAC, "kind": "Group", "name": group}, role)


def controller_account(namespace: str = AGENT_NAMESPACE) -> Account:
    """The policy controller's service account on the managed cluster."""
    name = f"{CONFIG_POLICY_ADDON}-sa"
    return Account(
        f"system:serviceaccount:{namespace}:{name}",
        ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"),
        {"kind": "ServiceAccount", "name": name, "namespace": namespace},
        "managed-templates",
    )


async def missing_permissions(client: KubeClient, account: Account, selections: Iterable[Selection]) -> list[Selection]:
    """The selections that the account may not list and watch. Raises KubeError if the server does not answer."""
    return [selection for selection in selections if not await _may_read(client, account, selection)]


async def _may_read(client: KubeClient, account: Account, selection: Selection) -> bool:
    for verb in VERBS:
        attributes = {
            "verb": verb,
            "group": selection.resource.group,
            "version": selection.resource.version,
            "resource": selection.resource.plural,
            "namespace": selection.namespace,
            "name": selection.name,
        }
        spec = {"user": account.user, "groups": list(account.groups), "resourceAttributes": attributes}
        review: dict[str, Any] = {"apiVersion": ACCESS_REVIEWS.api_version, "kind": ACCESS_REVIEWS.kind, "spec": spec}
        answer = await client.create(ACCESS_REVIEWS, review)
        if not (answer.get("status") or {}).get("allowed"):
            return False
    return True


def grants(account: Account, selections: Iterable[Selection]) -> list[Object]:
    """Roles with exactly the permissions for the selections, one for each namespace, and their bindings. Their names contain a
    hash of their rules, so that the roles of one policy do not replace those of another."""
    rules: dict[str, dict[tuple[str, str], set[str] | None]] = {}
    for selection in selections:
        needed = rules.setdefault(selection.namespace, {})
        kind = selection.resource.group, selection.resource.plural
        names = needed.setdefault(kind, set())
        if not selection.name:
            needed[kind] = None
        elif names is not None:
            names.add(selection.name)
    return [one for namespace in sorted(rules) for one in _role(account, namespace, rules[namespace])]


def _role(account: Account, namespace: str, rules: dict[tuple[str, str], set[str] | None]) -> list[Object]:
    kind = "Role" if namespace else "ClusterRole"
    api_version = f"{_RBAC}/v1"
    made = [
        {"apiGroups": [group], "resources": [plural], **({"resourceNames": sorted(names)} if names else {}), "verbs": list(VERBS)}
        for (group, plural), names in sorted(rules.items(), key=lambda rule: rule[0])
    ]
    name = f"{account.role}-{hashlib.sha256(orjson.dumps(made)).hexdigest()[:8]}"
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    reference = {"apiGroup": _RBAC, "kind": kind, "name": name}
    return [
        {"apiVersion": api_version, "kind": kind, "metadata": metadata, "rules": made},
        {
            "apiVersion": api_version,
            "kind": f"{kind}Binding",
            "metadata": metadata,
            "roleRef": reference,
            "subjects": [account.subject],
        },
    ]
