"""The roles that a hub and its clusters need on AWS before they register by AWS identities: as documents, or created directly.

There are two kinds: the hub's, with which its controllers create identities for accepted clusters, and each managed cluster's, with
which its agents authenticate. Service accounts assume both, so their trust policy names the OIDC provider of the cluster that runs
the pods, and the service accounts, whose names depend on the Klusterlet's name, namespace and mode. Each role has the policies that
it needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from muster.administration.errors import AdministrationError
from muster.api import Document
from muster.aws import policies
from muster.aws.arns import EksCluster
from muster.aws.interfaces import Iam, PolicyDocument
from muster.aws.role_names import LONGEST_ROLE, RoleNames, identity_creator
from muster.aws.roles import WantedTrust
from muster.registration.hub.install import ACCOUNT
from muster.registration.names import AGENT_NAMESPACE, HUB_NAMESPACE

SINGLETON: Final = ("Singleton", "SingletonHosted")
HOSTED: Final = ("Hosted", "SingletonHosted")
MODES: Final = ("Default", "Hosted", *SINGLETON)


@dataclass(frozen=True)
class WantedRole:
    account: str
    name: str
    arn: str
    trust: PolicyDocument
    access: PolicyDocument
    description: str
    tags: Mapping[str, str] = field(default_factory=dict)

    def document(self) -> Document:
        """The role with its policies, as one document."""
        return {
            "RoleName": self.name,
            "Arn": self.arn,
            "Description": self.description,
            "AssumeRolePolicyDocument": dict(self.trust),
            "Policies": [self._policy()],
            "Tags": self._tags(),
        }

    def template(self) -> Document:
        """The role as a CloudFormation template."""
        properties = {key: value for key, value in self.document().items() if key != "Arn"}
        return {
            "AWSTemplateFormatVersion": "2010-09-09",
            "Description": self.description,
            "Resources": {"Role": {"Type": "AWS::IAM::Role", "Properties": properties}},
            "Outputs": {"RoleArn": {"Value": {"Fn::GetAtt": ["Role", "Arn"]}}},
        }

    def _policy(self) -> Document:
        return {"PolicyName": policies.ACCESS_POLICY, "PolicyDocument": dict(self.access)}

    def _tags(self) -> list[Document]:
        return [{"Key": key, "Value": value} for key, value in self.tags.items()]


@dataclass(frozen=True)
class Agents:
    """The agents of a Klusterlet."""

    klusterlet: str = "klusterlet"
    namespace: str = AGENT_NAMESPACE
    mode: str = "Default"

    @property
    def subjects(self) -> Sequence[str]:
        """Their service accounts.

        Hosted agents have a namespace of their Klusterlet's name; a single agent uses the account of `work`.
        """
        namespace = self.klusterlet if self.mode in HOSTED else self.namespace
        accounts = ("work-sa",) if self.mode in SINGLETON else ("registration-sa", "work-sa")
        return [f"system:serviceaccount:{namespace}:{self.klusterlet}-{account}" for account in accounts]


def issuer(provider: str) -> str:
    """The name of an OIDC provider in policies. Raises AdministrationError."""
    found = provider.removeprefix("https://").rstrip("/")
    if not found or any(character <= " " or character in "\"'" for character in found):
        remedy = "see aws eks describe-cluster: identity.oidc.issuer"
        raise AdministrationError(f"--oidc-provider: {provider!r} is no issuer", remedy)
    return found


def hub_role(hub: EksCluster, provider: str, namespace: str = HUB_NAMESPACE, *, entries: bool = True) -> WantedRole:
    """Raises AdministrationError."""
    name = identity_creator(hub)
    if len(name) > LONGEST_ROLE:
        raise AdministrationError(f"--hub-cluster-arn: the role {name} would be longer than the {LONGEST_ROLE} characters of IAM")
    subject = f"system:serviceaccount:{namespace}:{ACCOUNT}"
    return WantedRole(
        hub.account,
        name,
        hub.role_arn(name),
        policies.web_identity_trust(hub, issuer(provider), [subject]),
        policies.creator_access(hub, entries=entries),
        f"Makes identities for the managed clusters of {hub.name}",
    )


def managed_role(pair: RoleNames, provider: str, agents: Agents) -> WantedRole:
    """Raises AdministrationError."""
    return WantedRole(
        pair.managed.account,
        pair.managed_role,
        pair.managed_role_arn,
        policies.web_identity_trust(pair.managed, issuer(provider), agents.subjects),
        policies.managed_access(pair),
        f"Lets the agents of {pair.managed.name} reach their hub {pair.hub.name}",
        pair.tags,
    )


async def apply(iam: Iam, wanted: WantedRole) -> bool:
    """Create or correct the role; returns whether it is new. Raises AwsError."""
    state = await WantedTrust(wanted.name, wanted.trust, wanted.tags, wanted.description).ensure(iam)
    await iam.put_role_policy(wanted.name, policies.ACCESS_POLICY, wanted.access)
    return state.is_new
