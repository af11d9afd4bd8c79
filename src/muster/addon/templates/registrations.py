"""The registrations of a template: credentials and their permissions.

A template has at most one client of the hub's API: several entries are merged, with the permissions of all. Of several entries for
one signer the first is used. The template may set the identity for a custom signer; by default it is the agent's identity on the
hub. Signers of Kubernetes and of the hub itself are not permitted as custom signers: a template must not choose identities there.
"""

from __future__ import annotations

from typing import Final

from muster.addon.agent_addon import AddonError, CustomSigner, KubeClient, Registration, RoleBindingRequest, signer_problem
from muster.addon.templates.workloads import Mount, volume_name
from muster.api.addon.v1alpha1 import AddOnTemplate, CustomSignerRegistration, HubPermission
from muster.api.addons import hub_kubeconfig_secret, signer_secret

KUBECONFIG_DIRECTORY: Final = "/managed/hub-kubeconfig"
KUBECONFIG: Final = f"{KUBECONFIG_DIRECTORY}/kubeconfig"
_RBAC_GROUP: Final = "rbac.authorization.k8s.io"
_ROLES: Final = ("Role", "ClusterRole")


def read_registrations(template: AddOnTemplate, cluster: str, addon: str) -> tuple[Registration, ...]:
    """In the order of the template. Raises AddonError."""
    found: dict[str, Registration] = {}
    permissions: list[RoleBindingRequest] = []
    for number, entry in enumerate(template.spec.registration):
        where = f"AddOnTemplate {template.metadata.name}: spec.registration[{number}]"
        match entry.type:
            case "KubeClient":
                wanted = entry.kube_client.hub_permissions if entry.kube_client is not None else ()
                permissions += [_permission(permission, where) for permission in wanted]
                found[""] = KubeClient(permissions=tuple(dict.fromkeys(permissions)))
            case "CustomSigner":
                if entry.custom_signer is None:
                    raise AddonError(f"{where}.customSigner is missing")
                signer = _custom_signer(entry.custom_signer, cluster, addon, where)
                found.setdefault(signer.signer, signer)
            case other:
                raise AddonError(f"{where}.type: {other!r} is neither KubeClient nor CustomSigner")
    return tuple(found.values())


def credential_mounts(registrations: tuple[Registration, ...], addon: str) -> tuple[Mount, ...]:
    """The mounts of the credentials in pods."""
    return tuple(
        Mount("hub-kubeconfig", KUBECONFIG_DIRECTORY, {"secret": {"secretName": hub_kubeconfig_secret(addon)}})
        if isinstance(registration, KubeClient)
        else Mount(
            volume_name(f"cert-{registration.signer}"),
            f"/managed/{registration.signer.replace('/', '-')}",
            {"secret": {"secretName": signer_secret(addon, registration.signer)}},
        )
        for registration in registrations
    )


def _custom_signer(entry: CustomSignerRegistration, cluster: str, addon: str, where: str) -> CustomSigner:
    if problem := signer_problem(entry.signer_name):
        raise AddonError(f"{where}.customSigner.signerName: {problem}")
    if not entry.signing_ca.name:
        raise AddonError(f"{where}.customSigner.signingCA.name is empty; name the Secret to sign with")
    agent = KubeClient().identity(cluster, addon)
    subject = entry.subject
    return CustomSigner(
        entry.signer_name,
        (subject.user if subject is not None else "") or agent.user,
        subject.groups if subject is not None else agent.groups,
        subject.organization_unit if subject is not None else (),
        entry.signing_ca,
    )


def _permission(permission: HubPermission, where: str) -> RoleBindingRequest:
    where = f"{where}.kubeClient.hubPermissions"
    if permission.type == "CurrentCluster" and permission.current_cluster is not None:
        return RoleBindingRequest("ClusterRole", permission.current_cluster.cluster_role_name)
    if permission.type == "SingleNamespace" and permission.single_namespace is not None:
        namespace, role = permission.single_namespace.namespace, permission.single_namespace.role_ref
        if role.api_group != _RBAC_GROUP or role.kind not in _ROLES:
            raise AddonError(f"{where}: roleRef: expected a Role or ClusterRole of {_RBAC_GROUP}")
        if not namespace:
            raise AddonError(f"{where}: singleNamespace.namespace is empty")
        return RoleBindingRequest(role.kind, role.name, namespace)
    raise AddonError(f"{where}: type {permission.type!r}: expected CurrentCluster or SingleNamespace, and what goes with it")
