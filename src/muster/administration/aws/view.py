"""The AWS identities of a hub as the caller of `clusteradm` can read them: the hub's own objects, and AWS with the caller's
identity.

Results are cached for a whole run, because `doctor` checks many clusters. The caller's AWS identity is used for reading, and only
if it is of the hub's account; without one, `unseen` has the reason, and the hub's own objects are checked all the same.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from muster.administration.aws.cleanup import records_of
from muster.administration.drivers import fitting
from muster.api.operator.v1 import AwsIrsaHubDriver
from muster.aws.errors import AwsError, NoIdentity, NoLibrary
from muster.aws.identity import connect
from muster.aws.interfaces import Aws, ClusterDescription
from muster.aws.process_env import ProcessEnv
from muster.registration.drivers.awsirsa.awsauth import KEY, NAME, NAMESPACE
from muster.registration.drivers.awsirsa.options import HubSide, configured_side
from muster.registration.drivers.awsirsa.records import Record
from muster.registration.names import HUB_NAMESPACE
from muster.runtime.client import KubeClient, NotFound
from muster.runtime.client.builtin import CONFIG_MAPS

Connect = Callable[[ProcessEnv, str], Aws]


@dataclass
class HubOnAws:
    client: KubeClient
    side: HubSide
    process_env: ProcessEnv
    aws: Aws | None = None
    """AWS clients with the caller's identity; None with the reason in `unseen`."""
    caller: str = ""
    unseen: str = ""
    namespace: str = HUB_NAMESPACE
    _records: Mapping[str, Record] | None = field(default=None, repr=False)
    _described: ClusterDescription | None = field(default=None, repr=False)
    _was_described: bool = False

    async def records(self) -> Mapping[str, Record]:
        """The records by role. Raises KubeError."""
        if self._records is None:
            self._records = await records_of(self.client, self.namespace)
        return self._records

    async def aws_auth(self) -> str | None:
        """The text of the entries in aws-auth; None without the ConfigMap. Raises KubeError."""
        try:
            found = await self.client.get(CONFIG_MAPS, NAME, NAMESPACE)
        except NotFound:
            return None
        return str((found.get("data") or {}).get(KEY) or "")

    async def described(self) -> ClusterDescription | None:
        """The hub's cluster in EKS; None if it is not on EKS, or not readable."""
        if self.aws is not None and not self._was_described:
            self._was_described = True
            try:
                self._described = await self.aws.describe_cluster(self.side.hub.name)
            except AwsError:
                self._described = None
        return self._described


@asynccontextmanager
async def open_view(
    client: KubeClient, configured: AwsIrsaHubDriver, process_env: ProcessEnv, connect: Connect = connect
) -> AsyncIterator[HubOnAws]:
    """The view of a hub with this entry in its ClusterManager. Raises AdministrationError if the entry is not valid."""
    with fitting():
        view = HubOnAws(client, configured_side(configured), process_env)
    aws = None
    try:
        aws = connect(process_env, view.side.hub.region)
        caller = await aws.caller_identity()
        if caller.account == view.side.hub.account:
            view.aws, view.caller = aws, caller.arn
        else:
            view.unseen = f"the AWS identity here is of account {caller.account}, and the hub's is {view.side.hub.account}"
    except (NoIdentity, NoLibrary) as error:
        view.unseen = f"there is no AWS identity here ({error})"
    except AwsError as error:
        view.unseen = f"AWS cannot be reached ({error})"
    try:
        yield view
    finally:
        if aws is not None:
            await aws.close()
