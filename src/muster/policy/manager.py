"""The manager of a managed cluster's policy controllers.

`PolicyManager` takes clients and options and uses nothing else of its process. There are up to three clusters: the one that
contains the policies, the one that they apply to (another one in hosted mode only), and the hub, for hub templates only, with
the identity of the addon `governance-standalone-hub-templating`. Policies of both kinds share caches, watches and the connection
to the hub. Leases tell the addon framework that the controller is alive; leader election is up to the caller.
"""

from __future__ import annotations

import random as chance
from dataclasses import dataclass, field
from typing import Final

from muster.addon.lease import LeaseUpdater
from muster.machinery.clock import SYSTEM, Clock, Random
from muster.machinery.confinement import host_name
from muster.machinery.metrics import Metrics
from muster.machinery.objects import ObjectKey
from muster.policy.configuration.controller import ConfigurationPolicyController, ConfigurationPolicyOptions, TargetCluster
from muster.policy.metrics import PolicyMetrics
from muster.policy.names import CONFIG_POLICY_ADDON, CONTROLLER, MANAGED_DELIMITERS, STANDALONE_ADDON
from muster.policy.operators import OperatorPolicyOptions, operator_policy_controller
from muster.policy.reporter import PolicyReporter
from muster.policy.resolver import Resolver
from muster.policy.standalone import HubTemplates
from muster.policy.uninstall import DEFINITION, UninstallState
from muster.runtime.cache import DynamicRESTMapper, FollowedSelections, followed_definitions
from muster.runtime.client import KubeClient
from muster.runtime.controller import ControllerContext, Manager, Runnable, RunnableFunc

LEADER_LEASE: Final = "config-policy-controller.open-cluster-management.io"


@dataclass(frozen=True)
class PolicyOptions:
    cluster_name: str
    configuration: ConfigurationPolicyOptions = field(default_factory=ConfigurationPolicyOptions)
    operators: OperatorPolicyOptions | None = None
    """None: OperatorPolicies are ignored."""
    deployment: ObjectKey | None = None
    """The controller's own Deployment, which shows when it is being uninstalled; None outside a cluster."""
    lease_namespace: str = ""
    """Namespace of the addons' Leases; empty for no Leases."""
    metrics: bool = True


class PolicyManager(Manager):
    def __init__(
        self,
        client: KubeClient,
        options: PolicyOptions,
        *,
        target: KubeClient | None = None,
        hub: KubeClient | None = None,
        clock: Clock = SYSTEM,
        random: Random = chance.random,
        metrics: Metrics | None = None,
    ) -> None:
        """`client` is of the cluster that contains the policies, `target` of the one they apply to if that is another, `hub` has
        the standalone addon's identity, if that is enabled."""
        super().__init__()
        configuration = options.configuration
        context = ControllerContext.of(client, CONTROLLER, metrics=metrics, clock=clock, random=random)
        managed = client if target is None else target
        self.selections = FollowedSelections(managed, clock=clock, random=random)
        hosted = target is not None
        mapper = DynamicRESTMapper(managed, clock=clock, informers=None if hosted else context.informers, aggregated_on_miss=True)
        definitions = followed_definitions(context.informers, DEFINITION if hosted else "")
        self.hub_templates = HubTemplates(
            client,
            context.informers,
            cluster_name=options.cluster_name,
            hub=hub,
            denylist=configuration.denylist,
            clock=clock,
            random=random,
        )
        resolver = Resolver(MANAGED_DELIMITERS)
        policy_metrics = PolicyMetrics(context.metrics, enabled=options.metrics)
        controllers: dict[str, Runnable] = {
            "configurationpolicies": ConfigurationPolicyController(
                context,
                TargetCluster(managed, self.selections, mapper),
                self.hub_templates,
                resolver,
                UninstallState(context.informers, options.deployment, definitions),
                PolicyReporter(client, context.events, host_name(), clock=clock),
                policy_metrics,
                configuration,
            )
        }
        if options.operators is not None:
            controllers["operatorpolicies"] = operator_policy_controller(
                context, self.hub_templates, resolver, self.selections, mapper, managed, options.operators, policy_metrics
            )
        self.add("the managed cluster's objects", self.selections)
        self.add("the managed cluster's kinds", mapper)
        self.add("the hub's objects", self.hub_templates)
        self.add_controllers(controllers)
        self.add_context(context)
        if options.lease_namespace:
            addons = (CONFIG_POLICY_ADDON,) if hub is None else (CONFIG_POLICY_ADDON, STANDALONE_ADDON)
            for addon in addons:
                self._add_lease(LeaseUpdater(client, addon, options.lease_namespace, clock=clock, random=random), addon)

    def _add_lease(self, lease: LeaseUpdater, addon: str) -> None:
        async def renew() -> None:
            # A controller whose caches have not synced is not healthy.
            await self.synced()
            await lease.run()

        self.add(f"the lease of {addon}", RunnableFunc(renew))
