"""Names of policies, their controller and their addons; all are OCM's."""

from __future__ import annotations

from typing import Final

CONFIG_POLICY_ADDON: Final = "config-policy-controller"
"""The addon, its Lease, and the program of its agent."""
STANDALONE_ADDON: Final = "governance-standalone-hub-templating"
"""The addon that gives the policy controller its own user on the hub, for hub templates."""
FRAMEWORK_ADDON: Final = "governance-policy-framework"
"""Upstream's policy framework, which is not part of Muster."""

CONTROLLER: Final = "configuration-policy-controller"
"""Reporting component of events."""
POLICIES_NAMESPACE: Final = "open-cluster-management-policies"
"""Additional namespace of policies, beside the cluster's own."""

DISABLE_TEMPLATES_ANNOTATION: Final = "policy.open-cluster-management.io/disable-templates"
ENCRYPTION_IV_ANNOTATION: Final = "policy.open-cluster-management.io/encryption-iv"
UNINSTALLING_ANNOTATION: Final = "policy.open-cluster-management.io/uninstalling"
PRUNE_FINALIZER: Final = "policy.open-cluster-management.io/delete-related-objects"
ENCRYPTION_KEY_SECRET: Final = "policy-encryption-key"
LAST_RESOLVED_SUFFIX: Final = "-last-resolved"
LAST_RESOLVED_KEY: Final = "policy.json"

HUB_DELIMITERS: Final = ("{{hub", "hub}}")
MANAGED_DELIMITERS: Final = ("{{", "}}")
PERMISSIONS_NEEDED: Final = "ensure the client has the list and watch permissions for the query"
"""Part of the message of a policy whose templates read objects without permission."""
STANDALONE_DISABLED: Final = (
    "The governance-standalone-hub-templating addon must be enabled to resolve hub templates from the cluster"
)
"""Upstream's message for a policy with hub templates while the addon is disabled."""
