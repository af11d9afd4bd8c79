"""Authentication and authorization by the APIs of the cluster."""

from muster.runtime.auth.delegation import MAX_TOKEN, AccessReviewer, Authenticator, Authorizer, TokenReviewer, TTLCache
from muster.runtime.auth.front_proxy import CallerAuthentication, Unauthenticated
from muster.runtime.auth.impersonation import ImpersonationForbidden, impersonated
from muster.runtime.auth.rbac import RbacAuthorizer
from muster.runtime.auth.self_access import missing_rights, rights
from muster.runtime.auth.subject_access import SubjectAccess

__all__ = [
    "MAX_TOKEN",
    "AccessReviewer",
    "Authenticator",
    "Authorizer",
    "CallerAuthentication",
    "ImpersonationForbidden",
    "RbacAuthorizer",
    "SubjectAccess",
    "TTLCache",
    "TokenReviewer",
    "Unauthenticated",
    "impersonated",
    "missing_rights",
    "rights",
]

# Former names, for programs that were written with them.
Memory = TTLCache
Standing = SubjectAccess
