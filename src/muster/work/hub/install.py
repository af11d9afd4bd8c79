"""The installation of the hub's side of works: CRDs, accounts, roles, webhook configurations.

`install` applies all of it with one field manager and can be repeated at any time. It needs an administrator's permissions; the
controllers then run as `work-controller-sa`, which has `execute-as` on everything, because they write works that other users were
authorized for. Webhooks in a process of their own run as `work-webhook-sa` and may only create reviews.

matchConditions exclude requests that do not change a spec: while the webhooks are unavailable, works cannot be created or changed,
but agents can still remove their finalizers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from muster.api import Document
from muster.api.addon.v1alpha1 import GROUP as ADDON_GROUP
from muster.api.authentication.v1beta1 import GROUP as AUTHENTICATION_GROUP
from muster.api.cluster.v1 import GROUP as CLUSTER_GROUP
from muster.api.crds import ACCOUNTS, HUB, Definition, definitions
from muster.api.work.v1 import GROUP
from muster.machinery.clock import SYSTEM, Clock
from muster.machinery.objects import GVR
from muster.registration.names import HUB_NAMESPACE
from muster.runtime.client import KubeClient
from muster.runtime.client.builtin import CLUSTER_ROLES, CRDS, ROLE_BINDINGS, ROLES, VALIDATING_WEBHOOKS
from muster.runtime.install import READ, account_permissions, apply_all, await_definitions, binding, ensure_namespace, named, rule
from muster.runtime.webhook import CONFIG_MAP, Endpoint, Hook, configure, trust_webhooks
from muster.work.hub.options import WorkHubOptions
from muster.work.hub.webhooks.executors import AGENT, user_name
from muster.work.names import EXECUTE_AS, REPLICA_SET_LABEL, WORK_FINALIZER

MANAGER: Final = "muster-work-hub-install"
ACCOUNT: Final = "work-controller-sa"
WEBHOOK_ACCOUNT: Final = "work-webhook-sa"
SERVICE: Final = "cluster-manager-work-webhook"
WEBHOOK_SECRET: Final = "work-webhook-serving-cert"
LOCK: Final = "work-controller-lock"
"""The Lease of the controllers' leader election."""

VALIDATE_WORK: Final = "/validate-work-open-cluster-management-io-v1-manifestwork"
VALIDATE_REPLICA_SET: Final = "/validate-work-open-cluster-management-io-v1alpha1-manifestworkreplicaset"
VALIDATE_BINDING: Final = "/validate-authentication-open-cluster-management-io-v1alpha1-managedserviceaccountbinding"
WORK_VALIDATOR: Final = "manifestworkvalidators.admission.work.open-cluster-management.io"
REPLICA_SET_VALIDATOR: Final = "manifestworkreplicasetvalidators.admission.work.open-cluster-management.io"
BINDING_VALIDATOR: Final = "managedserviceaccountbindingvalidators.admission.authentication.open-cluster-management.io"
"""The names of the configurations, and of the one webhook in each."""

_SPEC_CHANGES: Final = (
    "request.operation == 'CREATE' || has(object.spec) != has(oldObject.spec)"
    " || (has(object.spec) && object.spec != oldObject.spec)"
)
SPEC_CHANGES: Final = (("spec-changes", _SPEC_CHANGES),)


def _replica_set_of(work: str) -> str:
    """CEL: the replica set of a work."""
    labels = f"{work}.metadata.labels"
    return f"(has({labels}) && '{REPLICA_SET_LABEL}' in {labels} ? {labels}['{REPLICA_SET_LABEL}'] : '')"


def _foreign_finalizers_of(work: str) -> str:
    """CEL: the finalizers of a work that are not its agent's."""
    listed = f"{work}.metadata.finalizers"
    return f"(has({listed}) ? {listed}.filter(f, f != '{WORK_FINALIZER}') : [])"


def _owners_of(work: str) -> str:
    listed = f"{work}.metadata.ownerReferences"
    return f"(has({listed}) ? {listed} : [])"


def _differ(part: Callable[[str], str]) -> str:
    return f"{part('object')} != {part('oldObject')}"


WORK_CHANGES: Final = (
    (
        "spec-changes",
        " || ".join((_SPEC_CHANGES, *map(_differ, (_replica_set_of, _foreign_finalizers_of, _owners_of)))),
    ),
)
"""Or fields that decide who writes the spec, or that keep or delete the work. Agents have a finalizer of their own, which they may
always add and remove.
"""

HOOKS: Final = (
    Hook(VALIDATING_WEBHOOKS, WORK_VALIDATOR, VALIDATE_WORK, GROUP, ("*",), "manifestworks", WORK_CHANGES),
    Hook(VALIDATING_WEBHOOKS, REPLICA_SET_VALIDATOR, VALIDATE_REPLICA_SET, GROUP, ("*",), "manifestworkreplicasets", SPEC_CHANGES),
)
BINDING_HOOK: Final = Hook(
    VALIDATING_WEBHOOKS,
    BINDING_VALIDATOR,
    VALIDATE_BINDING,
    AUTHENTICATION_GROUP,
    ("*",),
    "managedserviceaccountbindings",
    SPEC_CHANGES,
)
"""Only if bindings are used."""

