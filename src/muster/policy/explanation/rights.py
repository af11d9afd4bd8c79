"""The rights that a policy's templates need: list and watch of exactly what they read.

Who reads is not who asks here: hub templates are read by the addon's user of one managed cluster, managed ones by the controller's
account. Whether these may is asked of the server (SubjectAccessReview); what they may not becomes Roles, by name where one object
is read by its name, and their bindings.
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
    """Who reads, and how the names of roles for it begin."""

    user: str
    groups: tuple[str, ...]
    subject: Object
    role: str


async def find_hub_account(hub: KubeClient, cluster_name: str) -> Account:
    """As whom the cluster's controller reads the hub, as its addon's status tells; where that is not to be had, as most do."""
    try:
        addon = await hub.get(ManagedClusterAddOn, STANDALONE_ADDON, cluster_name)
    except (KubeError, MalformedObject):
        return hub_account(cluster_name)
    return hub_account(cluster_name, by_token=TOKEN_DRIVER in drivers_in_use(addon.status))


def hub_account(cluster_name: str, *, by_token: bool = False) -> Account:
    """The user of the standalone addon on the hub. Its group of this one cluster is what is granted something; an agent that has a
    token for its credential is in no group of ours, so there it is the user."""
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


async def missing_rights(client: KubeClient, account: Account, selections: Iterable[Selection]) -> list[Selection]:
    """Those of the selections that the account may not list and watch. Raises KubeError when the server does not tell us."""
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
    """Roles with what the selections need and nothing else, one for each namespace, and their bindings. Their names say what is in
    them: what is granted for one policy does not take the place of what was granted for another."""
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
