"""Names that policies, their controller and their addons share; all of them are OCM's."""

from __future__ import annotations

from typing import Final

CONFIG_POLICY_ADDON: Final = "config-policy-controller"
"""The addon, its Lease, and the program that its agent runs."""
STANDALONE_ADDON: Final = "governance-standalone-hub-templating"
"""The addon that gives the policy controller a user of its own on the hub, for hub templates."""
FRAMEWORK_ADDON: Final = "governance-policy-framework"
"""Upstream's policy framework, which Muster does not bring."""

CONTROLLER: Final = "configuration-policy-controller"
"""Who events are from."""
POLICIES_NAMESPACE: Final = "open-cluster-management-policies"
"""Policies are read here too, beside the cluster's own namespace."""

DISABLE_TEMPLATES_ANNOTATION: Final = "policy.open-cluster-management.io/disable-templates"
ENCRYPTION_IV_ANNOTATION: Final = "policy.open-cluster-management.io/encryption-iv"
UNINSTALLING_ANNOTATION: Final = "policy.open-cluster-management.io/uninstalling"
PRUNE_FINALIZER: Final = "policy.open-cluster-management.io/delete-related-objects"
ENCRYPTION_KEY_SECRET: Final = "policy-encryption-key"
LAST_RESOLVED_SUFFIX: Final = "-last-resolved"
LAST_RESOLVED_KEY: Final = "policy.json"

HUB_DELIMITERS: Final = ("{{hub", "hub}}")
MANAGED_DELIMITERS: Final = ("{{", "}}")
RIGHTS_NEEDED: Final = "ensure the client has the list and watch permissions for the query"
"""In the message of a policy whose templates refer to what may not be read."""
STANDALONE_DISABLED: Final = (
    "The governance-standalone-hub-templating addon must be enabled to resolve hub templates from the cluster"
)
"""The seed's message for a policy with hub templates while the addon is off."""