_SERVED: Final = ("manifestworks", "manifestworkreplicasets", "placements", "placementdecisions")
KINDS: Final = tuple(kind for kind in HUB if kind.resource.plural in _SERVED)
BINDING_KINDS: Final = (*ACCOUNTS, *(kind for kind in HUB if kind.resource.plural == "managedclusteraddons"))
"""The kinds that decide about bindings. Their conversion is configured by the installer of the conversion webhook."""

CONTROLLER_RULES: Final = (
    rule("coordination.k8s.io", ["leases"], [*READ, "create", "update"]),
    rule("events.k8s.io", ["events"], ["create", "patch"]),
    rule(GROUP, ["manifestworks"], [*READ, "create", "update", "patch", "delete", "deletecollection", EXECUTE_AS]),
    rule(GROUP, ["manifestworkreplicasets"], [*READ, "update", "patch"]),
    rule(GROUP, ["manifestworkreplicasets/status"], ["update", "patch"]),
    rule(GROUP, ["manifestworkreplicasets/finalizers"], ["update"]),
    rule(CLUSTER_GROUP, ["placements", "placementdecisions"], READ),
)
WEBHOOK_RULES: Final = (
    rule("authorization.k8s.io", ["subjectaccessreviews"], ["create"]),
    rule("", ["configmaps"], ["get"], [CONFIG_MAP]),
)
BINDING_RULES: Final = (
    rule(AUTHENTICATION_GROUP, ["managedserviceaccounts", "managedserviceaccountbindings"], READ),
    rule(ADDON_GROUP, ["managedclusteraddons"], READ),
)
"""Permissions to use bindings, for webhooks and controllers."""
BINDING_STATUS_RULES: Final = (rule(AUTHENTICATION_GROUP, ["managedserviceaccountbindings/status"], ["patch"]),)
TRUST_RULES: Final = (
    rule(
        "admissionregistration.k8s.io",
        ["validatingwebhookconfigurations"],
        ["get", "patch"],
        [hook.name for hook in (*HOOKS, BINDING_HOOK)],
    ),
)
"""Permissions to write the CA bundle of the webhooks, for a process that renews their certificate itself."""
NAMESPACE_RULES: Final = (rule("", ["secrets"], ["create"]), rule("", ["secrets"], ["get", "update"], [WEBHOOK_SECRET]))
"""In the hub's own namespace: the Secret of the webhooks' serving certificate."""


@dataclass(frozen=True)
class WorkEndpoint(Endpoint):
    """The endpoint of the webhooks of works."""

    namespace: str = HUB_NAMESPACE
    service: str = SERVICE


def hooks(options: WorkHubOptions) -> tuple[Hook, ...]:
    return (*HOOKS, BINDING_HOOK) if options.authorization.by_bindings else HOOKS


def kinds(options: WorkHubOptions) -> tuple[Definition, ...]:
    return (*KINDS, *BINDING_KINDS) if options.authorization.by_bindings else KINDS


def controller_name(options: WorkHubOptions) -> str:
    """The user name of the controllers."""
    return user_name(options.namespace, ACCOUNT)


def role(manager: str, part: str) -> str:
    """The role of a part of the ClusterManager `manager`."""
    return f"open-cluster-management:{manager}-work:{part}"


def executor_admin(manager: str) -> tuple[GVR, Document]:
    """A role that permits works without executor, if that requires a permission. It has no bindings."""
    rules = [rule(GROUP, ["manifestworks"], [EXECUTE_AS], [AGENT.user])]
    return CLUSTER_ROLES, {"metadata": named(f"open-cluster-management:{manager}-work-executor-admin:webhook"), "rules": rules}


def controller_rules(options: WorkHubOptions) -> Sequence[Document]:
    return (*CONTROLLER_RULES, *(BINDING_RULES + BINDING_STATUS_RULES if options.authorization.by_bindings else ()))


def permissions(options: WorkHubOptions, manager: str = "cluster-manager") -> list[tuple[GVR, Document]]:
    """Accounts, roles and bindings of a process with controllers and webhooks."""
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": options.namespace}
    controller = role(manager, "controller")
    rules = (*controller_rules(options), *WEBHOOK_RULES, *TRUST_RULES)
    return [
        *account_permissions(ACCOUNT, options.namespace, controller, rules),
        (ROLES, {"metadata": named(controller, options.namespace), "rules": list(NAMESPACE_RULES)}),
        (ROLE_BINDINGS, binding(controller, "Role", controller, subject, options.namespace)),
        executor_admin(manager),
    ]


async def install(client: KubeClient, options: WorkHubOptions, webhooks: WorkEndpoint | None, *, clock: Clock = SYSTEM) -> None:
    """Apply everything, and wait until the CRDs are served. Without an endpoint, existing webhook configurations are deleted.

    Raises InstallError and the errors of the client.
    """
    await ensure_namespace(client, options.namespace)
    wanted = kinds(options)
    await apply_all(client, [(CRDS, document) for document in definitions(wanted)], MANAGER)
    await apply_all(client, permissions(options), MANAGER)
    await await_definitions(client, [kind.name for kind in wanted], clock)
    await configure(client, hooks(options), webhooks, MANAGER)
    if not options.authorization.by_bindings:
        await configure(client, (BINDING_HOOK,), None, MANAGER)


async def trust(client: KubeClient, options: WorkHubOptions, ca: bytes, *, clock: Clock = SYSTEM) -> None:
    """Write the CA into the webhook configurations; missing ones are not created."""
    await trust_webhooks(client, [(hook.resource, hook.name) for hook in hooks(options)], ca, clock=clock)
