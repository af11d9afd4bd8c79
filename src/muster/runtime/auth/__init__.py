"""Who somebody is and what they may do, by the word of the cluster."""

from muster.runtime.auth.delegation import AccessReviewer, Authenticator, Authorizer, Memory, TokenReviewer
from muster.runtime.auth.rbac import RbacAuthorizer
from muster.runtime.auth.self_access import missing_rights, rights
from muster.runtime.auth.standing import Standing

__all__ = [
    "AccessReviewer",
    "Authenticator",
    "Authorizer",
    "Memory",
    "RbacAuthorizer",
    "Standing",
    "TokenReviewer",
    "missing_rights",
    "rights",
]
