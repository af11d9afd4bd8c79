"""Authorization of requests for clusters: the hub's virtual verbs, the exemptions from them, and impersonation on the cluster."""

from muster.gateway.authorization.authorizer import AuthorizationOptions, GatewayAuthorizer
from muster.gateway.authorization.denials import Denial, parse_denial
from muster.gateway.authorization.hub_access import HubAccess
from muster.gateway.authorization.impersonation import ConfigurationError, Impersonation, explain_refusal, missing_grants
from muster.gateway.authorization.impersonation_file import ImpersonationFile

__all__ = [
    "AuthorizationOptions",
    "ConfigurationError",
    "Denial",
    "GatewayAuthorizer",
    "HubAccess",
    "Impersonation",
    "ImpersonationFile",
    "explain_refusal",
    "missing_grants",
    "parse_denial",
]
