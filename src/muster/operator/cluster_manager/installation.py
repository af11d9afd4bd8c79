"""Installs a hub, step by step, in the order of dependencies.

Namespaces → certificates of the webhooks, the gRPC server and the gateway, and their CA bundle → CRDs → pull secret, accounts and
roles → components → webhook configurations, once the webhooks are available → the gateway's APIServices, once it is available
(before that, discovery would fail for every client of the hub). The first step that fails ends the reconcile with its reason; the
next reconcile starts at the first step and sends no requests for unchanged ones. A new CA is published before its certificate is
stored, hence before that is served. Objects that are no longer wanted are deleted at the end, APIServices first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from muster.machinery.objects import Object, ObjectKey, key_of
from muster.operator.accounts import AccountSecret, ensure_account_secret
from muster.operator.applier import ObjectRef, Wanted, checked, object_refs, remove
from muster.operator.cluster_manager import exposure, gateway, manifests
from muster.operator.cluster_manager.components import (
    CA_BUNDLE,
    COMPONENTS,
    GRPC_CONFIG,
    SERVERS,
    Component,
    Webhooks,
    account_secret,
    wanted,
)
from muster.operator.cluster_manager.gateway import HubSite
from muster.operator.cluster_manager.grpc_certificates import SERVING_SECRET, ensure_authority, ensure_serving
from muster.operator.cluster_manager.grpc_config import config_hash
from muster.operator.cluster_manager.manifests import owned
from muster.operator.cluster_manager.plan import ClusterManagerPlan
from muster.operator.cluster_manager.status import (
    ACCOUNTS_FAILED,
    ADDONS_FAILED,
    CRD_FAILED,
    GATEWAY_FAILED,
    HUB_FAILED,
    RUNTIME_FAILED,
    WEBHOOK_FAILED,
)
from muster.operator.hosted import copy_secret
from muster.operator.names import CLUSTER_MANAGER_FIELDS, CLUSTER_MANAGER_LABEL, PULL_SECRET, UPSTREAM_CLUSTER_MANAGER_LABEL
from muster.operator.prune import prune, prune_recorded, step
from muster.operator.site import Installed
from muster.operator.target_cluster import TargetCluster
from muster.runtime.client import NotFound
from muster.runtime.client.builtin import (
    API_SERVICES,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    CRDS,
    DEPLOYMENTS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    VALIDATING_WEBHOOKS,
)
from muster.runtime.webhook import Endpoint, ServingCertificate, ServingPair, trust_webhooks

PRUNED: Final = (
    API_SERVICES,
    SERVICE_ACCOUNTS,
    CLUSTER_ROLES,
    CLUSTER_ROLE_BINDINGS,
    ROLES,
    ROLE_BINDINGS,
    SERVICES,
    DEPLOYMENTS,
    CONFIG_MAPS,
    MUTATING_WEBHOOKS,
    VALIDATING_WEBHOOKS,
)
"""Kinds that are pruned; never CRDs or namespaces, which would delete users' objects."""
KINDS: Final = (*PRUNED, CRDS, NAMESPACES)


async def settle(plan: ClusterManagerPlan, here: TargetCluster) -> None:
    """Create the components' namespace, in which users of a hosted hub create the Secret with its kubeconfig.

    Raises StepFailed and BadSpec."""
    with step(HUB_FAILED):
        checked(await here.applier.apply(owned(plan, [manifests.component_namespace(plan)])))


