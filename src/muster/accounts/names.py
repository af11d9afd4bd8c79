"""Names for ManagedServiceAccounts. They are OCM's unless stated otherwise."""

from __future__ import annotations

from typing import Final

from muster.api.authentication.v1beta1 import GROUP

ADDON: Final = "managed-serviceaccount"
AGENT: Final = f"{ADDON}-addon-agent"
"""Name of the agent's Deployment, ServiceAccount and roles, on the managed cluster and on the hub."""
ACCOUNT_LABEL: Final = f"{GROUP}/is-managed-serviceaccount"
"""Has the value "true" on ServiceAccounts of managed clusters and on Secrets of the hub that an agent maintains."""
SELECTOR: Final = f"{ACCOUNT_LABEL}=true"
OWNER_ANNOTATION: Final = f"{GROUP}/managed-serviceaccount-uid"
"""On ServiceAccounts of managed clusters: the uid of the ManagedServiceAccount. Only Muster sets it, not upstream."""
TOKEN_ENTRY: Final = "token"
CA_ENTRY: Final = "ca.crt"
"""With TOKEN_ENTRY, all keys of such a Secret."""
