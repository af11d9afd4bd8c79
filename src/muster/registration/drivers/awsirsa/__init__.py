"""Registration by AWS identities: what is known of it here, so far without a driver that does it.

Upstream's agents mark their clusters by two annotations, which are respected; CR fields, flags, accounts' roles and their checks
are in place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from muster.registration.drivers.awsirsa.arns import eks_cluster, identity_creator, role_suffix
from muster.registration.drivers.errors import BadField, Unfit
from muster.registration.drivers.flags import AWS
from muster.registration.drivers.profile import HubSetup, MemberSetup, Process, Profile, carrying, last
from muster.registration.names import AGENT_ANNOTATIONS

if TYPE_CHECKING:
    from muster.api.cluster.v1 import ManagedCluster
    from muster.api.operator.v1 import AwsIrsaSpokeDriver, ClusterManagerSpec, HubRegistrationDriver, SpokeRegistrationConfiguration
    from muster.registration.drivers.profile import DriverOptions

ARN_ANNOTATION: Final = f"{AGENT_ANNOTATIONS}/managed-cluster-arn"
ROLE_ANNOTATION: Final = f"{AGENT_ANNOTATIONS}/managed-cluster-iam-role-suffix"
ROLE_ARN: Final = "eks.amazonaws.com/role-arn"
"""The annotation that ties an account to an AWS role."""

HUB_ARN: Final = "hub-cluster-arn"
MANAGED_ARN: Final = "managed-cluster-arn"
PATTERNS: Final = "auto-approved-arn-patterns"
TAGS: Final = "aws-resource-tags"
_HUB_FIELD: Final = "awsirsa.hubClusterArn"
_SPOKE_FIELD: Final = "registrationDriver.awsIrsa"


class AwsIrsaProfile(Profile):
    name = AWS
    aliases = ("aws-irsa",)

    def marks(self, cluster: ManagedCluster) -> bool:
        annotations = cluster.metadata.annotations
        return ARN_ANNOTATION in annotations or ROLE_ANNOTATION in annotations or super().marks(cluster)

    def identity_of(self, cluster: ManagedCluster) -> str:
        return cluster.metadata.annotations.get(ARN_ANNOTATION, "")

    def hub_process(self, entry: HubRegistrationDriver) -> Process:
        own = entry.awsirsa
        hub = eks_cluster(own.hub_cluster_arn if own else "", _HUB_FIELD)
        role = {ROLE_ARN: identity_creator(hub, _HUB_FIELD)}
        assert own is not None, "else there is no ARN"
        # One flag for each: a pattern may have a comma in it.
        arguments = [f"--{HUB_ARN}={own.hub_cluster_arn}"]
        arguments += [f"--{PATTERNS}={one}" for one in own.auto_approved_identities]
        arguments += [f"--{TAGS}={one}" for one in own.tags]
        return Process((*arguments, *super().hub_process(entry).arguments), role)

    def agent_process(self, configured: SpokeRegistrationConfiguration) -> Process:
        own = _of_spoke(configured)
        hub = eks_cluster(own.hub_cluster_arn, f"{_SPOKE_FIELD}.hubClusterArn")
        managed = eks_cluster(own.managed_cluster_arn, f"{_SPOKE_FIELD}.managedClusterArn")
        suffix = role_suffix(hub, managed)
        arguments = (
            f"--{HUB_ARN}={own.hub_cluster_arn}",
            f"--{MANAGED_ARN}={own.managed_cluster_arn}",
            f"--managed-cluster-role-suffix={suffix}",
        )
        role = {ROLE_ARN: managed.role_arn(f"ocm-managed-cluster-{suffix}")}
        return Process((*arguments, *super().agent_process(configured).arguments), role)

    def hub_setup(self, options: DriverOptions) -> HubSetup:
        arn = last(options, HUB_ARN)
        if not arn:
            raise Unfit(
                f"--{HUB_ARN} is required when {self.name} is one of --registration-drivers",
                "give arn:aws:eks:REGION:ACCOUNT:cluster/NAME of this hub",
            )
        try:
            identity_creator(eks_cluster(arn, _HUB_FIELD), _HUB_FIELD)
        except BadField as error:
            raise Unfit(f"--{HUB_ARN}: {error}") from None
        lists = {"autoApprovedIdentities": options.get(PATTERNS, ()), "tags": options.get(TAGS, ())}
        own = {"hubClusterArn": arn, **{key: list(values) for key, values in lists.items() if values}}
        return HubSetup({"awsirsa": own, **carrying(options, HUB_ARN, PATTERNS, TAGS)})

    def member_setup(self, options: DriverOptions, token: str, ca: bytes) -> MemberSetup:
        for flag in (HUB_ARN, MANAGED_ARN):
            if not last(options, flag):
                raise Unfit(f"--{flag}: {flag} is required when registration-auth type is {self.name}")
            try:
                eks_cluster(last(options, flag), f"--{flag}")
            except BadField as error:
                raise Unfit(str(error)) from None
        managed = last(options, MANAGED_ARN)
        own = {"hubClusterArn": last(options, HUB_ARN), "managedClusterArn": managed}
        return MemberSetup({"awsIrsa": own, **carrying(options, HUB_ARN, MANAGED_ARN)}, identity=managed)

    def join_flags(self, hub: ClusterManagerSpec, authority: bytes = b"") -> tuple[str, ...]:
        configured = hub.registration_configuration
        entries = configured.registration_drivers if configured else ()
        arn = next((one.awsirsa.hub_cluster_arn for one in entries if one.awsirsa is not None), "")
        return (f"--{HUB_ARN}", arn) if arn else ()


def _of_spoke(configured: SpokeRegistrationConfiguration) -> AwsIrsaSpokeDriver:
    driver = configured.registration_driver
    if driver.aws_irsa is None:
        raise BadField(_SPOKE_FIELD, f"missing: authType {driver.auth_type} needs the ARNs of both clusters")
    return driver.aws_irsa


PROFILE: Final = AwsIrsaProfile()
