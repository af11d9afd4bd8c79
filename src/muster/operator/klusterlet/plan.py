"""The parsed spec of a Klusterlet: the managed cluster, the namespaces of its agents, and their flags.

There are two namespaces. The *klusterlet namespace* is on the managed cluster and has the agents' accounts there. The *agent
namespace* has the agents and their Secrets: in the modes Default and Singleton it is the same one, in the hosted modes it is on the
Klusterlet's cluster and has the Klusterlet's name. Invalid values raise `BadSpec`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final
from urllib.parse import urlsplit

from muster.api.operator.v1 import (
    AddOnRegistrationDriver,
    FeatureGate,
    Klusterlet,
    LocalSecretsConfig,
    SpokeRegistrationConfiguration,
    SpokeWorkConfiguration,
)
from muster.kube.names import dns1123_label
from muster.operator.names import ADDON_NAMESPACE, KLUSTERLET_HOSTED_FINALIZER, OPERATOR_NAMESPACE, chosen_image
from muster.operator.spec import BadSpec, GateReview, gate_flags, installed_driver, review_gates
from muster.registration.drivers import DEFAULT, endpoints_of
from muster.registration.drivers.endpoints import EndpointFormat
from muster.registration.drivers.errors import BadField
from muster.registration.drivers.flags import ADDON_DRIVERS, TOKEN
from muster.registration.drivers.interfaces import Driver
from muster.registration.drivers.profile import Process
from muster.registration.names import (
    ADDON_MANAGEMENT,
    AGENT_ANNOTATIONS,
    AGENT_GATES,
    AGENT_NAMESPACE,
    AGENT_UNSUPPORTED_GATES,
    BOOTSTRAP_SECRET,
    HUB_NAMESPACE,
    is_cluster_name,
)
from muster.work.names import AGENT_GATES as WORK_GATES

MODES: Final = ("Default", "Singleton", "Hosted", "SingletonHosted")
HOSTED: Final = ("Hosted", "SingletonHosted")
SINGLETON: Final = ("Singleton", "SingletonHosted")
LONGEST_NAME: Final = 63 - len("-registration-agent")
"""The longest name of a Klusterlet: with a component's suffix it is a label of pods."""
TAKEN: Final = (ADDON_NAMESPACE, OPERATOR_NAMESPACE, HUB_NAMESPACE, "default", "kube-system", "kube-public", "kube-node-lease")
"""Namespaces that a Klusterlet must not use, since it would delete them."""
CLUSTER_PROPERTY: Final = "ClusterProperty"
MULTIPLE_HUBS: Final = "MultipleHubs"
ON_BY_DEFAULT: Final = (ADDON_MANAGEMENT,)

_CONFIGURED: Final = "spec.registrationConfiguration"


@dataclass(frozen=True)
class KlusterletPlan:
    klusterlet: Klusterlet
    image: str
    replicas: int = 1
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of the Klusterlet that are added to all its objects."""

    @property
    def name(self) -> str:
        return self.klusterlet.metadata.name

    @property
    def mode(self) -> str:
        return self.klusterlet.spec.deploy_option.mode or "Default"

    @property
    def hosted(self) -> bool:
        return is_hosted(self.klusterlet)

    @property
    def singleton(self) -> bool:
        return self.mode in SINGLETON

    @property
    def klusterlet_namespace(self) -> str:
        return self.klusterlet.spec.namespace or AGENT_NAMESPACE

    @property
    def agent_namespace(self) -> str:
        return self.name if self.hosted else self.klusterlet_namespace

    @property
    def agent_image(self) -> str:
        spec = self.klusterlet.spec
        return chosen_image(spec.image_pull_spec if self.singleton else spec.registration_image_pull_spec, self.image)

    @property
    def work_image(self) -> str:
        return chosen_image(self.klusterlet.spec.work_image_pull_spec, self.image)

    @property
    def registration(self) -> SpokeRegistrationConfiguration:
        return self.klusterlet.spec.registration_configuration or SpokeRegistrationConfiguration()

    @cached_property
    def driver(self) -> Driver:
        """Raises BadSpec if no driver has that name."""
        return installed_driver(self.registration.registration_driver.auth_type, f"{_CONFIGURED}.registrationDriver.authType")

    @property
    def endpoints(self) -> EndpointFormat:
        """The format of the hub's address and credential; known even if its driver is not installed."""
        return endpoints_of(self.registration.registration_driver.auth_type)

    @property
    def by_driver(self) -> Process:
        """The driver's settings for the agents' processes. Raises BadSpec."""
        try:
            return self.driver.agent_process(self.registration)
        except BadField as error:
            raise BadSpec(f"{_CONFIGURED}.{error.field}", error.problem) from None

    def gate(self, name: str) -> bool:
        switched = [gate.mode == "Enable" for gate in self.registration.feature_gates if gate.feature == name]
        return switched[-1] if switched else name in ON_BY_DEFAULT

    @property
    def addons(self) -> bool:
        """Whether the agent registers addons."""
        return self.gate(ADDON_MANAGEMENT)

    @property
    def multiple_hubs(self) -> bool:
        return self.gate(MULTIPLE_HUBS)

    @property
    def local_secrets(self) -> LocalSecretsConfig:
        """Raises BadSpec unless several hubs are listed."""
        configured = self.registration.bootstrap_kube_configs
        local = configured.local_secrets_config if configured.type == "LocalSecrets" else None
        if local is None or len({secret.name for secret in local.kube_config_secrets}) < 2:
            where = f"{_CONFIGURED}.bootstrapKubeConfigs"
            raise BadSpec(where, f"feature gate {MULTIPLE_HUBS} needs type LocalSecrets and two Secrets or more")
        return local

    @property
    def bootstrap_secrets(self) -> tuple[str, ...]:
        """Raises BadSpec."""
        return tuple(s.name for s in self.local_secrets.kube_config_secrets) if self.multiple_hubs else (BOOTSTRAP_SECRET,)


