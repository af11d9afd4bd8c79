"""Registration by AWS identities: the agent of a managed cluster assumes a role in the hub's account, which EKS authenticates.

`names.py` has the names, `fields.py` parses the ARNs of fields and flags, `claims.py` the annotations of a ManagedCluster; the
profile here is what operators and `clusteradm` need. `spoke.py` is the agent's side. On the hub, `hub.py` reports the state, and
`identities.py` creates and deletes the AWS identities of clusters by their records (`records.py`): the role (`roles.py`), and its
mapping to a user of the hub, by `aws_auth_map.py` or `access_entries.py`. `administrator.py` does the same with the identity of the
administrator who accepts a cluster.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from muster.api.agents import PINNED_ANNOTATIONS
from muster.aws.policies import AUDIENCE
from muster.aws.process_env import DEFAULT_REGION, REGION
from muster.aws.process_env import ROLE_ARN as ROLE_VARIABLE
from muster.aws.process_env import TOKEN_FILE as TOKEN_VARIABLE
from muster.aws.role_names import RoleNames
from muster.registration.drivers.awsirsa.awsauth import NAME, NAMESPACE
from muster.registration.drivers.awsirsa.claims import marked, reports_arn
from muster.registration.drivers.awsirsa.fields import eks_cluster, identity_creator, is_eks_cluster
from muster.registration.drivers.awsirsa.names import (
    HUB_ARN,
    IDENTITY,
    MANAGED_ARN,
    MAPPING,
    PATTERNS,
    ROLE_ARN,
    ROLE_SUFFIX,
    TAGS,
    TOKEN_DIRECTORY,
    TOKEN_FILE,
    TOKEN_SECONDS,
    TOKEN_VOLUME,
)
from muster.registration.drivers.errors import BadField, Unfit
from muster.registration.drivers.flags import AWS, AWS_ALIAS, TOKEN
from muster.registration.drivers.profile import AccountToken, HubRules, HubSetup, MemberSetup, Process, Profile, carrying, last
from muster.runtime.install import READ, rule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from muster.api.cluster.v1 import ManagedCluster
    from muster.api.operator.v1 import AwsIrsaSpokeDriver, ClusterManagerSpec, HubRegistrationDriver, SpokeRegistrationConfiguration
    from muster.registration.drivers.profile import DriverOptions

__all__ = ["PROFILE", "AwsIrsaProfile"]

_HUB_FIELD: Final = "awsirsa.hubClusterArn"
_SPOKE_FIELD: Final = "registrationDriver.awsIrsa"


class AwsIrsaProfile(Profile):
    name = AWS
    aliases = (AWS_ALIAS,)
    # EKS signs no client certificates.
    addon_driver = TOKEN
    several_hubs = False

    def marks(self, cluster: ManagedCluster) -> bool:
        return not PINNED_ANNOTATIONS.isdisjoint(cluster.metadata.annotations) or super().marks(cluster)

    def identity_of(self, cluster: ManagedCluster) -> str:
        return reports_arn(cluster)

    def identity_marks(self, identity: str, configured: HubRegistrationDriver) -> Mapping[str, str]:
        own = configured.awsirsa
        try:
            hub = eks_cluster(own.hub_cluster_arn if own else "", _HUB_FIELD)
            return marked(RoleNames(hub, eks_cluster(identity, f"--{MANAGED_ARN}")))
        except BadField as error:
            raise Unfit(str(error)) from None

    def hub_process(self, entry: HubRegistrationDriver) -> Process:
        own = entry.awsirsa
        hub = eks_cluster(own.hub_cluster_arn if own else "", _HUB_FIELD)
        role = identity_creator(hub, _HUB_FIELD)
        assert own is not None, "else there is no ARN"
        # One flag for each pattern, because a pattern may contain a comma.
        arguments = [f"--{HUB_ARN}={own.hub_cluster_arn}"]
        arguments += [f"--{PATTERNS}={auto_approved_identity}" for auto_approved_identity in own.auto_approved_identities]
        arguments += [f"--{TAGS}={tag}" for tag in own.tags]
        choices = {MAPPING: own.mapping, IDENTITY: own.identity}
        arguments += [f"--{flag}={choice}" for flag, choice in choices.items() if choice]
        rules = self.hub_rules({MAPPING: (own.mapping,)})
        return replace(_in_pods((*arguments, *super().hub_process(entry).arguments), role, hub.region), rules=rules)

    def hub_rules(self, options: DriverOptions) -> HubRules:
        """Rules for records in the hub's namespace, and for aws-auth, which the hub may update but not create."""
        records = rule("", ["configmaps"], [*READ, "create", "update", "delete"])
        mapped = {NAMESPACE: (rule("", ["configmaps"], [*READ, "update"], [NAME]),)}
        by_entries_only = last(options, MAPPING) == "access-entry"
        return HubRules((records,), {} if by_entries_only else mapped)

    def agent_process(self, configured: SpokeRegistrationConfiguration) -> Process:
        pair = self.pair(configured)
        arguments = (f"--{HUB_ARN}={pair.hub}", f"--{MANAGED_ARN}={pair.managed}", f"--{ROLE_SUFFIX}={pair.suffix}")
        return _in_pods((*arguments, *super().agent_process(configured).arguments), pair.managed_role_arn, pair.managed.region)

    def pair(self, configured: SpokeRegistrationConfiguration) -> RoleNames:
        """Raises BadField."""
        own = _of_spoke(configured)
        hub = eks_cluster(own.hub_cluster_arn, f"{_SPOKE_FIELD}.hubClusterArn")
        return RoleNames(hub, eks_cluster(own.managed_cluster_arn, f"{_SPOKE_FIELD}.managedClusterArn"))

    def hub_defaults(self, called: str) -> DriverOptions:
        """The hub's name defaults to its ARN: `aws eks update-kubeconfig` names clusters by their ARNs."""
        return {HUB_ARN: (called,)} if is_eks_cluster(called) else {}

    def member_defaults(self, called: str) -> DriverOptions:
        return {MANAGED_ARN: (called,)} if is_eks_cluster(called) else {}

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
        choices = {"mapping": last(options, MAPPING), "identity": last(options, IDENTITY)}
        own = {"hubClusterArn": arn, **{key: list(values) for key, values in lists.items() if values}}
        own |= {key: choice for key, choice in choices.items() if choice}
        entry = {"awsirsa": own, **carrying(options, HUB_ARN, PATTERNS, TAGS, MAPPING, IDENTITY)}
        mapped = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME, "namespace": NAMESPACE}}
        message = f"{self.name} accepts no cluster by itself without --{PATTERNS}; '.*' would be all of them"
        return HubSetup(
            entry,
            objects=() if choices["mapping"] == "access-entry" else (mapped,),
            remarks=() if options.get(PATTERNS) else (message,),
        )

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
        arn = next((entry.awsirsa.hub_cluster_arn for entry in entries if entry.awsirsa is not None), "")
        return (f"--{HUB_ARN}", arn) if arn else ()


def _in_pods(arguments: tuple[str, ...], role: str, region: str) -> Process:
    """The volume and variables that EKS' pod identity webhook would add, under the same names: with them set, the webhook adds
    nothing and is not needed.
    """
    token = AccountToken(TOKEN_VOLUME, TOKEN_DIRECTORY, TOKEN_FILE, AUDIENCE, TOKEN_SECONDS)
    variables = {
        "AWS_STS_REGIONAL_ENDPOINTS": "regional",
        DEFAULT_REGION: region,
        REGION: region,
        ROLE_VARIABLE: role,
        TOKEN_VARIABLE: f"{TOKEN_DIRECTORY}/{TOKEN_FILE}",
    }
    return Process(arguments, {ROLE_ARN: role}, tokens=(token,), variables=variables)


def _of_spoke(configured: SpokeRegistrationConfiguration) -> AwsIrsaSpokeDriver:
    driver = configured.registration_driver
    if driver.aws_irsa is None:
        raise BadField(_SPOKE_FIELD, f"missing: authType {driver.auth_type} needs the ARNs of both clusters")
    return driver.aws_irsa


PROFILE: Final = AwsIrsaProfile()