async def install(site: HubSite) -> Installed:
    """Raises StepFailed and BadSpec."""
    made = Installed()
    with step(HUB_FAILED):
        await _namespaces(site, made)
        endpoints = await _certificates(site, made)
        gateway_ca = await gateway.ensure_certificate(site, made)
    with step(CRD_FAILED):
        await _definitions(site, made, endpoints)
    with step(HUB_FAILED):
        await _pull_secret(site)
        await _on_hub(site, made, manifests.hub_permissions(site.plan))
    with step(ACCOUNTS_FAILED):
        await _accounts(site, made)
    with step(RUNTIME_FAILED):
        config = config_hash(site.here.config_map(GRPC_CONFIG, site.plan.namespace))
        results = await _here(site, made, manifests.components(site.plan, {GRPC_CONFIG: config} if config else {}))
        made.deployments = [(DEPLOYMENTS, obj) for obj in results if obj["kind"] == DEPLOYMENTS.kind]
    with step(WEBHOOK_FAILED):
        for component, webhooks in SERVERS:
            await _webhooks(site, made, component, webhooks, endpoints[webhooks])
    with step(ADDONS_FAILED):
        await _hub_addons(site, made)
    with step(GATEWAY_FAILED):
        problem = await gateway.apply_api_services(site, made, gateway_ca)
        await _prune(site, made)
        await gateway.drop_certificate(site)
    made.remarks += gateway.conditions(site, made, problem)
    return made


async def _here(site: HubSite, made: Installed, documents: Sequence[Wanted]) -> list[Object]:
    return await site.apply_here(made, owned(site.plan, documents))


async def _on_hub(site: HubSite, made: Installed, documents: Sequence[Wanted]) -> list[Object]:
    return await site.apply_on_target(made, owned(site.plan, documents))


async def _namespaces(site: HubSite, made: Installed) -> None:
    await _here(site, made, [manifests.component_namespace(site.plan)])
    if site.plan.hosted:
        await _on_hub(site, made, [manifests.namespace(site.plan.hub_namespace)])
        if site.plan.gateway:
            await _on_hub(site, made, manifests.gateway_on_hosted_hub(site.plan))


async def _certificates(site: HubSite, made: Installed) -> dict[Webhooks, Endpoint]:
    """Ensure a certificate for each webhook server; returns the endpoint and CA for the hub."""
    pairs = {webhooks: await _certificate(site, webhooks) for _, webhooks in SERVERS}
    made.again = min(pair.not_before + (pair.not_after - pair.not_before) * 2 / 3 for pair in pairs.values())
    await _grpc_certificates(site, made, [pair.ca for pair in pairs.values()])
    return {webhooks: manifests.webhook_endpoint(site.plan, webhooks, pair.ca) for webhooks, pair in pairs.items()}


async def _grpc_certificates(site: HubSite, made: Installed, trusted: Sequence[bytes]) -> None:
    """The server verifies clients by the bundle, and new agents verify the server by it: the CA comes first. It is created without
    a server too, as in OCM: agents that trust it need not join again when the server is enabled later, or again."""
    plan, client = site.plan, site.here.client

    async def trust(bundle: bytes) -> None:
        await _here(site, made, [manifests.trust_bundle(plan, [bundle, *trusted])])

    signer = await ensure_authority(client, plan.namespace, site.clock, trust)
    made.requeue_at(signer.renewal)
    if not plan.grpc_server:
        await _drop_serving_certificate(site)
        return
    hosts = exposure.hosts(plan, site.here.find(SERVICES, ObjectKey(plan.namespace, exposure.service_name(plan))))
    made.requeue_at(await ensure_serving(client, plan.namespace, hosts, signer, site.clock))


async def _drop_serving_certificate(site: HubSite) -> None:
    """Delete the certificate of a server that was disabled."""
    if site.here.has_secret(SERVING_SECRET, site.plan.namespace):
        await remove(site.here.client, [ObjectRef(SECRETS, SERVING_SECRET, site.plan.namespace)])


async def _certificate(site: HubSite, webhooks: Webhooks) -> ServingPair:
    async def trusted(pair: ServingPair) -> None:
        callers = webhooks.callers(site.plan)
        known = (site.target.find(kind, ObjectKey("", name)) or ObjectRef(kind, name) in site.recorded for kind, name in callers)
        if any(known):
            await trust_webhooks(site.target.client, callers, pair.ca, clock=site.clock)

    async def upstreams() -> bytes:
        """The CAs of upstream's webhook servers, which run until ours are available, so that clients trust both."""
        try:
            found = await site.here.client.get(CONFIG_MAPS, CA_BUNDLE, site.plan.namespace)
        except NotFound:
            return b""
        return str((found.get("data") or {}).get("ca-bundle.crt") or "").encode()

    hosts = manifests.webhook_hosts(site.plan, webhooks)
    certificate = ServingCertificate(
        site.here.client, webhooks.secret, site.plan.namespace, hosts, clock=site.clock, former=upstreams
    )
    return await certificate.ensure(trusted)


