"""Who somebody is and what they may do, by the word of the cluster."""

from muster.runtime.auth.delegation import MAX_TOKEN, AccessReviewer, Authenticator, Authorizer, Memory, TokenReviewer
from muster.runtime.auth.front_proxy import CallerAuthentication, Unauthenticated
from muster.runtime.auth.impersonation import ImpersonationForbidden, impersonated
from muster.runtime.auth.rbac import RbacAuthorizer
from muster.runtime.auth.self_access import missing_rights, rights
from muster.runtime.auth.standing import Standing

__all__ = [
    "MAX_TOKEN",
    "AccessReviewer",
    "Authenticator",
    "Authorizer",
    "CallerAuthentication",
    "ImpersonationForbidden",
    "Memory",
    "RbacAuthorizer",
    "Standing",
    "TokenReviewer",
    "Unauthenticated",
    "impersonated",
    "missing_rights",
    "rights",
]
