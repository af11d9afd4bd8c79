"""What ManagedServiceAccounts' things are called. Names are OCM's but where it is said."""

from __future__ import annotations

from typing import Final

from muster.api.authentication.v1beta1 import GROUP

ADDON: Final = "managed-serviceaccount"
AGENT: Final = f"{ADDON}-addon-agent"
"""The agent's Deployment, account and roles, on the managed cluster and on the hub."""
ACCOUNT_LABEL: Final = f"{GROUP}/is-managed-serviceaccount"
"""With the value "true" on accounts of managed clusters and on Secrets of the hub that an agent keeps."""
SELECTOR: Final = f"{ACCOUNT_LABEL}=true"
OWNER_ANNOTATION: Final = f"{GROUP}/managed-serviceaccount-uid"
"""On accounts of managed clusters: for which object of the hub they were made. Ours alone; upstream's accounts have none."""
TOKEN_ENTRY: Final = "token"
CA_ENTRY: Final = "ca.crt"
"""All that a Secret has."""