async def _definitions(site: HubSite, made: Installed, endpoints: Mapping[Webhooks, Endpoint]) -> None:
    converter = next(endpoint for webhooks, endpoint in endpoints.items() if webhooks.converted)
    documents = manifests.hub_definitions(converter)
    others = manifests.account_definitions() if site.plan.by_bindings else manifests.addon_definitions(site.plan)
    documents += [one for one in others if not await _foreign(site, one)]
    await site.apply_definitions(made, owned(site.plan, documents))


async def _foreign(site: HubSite, wanted: Wanted) -> bool:
    """Whether it was created by another client, which then keeps and deletes it."""
    resource, key = wanted[0], key_of(wanted[1])
    if site.target.find(resource, key) is not None:
        return False
    try:
        found = await site.target.client.get(resource, key.name)
    except NotFound:
        return False
    return CLUSTER_MANAGER_LABEL not in (found["metadata"].get("labels") or {})


async def _pull_secret(site: HubSite) -> None:
    """Copy the pull secret, if there is one, to the namespace of the components."""
    client, labels = site.here.client, {CLUSTER_MANAGER_LABEL: site.plan.name}
    await copy_secret(client, client, PULL_SECRET, (site.pull_namespace, site.plan.namespace), labels, CLUSTER_MANAGER_FIELDS)


async def _accounts(site: HubSite, made: Installed) -> None:
    """The components of a hosted hub get kubeconfigs for it, each with its own service account."""
    plan = site.plan
    if not plan.hosted or site.target_config is None:
        return
    labels = {CLUSTER_MANAGER_LABEL: plan.name}
    for component in wanted(plan):
        account = component.account
        secret = AccountSecret(account_secret(account), plan.namespace, account, plan.hub_namespace, labels)
        renewal = await ensure_account_secret(
            site.here.client, site.target.client, site.target_config, secret, CLUSTER_MANAGER_FIELDS, site.clock
        )
        made.requeue_at(renewal)
    unwanted = [component for component in COMPONENTS if not component.wanted(plan)]
    await remove(site.here.client, [ObjectRef(SECRETS, account_secret(one.account), plan.namespace) for one in unwanted])


async def _webhooks(site: HubSite, made: Installed, component: Component, webhooks: Webhooks, endpoint: Endpoint) -> None:
    """Configured once the webhooks are available; existing configurations are always applied."""
    documents = manifests.webhook_configurations(site.plan, webhooks, endpoint)
    if not gateway.is_available(site.plan, made, component):
        documents = [document for document in documents if site.target.find(document[0], key_of(document[1])) is not None]
    await _on_hub(site, made, documents)


async def _hub_addons(site: HubSite, made: Installed) -> None:
    """Create the objects of Muster's own addons, once the conversion webhook of their kind is available."""
    converter = next(component for component, webhooks in SERVERS if webhooks.converted)
    if gateway.is_available(site.plan, made, converter):
        await _on_hub(site, made, manifests.hub_addons(site.plan))


async def _prune(site: HubSite, made: Installed) -> None:
    # Webhook configurations stay if their server is unavailable: no request may bypass them.
    hooks = {ObjectRef(hook.resource, hook.name) for _, webhooks in SERVERS for hook in webhooks.wanted(site.plan)}
    for cluster in dict.fromkeys((site.here, site.target)):
        here, on_hub = made.here if cluster is site.here else (), made.on_target if cluster is site.target else ()
        kept = hooks | set(object_refs([*here, *on_hub]))
        await prune(cluster, PRUNED, CLUSTER_MANAGER_LABEL, site.plan.name, kept)
        await prune_recorded(cluster, site.recorded - kept, UPSTREAM_CLUSTER_MANAGER_LABEL, site.plan.name)
