"""Upgrades an operator, and with it what it deploys, to another version.

The operator's objects of that version are applied. The options of its installation (replicas, resources, flags) are read from the
existing Deployment, so an upgrade changes nothing else.
"""

from __future__ import annotations

from muster.administration.dryrun import is_dry_run
from muster.administration.errors import AdministrationError
from muster.administration.hubs import CLUSTERADM
from muster.administration.progress import SILENT, Progress
from muster.administration.readiness import await_components, await_hub, await_operator
from muster.api.meta import ResourceRequirements
from muster.api.operator.v1 import ResourceRequirement
from muster.machinery.clock import SYSTEM, Clock
from muster.machinery.objects import Object
from muster.operator.applier import Applier, checked
from muster.operator.bundle import CLUSTER_MANAGER_OPERATOR, BundleOptions, Operator, bundle
from muster.operator.names import OPERATOR_NAMESPACE
from muster.runtime.client import KubeClient, NotFound
from muster.runtime.client.builtin import DEPLOYMENTS


async def upgrade(
    client: KubeClient,
    operator: Operator,
    image: str,
    *,
    wait: bool = False,
    timeout: float = 300.0,
    progress: Progress = SILENT,
    clock: Clock = SYSTEM,
) -> str:
    """Returns the previous image. Raises AdministrationError if it is not installed, and the client's errors."""
    try:
        found = await client.get(DEPLOYMENTS, operator.name, OPERATOR_NAMESPACE)
    except NotFound:
        installed = operator.plural.removesuffix("s")
        remedy = "run init" if operator is CLUSTER_MANAGER_OPERATOR else "run join"
        raise AdministrationError(f"{installed} is not installed", remedy) from None
    checked(await Applier(client, CLUSTERADM).apply(bundle(operator, kept_options(operator, found, image))))
    if wait and not is_dry_run(client):
        await await_operator(client, operator, within=timeout, progress=progress, clock=clock)
        await await_components(client, operator, image, within=timeout, progress=progress, clock=clock)
        if operator is CLUSTER_MANAGER_OPERATOR:
            await await_hub(client, within=timeout, progress=progress, clock=clock)
    return str(_container(found).get("image") or "")


def _container(deployment: Object) -> Object:
    container: Object = deployment["spec"]["template"]["spec"]["containers"][0]
    return container


def kept_options(operator: Operator, deployment: Object, image: str) -> BundleOptions:
    """The options of the existing Deployment, with the new image."""
    container = _container(deployment)
    own = ("operator", operator.name)
    args = tuple(container.get("args") or ())
    resources = container.get("resources") or {}
    chosen = ResourceRequirements(limits=resources.get("limits") or {}, requests=resources.get("requests") or {})
    return BundleOptions(
        image=image,
        replicas=deployment["spec"].get("replicas", 1),
        resources=ResourceRequirement(type="ResourceRequirement" if resources else "BestEffort", resource_requirements=chosen),
        labels={key: value for key, value in (deployment["metadata"].get("labels") or {}).items() if key != "app"},
        args=args[len(own) :] if args[: len(own)] == own else (),
    )