def is_hosted(klusterlet: Klusterlet) -> bool:
    """A hosted Klusterlet stays hosted as long as it has objects on the other cluster."""
    return klusterlet.spec.deploy_option.mode in HOSTED or KLUSTERLET_HOSTED_FINALIZER in klusterlet.metadata.finalizers


def agent_namespace_of(klusterlet: Klusterlet) -> str:
    return KlusterletPlan(klusterlet, "").agent_namespace


def check(plan: KlusterletPlan) -> None:
    """Raises BadSpec for an invalid spec, before anything is created."""
    mode = "spec.deployOption.mode"
    if len(plan.name) > LONGEST_NAME:
        raise BadSpec("metadata.name", f"longer than {LONGEST_NAME} characters: agents that are named after it need the rest")
    if plan.hosted and (problems := dns1123_label(plan.name)):
        raise BadSpec("metadata.name", f"in hosted modes it names a namespace too: {problems[0]}")
    for where, namespace in (("spec.namespace", plan.klusterlet_namespace), ("metadata.name", plan.agent_namespace)):
        if namespace in TAKEN:
            raise BadSpec(where, f"namespace {namespace} has another purpose")
    if plan.mode not in MODES:
        raise BadSpec(mode, f"{plan.mode!r} is none of {', '.join(MODES)}")
    if plan.hosted and plan.mode not in HOSTED:
        raise BadSpec(mode, f"a hosted Klusterlet cannot become {plan.mode}: delete it, and create it anew")
    name = plan.klusterlet.spec.cluster_name
    if name and not is_cluster_name(name):
        raise BadSpec("spec.clusterName", f"{name!r} cannot name a cluster")
    if plan.multiple_hubs and not plan.driver.several_hubs:
        remedy = "give each hub a Klusterlet of its own, with a namespace and an identity of its own"
        message = f"{MULTIPLE_HUBS}: an agent that registers by {plan.driver.name} has an identity for one hub; {remedy}"
        raise BadSpec(f"{_CONFIGURED}.featureGates", message)
    agent_arguments(plan)


def agent_arguments(plan: KlusterletPlan) -> list[str]:
    """The flags of the registration agent. Raises BadSpec."""
    spec = plan.klusterlet.spec
    arguments = [f"--namespace={plan.agent_namespace}"]
    if spec.cluster_name:
        arguments.append(f"--cluster-name={spec.cluster_name}")
    if plan.singleton:
        arguments.append(f"--agent-id={plan.klusterlet.metadata.uid}")
    arguments += [f"--bootstrap-kubeconfig-secret={name}" for name in plan.bootstrap_secrets]
    if plan.multiple_hubs:
        arguments.append(f"--hub-connection-timeout-seconds={plan.local_secrets.hub_connection_timeout_seconds}")
    arguments += [f"--spoke-external-server-urls={_https(url.url)}" for url in spec.external_server_urls]
    return arguments + _configured_arguments(plan) + _driver_arguments(plan)


