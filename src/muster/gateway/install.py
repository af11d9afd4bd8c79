"""What the gateway's account may do on the hub: read what it joins, and ask who callers are and what they may. It writes nothing.

Of Secrets it may read those of one name in any namespace, which are the tokens of its own accounts, and those of one namespace. The
first holds for lists and watches too, because these select that name by field, which is what an authorizer goes by.
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
    # To know who asks, and what they may.
    rule("authentication.k8s.io", ["tokenreviews"], ["create"]),
    rule("authorization.k8s.io", ["subjectaccessreviews"], ["create"]),
)
"""In the whole hub."""

NAMESPACE_RULES: Final[Mapping[str, tuple[Document, ...]]] = {
    CREDENTIALS_NAMESPACE: (rule("", ["secrets"], READ),),
    # Whose word about callers the hub's API server asks others to believe.
    "kube-system": (rule("", ["configmaps"], READ, ["extension-apiserver-authentication"]),),
}
"""By the namespace they hold in."""
