"""Authorization of a call: the caller's own policies for every operation, and the role's trust policy for assuming a role.

The condition keys of a request are collected here (`known_of`). Principals of a trust policy are matched by the ids that were bound
when it was written (`trusts.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from muster.fleet.aws.callers import Caller
from muster.fleet.aws.errors import AwsRefusal, access_denied
from muster.fleet.aws.model import Role
from muster.fleet.aws.policy.document import identity_policy, trust_policy
from muster.fleet.aws.policy.evaluation import PolicyRequest, Trust, Verdict, evaluate, may_assume, trust
from muster.fleet.aws.trusts import covers_caller, covers_provider
from muster.fleet.aws.world import Identity, World


@dataclass(frozen=True)
class Wanted:
    """One permission that an operation needs."""

    action: str
    resource: str
    resource_tags: Mapping[str, str] = field(default_factory=dict)
    request_tags: Mapping[str, str] | None = None
    values: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Further condition keys in lower case, with their values."""


class Authorizer:
    def __init__(self, world: World) -> None:
        self._world = world

    def require(self, caller: Caller, wanted: Wanted, region: str) -> None:
        """Raises AwsRefusal."""
        verdict = self._own_policies(caller, wanted, region)
        if verdict is not Verdict.ALLOWED:
            raise _refusal(caller, wanted, verdict)

    def may_take(self, caller: Caller, account: str, role: Role, wanted: Wanted, region: str) -> bool:
        """Whether the caller's policies and the role's trust policy allow assuming the role."""
        values = self._known(caller, wanted, region)
        request = PolicyRequest(wanted.action, wanted.resource, values)
        known = trust(trust_policy(role.trust.text), request, covers_caller(role.trust, caller))
        return may_assume(known, self._own_policies(caller, wanted, region), same_account=caller.account == account)

    def may_take_by_provider(self, role: Role, provider_arn: str, wanted: Wanted) -> bool:
        """Whether the role trusts tokens of an identity provider with these claims. Such a caller has no policies of its own."""
        request = PolicyRequest(wanted.action, wanted.resource, {**_tags(wanted), **wanted.values})
        known = trust(trust_policy(role.trust.text), request, covers_provider(provider_arn))
        return known in (Trust.BY_ACCOUNT, Trust.BY_NAME)

    def _own_policies(self, caller: Caller, wanted: Wanted, region: str) -> Verdict:
        policies = [identity_policy(text) for text in self._world.policies_of(caller.identity)]
        return evaluate(policies, PolicyRequest(wanted.action, wanted.resource, self._known(caller, wanted, region)))

    def _known(self, caller: Caller, wanted: Wanted, region: str) -> Mapping[str, Sequence[str]]:
        now = self._world.clock.now()
        identity: Identity = caller.identity
        known: dict[str, Sequence[str]] = {
            "aws:principalarn": (identity.arn,),
            "aws:principalaccount": (identity.account,),
            "aws:principaltype": ("AssumedRole" if caller.session else "User",),
            "aws:userid": (caller.user_id,),
            "aws:securetransport": ("true",),
            "aws:currenttime": (now.isoformat(),),
            "aws:epochtime": (str(int(now.timestamp())),),
            "aws:requestedregion": (region,),
            **{f"aws:principaltag/{key.lower()}": (value,) for key, value in identity.holder.tags.items()},
        }
        if not caller.session:
            known["aws:username"] = (identity.holder.name,)
        resource = wanted.resource.split(":")
        if len(resource) > 4 and resource[4]:
            known["aws:resourceaccount"] = (resource[4],)
        return {**known, **_tags(wanted), **wanted.values}


def _tags(wanted: Wanted) -> dict[str, Sequence[str]]:
    service = wanted.action.partition(":")[0]
    found: dict[str, Sequence[str]] = {}
    for key, value in wanted.resource_tags.items():
        found[f"aws:resourcetag/{key.lower()}"] = (value,)
        if service in ("iam", "sts"):
            found[f"iam:resourcetag/{key.lower()}"] = (value,)
    if wanted.request_tags is not None:
        found |= {f"aws:requesttag/{key.lower()}": (value,) for key, value in wanted.request_tags.items()}
        if wanted.request_tags:
            found["aws:tagkeys"] = tuple(wanted.request_tags)
    return found


def _refusal(caller: Caller, wanted: Wanted, verdict: Verdict) -> AwsRefusal:
    why = (
        "with an explicit deny in an identity-based policy"
        if verdict is Verdict.DENIED
        else f"because no identity-based policy allows the {wanted.action} action"
    )
    return access_denied(f"User: {caller.arn} is not authorized to perform: {wanted.action} on resource: {wanted.resource} {why}")
