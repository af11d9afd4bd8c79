"""Permissions of the gateway's account on the hub: to read what it needs to know about clusters, and to authenticate and
authorize callers. It writes nothing.

It may read Secrets of one name in any namespace, which are the tokens of its own accounts, and all Secrets of one namespace. The
first permission covers lists and watches too, because these select that name by field, which is what an authorizer evaluates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from muster.api import Document
from muster.api.authentication.v1beta1 import GROUP as AUTHENTICATION_GROUP
from muster.api.cluster.v1 import GROUP as CLUSTER_GROUP
from muster.gateway.names import COMPONENT, CREDENTIALS_NAMESPACE
from muster.runtime.install import READ, rule

RULES: Final[tuple[Document, ...]] = (
    rule(CLUSTER_GROUP, ["managedclusters"], READ),
    rule(AUTHENTICATION_GROUP, ["managedserviceaccounts"], READ, [COMPONENT]),
    rule("", ["secrets"], READ, [COMPONENT]),
    # To authenticate and authorize callers.
    rule("authentication.k8s.io", ["tokenreviews"], ["create"]),
    rule("authorization.k8s.io", ["subjectaccessreviews"], ["create"]),
)
"""Permissions in the whole hub."""

NAMESPACE_RULES: Final[Mapping[str, tuple[Document, ...]]] = {
    CREDENTIALS_NAMESPACE: (rule("", ["secrets"], READ),),
    # The certificate authorities of the hub's front proxy and clients, for servers behind kube-aggregator.
    "kube-system": (rule("", ["configmaps"], READ, ["extension-apiserver-authentication"]),),
}
"""Permissions by namespace."""
