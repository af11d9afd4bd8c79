"""The driver with both sides; each side is imported only when it is used, because an agent does not need the hub's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from muster.registration.drivers.awsirsa import AwsIrsaProfile
from muster.registration.drivers.errors import BadField, Unfit
from muster.registration.drivers.kubeconfigs import KUBECONFIGS, KubeconfigDriver
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.runtime.client import KubeClient, NotFound

if TYPE_CHECKING:
    from collections.abc import Mapping

    from muster.api.cluster.v1 import ManagedCluster
    from muster.api.operator.v1 import HubRegistrationDriver, SpokeRegistrationConfiguration
    from muster.aws.process_env import ProcessEnv
    from muster.registration.drivers.interfaces import (
        AcceptanceContext,
        AccountToken,
        HubContext,
        HubDriver,
        SpokeContext,
        SpokeDriver,
        Undo,
    )


class AwsIrsaDriver(AwsIrsaProfile, KubeconfigDriver):
    def hub(self, context: HubContext) -> HubDriver:
        from muster.registration.drivers.awsirsa.hub import AwsHub

        return AwsHub(context)

    def spoke(self, context: SpokeContext) -> SpokeDriver:
        from muster.registration.drivers.awsirsa.spoke import AwsIrsaSpoke

        return AwsIrsaSpoke(context)

    async def portable(
        self,
        stored: Mapping[str, bytes],
        configured: SpokeRegistrationConfiguration,
        account_token: AccountToken,
        process_env: ProcessEnv,
    ) -> Mapping[str, bytes]:
        from muster.registration.drivers.awsirsa.as_agent import signed_kubeconfig

        if KUBECONFIGS.key not in stored:
            return stored
        try:
            pair = self.pair(configured)
        except BadField as error:
            raise Unfit(str(error)) from None
        return {**stored, KUBECONFIGS.key: await signed_kubeconfig(stored[KUBECONFIGS.key], pair, account_token, process_env)}

    async def prepare_acceptance(self, cluster: ManagedCluster, accepting: AcceptanceContext) -> Undo | None:
        from muster.aws.identity import connect
        from muster.registration.drivers.awsirsa.administrator import prepare
        from muster.registration.drivers.awsirsa.options import configured_side

        configured = accepting.configured.awsirsa if accepting.configured is not None else None
        if configured is None:
            accepting.report("the hub creates the AWS identity: no ClusterManager names the hub's EKS cluster")
            return None
        side = configured_side(configured)
        return await prepare(cluster, side, lambda: connect(accepting.process_env, side.hub.region), accepting)

    def acceptance_plan(self, cluster: ManagedCluster, configured: HubRegistrationDriver | None) -> tuple[str, ...]:
        from muster.registration.drivers.awsirsa.administrator import claimed_pair
        from muster.registration.drivers.awsirsa.options import IdentityChoice, configured_side

        if configured is None or configured.awsirsa is None:
            return ()
        side = configured_side(configured.awsirsa)
        role = claimed_pair(cluster, side).hub_role_arn
        makers = {
            IdentityChoice.ADMINISTRATOR: "with your AWS identity",
            IdentityChoice.HUB: "by the hub",
            IdentityChoice.AUTO: f"with your AWS identity if it is of account {side.hub.account} and may, else by the hub",
        }
        return (f"role {role} would be made and mapped, {makers[side.identity]}",)

    async def awaits(self, hub: KubeClient, cluster: str, configured: SpokeRegistrationConfiguration) -> str:
        from muster.registration.drivers.awsirsa.spoke import awaited

        try:
            pair, found = self.pair(configured), await hub.get(MANAGED_CLUSTERS, cluster)
        except (BadField, NotFound):
            # Other checks report invalid fields; and a missing ManagedCluster is created by the agent.
            return ""
        annotations = (found.get("metadata") or {}).get("annotations") or {}
        return awaited(annotations, pair, cluster)


DRIVER: Final = AwsIrsaDriver()
