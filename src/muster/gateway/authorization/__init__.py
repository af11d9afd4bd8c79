"""May somebody do that on a cluster? The hub's virtual verbs, what is exempt from them, and as whom a cluster sees the request."""

from muster.gateway.authorization.denials import Denial, parse_denial
from muster.gateway.authorization.hub_access import HubAccess
from muster.gateway.authorization.impersonation import ConfigurationError, Impersonation, explain_refusal, missing_grants
from muster.gateway.authorization.impersonation_file import ImpersonationFile
from muster.gateway.authorization.judge import GatewayJudge, JudgeOptions

__all__ = [
    "ConfigurationError",
    "Denial",
    "GatewayJudge",
    "HubAccess",
    "Impersonation",
    "ImpersonationFile",
    "JudgeOptions",
    "explain_refusal",
    "missing_grants",
    "parse_denial",
]
