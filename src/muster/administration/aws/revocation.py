"""Follows the revocation of clusters' AWS identities while their hub is removed: the hub revokes them as clusters are deleted.

The records are in the hub's namespace, which is deleted last, so they can be read until then. A record that is deleted while the
namespace exists was revoked; one that is deleted with the namespace has objects left on AWS, because the hub did not run or lacked
permissions. These are kept in memory, and reported with the command that removes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from muster.administration.aws.cleanup import records_of
from muster.registration.drivers.awsirsa.aws_auth_edit import take_out
from muster.registration.drivers.awsirsa.awsauth import NAME, NAMESPACE, Unreadable
from muster.registration.drivers.awsirsa.records import Phase, Record
from muster.registration.names import HUB_NAMESPACE
from muster.runtime.client import KubeClient, KubeError, NotFound
from muster.runtime.client.builtin import NAMESPACES


@dataclass
class Revocation:
    client: KubeClient
    hub_arn: str = ""
    """The hub's ARN, if its ClusterManager has it."""
    namespace: str = HUB_NAMESPACE
    _known: dict[str, Record] = field(default_factory=dict)

    async def remaining(self) -> str:
        """What the hub still has to revoke; empty if nothing, or if no controller will do it. Raises KubeError."""
        found = await records_of(self.client, self.namespace)
        if await self._hub_is_installed():
            self._known = found
        waiting = sorted(one.cluster for one in found.values() if one.phase is not Phase.LEFT)
        return f"AWS identities of {', '.join(waiting)} are being removed" if waiting else ""

    @property
    def left(self) -> Sequence[Record]:
        """The records whose objects are left, as far as known."""
        return [one for _, one in sorted(self._known.items())]

    async def finish(self) -> list[str]:
        """Remove what the administrator of the cluster is allowed to; returns what is left then, with the remedy."""
        remedies = []
        for one in self.left:
            try:
                await take_out(self.client, one.role_arn)
            except (Unreadable, KubeError) as error:
                remedies.append(f"the entry for {one.role_arn} in ConfigMap {NAMESPACE}/{NAME}: {error}")
            account = one.role_arn.split(":")[4]
            command = f"aws cleanup --hub-cluster-arn {self.hub_arn or 'ARN'}"
            remedies.append(
                f"role {one.role_arn} of cluster {one.cluster}: run {command} with an AWS identity of account {account}"
            )
        return remedies

    async def _hub_is_installed(self) -> bool:
        try:
            found = await self.client.get(NAMESPACES, self.namespace)
        except NotFound:
            return False
        return not found["metadata"].get("deletionTimestamp")
