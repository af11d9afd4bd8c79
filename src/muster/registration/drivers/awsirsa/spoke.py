"""The agent's side: it requests no credential, because its pod has an AWS identity that the hub is to trust.

The agent annotates its ManagedCluster with its ARN and waits until the hub accepts it. Then there is a role in the hub's account
that the agent's own role may assume, named after both clusters, so the kubeconfig for the hub can be written without a request: the
hub's address as configured, and an exec plugin that signs tokens as that role. It is the same each time, does not expire, and is no
secret.

A ManagedCluster without the hub's annotations cannot be accepted for this agent, whatever its condition: one that an administrator
created beforehand, or that registered with another driver. The bootstrap identity is not allowed to change it. The agent reports
the command that does.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Final

from muster.api import MalformedObject, is_true
from muster.api.agents import AWS_ARN_ANNOTATIONS
from muster.api.cluster.v1 import ACCEPTED, ManagedCluster
from muster.api.resource import Document
from muster.aws.arns import BadArn, EksCluster, parse_cluster_arn
from muster.aws.process_env import ROLE_ARN
from muster.aws.role_names import RoleNames
from muster.machinery.logs import get_logger
from muster.registration.drivers.awsirsa.claims import marked
from muster.registration.drivers.awsirsa.names import HUB_ARN, MANAGED_ARN, ROLE_SUFFIX, TOKEN_COMMAND
from muster.registration.drivers.flags import AWS
from muster.registration.drivers.interfaces import CredentialReport, DriverConfigError, SpokeContext, StepResult, WatchTarget
from muster.registration.drivers.kubeconfigs import KUBECONFIGS, KubeconfigSpoke, program_of
from muster.registration.drivers.profile import DriverOptions, last
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import DRIVER_ANNOTATION
from muster.runtime.client import KubeClient

log = get_logger("muster.registration.awsirsa")

EXEC_VERSION: Final = "client.authentication.k8s.io/v1beta1"
APPROVED: Final = "EKSRegistrationRequestApproved"
"""The reason of the event by which upstream reports it."""
UNMARKED: Final = "ManagedClusterArnMissing"
OTHERS: Final = "ManagedClusterArnDiffers"
ROLE_CHECK_INTERVAL: Final = 60.0
"""Seconds between reads of a ManagedCluster that waits, beside its watch: an idle watch does not show whether the bootstrap
identity is still valid.
"""


class AwsIrsaSpoke(KubeconfigSpoke):
    derived = True

    def __init__(self, context: SpokeContext) -> None:
        self._context = context
        self._pair = pair_of(context.options)
        self._command = _command(context.options)
        self._reported = ""
        self._looked_around = False

    def decorate(self, cluster: Document) -> Document:
        """Add all three annotations. An existing one that names another cluster is kept: the hub decides on it."""
        metadata = cluster.get("metadata") or {}
        annotations = dict(metadata.get("annotations") or {})
        if metadata.get("uid") and _contradiction(annotations, self._pair):
            return cluster
        annotations |= marked(self._pair)
        if annotations.get(DRIVER_ANNOTATION, AWS) != AWS:
            del annotations[DRIVER_ANNOTATION]
        return {**cluster, "metadata": {**metadata, "annotations": annotations}}

    def kubeconfig_user(self) -> Document:
        """As `aws eks update-kubeconfig --role-arn` writes it, except for the command if that is ours."""
        hub = self._pair.hub
        if _is_aws(self._command):
            words = ["--region", hub.region, "eks", "get-token", "--cluster-name", hub.name, "--output", "json"]
            arguments = [*words, "--role", self._pair.hub_role_arn]
        else:
            words = ["aws-token", "--region", hub.region, "--cluster-name", hub.name, "--output", "json"]
            arguments = [*words, "--role-arn", self._pair.hub_role_arn]
        return {"exec": {"apiVersion": EXEC_VERSION, "args": arguments, "command": self._command}}

    def problem(self, stored: Mapping[str, bytes]) -> str:
        kubeconfig = stored.get(KUBECONFIGS.key)
        if kubeconfig is None:
            return "the hub has not accepted this cluster yet"
        role = role_in(kubeconfig, self._pair.hub)
        if role == self._pair.hub_role_arn:
            return ""
        return f"the stored kubeconfig is not for role {self._pair.hub_role_arn} on {self._pair.hub}"

    async def advance(
        self, hub: KubeClient, stored: Mapping[str, bytes], pending: Mapping[str, bytes], seen: Document | None = None
    ) -> StepResult:
        if stored and not self.problem(stored):
            return StepResult()
        self._check_role()
        name = self._context.identity.cluster
        watch = WatchTarget(MANAGED_CLUSTERS, name)
        if seen is None or not self._is_ready(seen):
            seen = await hub.get(MANAGED_CLUSTERS, name)
        if self._is_ready(seen):
            text = f"the hub has accepted {self._pair.managed}; its agent goes there as {self._pair.hub_role_arn}"
            return StepResult(
                credential={}, report=self._with_role_problem(CredentialReport(True, "ClusterAccepted", text, APPROVED))
            )
        again = ROLE_CHECK_INTERVAL * (1 + self._context.random() / 4)
        return StepResult(again=again, watch=watch, report=self._with_role_problem(_unmarked(seen, self._pair)))

    def _is_ready(self, cluster: Document) -> bool:
        try:
            found = ManagedCluster.decode(cluster)
        except MalformedObject:
            return False
        is_ours = not awaited(found.metadata.annotations, self._pair, found.metadata.name)
        return is_ours and is_true(found.status.conditions, ACCEPTED) and not found.metadata.deletion_timestamp

    def _with_role_problem(self, report: CredentialReport | None) -> CredentialReport | None:
        """Add a problem with the role to the report, each problem once: a step may be repeated often before anything changes."""
        message = "" if report is None else report.message
        news, self._reported = message != self._reported, message
        return report if news else None

    def _check_role(self) -> None:
        if self._looked_around:
            return
        self._looked_around = True
        role = self._context.process_env.environ.get(ROLE_ARN, "")
        if role != self._pair.managed_role_arn:
            words = "another AWS role is given here than the hub will trust" if role else "no AWS role is given here"
            log.warning(words, variable=ROLE_ARN, role=role, expected=self._pair.managed_role_arn)


def pair_of(options: DriverOptions) -> RoleNames:
    """Raises DriverConfigError."""
    pair = RoleNames(_arn(options, HUB_ARN), _arn(options, MANAGED_ARN))
    suffix = last(options, ROLE_SUFFIX)
    if suffix and suffix != pair.suffix:
        words = f"{suffix!r} does not belong to --{HUB_ARN} {pair.hub} and --{MANAGED_ARN} {pair.managed}: expected {pair.suffix}"
        raise DriverConfigError(AWS, ROLE_SUFFIX, words)
    return pair


def awaited(annotations: Mapping[str, str], pair: RoleNames, cluster: str) -> str:
    """What an administrator has to do before a ManagedCluster can belong to this agent; empty if nothing."""
    contradiction = _contradiction(annotations, pair)
    if contradiction:
        remedy = "correct the ARNs that the agent is given, join under another name, or have it removed on the hub"
        return f"ManagedCluster {cluster} is not this agent's: {contradiction}; {remedy}"
    if not any(mark in annotations for mark in AWS_ARN_ANNOTATIONS):
        command = f"clusteradm accept --clusters {cluster} --managed-cluster-arn {pair.managed}"
        return f"ManagedCluster {cluster} does not name its EKS cluster, and its agent may not add that; on the hub, run: {command}"
    return ""


def _contradiction(annotations: Mapping[str, str], pair: RoleNames) -> str:
    """The annotation that contradicts these role names; empty if none does."""
    marks = marked(pair)
    wrong = [mark for mark, own in marks.items() if annotations.get(mark, own) != own]
    return " and ".join(f"annotation {mark} is {annotations[mark]!r}, expected {marks[mark]!r}" for mark in wrong)


def _unmarked(cluster: Document, pair: RoleNames) -> CredentialReport | None:
    metadata = cluster.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    text = awaited(annotations, pair, str(metadata.get("name")))
    return CredentialReport(False, OTHERS if _contradiction(annotations, pair) else UNMARKED, text) if text else None


def _arn(options: DriverOptions, option: str) -> EksCluster:
    given = last(options, option)
    if not given:
        raise DriverConfigError(AWS, option, "not given; expected the ARN of an EKS cluster")
    try:
        return parse_cluster_arn(given)
    except BadArn as error:
        raise DriverConfigError(AWS, option, str(error)) from None


def _command(options: DriverOptions) -> str:
    command = last(options, TOKEN_COMMAND) or "muster"
    if PurePosixPath(command).name not in ("muster", "aws"):
        raise DriverConfigError(AWS, TOKEN_COMMAND, f"{command!r} is neither muster nor aws, nor a path to one of them")
    return command


def _is_aws(command: str) -> bool:
    return PurePosixPath(command).name == "aws"


def role_in(kubeconfig: bytes, hub: EksCluster) -> str:
    """The role as which a kubeconfig's exec plugin signs for this hub; empty if it does not."""
    message = dict(pairwise(program_of(kubeconfig) or ()))
    if (message.get("--region"), message.get("--cluster-name")) != (hub.region, hub.name):
        return ""
    return message.get("--role-arn") or message.get("--role") or ""