def work_arguments(plan: KlusterletPlan) -> list[str]:
    """The flags of a separate work agent."""
    name = plan.klusterlet.spec.cluster_name
    arguments = [f"--namespace={plan.agent_namespace}", f"--agent-id={plan.klusterlet.metadata.uid}"]
    return [*arguments, *([f"--spoke-cluster-name={name}"] if name else []), *work_options(plan), *work_gates(plan)]


def work_options(plan: KlusterletPlan) -> list[str]:
    """The flags for applying works, in whichever process."""
    configured = plan.klusterlet.spec.work_configuration or SpokeWorkConfiguration()
    given = {
        "--appliedmanifestwork-eviction-grace-period": configured.applied_manifest_work_eviction_grace_period,
        "--status-sync-interval": configured.status_sync_interval,
    }
    return [f"{flag}={value}" for flag, value in given.items() if value]


def work_gates(plan: KlusterletPlan) -> list[str]:
    configured = plan.klusterlet.spec.work_configuration
    return gate_flags(configured.feature_gates, WORK_GATES) if configured else []


def _https(url: str) -> str:
    if urlsplit(url).scheme != "https" or not urlsplit(url).hostname or "," in url:
        raise BadSpec("spec.externalServerURLs", f"{url!r} is not an https URL")
    return url


def _configured_arguments(plan: KlusterletPlan) -> list[str]:
    configured = plan.registration
    arguments = gate_flags(configured.feature_gates, AGENT_GATES)
    for key, value in sorted(configured.cluster_annotations.items()):
        if key.startswith(AGENT_ANNOTATIONS):
            arguments.append(f"--cluster-annotations={key}={_without_comma(value, 'clusterAnnotations')}")
    claims = configured.cluster_claim_configuration
    if claims is not None:
        if claims.max_custom_cluster_claims < 0:
            raise BadSpec(f"{_CONFIGURED}.clusterClaimConfiguration.maxCustomClusterClaims", "must not be negative")
        arguments.append(f"--max-custom-cluster-claims={claims.max_custom_cluster_claims}")
        field = "clusterClaimConfiguration.reservedClusterClaimSuffixes"
        suffixes = claims.reserved_cluster_claim_suffixes
        arguments += [f"--reserved-cluster-claim-suffixes={_without_comma(suffix, field)}" for suffix in suffixes]
    return arguments + _addon_arguments(configured.add_on_kube_client_registration_driver)


def _addon_arguments(driver: AddOnRegistrationDriver | None) -> list[str]:
    """The flags for the credentials of addons' agents."""
    if driver is None or not driver.auth_type:
        return []
    where = f"{_CONFIGURED}.addOnKubeClientRegistrationDriver"
    if driver.auth_type not in ADDON_DRIVERS:
        raise BadSpec(f"{where}.authType", f"{driver.auth_type!r} is none of {', '.join(ADDON_DRIVERS)}")
    chosen = [f"--addon-kubeclient-registration-auth={driver.auth_type}"]
    seconds = driver.token.expiration_seconds if driver.token is not None and driver.auth_type == TOKEN else None
    if seconds is not None and seconds < 0:
        raise BadSpec(f"{where}.token.expirationSeconds", "must not be negative")
    return [*chosen, *([f"--addon-token-expiration-seconds={seconds}"] if seconds else [])]


def _without_comma(value: str, field: str) -> str:
    if "," in value:
        raise BadSpec(f"{_CONFIGURED}.{field}", f"{value!r} has a comma in it, which separates values")
    return value


def _driver_arguments(plan: KlusterletPlan) -> list[str]:
    chosen = [] if plan.driver.name == DEFAULT else [f"--registration-auth={plan.driver.name}"]
    return [*chosen, *plan.by_driver.arguments]


def gate_review(klusterlet: Klusterlet) -> GateReview:
    spec = klusterlet.spec
    registration = spec.registration_configuration.feature_gates if spec.registration_configuration else ()
    work = spec.work_configuration.feature_gates if spec.work_configuration else ()
    listed: dict[str, tuple[tuple[FeatureGate, ...], tuple[str, ...], tuple[str, ...]]] = {
        "Registration": (registration, AGENT_GATES, AGENT_UNSUPPORTED_GATES),
        "Work": (work, WORK_GATES, ()),
    }
    return review_gates(listed)
