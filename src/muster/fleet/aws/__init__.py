"""A small simulated AWS for laptops and tests: STS, IAM and EKS as far as registration needs them, and strict.

What AWS would refuse is refused, with AWS' own codes: signatures and sessions are verified, identity policies and trust policies
are evaluated, web identity tokens are verified with published keys, principals are bound to ids. `server.py` assembles it,
`dispatch.py` handles a request, `services/` has the operations, `policy/` the evaluation, `wire/` the protocols, `tokens/` is EKS'
authenticator for a cluster's API server. `behaviour.py` injects delays and faults, `calls.py` logs calls.

No content of a request is trusted without proof; and no client takes this for AWS unless it trusts its CA.
"""

from muster.fleet.aws.behaviour import Behaviour, Fault, FaultKind, Throttle
from muster.fleet.aws.calls import CallLog, CallRecord
from muster.fleet.aws.server import AwsAuthWatch, LocalAws, LocalAwsConfig
from muster.fleet.aws.statefile import UnreadableState
from muster.fleet.aws.tokens.mapper import Unmapped
from muster.fleet.aws.tokens.webhook import StsRefused

__all__ = [
    "AwsAuthWatch",
    "Behaviour",
    "CallLog",
    "CallRecord",
    "Fault",
    "FaultKind",
    "LocalAws",
    "LocalAwsConfig",
    "StsRefused",
    "Throttle",
    "Unmapped",
    "UnreadableState",
]
