"""Behaviour of the built-in kinds beyond generic storage: (group, plural) → preparation before validation, and validation.

Kinds that are not listed have neither (only schema and metadata are validated), or have handlers of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from muster.apiserver.builtin.kinds import (
    certificates,
    configuration,
    crds,
    extensions,
    jobs,
    networking,
    pods,
    rbac,
    services,
    storage,
    versions,
    workloads,
)
from muster.apiserver.builtin.kinds.checks import on_spec
from muster.apiserver.builtin.strategy import Conversion, Hooks
from muster.apiserver.registry.strategy import Prepare, Validate

_ADMISSION: Final = "admissionregistration.k8s.io"
_RBAC: Final = "rbac.authorization.k8s.io"
_STORAGE: Final = "storage.k8s.io"
_NETWORKING: Final = "networking.k8s.io"
_FLOW: Final = "flowcontrol.apiserver.k8s.io"


def _checked(validate: Validate, prepare: Prepare | None = None) -> Hooks:
    return Hooks(prepare, on_spec(validate))


HOOKS: Final[Mapping[tuple[str, str], Hooks]] = {
    ("", "configmaps"): Hooks(None, configuration.validate_config_map),
    ("", "endpoints"): Hooks(None, services.validate_endpoints),
    ("", "events"): Hooks(None, configuration.validate_event),
    ("", "limitranges"): Hooks(None, configuration.validate_limit_range),
    ("", "namespaces"): Hooks(configuration.prepare_namespace, configuration.validate_namespace, configuration.delete_namespace),
    ("", "nodes"): _checked(configuration.validate_node),
    ("", "persistentvolumeclaims"): _checked(storage.validate_claim, storage.prepare_volume_or_claim),
    ("", "persistentvolumes"): _checked(storage.validate_volume, storage.prepare_volume_or_claim),
    ("", "pods"): _checked(pods.validate_pod, pods.prepare_pod),
    ("", "podtemplates"): Hooks(None, pods.validate_pod_template),
    ("", "replicationcontrollers"): _checked(workloads.validate_replication_controller),
    ("", "resourcequotas"): Hooks(None, configuration.validate_resource_quota),
    ("", "secrets"): Hooks(None, configuration.validate_secret),
    ("", "serviceaccounts"): Hooks(configuration.prepare_service_account, None),
    ("", "services"): Hooks(services.prepare_service, on_spec(services.validate_service), allocate=services.allocate_addresses),
    ("apiextensions.k8s.io", "customresourcedefinitions"): Hooks(
        crds.prepare_definition,
        crds.validate_definition,
        crds.delete_definition,
    ),
    ("apiregistration.k8s.io", "apiservices"): _checked(extensions.validate_api_service, extensions.prepare_api_service),
    ("apps", "controllerrevisions"): Hooks(None, workloads.validate_controller_revision),
    ("apps", "daemonsets"): _checked(workloads.validate_daemon_set, workloads.prepare_daemon_set),
    ("apps", "deployments"): _checked(workloads.validate_deployment),
    ("apps", "replicasets"): _checked(workloads.validate_replica_set),
    ("apps", "statefulsets"): _checked(workloads.validate_stateful_set),
    ("autoscaling", "horizontalpodautoscalers"): _checked(workloads.validate_autoscaler),
    ("batch", "cronjobs"): _checked(jobs.validate_cron_job),
    ("batch", "jobs"): _checked(jobs.validate_job, jobs.prepare_job),
    ("certificates.k8s.io", "certificatesigningrequests"): Hooks(certificates.prepare, certificates.validate),
    ("coordination.k8s.io", "leases"): Hooks(configuration.prepare_lease, configuration.validate_lease),
    ("discovery.k8s.io", "endpointslices"): Hooks(None, services.validate_endpoint_slice),
    ("events.k8s.io", "events"): Hooks(None, configuration.validate_event),
    ("node.k8s.io", "runtimeclasses"): Hooks(None, extensions.validate_runtime_class),
    ("policy", "poddisruptionbudgets"): _checked(workloads.validate_disruption_budget),
    ("scheduling.k8s.io", "priorityclasses"): Hooks(None, extensions.validate_priority_class),
    (_ADMISSION, "mutatingwebhookconfigurations"): Hooks(None, extensions.validate_mutating_webhooks),
    (_ADMISSION, "validatingwebhookconfigurations"): Hooks(None, extensions.validate_validating_webhooks),
    (_ADMISSION, "validatingadmissionpolicies"): _checked(extensions.validate_admission_policy),
    (_ADMISSION, "validatingadmissionpolicybindings"): Hooks(None, extensions.validate_admission_binding),
    (_FLOW, "flowschemas"): _checked(extensions.validate_flow_schema),
    (_FLOW, "prioritylevelconfigurations"): _checked(extensions.validate_priority_level),
    (_NETWORKING, "ingressclasses"): Hooks(None, networking.validate_ingress_class),
    (_NETWORKING, "ingresses"): _checked(networking.validate_ingress),
    (_NETWORKING, "ipaddresses"): Hooks(None, networking.validate_ip_address),
    (_NETWORKING, "networkpolicies"): Hooks(None, networking.validate_network_policy),
    (_NETWORKING, "servicecidrs"): _checked(networking.validate_service_cidr),
    (_RBAC, "clusterrolebindings"): Hooks(None, rbac.validate_cluster_role_binding),
    (_RBAC, "clusterroles"): Hooks(None, rbac.validate_cluster_role),
    (_RBAC, "rolebindings"): Hooks(None, rbac.validate_role_binding),
    (_RBAC, "roles"): Hooks(None, rbac.validate_role),
    (_STORAGE, "csidrivers"): Hooks(None, storage.validate_csi_driver),
    (_STORAGE, "csinodes"): Hooks(None, storage.validate_csi_node),
    (_STORAGE, "csistoragecapacities"): Hooks(None, storage.validate_capacity),
    (_STORAGE, "storageclasses"): Hooks(None, storage.validate_storage_class),
    (_STORAGE, "volumeattachments"): _checked(storage.validate_attachment),
    (_STORAGE, "volumeattributesclasses"): Hooks(None, storage.validate_attributes_class),
}

CONVERSIONS: Final[Mapping[tuple[str, str, str], Conversion]] = {
    ("autoscaling", "v1", "horizontalpodautoscalers"): Conversion(versions.autoscaler_to_storage, versions.autoscaler_from_storage),
    ("events.k8s.io", "v1", "events"): Conversion(versions.event_to_storage, versions.event_from_storage),
}

__all__ = ["CONVERSIONS", "HOOKS"]
