"""What every operation gets (`Call`, `Services`), and the entry of an operation in its table."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from muster.fleet.aws.authorization import Authorizer, Wanted
from muster.fleet.aws.behaviour import Behaviour
from muster.fleet.aws.callers import Caller
from muster.fleet.aws.errors import AwsRefusal
from muster.fleet.aws.model import Account
from muster.fleet.aws.services.parameters import Parameters
from muster.fleet.aws.sessions import Sessions
from muster.fleet.aws.webidentity import WebIdentities
from muster.fleet.aws.world import World


@dataclass(frozen=True)
class Call:
    service: str
    operation: str
    parameters: Parameters
    caller: Caller | None
    """None: for an unsigned operation."""
    region: str
    needed: list[tuple[str, str]] = field(default_factory=list)
    """The actions and resources that were checked against policies, for the log."""

    @property
    def signer(self) -> Caller:
        assert self.caller is not None, "only signed operations are authorized"
        return self.caller


@dataclass(frozen=True)
class Services:
    world: World
    authorizer: Authorizer
    sessions: Sessions
    web_identities: WebIdentities
    behaviour: Behaviour

    def require(
        self,
        call: Call,
        action: str,
        resource: str,
        *,
        resource_tags: Mapping[str, str] | None = None,
        request_tags: Mapping[str, str] | None = None,
        values: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """Raises AwsRefusal unless the caller's policies allow it."""
        call.needed.append((action, resource))
        wanted = Wanted(action, resource, resource_tags or {}, request_tags, values or {})
        self.authorizer.require(call.signer, wanted, call.region)

    def account(self, call: Call) -> Account:
        found = self.world.account(call.signer.account)
        assert found is not None, "callers are of accounts that exist"
        return found


Result = Mapping[str, Any] | None
"""None: success without a result."""


@dataclass(frozen=True)
class Operation:
    perform: Callable[[Services, Call], Awaitable[Result]]
    changes: bool = False
    """Whether the state has to be written before the answer is sent."""
    signed: bool = True


def page(call: Call, items: Sequence[Any], marker: str, most: int) -> tuple[Sequence[Any], str]:
    """One page of the items, and the marker of the next; empty at the end."""
    if marker and not re.fullmatch("[0-9]{1,9}", marker):
        raise AwsRefusal("ValidationError" if call.service == "iam" else "InvalidParameterException", "Invalid Marker.")
    start = int(marker or 0)
    end = start + most
    return items[start:end], str(end) if end < len(items) else ""


def marked(call: Call, name: str, items: Sequence[Any]) -> dict[str, Any]:
    """A page in IAM's format."""
    marker = call.parameters.text("Marker", default="", shortest=0)
    shown, more = page(call, items, marker, call.parameters.number("MaxItems", 1, 1000, 100))
    return {name: list(shown), "IsTruncated": bool(more), **({"Marker": more} if more else {})}
