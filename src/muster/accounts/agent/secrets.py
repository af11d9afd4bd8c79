"""The Secret on the hub that contains the token of a ManagedServiceAccount: its content, and whether it belongs to the account.

Its data are exactly the token and the CA bundle of the managed cluster; metadata that others have added stays. A Secret of that
name which neither has the label nor is owned by the ManagedServiceAccount belongs to somebody else and is not changed.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final

from muster.accounts.names import ACCOUNT_LABEL, CA_ENTRY, TOKEN_ENTRY
from muster.api.authentication.v1beta1 import ManagedServiceAccount
from muster.machinery.objects import Object
from muster.runtime.client.builtin import SECRETS

OPAQUE: Final = "Opaque"


def foreign_secret(found: Object, account: ManagedServiceAccount) -> str:
    """Why a Secret must not be changed; empty if it belongs to the account."""
    name = f"{account.metadata.namespace}/{account.metadata.name}"
    metadata = found.get("metadata") or {}
    labelled = (metadata.get("labels") or {}).get(ACCOUNT_LABEL) == "true"
    if not labelled and not any(one.get("uid") == account.metadata.uid for one in metadata.get("ownerReferences") or ()):
        return (
            f"Secret {name} on the hub was created by somebody else; delete it, label it {ACCOUNT_LABEL}=true to have it "
            "overwritten, or choose another name for the account"
        )
    if found.get("type", OPAQUE) != OPAQUE:
        return f"Secret {name} on the hub is of type {found['type']}, expected {OPAQUE}, and a type cannot be changed; delete it"
    return ""


def token_in(found: Object | None) -> bytes:
    text = ((found or {}).get("data") or {}).get(TOKEN_ENTRY) or ""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError, TypeError):
        return b""


def token_secret(found: Object | None, account: ManagedServiceAccount, token: bytes, ca: bytes) -> Object:
    """The desired Secret; equal to `found` if that is up to date."""
    before: Object = found or {"metadata": {"name": account.metadata.name, "namespace": account.metadata.namespace}}
    metadata = before["metadata"]
    data = {CA_ENTRY: base64.b64encode(ca).decode(), TOKEN_ENTRY: base64.b64encode(token).decode()}
    return {
        **before,
        "apiVersion": SECRETS.api_version,
        "kind": SECRETS.kind,
        "type": OPAQUE,
        "metadata": {
            **metadata,
            "labels": {**(metadata.get("labels") or {}), ACCOUNT_LABEL: "true"},
            "ownerReferences": _owners(metadata.get("ownerReferences") or [], account),
        },
        "data": data,
    }


def _owners(found: list[Any], account: ManagedServiceAccount) -> list[Any]:
    """Owner references with the account among them. A reference to an earlier account of the same name is dropped: its uid no
    longer exists."""
    if any(one.get("uid") == account.metadata.uid for one in found):
        return found
    kind, name = account.resource.kind, account.metadata.name
    others = [one for one in found if (one.get("kind"), one.get("name")) != (kind, name)]
    reference = {"apiVersion": account.resource.api_version, "kind": kind, "name": name, "uid": account.metadata.uid}
    return [*others, reference]
