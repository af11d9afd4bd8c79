"""A small AWS of our own, for laptops and tests: STS, IAM and EKS as far as registration needs them, and strict.

What AWS would refuse is refused, with AWS' own codes: signatures and sessions are verified, policies of identities and of roles are
evaluated, web identities are checked against published keys, names are bound to ids. `server.py` puts it together, `dispatch.py` is
one request's way, `services/` has the operations, `policy/` decides, `wire/` speaks, `tokens/` is what EKS' authenticator does for
a cluster's API server. `behaviour.py` makes it slow and failing, `calls.py` tells who asked for what.

Nothing here trusts what a request says of itself; and nothing outside may take this for AWS unless it trusts its CA.
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
